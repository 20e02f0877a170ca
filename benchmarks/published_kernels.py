"""Hold our kernels' modelled time against what others published for theirs: prints docs/time-model.md's tables.

    python benchmarks/published_kernels.py [fp8_mm] [residual_rmsnorm_fp8] [swiglu_fp8] [--only-m 1024]

Needs no GPU: every number in the column "modelled" comes from the emulated MI300X. All of it takes three
minutes on two cores.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from forge.device import resolve  # noqa: E402

resolve("gfx942", "gfx942").prepare()  # before torch: from here on "cuda" is the emulated card

import torch  # noqa: E402

import cdna  # noqa: E402
from cdna.counters import clear_caches  # noqa: E402
from cdna.model import ModelledTime, modelled_case_us  # noqa: E402
from forge.task.problem import Case, find_problem  # noqa: E402
from kernels.fp8_mm.triton_gfx942 import custom_kernel as fp8_mm  # noqa: E402
from kernels.residual_rmsnorm_fp8.triton_gfx942 import residual_rmsnorm_fp8  # noqa: E402
from kernels.swiglu_fp8.triton_gfx942 import swiglu_fp8  # noqa: E402

# Whose published times are shown, of those in each problem's task.yml.
FP8_MM_BY = ("RadeonFlow", "Snektron", "AITER")
ROWS_BY = ("Hugging Face, hf-rocm-kernels", "vLLM")


def published(problem: str, by: tuple[str, ...]) -> list[tuple[Case, tuple[float | None, ...]]]:
    """The benchmark cases of a problem for which one of these published a time, with the microseconds of each."""
    entry = find_problem(problem)
    times = {one.by: one.us for one in entry.published}
    columns = [times[name] for name in by]
    rows = [(case, tuple(column[i] for column in columns)) for i, case in enumerate(entry.benchmarks)]
    return [(case, us) for case, us in rows if any(value is not None for value in us)]


def on_a_line(x: torch.Tensor) -> torch.Tensor:
    """A copy that starts a 256-byte line, as the real allocator's tensors do and the host's do not."""
    room = torch.empty(x.numel() * x.element_size() + 256, dtype=torch.uint8, device="cuda")
    start = -room.data_ptr() % 256
    copy = room[start : start + x.numel() * x.element_size()].view(x.dtype).view(x.shape)
    return copy.copy_(x)


def modelled(call: Callable[[], Any], warm: bool) -> ModelledTime:
    """Run once to compile, once counted with cold caches."""
    cdna.stats()
    clear_caches()
    with cdna.counting():
        call()
    return modelled_case_us(cdna.stats(), warm)


def fp8_mm_case(m: int, n: int, k: int) -> Callable[[], Any]:
    def fp8(rows: int) -> torch.Tensor:  # [rows, k], column-major; values do not matter to time
        raw = torch.randint(0, 64, (k, rows), dtype=torch.uint8, device="cuda")
        return on_a_line(raw).view(torch.float8_e4m3fnuz).T

    a, b = fp8(m), fp8(n)
    a_scale = on_a_line(torch.rand(k // 128, m, device="cuda")).T
    b_scale = on_a_line(torch.rand(k // 128, -(-n // 128), device="cuda")).T
    c = on_a_line(torch.empty(m, n, dtype=torch.bfloat16, device="cuda"))
    return lambda: fp8_mm((a, b, a_scale, b_scale, c))


def residual_rmsnorm_case(rows: int, n: int) -> Callable[[], Any]:
    x, residual = (on_a_line(torch.ones(rows, n, dtype=torch.float16, device="cuda")) for _ in range(2))
    weight = on_a_line(torch.ones(n, dtype=torch.float16, device="cuda"))
    scale = torch.full((1,), 0.02, device="cuda")
    return lambda: residual_rmsnorm_fp8(x, residual, weight, scale, 1e-5)


def swiglu_case(rows: int, n: int) -> Callable[[], Any]:
    gate_up = on_a_line(torch.ones(rows, 2 * n, dtype=torch.float16, device="cuda"))
    scale = torch.full((1,), 0.02, device="cuda")
    return lambda: swiglu_fp8(gate_up, scale)


Row = tuple[str, ModelledTime, Sequence[float | None]]  # shape, modelled, published in the order of the heads


def print_table(
    title: str,
    by: tuple[str, ...],
    rows: Iterable[Row],
) -> None:
    """One line a shape; below, the geometric mean of the ratio and of how far it is from 1."""
    print(f"\n### {title}\n")
    heads = ["shape", "modelled us", "bound", *(f"{name} us | modelled / {name}" for name in by)]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * (3 + 2 * len(by)))
    logs: list[list[float]] = [[] for _ in by]
    for shape, time, published in rows:
        cells = [shape, f"{time.us:.1f}", time.bound]
        for column, us in enumerate(published):
            cells += ["", ""] if us is None else [f"{us:.4g}", f"{time.us / us:.2f}"]
            if us is not None:
                logs[column].append(math.log(time.us / us))
        print("| " + " | ".join(cells) + " |", flush=True)
    for what, of in (
        ("geometric mean of the ratio", lambda x: x),
        ("typical factor off, exp(mean abs log)", abs),
    ):
        means = [f" | {math.exp(sum(map(of, log)) / len(log)):.2f}" if log else " | " for log in logs]
        print(f"| **{what}** | | | " + " | ".join(means) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = ["fp8_mm", "residual_rmsnorm_fp8", "swiglu_fp8"]
    parser.add_argument("tables", nargs="*", help=f"which tables: {', '.join(known)} (default: all)")
    parser.add_argument("--only-m", type=int, help="of fp8_mm, only the shapes with this M")
    options = parser.parse_args()
    unknown = set(options.tables) - set(known)
    if unknown:
        parser.error(f"no table {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    tables = options.tables or known
    lines: Iterable[Row]
    if "fp8_mm" in tables:
        cases = [(case, us) for case, us in published("amd-fp8-mm", FP8_MM_BY) if options.only_m in (None, case["m"])]
        lines = (
            (f"{c['m']}, {c['n']}, {c['k']}", modelled(fp8_mm_case(c["m"], c["n"], c["k"]), warm=True), us)
            for c, us in cases
        )
        print_table("fp8_mm (M, N, K)", FP8_MM_BY, lines)
    if "residual_rmsnorm_fp8" in tables:
        cases = published("residual-rmsnorm-fp8", ROWS_BY)
        lines = (
            (f"{c['rows']} x {c['hidden']}", modelled(residual_rmsnorm_case(c["rows"], c["hidden"]), False), us)
            for c, us in cases
        )
        print_table("residual + RMSNorm + fp8 (rows x n)", ROWS_BY, lines)
    if "swiglu_fp8" in tables:
        cases = published("swiglu-fp8", ROWS_BY)
        lines = ((f"{c['rows']} x {c['n']}", modelled(swiglu_case(c["rows"], c["n"]), False), us) for c, us in cases)
        print_table("SwiGLU + fp8 (rows x n)", ROWS_BY, lines)


if __name__ == "__main__":
    main()
