"""Holds amd-fp8-mm's variants against others' kernels, in one run, under one model, on its official benchmarks.

    python lab/fp8_mm_against_peers.py --aiter CHECKOUT RadeonFlow=FILE Snektron=FILE [--cases 0 3] [-o FILE]

NAME=FILE is anybody's submission.py, unmodified. AITER's time is that of its fastest code object, tile and split by
the model, of `fp8gemm_blockscale` for gfx942, with the fill of the output that a split needs. It takes a and b with k
contiguous and b's tiles shuffled, and n as a multiple of 128 (640 for 576): what turns and shuffles the problem's
inputs is left out, in its favour, and splits add with atomics on bf16, which misses the problem's tolerance in one of
twenty elements. "AITER, same work" is its fastest without a split, and the least that turning can be: two launches that
wait for nothing but their bytes, at the memory-side cache's rates. Of a submission all launches are in.

Nothing is measured and no result is checked. Each launch runs as a sample (lab/validation.md says what that leaves
out), as if alone on a queue, what it touches in the memory-side cache: the leaderboard flushes no cache for this
problem. Triton is the leaderboard's (`--triton`). -o appends a line of JSON for each time that is found, and times that
it has are not run again: those of this version of the model, of a file that has not changed since.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from forge.device import resolve  # noqa: E402
from forge.judge import compilers  # noqa: E402
from forge.task.problem import Case, find_problem  # noqa: E402

PROBLEM = find_problem("amd-fp8-mm")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("submissions", nargs="*", metavar="NAME=FILE")
    parser.add_argument("--aiter", type=Path, help="a checkout or bare clone of ROCm/aiter")
    skip_help = (
        "cases of a submission whose kernels wait for other workgroups in them: neither a sample nor a count fits"
    )
    parser.add_argument("--skip", action="append", default=[], metavar="NAME:0,2", help=skip_help)
    parser.add_argument("--variants", nargs="*", default=["hip", "triton"])
    parser.add_argument("--cases", type=int, nargs="*", help="positions among the benchmarks (default: all)")
    parser.add_argument("-o", "--output", type=Path, help="where each shape's times are kept")
    compilers.add_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    os.environ.setdefault("CDNA_HIP_VERSION", "6")  # which the published submissions were written for
    device = resolve("gfx942", "gfx942")
    device.prepare()  # before torch: from here on "cuda" is the emulated card
    compilers.take(options.triton, PROBLEM, device, b"triton")

import torch  # noqa: E402

import cdna  # noqa: E402
from cdna.cards import cards  # noqa: E402
from cdna.observe.counters import clear_caches  # noqa: E402
from cdna.observe.model import modelled_case_us  # noqa: E402
from cdna.version import model_version  # noqa: E402
from forge.task.score import geometric_mean  # noqa: E402
from lab.time_model.objects import objects  # noqa: E402
from lab.time_model.rows import Row  # noqa: E402
from lab.time_model.runner import blob, model_row  # noqa: E402
from lab.whole_submissions import generated, imported, on_a_line  # noqa: E402

CARD = cards()["MI300X"]
SPLITS = (1, 2, 3, 4, 5, 6, 7, 8)  # AITER's own tables have none beyond 8
FEWEST_BLOCKS = 4  # of 128 of k, in a split
Times = dict[str, Any]


def inputs(m: int, n: int, k: int) -> tuple[torch.Tensor, ...]:
    """As custom_kernel takes them; values do not matter to time."""

    def fp8(rows: int) -> torch.Tensor:  # [rows, k], column-major
        return on_a_line(torch.ones(k, rows, dtype=torch.uint8, device="cuda")).view(torch.float8_e4m3fnuz).T

    a_scale = on_a_line(torch.ones(k // 128, m, device="cuda")).T
    b_scale = on_a_line(torch.ones(k // 128, -(-n // 128), device="cuda")).T
    c = on_a_line(torch.empty(m, n, dtype=torch.bfloat16, device="cuda"))
    return fp8(m), fp8(n), a_scale, b_scale, c


def submission_us(submission: Any, data: tuple[torch.Tensor, ...]) -> float:
    """Of the second call: the first one may allocate, compile and choose."""
    for _ in range(2):
        cdna.stats()
        clear_caches()
        with cdna.counting(sample=True):
            submission.custom_kernel(data)
    return modelled_case_us([record for record in cdna.stats() if not record.trial], warm=True).us


def aiter_ways(codes: dict[str, str], m: int, n: int, k: int) -> Iterator[tuple[str, Row]]:
    """(tile and split, row) of what AITER's own choice could be: no split into more workgroups than two a CU."""
    for path, digest in codes.items():
        if "/gfx942/fp8gemm_blockscale/" not in path:
            continue
        tile = path.rsplit("_", 1)[-1].removesuffix(".co")
        rows, columns = map(int, tile.split("x"))
        whole = -(-n // columns) * columns
        tiles = -(-m // rows) * (whole // columns)
        for split in SPLITS:
            if split > 1 and (tiles * split > 2 * CARD.compute_units or k // 128 < FEWEST_BLOCKS * split):
                break
            shape = {"m": m, "n": whole, "k": k, "split": split, "calls_in_turn": 1}
            text = {name: str(value) for name, value in shape.items()}
            yield f"{tile}, {split}", Row("aiter", "MI300X", "fp8gemm_blockscale", path, digest, text, 0.0, "")


def aiter_us(checkout: Path, codes: dict[str, str], case: Case) -> tuple[float, str, float]:
    """The fastest, what it is, and the fastest without a split."""
    found = []
    for what, row in aiter_ways(codes, case["m"], case["n"], case["k"]):
        result = model_row(row, blob(checkout, row.blob))
        if "error" in result:
            raise SystemExit(f"{what}: {result['error']}")
        found.append((result["modelled_us"], what))
    return *min(found), min(us for us, what in found if what.endswith(", 1"))


def least_turning_us(m: int, n: int, k: int) -> float:
    moved = (m + n) * k
    return 2 * CARD.next_launch_us + moved * (1e-3 / CARD.fabric_read_gb_s + 1e-3 / CARD.fabric_write_gb_s)


def shape_of(case: Case) -> str:
    return f"{case['m']}, {case['n']}, {case['k']}"


def shown(us: float | None) -> str:
    return "-" if us is None else f"{us:.1f}"


def kept(file: Path | None, made_of: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What an earlier run wrote, by shape: no time of another version of the model, or of other code than now."""
    shapes: dict[str, dict[str, Any]] = {}
    lines = file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else []
    for one in map(json.loads, lines):
        if one["model"] == model_version() and one["code"] == made_of.get(one["name"]):
            line = shapes.setdefault(one["shape"], {"us": {}})
            line["us"] |= one["us"]
            line |= {"aiter": one["aiter"]} if "aiter" in one else {}
    return shapes


def keep(file: Path | None, shape: str, name: str, code: str, found: dict[str, Any]) -> None:
    if file is not None:
        with file.open("a", encoding="utf-8") as out:
            print(json.dumps({"shape": shape, "name": name, "model": model_version(), "code": code} | found), file=out)


def table(lines: list[dict[str, Any]], ours: list[str]) -> str:
    """A row a shape: everybody's time, and ours over each of the others'."""
    others = [name for name in lines[0]["us"] if name not in ours]
    heads = [
        "m, n, k",
        *(f"{name}, us" for name in (*ours, *others)),
        *(f"{name} of ours / fastest other" for name in ours),
    ]
    if "AITER" in others:
        heads.append("AITER's tile, split")
    heads += [f"{name} / {other}" for name in ours for other in others]
    rows = [heads, ["---"] * len(heads)]
    ratios: dict[tuple[str, str], list[float]] = {(name, other): [] for name in ours for other in others}
    for line in lines:
        us = line["us"]
        row = [line["shape"], *(shown(us[name]) for name in (*ours, *others))]
        if "AITER" in others:
            row.append(line["aiter"])
        for name in ours:
            for other in others:
                if us[other] is not None:
                    ratios[name, other].append(us[name] / us[other])
                row.append("" if us[other] is None else f"{us[name] / us[other]:.2f}")
        rows.append(row)
    means = [f"{geometric_mean([line['us'][name] for line in lines]):.1f}" for name in ours]
    empty = [""] * (len(others) + ("AITER" in others))
    rows.append(["geometric mean", *means, *empty, *(f"{geometric_mean(found):.2f}" for found in ratios.values())])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def hashed(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def main() -> None:
    codes = dict(objects(options.aiter)) if options.aiter else {}
    imported("task", PROBLEM.source_of("task.py") or ROOT)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: generated(PROBLEM.name, name, folder) for name in options.variants}
        files |= dict(word.split("=", 1) for word in options.submissions)
        loaded = {name: imported(f"submission_{name}", Path(file)) for name, file in files.items()}
        made_of = {name: hashed(Path(file).read_bytes()) for name, file in files.items()}
    made_of |= {"AITER": hashed(repr(sorted(codes.items())).encode())} if codes else {}
    done = kept(options.output, made_of)
    lines = []
    skipped = {name: set(map(int, cases.split(","))) for name, cases in (word.split(":") for word in options.skip)}
    for position in range(len(PROBLEM.benchmarks)) if options.cases is None else options.cases:
        case = PROBLEM.benchmarks[position]
        shape = shape_of(case)
        before = done.get(shape, {"us": {}})
        line: dict[str, Any] = {"shape": shape, "us": {}}
        data = inputs(case["m"], case["n"], case["k"])
        for name, code in made_of.items():
            found: dict[str, Any] = {}
            if name in before["us"]:
                found = {key: before[key] for key in before if key == "aiter" and name == "AITER"}
                found["us"] = {one: us for one, us in before["us"].items() if one.partition(",")[0] == name}
            elif name == "AITER":
                us, what, whole_us = aiter_us(options.aiter, codes, case)
                same_us = whole_us + least_turning_us(case["m"], case["n"], case["k"])
                found = {"us": {name: us, f"{name}, same work": same_us}, "aiter": what}
            else:
                skip = position in skipped.get(name, ())
                found = {"us": {name: None if skip else submission_us(loaded[name], data)}}
            if name not in before["us"]:
                keep(options.output, shape, name, code, found)
            line["us"] |= found.pop("us")
            line |= found
        lines.append(line)
        print(line["shape"], ", ".join(f"{name} {shown(one)}" for name, one in line["us"].items()), flush=True)
    print(f"\n{table(lines, options.variants)}")


if __name__ == "__main__":
    main()
