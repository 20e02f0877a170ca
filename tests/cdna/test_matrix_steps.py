"""bf16 matrix instructions bit by bit: k in its order, each product added by one fused multiply-add, denormals kept.

The engine takes the host's own products of bf16 pairs where these do the same, and adds otherwise where they do not.
"""

from collections.abc import Callable

import numpy as np
import pytest

from cdna.testing import snippet
from tests.support.matrix_model import (
    LANES,
    Case,
    dense_cases,
    elements_per_lane,
    operand_places,
    pack,
    result_places,
    scatter,
    span,
)

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
CASES = [
    (arch, case) for arch in ("gfx942", "gfx950") for case in dense_cases(arch) if case.a == "bf16" and case.n != 4
]


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c in f32, rounded once. a, b of bf16: their product is exact in f64, and the sum rounded to odd."""
    with np.errstate(all="ignore"):
        p = a.astype(np.float64) * b.astype(np.float64)
        z: np.ndarray = c.astype(np.float64)
        s = p + z
        t = s - p
        error = (p - (s - t)) + (z - t)
        bits = s.view(np.int64)
        toward_zero = (error < 0) == (s > 0)
        odd = np.where(np.isfinite(s) & (error != 0), np.where(toward_zero, bits - 1, bits) | 1, bits)
        return odd.view(np.float64).astype(np.float32)


def laid_out(places: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # NaN as f64
        return scatter(places, values, shape).astype(np.float32)


def floats(low: int, high: int) -> Draw:
    """f32 of either sign with exponents, as they are encoded, of low to high."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        exponent = rng.integers(low, high + 1, shape, dtype=np.uint64)
        rest = rng.integers(0, 1 << 32, shape, dtype=np.uint64)
        return (rest & np.uint64(0x807FFFFF) | exponent << np.uint64(23)).astype(np.uint32).view(np.float32)

    return draw


def sparse(draw: Draw) -> Draw:
    """The same, half of them zeros of either sign."""
    return lambda rng, shape: draw(rng, shape) * rng.integers(0, 2, shape).astype(np.float32)


def some(draw: Draw, other: Draw) -> Draw:
    """The same, a few of another kind."""
    return lambda rng, shape: np.where(rng.random(shape) < 1 / 64, other(rng, shape), draw(rng, shape))


def leaving(least: int) -> tuple[Draw, Draw]:
    """A and B of which two products in a row leave 2^-14 of the first, with exponents of `least`."""

    def draw(even: int, odd: int) -> Draw:
        pair = np.array([even, odd], np.uint32) << 16 | np.uint32(least << 23)
        return lambda rng, shape: np.resize(pair, shape[0])[:, None].repeat(shape[1], 1).view(np.float32)

    return draw(1, 0x8002), draw(1, 0)


def once(code: int) -> Draw:
    """One such bf16 in a row of A, of the first 16."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        words: np.ndarray = np.zeros(shape, np.uint32)
        words[0, :16] = code << 16
        return words.view(np.float32)

    return draw


def all_of(word: int) -> Draw:
    return lambda rng, shape: np.full(shape, word, np.uint32).view(np.float32)


def zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape, np.float32)


ONES, SPECIAL = floats(118, 130), floats(255, 255)
KINDS: dict[str, tuple[Draw, Draw, Draw]] = {
    "around 1": (ONES, ONES, ONES),
    "C of 0": (ONES, ONES, zeros),
    "zeros": (sparse(ONES), sparse(ONES), sparse(ONES)),
    "small and large C": (ONES, ONES, some(ONES, some(floats(0, 70), floats(190, 254)))),
    "products that are denormal": (floats(60, 66), floats(60, 66), zeros),
    "a normal rest": (*leaving(71), zeros),
    "a denormal rest": (*leaving(70), zeros),
    "a normal rest of C": (once(0x8000 | 76 << 7), all_of(75 << 23), all_of(24 << 23 | 1)),
    "a denormal rest of C": (once(0x8000 | 75 << 7), all_of(75 << 23), all_of(23 << 23 | 1)),
    "denormal C": (sparse(floats(71, 74)), sparse(floats(71, 74)), floats(0, 3)),
    "denormal A": (floats(0, 0), floats(180, 190), floats(50, 60)),
    "denormal B": (floats(180, 190), floats(0, 0), floats(50, 60)),
    "large products": (floats(170, 180), floats(170, 180), floats(210, 245)),
    "overflow": (some(ONES, floats(230, 254)), some(ONES, floats(230, 254)), floats(235, 254)),
    "infinities and NaN": (some(ONES, SPECIAL), some(ONES, SPECIAL), ONES),
    "infinities and NaN in C": (ONES, ONES, some(ONES, SPECIAL)),
    "all": (floats(0, 255), floats(0, 255), floats(0, 255)),
}


@pytest.mark.parametrize(("arch", "case"), CASES, ids=lambda x: x if isinstance(x, str) else x.name)
@pytest.mark.parametrize("kind", KINDS)
def test_bf16_bit_by_bit(kind: str, arch: str, case: Case) -> None:
    rng = np.random.default_rng(7)
    *operands, addends = KINDS[kind]
    elements = elements_per_lane(case)
    places, where = operand_places(case.n, case.blocks, elements, ""), result_places(case.n, case.blocks, "f32")
    matrices, words = [], []
    v: dict[int, list[int]] = {127: [0] * LANES}
    for first, draw in zip((32, 40), operands):
        codes = draw(rng, (elements, LANES)).view(np.uint32) >> 16
        matrices.append(laid_out(places, (codes << 16).view(np.float32), (case.blocks, case.n, case.depth)))
        registers = pack(codes.astype(np.uint64), 16)
        v |= {first + r: row.tolist() for r, row in enumerate(registers)}
        words.append(span("v", first, len(registers)))
    c = addends(rng, where.shape[:2])
    v |= {64 + r: row.tolist() for r, row in enumerate(c.view(np.uint32))}
    want = laid_out(where, c, (case.blocks, case.n, case.n))
    for k in range(case.depth):
        want = fused(matrices[0][:, :, k, None], matrices[1][:, None, :, k], want)
    for first in (0, 64):  # C elsewhere, and where D is
        text = (
            f"v_mov_b32 v127, v127\n{case.name} {span('v', first, len(c))}, {', '.join(words)}, {span('v', 64, len(c))}"
        )
        after = snippet.run(arch, text, v=v)
        registers = np.array(after.v[first : first + len(c)], np.uint32).view(np.float32)
        got = laid_out(where, registers, want.shape)
        same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
        assert same.all(), f"{text}: {np.argwhere(~same)[:4].tolist()}: {got[~same][:4]}, not {want[~same][:4]}"


# --- several on the same sums, which the engine does together where nothing between can tell --------------------------

SHAPES = {16: "v_mfma_f32_16x16x16_bf16 v[0:3], {}, v[0:3]", 32: "v_mfma_f32_32x32x8_bf16 v[0:15], {}, v[0:15]"}


def product(number: int, rows: int = 16) -> str:
    """One of the numbered A and B."""
    return SHAPES[rows].format(", ".join(span("v", first + 4 * number, 2) for first in (32, 34)))


def registers_of(rng: np.random.Generator, kind: str) -> dict[int, list[int]]:
    a, b, c = KINDS[kind]
    v: dict[int, list[int]] = {r: [0] * LANES for r in range(128)}
    for number in range(6):
        for first, draw in ((32 + 4 * number, a), (34 + 4 * number, b)):
            codes = draw(rng, (4, LANES)).view(np.uint32) >> 16
            v |= {first + r: row.tolist() for r, row in enumerate(pack(codes.astype(np.uint64), 16))}
    return v | {r: row.tolist() for r, row in enumerate(c(rng, (16, LANES)).view(np.uint32))}


def one_by_one(v: dict[int, list[int]], *statements: str, mode: int = snippet.DEFAULT_MODE) -> dict[int, list[int]]:
    for text in statements:
        after = snippet.run("gfx942", text, v=v, mode=mode)
        v = dict(enumerate(after.v))
    return v


def sums(v: dict[int, list[int]] | list[list[int]]) -> np.ndarray:
    return np.array([v[r] for r in range(16)], np.uint32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", SHAPES)
@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_products_in_a_row(count: int, rows: int, kind: str) -> None:
    v = registers_of(np.random.default_rng(8), kind)
    texts = [product(i, rows) for i in range(count)]
    together = snippet.run("gfx942", "\n".join(texts), v=v).v
    want = sums(one_by_one(v, *texts))
    got = sums(together)
    nan = np.isnan(want.view(np.float32)) & np.isnan(got.view(np.float32))
    assert ((got == want) | nan).all()


@pytest.mark.parametrize(
    "between",
    [
        "v_mov_b32 v100, v40",  # has nothing to do with them
        "v_mov_b32 v36, v40",  # writes the second's A
        "v_mov_b32 v39, v41",  # and B
        "v_mov_b32 v32, v40",  # the first's A, which has been read
        "v_mov_b32 v100, v2",  # reads the sums
        "v_mov_b32 v3, v40",  # writes them
        "v_mfma_f32_16x16x16_bf16 v[0:3], v[40:41], v[42:43], v[4:7]",  # begins others there
        "v_mfma_f32_16x16x16_bf16 v[4:7], v[40:41], v[42:43], v[0:3]",  # goes on with them elsewhere
        "v_mfma_f32_16x16x16_bf16 v[36:39], v[40:41], v[42:43], v[36:39]",  # makes the second's operands
        "v_mfma_f32_16x16x16_f16 v[0:3], v[40:41], v[42:43], v[0:3]",
        "v_mfma_f32_32x32x8_bf16 v[0:15], v[40:41], v[42:43], v[0:15]",
        "s_barrier",
    ],
)
def test_what_stands_between_products(between: str) -> None:
    v = registers_of(np.random.default_rng(9), "around 1")
    texts = [product(0), between, product(1)]
    together = snippet.run("gfx942", "\n".join(["v_mov_b32 v127, v127", *texts]), v=v).v
    want = v
    for text in texts:
        want = want if text == "s_barrier" else one_by_one(want, f"v_mov_b32 v127, v127\n{text}")
    assert {r: together[r] for r in range(127)} == {r: want[r] for r in range(127)}


def test_a_jump_to_the_second_product() -> None:
    """It is entered twice: behind the first one, and from below."""
    v = registers_of(np.random.default_rng(10), "around 1")
    text = f"""s_mov_b32 s0, 0
    {product(0)}
    again:
    {product(1)}
    s_add_u32 s0, s0, 1
    s_cmp_eq_u32 s0, 1
    s_cbranch_scc1 again"""
    assert (sums(snippet.run("gfx942", text, v=v).v) == sums(one_by_one(v, *map(product, (0, 1, 1))))).all()


def test_a_jump_by_an_address_to_the_second_product() -> None:
    v = registers_of(np.random.default_rng(11), "around 1")
    text = f"""s_mov_b32 s0, 0
    {product(0)}
    s_getpc_b64 s[2:3]
    {product(1)}
    s_add_u32 s0, s0, 1
    s_cmp_eq_u32 s0, 2
    s_cbranch_scc1 done
    s_setpc_b64 s[2:3]
    done:
    s_nop 0"""
    assert (sums(snippet.run("gfx942", text, v=v).v) == sums(one_by_one(v, *map(product, (0, 1, 1))))).all()


def test_mode_changes_between_products() -> None:
    """FP16_OVFL holds for the second alone: what has overflowed before stays infinite."""
    large = [0x7F007F00] * LANES  # 2^127
    v = registers_of(np.random.default_rng(12), "around 1") | dict.fromkeys(range(36, 40), large)
    clamps = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1"
    got = sums(snippet.run("gfx942", f"{product(0)}\n{clamps}\n{product(1)}", v=v).v)
    assert (got[:4] == 0x7F7FFFFF).all()
