"""The HIP variant of amd-fp8-mm, executed instruction by instruction, against float64 products."""

import re
import struct

import pytest
import torch
import yaml

from cdna.launch.program import Program
from tests.support import fp8_mm_hip as hip
from tests.support.lds_banks import CONSECUTIVE_8, CONSECUTIVE_16, CONSECUTIVE_32, PAIRED_8, conflicts
from tests.support.reference_folders import relative_error

PROBLEM = yaml.safe_load((hip.ROOT / "reference" / "fp8_mm" / "task.yml").read_text())
TABLE, TILES = hip.table(), hip.tiles()

# Half a bf16 step is 2^-9 of a value, 1.95e-3; evenly spread over the step, the root of its mean square is less.
TOLERANCE = 2e-3

# Rows and columns that are multiples of no tile, one block of k and several, slices of k of unequal length.
SHAPES = [(64, 64, 128), (96, 576, 256), (160, 200, 384), (260, 136, 640), (12, 136, 256)]


@pytest.fixture(scope="module")
def text(hip_compiler: None) -> str:
    return hip.assembly()


@pytest.fixture(scope="module")
def program(text: str) -> Program:
    return Program(text)


@pytest.mark.parametrize("split_k", [1, 2, 3])
@pytest.mark.parametrize("name", TILES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_product(program: Program, shape: tuple[int, int, int], name: str, split_k: int) -> None:
    inputs = hip.make_inputs(*shape, seed=split_k)
    row = hip.Row(TILES[name], split_k, 2)  # slices without a block of k are allowed
    c, _ = hip.run(program, inputs, row)
    error = relative_error(c, inputs.product())
    assert error < TOLERANCE, f"{error=} {shape=} {row=}"


@pytest.mark.parametrize("row", sorted(set(TABLE.values())), ids=lambda row: f"{row.tile.rows}-{row[1]}-{row[2]}")
def test_rows_of_the_table(program: Program, row: hip.Row) -> None:
    """A tile and a part of one in either direction, and no slice of k without a block."""
    inputs = hip.make_inputs(row.tile.rows + 8, row.tile.columns + 8, 128 * max(2, row.split_k))
    assert relative_error(hip.run(program, inputs, row)[0], inputs.product()) < TOLERANCE


@pytest.mark.parametrize("m,n,k", [(c["m"], c["n"], c["k"]) for c in PROBLEM["smoke"]])
def test_what_the_table_chooses(program: Program, m: int, n: int, k: int) -> None:
    inputs = hip.make_inputs(m, n, k, seed=1)
    c, _ = hip.run(program, inputs, TABLE.get((m, n, k), TABLE[0, 0, 0]))
    assert relative_error(c, inputs.product()) < TOLERANCE


def test_elements_of_one_scale_block_each(program: Program) -> None:
    """Every scale reaches its own elements: with one block of k at a time switched on, by a scale of 1."""
    m, n, k = 72, 264, 384
    inputs = hip.make_inputs(m, n, k)
    for block in range(k // 128):
        for column_block in range(3):
            inputs.a_scale.zero_()
            inputs.b_scale.zero_()
            inputs.a_scale[block] = torch.arange(1, m + 1)
            inputs.b_scale[block, column_block] = -1.0
            c, _ = hip.run(program, inputs, hip.Row(TILES["T128x128"], 1, 4))
            exact = inputs.product()
            assert relative_error(c, exact) < TOLERANCE
            assert torch.equal(c == 0, exact == 0), f"{block=} {column_block=}"


def test_sums_of_slices_have_the_same_bits(program: Program) -> None:
    inputs = hip.make_inputs(128, 256, 1280)
    row = hip.Row(TILES["T64x64"], 9, 4)  # more than the sum loads at once, and no multiple of that
    assert relative_error(hip.run(program, inputs, row)[0], inputs.product()) < TOLERANCE
    first, _ = hip.run(program, inputs, row)
    for _ in range(3):
        assert torch.equal(hip.run(program, inputs, row)[0].view(torch.int16), first.view(torch.int16))


@pytest.mark.parametrize("split_k", [1, 2])
def test_nan_goes_where_it_belongs(program: Program, split_k: int) -> None:
    m, n, k = 96, 192, 256
    inputs = hip.make_inputs(m, n, k)
    inputs.a.view(torch.uint8)[200, 17] = 0x80  # the one NaN of e4m3fnuz
    inputs.b.view(torch.uint8)[3, 130] = 0x80
    inputs.a_scale[1, 50] = struct.unpack("<f", b"\xff\xff\xff\x7f")[0]  # rounding by adding would turn this to -0
    c, _ = hip.run(program, inputs, hip.Row(TILES["T64x64"], split_k, 4))
    expected = torch.zeros(m, n, dtype=torch.bool)
    expected[[17, 50]] = True
    expected[:, 130] = True
    assert torch.equal(c.isnan(), expected)


def test_infinite_scale(program: Program) -> None:
    inputs = hip.make_inputs(64, 64, 128)
    inputs.a_scale[0, 3] = float("inf")
    c, _ = hip.run(program, inputs, hip.Row(TILES["T64x64"], 1, 4))
    assert not c[3].isfinite().any() and torch.cat([c[:3], c[4:]]).isfinite().all()


def test_every_benchmark_has_a_row_that_fits() -> None:
    for case in PROBLEM["benchmarks"] + PROBLEM["tests"]:
        assert (case["m"], case["n"], case["k"]) in TABLE
    for (_, _, k), row in TABLE.items():
        assert row.group_rows > 0 and (k == 0 or 1 <= row.split_k <= k // 128), f"{k=} {row=}"


def test_registers_and_lds_allow_the_workgroups_that_a_tile_counts_on(text: str) -> None:
    for name, tile in TILES.items():
        for kernel in (tile.sum_kernel, tile.kernel):
            value = hip.resources(text, kernel)
            assert value["vgpr_spill_count"] == value["sgpr_spill_count"] == 0, kernel
            assert value["private_segment_fixed_size"] == 0, kernel
        assert value["vgpr_count"] <= 512 // tile.waves_per_simd // 8 * 8, name
        assert value["group_segment_fixed_size"] * tile.per_cu <= 65536, name


def test_conflicts_are_noticed() -> None:
    assert conflicts([lane * 128 for lane in range(64)], 8, CONSECUTIVE_16) == 4 * 15
    assert conflicts([lane * 136 for lane in range(64)], 8, CONSECUTIVE_16) == 0
    assert conflicts([lane * 16 for lane in range(64)], 16, PAIRED_8) == 0


@pytest.fixture(scope="module")
def addresses(text: str) -> dict[str, torch.Tensor]:
    """By kernel of the probe: [accesses, lanes] addresses in LDS, as the kernel's own functions compute them."""
    probe = Program(hip.assembly(hip.ROOT / "tests/support/fp8_mm_lds_probe.hip"))
    found = {}
    for name, kernel in probe.kernels.items():
        sizes = list(map(int, re.findall(r"Li(\d+)E", name)))
        threads = sizes[1] if len(sizes) == 2 else 64
        out = torch.full((12, threads), -1, dtype=torch.int32)
        kernel.launch((1, 1, 1), (threads, 1, 1), struct.pack("<Q", out.data_ptr()))
        kind = re.search(r"(write|read|turn)_addresses", name)[1]  # type: ignore[index]
        found["_".join([kind, *map(str, sizes)])] = out[(out >= 0).all(dim=1)]
    return found


def test_granules_fill_a_buffer_once(addresses: dict[str, torch.Tensor]) -> None:
    for name, at in addresses.items():
        if name.startswith("write_"):
            rows, threads = map(int, name.split("_")[1:])
            width = rows * 64 // (4 * threads)  # a granule of 8 bytes, or half of one
            assert sorted(at.flatten().tolist()) == list(range(0, rows * 64, width)), f"{name} {threads=}"


def test_no_bank_conflicts(addresses: dict[str, torch.Tensor]) -> None:
    used = {"turn"}
    for tile in TILES.values():
        used |= {f"write_{rows}_{tile.group_threads}" for rows in tile[:2]} | {f"read_{rows}" for rows in tile[:2]}
    assert used <= set(addresses)
    for name, at in addresses.items():
        for number, access in enumerate(at):
            turn_read = name == "turn" and number >= 8
            width, groupings = (16, [CONSECUTIVE_8, PAIRED_8]) if turn_read else (8, [CONSECUTIVE_16])
            if name == "write_128_512":  # halves of granules
                width, groupings = 4, [CONSECUTIVE_32]
            for wave in access.split(64):
                for groups in groupings:
                    assert conflicts(wave.tolist(), width, groups) == 0, f"{name} access {number}"


def test_arguments_are_there_when_a_wave_starts(text: str) -> None:
    """All that the loop needs: 14 words of them, as many as fit; and all of a sum's."""
    assert set(re.findall(r"kernarg_preload_length (\d+)", text)) == {"14", "8"}
    assert set(hip.FLAGS[1:]) <= set(re.findall(r'"([^"]*)"', (hip.ROOT / "templates" / "hip.py.jinja").read_text()))
