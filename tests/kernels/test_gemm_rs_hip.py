"""amd-gemm-rs' HIP kernel on emulated ranks: odd shapes, many calls in a row, refusals, the checks."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from kernels.gemm_rs import hip_gfx942_tuning
from tests.support.gemm_ranks import errors_of
from tests.support.gemm_submissions import SMALL_TILE_ONLY, altered, assert_right, said_of_different_shapes
from tests.support.refusals import assert_refused
from tests.support.table_rows import different_rows
from tests.support.variant_tests import test_checks_find_nothing, test_no_case_spills, test_no_kernel_spills  # noqa: F401

PROBLEM, VARIANT = "amd-gemm-rs", "hip"
SPILLS_NOT = "gemm_rs_kernel", 5  # tiles
# Each rank's part is rounded to bf16, and their sum once more. A part is smaller than the sum, bar the bias.
ROUNDING = 4e-3

BIG = {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K": 1}
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "SPLIT_K": 1}


def check(submission: Path, world_size: int, cases: list[dict[str, Any]]) -> None:
    assert_right(PROBLEM, submission, world_size, cases, ROUNDING)


def test_shapes_that_fit_no_tile(submission: Path) -> None:
    check(submission, 2, [
        {"m": 66, "n": 74, "k": 194, "bias": True, "calls": 2},  # 33 rows a rank, n and k to be padded
        {"m": 520, "n": 264, "k": 720, "bias": False, "calls": 2, "row": BIG},  # own tiles are half as high
        {"m": 520, "n": 264, "k": 720, "bias": True, "calls": 2, "row": {**SMALL, "SPLIT_K": 3, "GROUP_M": 2}},
        {"m": 600, "n": 320, "k": 384, "bias": True, "calls": 2, "row": {**BIG, "SPLIT_K": 2}},
        {"m": 6, "n": 136, "k": 1040, "bias": True, "calls": 2},  # 3 rows a rank: tiles span ranks
        {"m": 2, "n": 1, "k": 2, "bias": True, "calls": 2},
    ])  # fmt: skip


def test_more_ranks(submission: Path) -> None:
    check(submission, 4, [
        {"m": 256, "n": 72, "k": 256, "bias": True, "calls": 2, "row": SMALL},
        {"m": 80, "n": 136, "k": 512, "bias": False, "calls": 2, "row": {**SMALL, "SPLIT_K": 2}},  # 3.2 ranks a tile
    ])  # fmt: skip
    check(submission, 3, [{"m": 201, "n": 72, "k": 192, "bias": True, "calls": 2}])


def test_many_calls_without_a_barrier(submission: Path) -> None:
    """Ranks wait at random, so that some are a call ahead of others; slots and flags are used over and over."""
    check(submission, 2, [
        {"m": 128, "n": 72, "k": 128, "bias": True, "calls": 150, "jitter_ms": 2, "row": SMALL},
        {"m": 16, "n": 128, "k": 512, "bias": True, "calls": 100, "jitter_ms": 2, "row": {**SMALL, "SPLIT_K": 2}},
    ])  # fmt: skip


def test_a_tile_that_is_not_waited_for_is_noticed(submission: Path, tmp_path: Path) -> None:
    """The comparison itself: without the wait, results hold NaN or the last call's rows."""
    before = "if (thread < args.ranks && (from_all || thread != args.rank))"
    broken = altered(submission, tmp_path, {before: "if (false)", **SMALL_TILE_ONLY})
    case = {"m": 128, "n": 72, "k": 128, "bias": True, "calls": 8, "jitter_ms": 50, "row": SMALL}
    (error,) = errors_of(PROBLEM, broken, 2, [case])
    assert not error < ROUNDING


def test_every_row_of_the_table(submission: Path) -> None:
    """Two tiles or more, an edge among them, and slices of a line of k. DEFAULT has the model choose its tile."""
    cases = []
    for row in different_rows(hip_gfx942_tuning):
        m, n, k = 2 * max(64, row["BLOCK_M"]), max(64, row["BLOCK_N"]) + 8, 2 * 64 * max(1, row["SPLIT_K"])
        cases.append({"m": m, "n": n, "k": k, "bias": True, "calls": 2, "row": row})
    check(submission, 2, cases)


def test_ranks_whose_shapes_differ_are_told(submission: Path, tmp_path: Path) -> None:
    """Both shapes' slots fit into one region: unless told, each rank would add numbers of the other's wrong columns."""
    ready = "came to be ready for gemm-rs of [4, 8] and"
    told = f"the ranks do not call for the same: rank 0 {ready} [8, 8]; rank 1 {ready} [16, 8]"
    assert said_of_different_shapes(submission, tmp_path, [(4, 8), (4, 16)]) == [told, told]


def test_input_that_does_not_fit_is_refused(submission: Path) -> None:
    assert_refused(submission, 1, {
        "(zeros(4, 8), zeros(4, 9), None)": "got (4, 8) and (4, 9)",
        "(zeros(4, 8), zeros(4, 8), zeros(3))": "bias [4] expected, got (3,)",
        "(zeros(4, 8, dtype=torch.float32), zeros(4, 8), None)": "input must be bfloat16, got torch.float32",
    })  # fmt: skip


def test_the_tuner_begins_at_the_tile_that_the_model_chose(submission: Path) -> None:
    """For a shape that the table does not have, as in test_ag_gemm_hip.py."""
    module = runpy.run_path(str(submission))
    a, w = (torch.empty(rows, 4096, dtype=torch.bfloat16, device="meta") for rows in (640, 1000))
    plan = module["HipGemmPlan"](SimpleNamespace(world_size=2), 640, 320, w, {}, module["DEFAULT"], module["MI300X"])
    module["_plans"][module["input_key"](a, w, None)] = plan
    row = module["tuning_row"]((a, w, None))
    assert (row["BLOCK_M"], row["BLOCK_N"], row["SPLIT_K"]) == (plan.block_m, plan.block_n, plan.split_k)
    assert row["BLOCK_M"] > 0
