"""What MODE changes in matrix instructions: overflow under FP16_OVFL, denormal f32 operands."""

import numpy as np
import pytest

from cdna.testing import snippet
from tests.support.matrix_model import LANES, result_places, scatter

FP16_OVFL = 1 << 23
KEEPS = snippet.DEFAULT_MODE
LARGEST = np.float32(3.4028234663852886e38)
F32 = "v_mfma_f32_16x16x4_f32 v[0:3], v30, v31, v[4:7]"


def run_16(text: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: int, arch: str = "gfx942") -> np.ndarray:
    """D [16][16] of an instruction with C in v[4:7], A in v30 and on, B in v[31:]; a, b: dwords [register][64]."""
    v = {r: [0] * LANES for r in range(64)}
    v |= {30 + 2 * k: row.tolist() for k, row in enumerate(a)} | {31 + 2 * k: row.tolist() for k, row in enumerate(b)}
    v |= {4 + r: row.tolist() for r, row in enumerate(c)}
    after = snippet.run(arch, text, v=v, mode=mode)
    registers = np.array(after.v[:4], np.uint32)
    return scatter(result_places(16, 1, "f32"), registers, (1, 16, 16))[0].astype(np.uint32)


def floats(x: np.ndarray) -> np.ndarray:
    return x.astype(np.uint32).view(np.float32)


def constant(value: float) -> np.ndarray:
    return np.full((1, LANES), np.float32(value)).view(np.uint32)


def test_overflow_becomes_the_largest_float() -> None:
    c: np.ndarray = np.zeros((4, LANES), np.uint32)
    a, b = constant(-1e30), constant(1e30)
    assert (floats(run_16(F32, a, b, c, KEEPS)) == -np.inf).all()
    assert (floats(run_16(F32, a, b, c, KEEPS | FP16_OVFL)) == -LARGEST).all()


def test_infinities_of_operands_stay() -> None:
    a, b = constant(1e30), constant(1e30)
    a[0, 5], b[0, 9] = np.float32([np.inf, np.inf]).view(np.uint32)
    c: np.ndarray = np.zeros((4, LANES), np.uint32)
    c[2, 16] = np.float32(np.inf).view(np.uint32)  # row 6, column 0
    got = floats(run_16(F32, a, b, c, KEEPS | FP16_OVFL))
    expected = np.full((16, 16), LARGEST)
    expected[5], expected[:, 9], expected[6, 0] = np.inf, np.inf, np.inf
    assert (got == expected).all()


def test_sparse_overflow() -> None:
    """Row 3 of A holds an infinity; all the others only large numbers, whose products overflow."""
    v = {r: [0] * LANES for r in range(32)}
    for r in (8, 9, 10, 11, 12, 13):
        v[r] = [0x7F007F00] * LANES  # two bf16 of 2^127
    v[8][3] = 0x7F007F80
    v[16] = [0x44444444] * LANES
    text = "v_smfmac_f32_16x16x32_bf16 v[0:3], v[8:9], v[10:13], v16"
    after = snippet.run("gfx942", text, v=v, mode=KEEPS | FP16_OVFL)
    got = scatter(result_places(16, 1, "f32"), floats(np.array(after.v[:4])), (1, 16, 16))[0]
    assert (got[3] == np.inf).all() and (np.delete(got, 3, 0) == LARGEST).all()
    after = snippet.run("gfx942", text, v=v)
    assert (floats(np.array(after.v[:4])) == np.inf).all()


@pytest.mark.parametrize(
    "text",
    [
        "v_mfma_i32_16x16x32_i8 v[0:3], v[30:31], v[32:33], v[4:7]",
        "v_smfmac_i32_16x16x64_i8 v[4:7], v[30:31], v[30:33], v40",
    ],
)
def test_integer_overflow(text: str) -> None:
    v = {r: [0] * LANES for r in range(64)}
    v |= {r: [0x01010101] * LANES for r in (30, 31, 32, 33)} | {r: [0x7FFFFFF0] * LANES for r in range(4, 8)}
    v[40] = [0x44444444] * LANES
    first = 4 if "smfmac" in text else 0
    wraps = snippet.run("gfx942", text, v=v).v[first]
    assert set(wraps) == {0x7FFFFFF0 + 32}
    assert set(snippet.run("gfx942", text, v=v, mode=KEEPS | FP16_OVFL).v[first]) == {0x7FFFFFFF}


@pytest.mark.parametrize(("mode", "flushes"), [(KEEPS, False), (KEEPS & ~0x10, True), (KEEPS & ~0x30, True)])
def test_denormal_operands_of_f32_products(mode: int, flushes: bool) -> None:
    """MODE's flush of f32 operands counts for A and B; C and D keep theirs, and f16 operands are not looked at."""
    c: np.ndarray = np.full((4, LANES), 3, np.uint32)
    got = run_16(F32, np.full((1, LANES), 0x00400000), constant(4.0), c, mode)  # 2^-127
    assert (floats(got) == np.float32(2.0**-123) + floats(c)[0, 0] if not flushes else got == 3).all()
    f16 = "v_mfma_f32_16x16x16_f16 v[0:3], v[30:31], v[32:33], v[4:7]"
    v = {r: [1] * LANES for r in range(30, 34)} | {r: [0] * LANES for r in range(30)}
    v[30] = v[32] = [1] * LANES  # 2^-24 and 0
    assert snippet.run("gfx942", f16, v=v, mode=mode).v[0] == snippet.run("gfx942", f16, v=v).v[0] != v[0]
