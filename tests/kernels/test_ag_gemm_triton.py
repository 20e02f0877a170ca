"""amd-ag-gemm's Triton kernel on emulated ranks: odd shapes, many calls in a row, refusals, the checks."""

from typing import Any

from tests.support.rank_gemm_tests import (  # noqa: F401
    ON_A_GPU,
    test_input_that_does_not_fit_is_refused,
    test_many_calls_without_a_barrier,
    test_rows_of_the_table,
    test_shapes_that_fit_no_tile,
    test_what_is_broken_is_noticed,
)
from tests.support.variant_tests import test_checks_find_nothing  # noqa: F401

PROBLEM, VARIANT, REFUSED = "amd-ag-gemm", "triton", ON_A_GPU
# bf16 rounds the result once: 2^-8 of a value at most, 0.0017 in the root mean square; some shapes have few elements.
ROUNDING = 3e-3

SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "SENDERS": 3, "PUSH": 2048, "num_warps": 4}
TINY = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "SENDERS": 1, "PUSH": 1024, "num_warps": 4}
SHAPES = {
    2: [
        {"m": 64, "n": 74, "k": 97, "bias": True, "calls": 3},  # odd n, odd k, the default's tiles
        {"m": 100, "n": 146, "k": 200, "bias": False, "calls": 3, "row": SMALL},  # 50 rows a rank, tiles of 32
        {"m": 6, "n": 66, "k": 520, "bias": True, "calls": 3},  # 3 rows a rank: tiles span ranks, and k is split
        {"m": 64, "n": 64, "k": 300, "bias": False, "calls": 3, "row": {**SMALL, "SPLIT_K": 3}},
        {"m": 2, "n": 2, "k": 1, "bias": True, "calls": 2},
    ],
    4: [
        {"m": 128, "n": 144, "k": 160, "bias": True, "calls": 3, "row": {**TINY, "BAND": 1}},
        {"m": 20, "n": 360, "k": 96, "bias": False, "calls": 3, "row": TINY},  # tiles span 3 and 4 ranks
    ],
}
MANY_CALLS = [
    {"m": 32, "n": 64, "k": 64, "calls": 500, "row": TINY},
    {"m": 16, "n": 128, "k": 512, "calls": 166, "row": {**TINY, "SPLIT_K": 2}},
]
BROKEN = (
    {"inside = begin + at < size\n": "inside = begin + at < size - 1\n"},
    {"m": 64, "n": 64, "k": 64, "calls": 2, "row": TINY},
)


def of_row(row: dict[str, Any]) -> tuple[int, ...]:
    return 2 * row["BLOCK_M"], 2 * row["BLOCK_N"] + 16, row["BLOCK_K"] * row["SPLIT_K"]
