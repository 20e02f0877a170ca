"""bf16_gemm.h, executed instruction by instruction, against float64 products."""

import struct

import pytest
import torch

import cdna
from cdna import checks
from cdna.launch.program import Program
from tests.support import bf16_gemm_hip as hip
from tests.support.fp8_mm_hip import resources
from tests.support.lds_banks import CONSECUTIVE_8, CONSECUTIVE_16, PAIRED_8, conflicts
from tests.support.reference_folders import relative_error

# Half a bf16 step is 2^-9 of a value, 1.95e-3; evenly spread over the step, the root of its mean square is less.
TOLERANCE = 2e-3

# m, n, k that are multiples of no tile; one chunk of k, half a pair of stages and several pairs; one row.
SHAPES = [(64, 64, 64), (8, 8, 8), (1, 72, 96), (130, 136, 72), (300, 264, 360)]


@pytest.fixture(scope="module")
def text(hip_compiler: None) -> str:
    return hip.assembly()


@pytest.fixture(scope="module")
def program(text: str) -> Program:
    return Program(text)


@pytest.mark.parametrize("split_k", [1, 3])
@pytest.mark.parametrize("tile", hip.TILES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_product(program: Program, shape: tuple[int, int, int], tile: hip.Tile, split_k: int) -> None:
    """NaN lies around the matrices, so a value from beyond an edge would show; slices may be without any k."""
    inputs = hip.make_inputs(*shape, has_bias=split_k == 1 or shape[2] > 200, seed=split_k)
    c, _ = hip.run(program, inputs, tile, split_k)
    assert relative_error(c, inputs.product()) < TOLERANCE


@pytest.mark.parametrize("tile", hip.TILES, ids=str)
def test_rows_next_to_one_another_do_not_mix(program: Program, tile: hip.Tile) -> None:
    """Where k ends within a stage, what follows in memory is the next row: here it is infinite or not a number."""
    inputs = hip.make_inputs(12, 16, 40)
    inputs.a[5], inputs.w[9] = float("inf"), float("nan")
    c, _ = hip.run(program, inputs, tile)
    expected = torch.ones(12, 16, dtype=torch.bool)
    expected[5] = False
    expected[:, 9] = False
    assert torch.equal(c.isfinite(), expected)


def test_sums_of_slices_do_not_depend_on_arrival(program: Program) -> None:
    inputs = hip.make_inputs(128, 256, 512)
    first, _ = hip.run(program, inputs, hip.TILES[-1], 4)
    for _ in range(3):
        assert torch.equal(hip.run(program, inputs, hip.TILES[-1], 4)[0].view(torch.int16), first.view(torch.int16))


@pytest.mark.parametrize("tile", hip.TILES, ids=str)
def test_checks_find_nothing(program: Program, tile: hip.Tile) -> None:
    """Races in LDS and between workgroups, registers used before their wait, values never written."""
    with checks.use(checks.ALL_KINDS):
        hip.run(program, hip.make_inputs(tile.rows + 8, 72, 136), tile, 2)


@pytest.mark.parametrize("tile", hip.TILES, ids=str)
def test_registers_and_lds_allow_the_workgroups_that_a_tile_counts_on(text: str, tile: hip.Tile) -> None:
    value = resources(text, tile.kernel)
    assert value["vgpr_spill_count"] == value["sgpr_spill_count"] == value["private_segment_fixed_size"] == 0
    assert value["vgpr_count"] <= 512 // tile.waves_per_simd // 8 * 8
    assert value["group_segment_fixed_size"] * tile.per_cu <= 65536


def test_the_loop_is_matrix_work(program: Program) -> None:
    """Executed counts of two depths of k, subtracted: what one pair of stages takes."""
    counts = []
    for k in (512, 1024):
        with cdna.counting():
            record = hip.run(program, hip.make_inputs(256, 256, k), hip.TILES[0])[1]
        assert record.counters is not None and record.counters.lds_conflict_cycles == 0
        counts.append((record.by_unit["matrix"], record.wave_instructions))
    (less_matrix, less), (more_matrix, more) = counts
    assert (more_matrix - less_matrix) / (more - less) > 0.5


def test_no_bank_conflicts(program: Program) -> None:
    """For either way in which the hardware may group lanes, see test_fp8_mm_hip.py."""
    at = torch.full((16, 64), -1, dtype=torch.int32)
    program.kernels["_Z13lds_addressesPi"].launch((1, 1, 1), (64, 1, 1), struct.pack("<Q", at.data_ptr()))
    for number, lanes in enumerate(at.tolist()):
        is_turn_write = 3 <= number < 11
        for groups in [CONSECUTIVE_16] if is_turn_write else [CONSECUTIVE_8, PAIRED_8]:
            assert conflicts(lanes, 8 if is_turn_write else 16, groups) == 0, number
    for loader in (0, 15):
        assert sorted(at[loader].tolist()) == list(range(0, 1024, 16)), "the chunks of 16 rows fill their place"
