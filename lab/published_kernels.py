"""Hold Llama's three fp8 kernels' modelled time against what others published for theirs: prints their pages' tables.

    python lab/published_kernels.py [residual_rmsnorm_fp8 | swiglu_fp8 | skinny_gemm_fp8] ...

Needs no GPU: every modelled number comes from the emulated MI300X, on the clock of the published ones. Hugging Face's
is a replayed graph of calls (hf-rocm-kernels, operators/*/benchmarking_fn.py and utils/benchmarking.py): of SwiGLU 16
with inputs of their own, of the skinny product 8 with weights of their own, of the norm one that repeats (Triton's
do_bench_cudagraph). What so many calls touch is found in the memory-side cache where it fits. All of it takes ten
minutes on two cores.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from forge.device import resolve  # noqa: E402

resolve("gfx942", "gfx942").prepare()  # before torch: from here on "cuda" is the emulated card

import torch  # noqa: E402

import cdna  # noqa: E402
from cdna.cards import cards  # noqa: E402
from cdna.observe.counters import clear_caches  # noqa: E402
from cdna.observe.model import modelled_case_us  # noqa: E402
from cdna.results import ModelledTime  # noqa: E402
from forge.task.problem import Case, find_problem  # noqa: E402
from lab.time_model.runner import ROOM  # noqa: E402
from lab.whole_submissions import on_a_line  # noqa: E402

# Whose published times are shown, of those in each problem's task.yml.
ROWS_BY = ("Hugging Face, hf-rocm-kernels", "vLLM")
SKINNY_BY = ("Hugging Face, hf-rocm-kernels", "PyTorch")
SWIGLU_CALLS, SKINNY_CALLS, RMSNORM_CALLS = 16, 8, 1  # of the graph, with memory of their own


def published(problem: str, by: tuple[str, ...]) -> list[tuple[Case, tuple[float | None, ...]]]:
    """The benchmark cases of a problem for which one of these published a time, with the microseconds of each."""
    entry = find_problem(problem)
    times = {one.by: one.us for one in entry.published}
    columns = [times[name] for name in by]
    rows = [(case, tuple(column[i] for column in columns)) for i, case in enumerate(entry.benchmarks)]
    return [(case, us) for case, us in rows if any(value is not None for value in us)]


VARIANTS = ("hip", "triton")


@functools.cache
def generated(problem: str, variant: str) -> Any:
    """The module that gen_submission.py writes: a kernel with HIP in it runs as that alone."""
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory(prefix="published-") as folder:
        file = Path(folder, "submission.py")
        command = [sys.executable, str(root / "gen_submission.py"), problem, "--variant", variant, "-o", str(file)]
        subprocess.run(command, check=True, capture_output=True)
        spec = importlib.util.spec_from_file_location(f"{problem}_{variant}".replace("-", "_"), file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return module


def variants_of(problem: str) -> list[Any]:
    return [generated(problem, variant) for variant in VARIANTS]


def modelled(call: Callable[[], Any], warm: bool, clock: str = "alone") -> ModelledTime:
    """Run once to compile, once counted with cold caches."""
    call()
    cdna.stats()
    clear_caches()
    with cdna.counting():
        call()
    return modelled_case_us(cdna.stats(), warm, clock)


def in_graph(call: Callable[[], Any], bytes_a_call: int, calls: int) -> ModelledTime:
    """A call of a replayed graph that has so many with memory of their own."""
    return modelled(call, bytes_a_call * calls <= ROOM * cards()["MI300X"].memory_side_bytes, "graph")


def residual_rmsnorm_times(rows: int, n: int) -> list[ModelledTime]:
    x, residual = (on_a_line(torch.ones(rows, n, dtype=torch.float16, device="cuda")) for _ in range(2))
    weight = on_a_line(torch.ones(n, dtype=torch.float16, device="cuda"))
    scale = torch.full((1,), 0.02, device="cuda")
    calls = [
        lambda of=of: of.residual_rmsnorm_fp8(x, residual, weight, scale, 1e-5)
        for of in variants_of("residual-rmsnorm-fp8")
    ]
    return [in_graph(call, 5 * rows * n, RMSNORM_CALLS) for call in calls]


def swiglu_times(rows: int, n: int) -> list[ModelledTime]:
    gate_up = on_a_line(torch.ones(rows, 2 * n, dtype=torch.float16, device="cuda"))
    scale = torch.full((1,), 0.02, device="cuda")
    calls = [lambda of=of: of.swiglu_fp8(gate_up, scale) for of in variants_of("swiglu-fp8")]
    return [in_graph(call, 5 * rows * n, SWIGLU_CALLS) for call in calls]


def skinny_gemm_times(m: int, n: int, k: int) -> list[ModelledTime]:
    a, b = (
        on_a_line(torch.ones(rows, k, dtype=torch.uint8, device="cuda")).view(torch.float8_e4m3fnuz) for rows in (m, n)
    )
    scale = torch.full((1,), 0.02, device="cuda")
    calls = [lambda of=of: of.skinny_gemm_fp8(a, b, scale) for of in variants_of("skinny-gemm-fp8")]
    return [in_graph(call, n * k, SKINNY_CALLS) for call in calls]


Row = tuple[str, Sequence[ModelledTime], Sequence[float | None]]  # shape, modelled, published in the order of the heads


def rows_of(
    problem: str, by: tuple[str, ...], times: Callable[..., Sequence[ModelledTime]], shape: str
) -> Iterable[Row]:
    """shape: how a case is shown, by its sizes, which `times` takes."""
    for c, us in published(problem, by):
        yield shape.format(**c), times(*(c[name] for name in re.findall(r"{(\w+)}", shape))), us


def print_table(title: str, variants: Sequence[str], by: tuple[str, ...], rows: Iterable[Row]) -> None:
    """One line a shape; below, the geometric mean of the ratio of the faster variant."""
    print(f"\n### {title}\n")
    heads = ["shape", *(f"{name}, modelled us" for name in variants), "bound", *(f"{name} us | ratio" for name in by)]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * (2 + len(variants) + 2 * len(by)))
    logs: list[list[float]] = [[] for _ in by]
    for shape, times, published in rows:
        best = min(times, key=lambda time: time.us)
        cells = [shape, *(f"{time.us:.2f}" for time in times), best.bound]
        for column, us in enumerate(published):
            cells += ["", ""] if us is None else [f"{us:.4g}", f"{best.us / us:.2f}"]
            if us is not None:
                logs[column].append(math.log(best.us / us))
        print("| " + " | ".join(cells) + " |", flush=True)
    means = [f" | {math.exp(sum(log) / len(log)):.2f}" if log else " | " for log in logs]
    print("| **geometric mean of the ratio** |" + " |" * (1 + len(variants)) + " | ".join(means) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    both = ("HIP", "Triton")
    tables: dict[str, Callable[[], None]] = {
        "residual_rmsnorm_fp8": lambda: print_table(
            "residual + RMSNorm + fp8 (rows x n)",
            both,
            ROWS_BY,
            rows_of("residual-rmsnorm-fp8", ROWS_BY, residual_rmsnorm_times, "{rows} x {hidden}"),
        ),
        "swiglu_fp8": lambda: print_table(
            "SwiGLU + fp8 (rows x n)", both, ROWS_BY, rows_of("swiglu-fp8", ROWS_BY, swiglu_times, "{rows} x {n}")
        ),
        "skinny_gemm_fp8": lambda: print_table(
            "skinny product (m, n, k)",
            both,
            SKINNY_BY,
            rows_of("skinny-gemm-fp8", SKINNY_BY, skinny_gemm_times, "{m}, {n}, {k}"),
        ),
    }
    parser.add_argument("tables", nargs="*", help=f"which tables: {', '.join(tables)} (default: all)")
    options = parser.parse_args()
    if unknown := set(options.tables) - set(tables):
        parser.error(f"no table {', '.join(sorted(unknown))}; there are {', '.join(tables)}")
    for name in options.tables or tables:
        tables[name]()


if __name__ == "__main__":
    main()
