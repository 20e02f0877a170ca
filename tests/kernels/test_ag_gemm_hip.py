"""amd-ag-gemm's HIP kernel on emulated ranks: odd shapes, many calls in a row, refusals, the checks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kernels.ag_gemm import hip_gfx942_tuning
from tests.support.gemm_ranks import errors_of
from tests.support.gemm_submissions import SMALL_TILE_ONLY, altered, assert_right, said_of_different_shapes
from tests.support.refusals import assert_refused
from tests.support.table_rows import different_rows
from tests.support.variant_tests import test_checks_find_nothing, test_no_case_spills, test_no_kernel_spills  # noqa: F401

PROBLEM, VARIANT = "amd-ag-gemm", "hip"
SPILLS_NOT = "ag_gemm_kernel", 5  # tiles
# bf16 rounds the result once: 2^-8 of a value at most, 0.0017 in the root mean square; some shapes have few elements.
ROUNDING = 3e-3

BIG = {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K": 1}
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "SPLIT_K": 1}


def check(submission: Path, world_size: int, cases: list[dict[str, Any]]) -> None:
    assert_right(PROBLEM, submission, world_size, cases, ROUNDING)


def test_shapes_that_fit_no_tile(submission: Path) -> None:
    check(submission, 2, [
        {"m": 66, "n": 74, "k": 97, "bias": True, "calls": 2},  # 33 rows a rank, n and k to be padded
        {"m": 1040, "n": 528, "k": 360, "bias": False, "calls": 2, "row": BIG},
        {"m": 520, "n": 264, "k": 360, "bias": True, "calls": 2, "row": {**SMALL, "SPLIT_K": 3, "BAND": 2}},
        {"m": 6, "n": 136, "k": 1040, "bias": True, "calls": 2, "row": {**SMALL, "SPLIT_K": 2}},  # tiles span ranks
        {"m": 2, "n": 2, "k": 1, "bias": True, "calls": 2},
        {"m": 2048, "n": 16, "k": 8, "bias": True, "calls": 1, "row": {**SMALL, "SENDERS": 1000}},  # room for 768 flags
    ])  # fmt: skip


def test_more_ranks(submission: Path) -> None:
    check(submission, 4, [
        {"m": 512, "n": 72, "k": 96, "bias": True, "calls": 2, "row": {**SMALL, "BAND": 1, "SENDERS": 9}},
        {"m": 80, "n": 360, "k": 96, "bias": False, "calls": 2, "row": SMALL},  # 3.2 ranks in a tile
    ])  # fmt: skip
    check(submission, 3, [{"m": 201, "n": 72, "k": 64, "bias": True, "calls": 2}])


def test_many_calls_without_a_barrier(submission: Path) -> None:
    """Ranks wait at random, so that some are a call ahead of others; places and flags are used over and over."""
    check(submission, 2, [
        {"m": 128, "n": 144, "k": 64, "bias": True, "calls": 150, "jitter_ms": 2, "row": SMALL},
        {"m": 16, "n": 128, "k": 256, "bias": True, "calls": 100, "jitter_ms": 2, "row": {**SMALL, "SPLIT_K": 2}},
    ])  # fmt: skip


def test_rows_that_are_not_waited_for_are_noticed(submission: Path, tmp_path: Path) -> None:
    """The comparison itself: without the wait, results are of NaN or of the last call but one's rows."""
    before = "wait_flag(flag, args.epoch"
    broken = altered(submission, tmp_path, {before: f"if (false) {before}", **SMALL_TILE_ONLY})
    case = {"m": 128, "n": 144, "k": 64, "bias": True, "calls": 8, "jitter_ms": 50, "row": SMALL}
    (error,) = errors_of(PROBLEM, broken, 2, [case])
    assert not error < ROUNDING


def test_the_tuner_begins_at_the_tile_that_the_model_chose() -> None:
    """For a shape that the table does not have. From DEFAULT's "let the model choose" no other tile would be reached:
    the tuner changes one column at a time."""
    import torch

    from kernels.ag_gemm.hip_gfx942_tuning import DEFAULT, SPACE
    from kernels.common.gemm_card_gfx942 import MI300X
    from kernels.common.gemm_inputs import input_key
    from kernels.common.hip_gemm_plan import HipGemmPlan, row_of_plan

    a, w = (torch.empty(rows, 4096, dtype=torch.bfloat16, device="meta") for rows in (320, 1000))
    plan = HipGemmPlan(SimpleNamespace(world_size=2), 640, 320, w, {}, DEFAULT, MI300X)
    row = row_of_plan({input_key(a, w, None): plan}, (a, w, None))
    assert row["BLOCK_M"] == plan.block_m in SPACE["BLOCK_M"] and row["BLOCK_N"] == plan.block_n in SPACE["BLOCK_N"]
    assert row.keys() == DEFAULT.keys() and row["SPLIT_K"] == plan.split_k > 1 and row["GROUP_M"] == DEFAULT["GROUP_M"]
    again = HipGemmPlan(SimpleNamespace(world_size=2), 640, 320, w, {plan.table_key: row}, DEFAULT, MI300X)
    assert (again.block_m, again.block_n, again.split_k) == (plan.block_m, plan.block_n, plan.split_k)


def test_every_row_of_the_table(submission: Path) -> None:
    """Two tiles or more, an edge among them, and slices of a line of k. DEFAULT has the model choose its tile."""
    cases = []
    for row in different_rows(hip_gfx942_tuning):
        m, n, k = 2 * max(64, row["BLOCK_M"]), 2 * max(64, row["BLOCK_N"]) + 16, 64 * max(1, row["SPLIT_K"])
        cases.append({"m": m, "n": n, "k": k, "bias": True, "calls": 2, "row": row})
    check(submission, 2, cases)


def test_ranks_whose_shapes_differ_are_told(submission: Path, tmp_path: Path) -> None:
    """As where M does not divide by the world size. Unless told, rank 0 would multiply rows that nobody has sent."""
    ready = "came to be ready for ag-gemm of"
    told = f"the ranks do not call for the same: rank 0 {ready} [5, 8] and [8, 8]; rank 1 {ready} [4, 8] and [8, 8]"
    assert said_of_different_shapes(submission, tmp_path, [(5, 8), (4, 8)]) == [told, told]


def test_input_that_does_not_fit_is_refused(submission: Path) -> None:
    assert_refused(submission, 1, {
        "(zeros(4, 8), zeros(4, 9), None)": "got (4, 8) and (4, 9)",
        "(zeros(4, 8), zeros(4, 8), zeros(3))": "bias [4] expected, got (3,)",
        "(zeros(4, 8, dtype=torch.float32), zeros(4, 8), None)": "input must be bfloat16, got torch.float32",
    })  # fmt: skip
