"""amd-mla-decode's HIP variant on an emulated MI300X, against float64 attention with the reference's rotation."""

import struct

import pytest
import torch

from cdna.launch.program import Program
from tests.support import fp8_mm_hip as hip
from tests.support.lds_banks import CONSECUTIVE_8, CONSECUTIVE_16, PAIRED_8, conflicts
from tests.support.reference_folders import load_reference
from tests.support.variant_tests import test_all, test_checks_find_nothing, test_no_kernel_spills  # noqa: F401

PROBLEM, STEM, VARIANT = "amd-mla-decode", "mla_decode", "hip"
SPILLS_NOT = "attention_kernel", 1


@pytest.fixture(scope="module")
def probe(hip_compiler: None) -> Program:
    folders = (hip.ROOT / "kernels" / STEM, hip.ROOT / "kernels" / "common")
    source = hip.ROOT / "tests" / "support" / "mla_rotation_probe.hip"
    return Program(hip.find().assembly(hip.HipSource(source, "gfx942", ("-std=c++20",), folders)))


def kernel(probe: Program, name: str):
    return next(kernel for found, kernel in probe.kernels.items() if name in found)


def test_the_rotation_is_the_references_bit_by_bit(probe: Program) -> None:
    """At all positions: beyond 256 they are bf16 and far from exact. Numbers of all sizes, zeros and infinities."""
    positions, width = 8192, 64
    generator = torch.Generator().manual_seed(1)
    x = (
        torch.randn(positions, width, generator=generator) * 2.0 ** torch.randint(-120, 120, (positions, 1))
    ).bfloat16()
    x[5] = 0
    x[6, :3] = torch.tensor([torch.inf, -torch.inf, torch.nan])
    table = load_reference(STEM)._rope(torch.arange(width).expand(positions, width).lt(width // 2).bfloat16(), 0)
    wanted = load_reference(STEM)._rope(x, first=0)
    got = torch.zeros_like(x)
    arguments = struct.pack("<QQQ", x.data_ptr(), table.data_ptr(), got.data_ptr())
    kernel(probe, "rotate_tails").launch((positions, 1, 1), (width // 2, 1, 1), arguments)
    both = wanted.isnan() == got.isnan()
    assert both.all() and torch.equal(got.nan_to_num().view(torch.int16), wanted.nan_to_num().view(torch.int16))


def test_no_bank_conflicts(probe: Program) -> None:
    """But two ways where pairs of the tails are written, two bytes a lane."""
    threads = 512
    out = torch.full((10, threads), -1, dtype=torch.int32)
    arguments = bytes(8 * 7 + 4 * 4) + struct.pack("<Q", out.data_ptr())
    kernel(probe, "lds_addresses").launch((1, 1, 1), (threads, 1, 1), arguments)
    for number, access in enumerate(out):
        width = 8 if number < 4 else 16
        if number in (6, 7):
            continue
        for grouping in (
            [CONSECUTIVE_16] if width == 8 else [CONSECUTIVE_8, PAIRED_8] if number >= 8 else [CONSECUTIVE_8]
        ):
            for wave in access.view(-1, 64):
                assert not conflicts(wave.tolist(), width, grouping), number
