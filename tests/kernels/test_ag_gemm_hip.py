"""amd-ag-gemm's HIP kernel on emulated ranks: odd shapes, many calls in a row, refusals, the checks."""

from types import SimpleNamespace
from typing import Any

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

PROBLEM, VARIANT = "amd-ag-gemm", "hip"
SPILLS_NOT = "ag_gemm_kernel", 5  # tiles
# bf16 rounds the result once: 2^-8 of a value at most, 0.0017 in the root mean square; some shapes have few elements.
ROUNDING = 3e-3

BIG = {"BLOCK_M": 256, "BLOCK_N": 256, "SPLIT_K": 1}
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "SPLIT_K": 1}
SHAPES = {
    2: [
        {"m": 66, "n": 74, "k": 97, "bias": True, "calls": 2},  # 33 rows a rank, n and k to be padded
        {"m": 1040, "n": 528, "k": 360, "bias": False, "calls": 2, "row": BIG},
        {"m": 520, "n": 264, "k": 360, "bias": True, "calls": 2, "row": {**SMALL, "SPLIT_K": 3, "BAND": 2}},
        {"m": 6, "n": 136, "k": 1040, "bias": True, "calls": 2, "row": {**SMALL, "SPLIT_K": 2}},  # tiles span ranks
        {"m": 2, "n": 2, "k": 1, "bias": True, "calls": 2},
        {"m": 2048, "n": 16, "k": 8, "bias": True, "calls": 1, "row": {**SMALL, "SENDERS": 1000}},  # room for 768 flags
    ],
    4: [
        {"m": 512, "n": 72, "k": 96, "bias": True, "calls": 2, "row": {**SMALL, "BAND": 1, "SENDERS": 9}},
        {"m": 80, "n": 360, "k": 96, "bias": False, "calls": 2, "row": SMALL},  # 3.2 ranks in a tile
    ],
    3: [{"m": 201, "n": 72, "k": 64, "bias": True, "calls": 2}],
}
MANY_CALLS = [
    {"m": 128, "n": 144, "k": 64, "calls": 150, "row": SMALL},
    {"m": 16, "n": 128, "k": 256, "calls": 100, "row": {**SMALL, "SPLIT_K": 2}},
]
WAIT = "wait_flag(flag, args.epoch"
BROKEN = (
    {WAIT: f"if (false) {WAIT}", **SMALL_TILE_ONLY},
    {"m": 128, "n": 144, "k": 64, "calls": 8, "jitter_ms": 50, "row": SMALL},
)
DIFFERENT = [(5, 8), (4, 8)], ("[5, 8] and [8, 8]", "[4, 8] and [8, 8]")  # as where M does not divide by the world size


def of_row(row: dict[str, Any]) -> tuple[int, ...]:
    return 2 * max(64, row["BLOCK_M"]), 2 * max(64, row["BLOCK_N"]) + 16, 64 * max(1, row["SPLIT_K"])


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
