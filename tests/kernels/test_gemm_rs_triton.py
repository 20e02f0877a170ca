"""amd-gemm-rs's Triton kernel on emulated ranks: odd shapes, many calls in a row, refusals, the checks, the order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.evaltools import run_command
from tests.support.rank_gemm_tests import (  # noqa: F401
    ON_A_GPU,
    test_input_that_does_not_fit_is_refused,
    test_many_calls_without_a_barrier,
    test_ranks_whose_shapes_differ_are_told,
    test_rows_of_the_table,
    test_shapes_that_fit_no_tile,
    test_what_is_broken_is_noticed,
)
from tests.support.variant_tests import test_checks_find_nothing  # noqa: F401

PROBLEM, VARIANT = "amd-gemm-rs", "triton"
# Each rank's product is rounded to bf16 (2^-8 of a value at most), then their sum.
ROUNDING = 4e-3

SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "SUM_ROWS": 8, "num_warps": 4}
TINY = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "SUM_ROWS": 8, "num_warps": 4}
SHAPES = {
    2: [
        {"m": 100, "n": 45, "k": 2 * 37, "bias": True, "calls": 3, "row": SMALL},  # odd n and k, 50 rows of tiles of 32
        {"m": 130, "n": 72, "k": 2 * 72, "bias": False, "calls": 3, "row": SMALL},  # 65 rows
        {"m": 6, "n": 66, "k": 2 * 260, "bias": True, "calls": 3, "row": {**SMALL, "SPLIT_K": 3}},  # tiles span ranks
        {"m": 64, "n": 64, "k": 2 * 300, "bias": False, "calls": 3, "row": {**SMALL, "SPLIT_K": 4}},
        {"m": 96, "n": 200, "k": 2 * 64, "bias": True, "calls": 3, "row": SMALL},  # no tile that XCDs divide evenly
        {"m": 2, "n": 1, "k": 2, "bias": True, "calls": 2, "row": TINY},
    ],
    4: [{"m": 20, "n": 360, "k": 4 * 24, "bias": False, "calls": 3, "row": TINY}],  # tiles span 3 ranks and 1
}
MANY_CALLS = [
    {"m": 32, "n": 64, "k": 2 * 64, "calls": 400, "row": TINY},
    {"m": 16, "n": 128, "k": 2 * 128, "calls": 100, "row": {**TINY, "SPLIT_K": 2}},
]
BROKEN = (
    {"column < C.N - first_column\n": "column < C.N - first_column - 8\n"},
    {"m": 64, "n": 64, "k": 2 * 64, "calls": 2, "row": TINY},
)
DIFFERENT = [(4, 8), (4, 16)], ("[4, 8] and [8, 8]", "[4, 8] and [16, 8]")  # whose slots both fit into one region
REFUSED = ON_A_GPU | {
    "(zeros(4, 8), zeros(8), None)": "input [rows, k] and weight [n, k] expected, got (4, 8) and (8,)",
    "(zeros(4, 0), zeros(4, 0), None)": "expected, got (4, 0) and (4, 0)",
    "(zeros(4, 8), zeros(4, 8).cpu(), None)": "weight must be on the GPU of the input, got cpu",
    "(zeros(3, 8), zeros(4, 8), None)": "m must be a multiple of the world size 2",
}


def of_row(row: dict[str, Any]) -> tuple[int, ...]:
    return 2 * row["BLOCK_M"], row["BLOCK_N"] + 8, 2 * row["BLOCK_K"] * row["SPLIT_K"]


@pytest.mark.parametrize(("m", "tiles"), [(256, 8), (16, 4)])  # tiles of one rank's rows, and of both ranks'
def test_nothing_but_tiles_and_flags_crosses_the_links(submission: Path, tmp_path: Path, m: int, tiles: int) -> None:
    """Each 64 bytes of a tile once, with the leaderboard's Triton: it gave each lane a row of its own, for which four
    times as much crosses."""
    case = f"world_size: 2, m: {m}, n: 256, k: 128, has_bias: true, seed: 1"
    options = ["--submission", str(submission), "--device", "gfx942", "--case", case, "--json", "out.json"]
    done = run_command("benchmark", PROBLEM, *options, "--no-history", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "out.json").read_text())["cases"][0]["report"]
    sent = [report["ranks"][rank]["kernels"]["gemm_rs_kernel"]["work"]["link_write_bytes"] for rank in (0, 1)]
    assert sent == [m // 2 * 256 * 2 + tiles * 64] * 2


def test_a_plan_serves_no_other_type_or_device() -> None:
    """Of a bias, say: a plan that took it unseen would read its bits as bf16, or the memory of the host."""
    from kernels.common.gemm_inputs import input_key

    a, w, bias = (torch.zeros(shape, dtype=torch.bfloat16) for shape in ((4, 8), (6, 8), (6,)))
    others = [(a.float(), w, bias), (a, w.float(), bias), (a, w, bias.float()), (a, w, None), (a[:2], w, bias)]
    others += [(a.to("meta"), w, bias), (a, w.to("meta"), bias), (a, w, bias.to("meta"))]
    assert all(input_key(*other) != input_key(a, w, bias) for other in others)


def test_every_tile_is_taken_once_and_ones_own_last() -> None:
    import triton
    import triton.language as tl

    import cdna
    from kernels.gemm_rs.triton_gfx942 import ranks_in_turn

    globals().update(tl=tl, ranks_in_turn=ranks_in_turn)  # where the kernel looks for them

    @triton.jit
    def places(out, TILES: tl.constexpr, RANKS: tl.constexpr, XCDS: tl.constexpr):
        order = tl.program_id(0)
        turn, tile = ranks_in_turn(order % XCDS, order // XCDS, TILES, RANKS, XCDS)  # noqa: F821
        tl.store(out + order * 2, turn)
        tl.store(out + order * 2 + 1, tile)

    for tiles, ranks, xcds in ((24, 8, 8), (5, 8, 8), (13, 4, 8), (7, 2, 8), (9, 1, 8)):
        n = -(-tiles // xcds) * xcds * ranks
        out = torch.zeros(n, 2, dtype=torch.int32)
        with cdna.device("gfx942"):
            places[(n,)](out, tiles, ranks, xcds)
        taken = [(turn, tile) for turn, tile in out.tolist() if tile < tiles]
        assert sorted(taken) == [(turn, tile) for turn in range(ranks) for tile in range(tiles)]
        first_own = next(i for i, (turn, _) in enumerate(out.tolist()) if turn == ranks - 1)
        assert all(turn == ranks - 1 for turn, _ in out.tolist()[first_own:]), (tiles, ranks, xcds)
