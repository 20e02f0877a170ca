"""amd-ag-gemm's Triton kernel on emulated ranks: odd shapes, many calls in a row, refusals, the checks, the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernels.ag_gemm import triton_gfx942_tuning
from tests.support.gemm_ranks import errors_of
from tests.support.gemm_submissions import altered, assert_right
from tests.support.refusals import assert_refused
from tests.support.table_rows import different_rows
from tests.support.variant_tests import MANY_CALLS, test_checks_find_nothing, test_no_case_spills  # noqa: F401

PROBLEM, VARIANT = "amd-ag-gemm", "triton"
SPILLS_NOT = "ag_gemm_kernel", 17  # 11 tests, 6 benchmarks
# bf16 rounds the result once: 2^-8 of a value at most, 0.0017 in the root mean square; some shapes have few elements.
ROUNDING = 3e-3

SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "SENDERS": 3, "PUSH": 2048, "num_warps": 4}
TINY = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "SENDERS": 1, "PUSH": 1024, "num_warps": 4}
SPLIT = {**TINY, "SPLIT_K": 2}


def test_shapes_that_fit_no_tile(submission: Path) -> None:
    cases: list[dict[str, Any]] = [
        {"m": 64, "n": 74, "k": 97, "bias": True, "calls": 3},  # odd n, odd k, the default's tiles
        {"m": 100, "n": 146, "k": 200, "bias": False, "calls": 3, "row": SMALL},  # 50 rows a rank, tiles of 32
        {"m": 6, "n": 66, "k": 520, "bias": True, "calls": 3},  # 3 rows a rank: tiles span ranks, and k is split
        {"m": 64, "n": 64, "k": 300, "bias": False, "calls": 3, "row": {**SMALL, "SPLIT_K": 3}},
        {"m": 2, "n": 2, "k": 1, "bias": True, "calls": 2},
    ]
    assert_right(PROBLEM, submission, 2, cases, ROUNDING)


def test_four_ranks(submission: Path) -> None:
    cases: list[dict[str, Any]] = [
        {"m": 128, "n": 144, "k": 160, "bias": True, "calls": 3, "row": {**TINY, "BAND": 1}},
        {"m": 20, "n": 360, "k": 96, "bias": False, "calls": 3, "row": TINY},  # tiles span 3 and 4 ranks
    ]
    assert_right(PROBLEM, submission, 4, cases, ROUNDING)


@MANY_CALLS
def test_thousands_of_calls_without_a_barrier(submission: Path, share: int) -> None:
    """Ranks wait at random, so that some are a call ahead of others; places and counters are used over and over."""
    cases: list[dict[str, Any]] = [
        {"m": 32, "n": 64, "k": 64, "bias": True, "calls": 1500 // share, "jitter_ms": 2, "row": TINY},
        {"m": 16, "n": 128, "k": 512, "bias": True, "calls": 500 // share, "jitter_ms": 2, "row": SPLIT},
    ]
    assert_right(PROBLEM, submission, 2, cases, ROUNDING)


def test_a_missing_push_is_noticed(submission: Path, tmp_path: Path) -> None:
    """The comparison itself: without the last chunk's store, results hold NaN."""
    before = "inside = begin + at < size\n"
    broken = altered(submission, tmp_path, {before: "inside = begin + at < size - 1\n"})
    case = {"m": 64, "n": 64, "k": 64, "bias": True, "calls": 2, "row": TINY}
    assert errors_of(PROBLEM, broken, 2, [case]) == [float("inf")]


def test_every_row_of_the_table(submission: Path) -> None:
    """Two tiles or more, an edge among them, and slices of a block of k."""
    cases = []
    for row in different_rows(triton_gfx942_tuning):
        m, n, k = 2 * row["BLOCK_M"], 2 * row["BLOCK_N"] + 16, row["BLOCK_K"] * row["SPLIT_K"]
        cases.append({"m": m, "n": n, "k": k, "bias": True, "calls": 2, "row": row})
    assert_right(PROBLEM, submission, 2, cases, ROUNDING)


def test_input_that_does_not_fit_is_refused(submission: Path) -> None:
    assert_refused(submission, 1, {
        "(zeros(4, 8), zeros(4, 9), None)": "got (4, 8) and (4, 9)",
        "(zeros(4, 8), zeros(4, 8), zeros(3))": "bias [4] expected, got (3,)",
        "(zeros(4, 8, dtype=torch.float32), zeros(4, 8), None)": "input must be bfloat16, got torch.float32",
        "(zeros(4, 8).cpu(), zeros(4, 8).cpu(), None)": "the input must be on a GPU, the current one (cuda:0), got cpu",
    })  # fmt: skip
