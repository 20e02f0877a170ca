"""amd-gemm-rs' HIP kernel on emulated ranks: odd shapes, many calls in a row, refusals, the checks."""

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from tests.support.gemm_submissions import SMALL_TILE_ONLY
from tests.support.rank_gemm_tests import (  # noqa: F401
    test_input_that_does_not_fit_is_refused,
    test_many_calls_without_a_barrier,
    test_ranks_whose_shapes_differ_are_told,
    test_rows_of_the_table,
    test_shapes_that_fit_no_tile,
    test_what_is_broken_is_noticed,
)
from tests.support.variant_tests import test_checks_find_nothing, test_no_kernel_spills  # noqa: F401

PROBLEM, VARIANT = "amd-gemm-rs", "hip"
SPILLS_NOT = "gemm_rs_kernel", 5  # tiles
# Each rank's part is rounded to bf16, and their sum once more. A part is smaller than the sum, bar the bias.
ROUNDING = 4e-3

BIG = {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K": 1}
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "SPLIT_K": 1}
SHAPES = {
    2: [
        {"m": 66, "n": 74, "k": 194, "bias": True, "calls": 2},  # 33 rows a rank, n and k to be padded
        {"m": 520, "n": 264, "k": 720, "bias": False, "calls": 2, "row": BIG},  # own tiles are half as high
        {"m": 520, "n": 264, "k": 720, "bias": True, "calls": 2, "row": {**SMALL, "SPLIT_K": 3, "GROUP_M": 2}},
        {"m": 600, "n": 320, "k": 384, "bias": True, "calls": 2, "row": {**BIG, "SPLIT_K": 2}},
        {"m": 6, "n": 136, "k": 1040, "bias": True, "calls": 2},  # 3 rows a rank: tiles span ranks
        {"m": 2, "n": 1, "k": 2, "bias": True, "calls": 2},
    ],
    4: [
        {"m": 256, "n": 72, "k": 256, "bias": True, "calls": 2, "row": SMALL},
        {"m": 80, "n": 136, "k": 512, "bias": False, "calls": 2, "row": {**SMALL, "SPLIT_K": 2}},  # 3.2 ranks a tile
    ],
    3: [{"m": 201, "n": 72, "k": 192, "bias": True, "calls": 2}],
}
MANY_CALLS = [
    {"m": 128, "n": 72, "k": 128, "calls": 150, "row": SMALL},
    {"m": 16, "n": 128, "k": 512, "calls": 100, "row": {**SMALL, "SPLIT_K": 2}},
]
BROKEN = (
    {"if (thread < args.ranks && (from_all || thread != args.rank))": "if (false)", **SMALL_TILE_ONLY},
    {"m": 128, "n": 72, "k": 128, "calls": 8, "jitter_ms": 50, "row": SMALL},
)
DIFFERENT = [(4, 8), (4, 16)], ("[4, 8] and [8, 8]", "[4, 8] and [16, 8]")  # whose slots both fit into one region


def of_row(row: dict[str, Any]) -> tuple[int, ...]:
    return 2 * max(64, row["BLOCK_M"]), max(64, row["BLOCK_N"]) + 8, 2 * 64 * max(1, row["SPLIT_K"])


def test_the_tuner_begins_at_the_tile_that_the_model_chose(submission: Path) -> None:
    """For a shape that the table does not have, as in test_ag_gemm_hip.py."""
    module = runpy.run_path(str(submission))
    a, w = (torch.empty(rows, 4096, dtype=torch.bfloat16, device="meta") for rows in (640, 1000))
    plan = module["HipGemmPlan"](SimpleNamespace(world_size=2), 640, 320, w, {}, module["DEFAULT"], module["MI300X"])
    module["_plans"][module["input_key"](a, w, None)] = plan
    row = module["tuning_row"]((a, w, None))
    assert (row["BLOCK_M"], row["BLOCK_N"], row["SPLIT_K"]) == (plan.block_m, plan.block_n, plan.split_k)
    assert row["BLOCK_M"] > 0
