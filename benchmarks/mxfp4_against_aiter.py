"""Holds amd-mxfp4-mm's variants against AITER's own machine code for the MI355X, in one run, under one model.

    python benchmarks/mxfp4_against_aiter.py --aiter CHECKOUT

AITER's time is that of f4gemm's fastest tile and split of k by the model, with the fill of the output that a split
needs. It is the product alone: what quantises a, a launch of its own there and part of ours, is left out in its favour.
Caches are cold, a launch's own time is in both. Nothing is measured.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from forge.device import resolve  # noqa: E402

if __name__ == "__main__":
    resolve("gfx950", "gfx950").prepare()  # before torch

import cdna  # noqa: E402
from benchmarks.time_model.launches import tile  # noqa: E402
from benchmarks.time_model.objects import objects  # noqa: E402
from benchmarks.time_model.rows import Row  # noqa: E402
from benchmarks.time_model.runner import blob, model_row  # noqa: E402
from benchmarks.whole_submissions import generated, imported  # noqa: E402
from cdna.counters import clear_caches  # noqa: E402
from cdna.model import modelled_case_us  # noqa: E402
from forge.task.problem import Case, Problem, find_problem  # noqa: E402
from forge.task.score import geometric_mean  # noqa: E402

VARIANTS = ("hip", "triton")
SPLITS = (0, 1, 2, 3)  # of k, each as a power of two
K_OF_A_SPLIT = 1024  # at least


def aiter_us(checkout: Path, case: Case) -> tuple[float, str]:
    """The fastest of f4gemm's kernels, and what it is."""
    best = (math.inf, "")
    for path, digest in objects(checkout):
        if "/gfx950/f4gemm/" not in path:
            continue
        for split in SPLITS:
            shape = {"m": case["m"], "n": case["n"], "k": case["k"], "split": split}
            row = Row(
                "", "MI355X", "f4gemm", path, digest, {name: str(value) for name, value in shape.items()}, 0.0, ""
            )
            rows, _ = tile(row)
            # a tile twice as high as a is no faster than the next smaller one
            if (rows > 32 and rows >= 2 * case["m"]) or (split and case["k"] >> split < K_OF_A_SPLIT):
                continue
            result = model_row(row, blob(checkout, digest))
            if "modelled_us" in result:
                best = min(best, (result["modelled_us"], f"{path.rsplit('_', 1)[-1][:-3]}, {1 << split}"))
    return best


def our_us(submission: Any, data: Any) -> float:
    """Of the second call: the first one allocates."""
    for _ in range(2):
        cdna.stats()
        with cdna.counting():
            clear_caches()
            submission.custom_kernel(data)
    return modelled_case_us(cdna.stats()).us


def submissions(problem: Problem) -> dict[str, Any]:
    for module in ("utils", "task", "reference"):
        source = problem.source_of(f"{module}.py")
        assert source is not None
        imported(module, source)
    with tempfile.TemporaryDirectory() as folder:
        files = {variant: Path(generated(problem.name, variant, folder)) for variant in VARIANTS}
        return {variant: imported(f"submission_{variant}", file) for variant, file in files.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--aiter", type=Path, required=True, help="a checkout or bare clone of ROCm/aiter")
    options = parser.parse_args()
    problem = find_problem("amd-mxfp4-mm")
    ours = submissions(problem)
    print(f"| m, n, k | AITER's product: tile, slices | us | {' | '.join(f'{v} us | / AITER' for v in VARIANTS)} |")
    print("|" + "---|" * (3 + 2 * len(VARIANTS)))
    ratios: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for case in problem.benchmarks:
        theirs, what = aiter_us(options.aiter, case)
        data = sys.modules["reference"].generate_input(**case)
        cells = []
        for variant, submission in ours.items():
            us = our_us(submission, data)
            ratios[variant].append(us / theirs)
            cells.append(f"{us:.2f} | {us / theirs:.2f}")
        print(f"| {case['m']}, {case['n']}, {case['k']} | {what} | {theirs:.2f} | {' | '.join(cells)} |", flush=True)
    means = [f" | {geometric_mean(of):.2f}" for of in ratios.values()]
    print(f"| geometric mean | | | {' | '.join(means)} |")


if __name__ == "__main__":
    main()
