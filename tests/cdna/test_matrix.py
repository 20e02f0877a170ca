"""Every matrix instruction of gfx942 and gfx950 on random data, against products in float64."""

import zlib
from dataclasses import dataclass

import numpy as np
import pytest

from cdna.errors import UnsupportedInstruction
from cdna.isa import facts_of
from cdna.testing import snippet
from tests.support.matrix_model import (
    FORMATS,
    LANES,
    Case,
    dense_cases,
    elements_per_lane,
    group_of,
    operand_places,
    pack,
    result_places,
    scatter,
    span,
    sparse_cases,
)

DENSE = [(arch, case) for arch in ("gfx942", "gfx950") for case in dense_cases(arch)]


@dataclass
class Operands:
    """Random A, B, C: registers, and matrices [block][row][k], [block][k][column], [block][row][column]."""

    a_registers: np.ndarray
    b_registers: np.ndarray
    c_registers: np.ndarray
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    places: np.ndarray  # of C and D


def random_operands(case: Case, rng: np.random.Generator) -> Operands:
    elements, kind = elements_per_lane(case), "f64 4x4" if case.n == 4 and case.a == "f64" else ""
    places = operand_places(case.n, case.blocks, elements, kind)
    matrices, registers = [], []
    for name in (case.a, case.b):
        codes = FORMATS[name].random_codes(rng, (elements, LANES))
        registers.append(pack(codes, FORMATS[name].bits))
        matrices.append(scatter(places, FORMATS[name].decode(codes), (case.blocks, case.n, case.depth)))
    where = result_places(case.n, case.blocks, case.result)
    if case.result == "i32":
        raw: np.ndarray = rng.integers(0, 1 << 32, where.shape[:2], dtype=np.uint64)
        c_values: np.ndarray = raw.astype(np.uint32).view(np.int32).astype(np.float64)
        c_registers = raw
    elif case.result == "f64":
        c_values = rng.standard_normal(where.shape[:2])
        c_registers = pack(c_values.view(np.uint64), 64)
    else:
        c_values = rng.standard_normal(where.shape[:2]).astype(np.float32)
        c_registers = c_values.view(np.uint32).astype(np.uint64)
    c = scatter(where, c_values, (case.blocks, case.n, case.n))
    return Operands(registers[0], registers[1], c_registers, matrices[0], matrices[1].transpose(0, 2, 1), c, where)


def result_values(case: Case, registers: np.ndarray) -> np.ndarray:
    raw: np.ndarray = registers.astype(np.uint32)
    if case.result == "f64":
        return (raw[0::2].astype(np.uint64) | raw[1::2].astype(np.uint64) << 32).view(np.float64)
    return raw.view(np.int32 if case.result == "i32" else np.float32).astype(np.float64)


def check(case: Case, got: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, text: str) -> None:
    """Exact for integers; for floats within the rounding of as many additions as the depth.

    All matrices are [block][..][..].
    """
    want = a @ b + c
    if case.result == "i32":
        want = want.astype(np.int64).astype(np.uint64).astype(np.uint32).view(np.int32).astype(np.float64)
        bound = np.zeros_like(want)
    else:
        unit = 2.0**-53 if case.result == "f64" else 2.0**-24
        bound = (case.depth + 1) * unit * (np.abs(a) @ np.abs(b) + np.abs(c))
    worst = np.unravel_index(np.argmax(np.abs(got - want) - bound), want.shape)
    assert np.all(np.abs(got - want) <= bound), (
        f"{text}: [block, row, column] {worst}: got {got[worst]}, want {want[worst]}"
    )


def run_dense(
    arch: str,
    case: Case,
    operands: Operands,
    files: str = "vvvv",
    constant: str = "",
    modifiers: str = "",
    exec: int = (1 << 64) - 1,
) -> tuple[np.ndarray, str]:
    """Execute with D, A, B, C in the given register files; D as [block][row][column], and the text."""
    n_a, n_b, n_c = len(operands.a_registers), len(operands.b_registers), len(operands.c_registers)
    first = {"d": 0, "a": 32, "b": 40, "c": 64}
    counts = {"d": n_c, "a": n_a, "b": n_b, "c": n_c}
    words = [span(file, first[name], counts[name]) for file, name in zip(files, "dabc")]
    if constant:
        words[3] = constant
    text = f"{case.name} {', '.join(words)} {modifiers}".strip()
    offset = 128  # a register that makes accumulation registers start there
    v: dict[int, list[int]] = {127: [0] * LANES}
    for file, name, registers in zip(
        files[1:], "abc", (operands.a_registers, operands.b_registers, operands.c_registers)
    ):
        for r, row in enumerate(registers):
            v[first[name] + r + (offset if file == "a" else 0)] = row.tolist()
    after = snippet.run(arch, f"v_mov_b32 v127, v127\n{text}", v=v, exec=exec)
    start = offset if files[0] == "a" else 0
    registers = np.array(after.v[start : start + n_c], dtype=np.uint64)
    return scatter(operands.places, result_values(case, registers), operands.c.shape), text


@pytest.mark.parametrize(("arch", "case"), DENSE, ids=lambda x: x if isinstance(x, str) else x.name)
def test_dense(arch: str, case: Case) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{arch} {case.name}".encode()))
    for files in ("vvvv", "avav", "vaaa"):
        operands = random_operands(case, rng)
        got, text = run_dense(arch, case, operands, files, exec=0 if files == "vaaa" else (1 << 64) - 1)
        check(case, got, operands.a, operands.b, operands.c, text)


@pytest.mark.parametrize(("arch", "case"), DENSE, ids=lambda x: x if isinstance(x, str) else x.name)
def test_inline_constant_as_c(arch: str, case: Case) -> None:
    operands = random_operands(case, np.random.default_rng(1))
    for constant in ("0", "-3") if case.result == "i32" else ("0", "-2.0"):
        got, text = run_dense(arch, case, operands, constant=constant)
        check(case, got, operands.a, operands.b, np.full_like(operands.c, float(constant)), text)


@pytest.mark.parametrize(
    "case", [c for c in dense_cases("gfx942") if c.blocks > 1 and c.result != "f64"], ids=lambda c: c.name
)
def test_broadcast_of_a(case: Case) -> None:
    """cbsz and abid choose the block of A that a run of blocks shares."""
    rng = np.random.default_rng(2)
    operands = random_operands(case, rng)
    for cbsz in range(1, case.blocks.bit_length()):
        abid = int(rng.integers(1 << cbsz))
        source = [block >> cbsz << cbsz | abid for block in range(case.blocks)]
        got, text = run_dense("gfx942", case, operands, modifiers=f"cbsz:{cbsz} abid:{abid}")
        check(case, got, operands.a[source], operands.b, operands.c, text)


BLGP_LANES = {  # lane that B's lane 0, 1, ... reads
    1: [*range(32)] * 2,
    2: [*range(32, 64)] * 2,
    3: [*range(16, 64), *range(16)],
    4: [*range(16)] * 4,
    5: [*range(16, 32)] * 4,
    6: [*range(32, 48)] * 4,
    7: [*range(48, 64)] * 4,
}
TAKES_BLGP = [
    c
    for c in dense_cases("gfx942")
    if c.result != "f64" and (c.blocks > 1 or c.name in ("v_mfma_f32_32x32x2_f32", "v_mfma_f32_16x16x4_f32"))
]


@pytest.mark.parametrize("case", TAKES_BLGP, ids=lambda c: c.name)
def test_lane_permutation_of_b(case: Case) -> None:
    operands = random_operands(case, np.random.default_rng(2))
    places = operand_places(case.n, case.blocks, elements_per_lane(case), "")
    for blgp, lanes in BLGP_LANES.items():
        to, source = places.reshape(-1, 3).T, places[:, lanes].reshape(-1, 3).T
        moved = np.empty_like(operands.b)
        moved[to[0], to[2], to[1]] = operands.b[source[0], source[2], source[1]]
        got, text = run_dense("gfx942", case, operands, modifiers=f"blgp:{blgp}")
        check(case, got, operands.a, moved, operands.c, text)


@pytest.mark.parametrize("case", [c for c in dense_cases("gfx942") if c.result == "f64"], ids=lambda c: c.name)
def test_f64_negation(case: Case) -> None:
    operands = random_operands(case, np.random.default_rng(3))
    for neg in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)):
        a, b, c = ((-1.0) ** bit * x for bit, x in zip(neg, (operands.a, operands.b, operands.c)))
        got, text = run_dense("gfx942", case, operands, modifiers=f"neg:[{neg[0]},{neg[1]},{neg[2]}]")
        check(case, got, a, b, c, text)


def test_mode_of_rounding_does_not_matter() -> None:
    """Denormal results and operands survive under a MODE that flushes them and rounds up."""
    v = {r: [0] * LANES for r in range(32)}
    tiny = 0x0001  # f16 2^-24
    v[16] = v[18] = [tiny] * LANES
    state = snippet.run("gfx942", "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]", v=v, mode=0x05)
    assert np.array(state.v[0], np.uint32).view(np.float32)[0] == np.float32(2.0**-47)
    v[0] = [0x00000003] * LANES  # an f32 denormal as C
    v[16] = [0] * LANES
    state = snippet.run("gfx942", "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]", v=v, mode=0x05)
    assert state.v[0][0] == 3


def test_c_askew_over_d_is_read_whole() -> None:
    rng = np.random.default_rng(4)
    v = {r: [0] * LANES for r in range(40)}
    for r in range(1, 17):
        v[r] = rng.standard_normal(LANES).astype(np.float32).view(np.uint32).tolist()
    state = snippet.run("gfx942", "v_mfma_f32_32x32x2_f32 v[0:15], v30, v31, v[1:16]", v=v)
    assert [state.v[r] for r in range(16)] == [v[r + 1] for r in range(16)]


def test_not_a_number_and_infinity() -> None:
    """A NaN reaches its own row alone; infinities follow IEEE arithmetic."""
    v = {r: [0] * LANES for r in range(40)}
    a: np.ndarray = np.zeros((2, LANES), np.float32)
    a[0, 5], a[0, 6] = np.nan, np.inf
    b: np.ndarray = np.ones(LANES, np.float32)
    v[30], v[31] = a[0].view(np.uint32).tolist(), b.view(np.uint32).tolist()
    state = snippet.run("gfx942", "v_mfma_f32_16x16x4_f32 v[0:3], v30, v31, 0", v=v)
    d: np.ndarray = scatter(result_places(16, 1, "f32"), np.arange(256.0).reshape(4, 64), (1, 16, 16))[0].astype(int)
    got = np.array(state.v[:4], np.uint32).view(np.float32).reshape(-1)[d]
    assert np.isnan(got[5]).all() and np.isposinf(got[6]).all() and (np.delete(got, [5, 6], 0) == 0).all()


# --- block scales -----------------------------------------------------------------------------------

LOW = ["fp8", "bf8", "fp6", "bf6", "fp4"]  # by their number in cbsz and blgp


def low_operand(rng: np.random.Generator, name: str, n: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    codes = FORMATS[name].random_codes(rng, (32, LANES))
    kind = "two runs of 16" if FORMATS[name].bits == 8 else ""
    matrix = scatter(operand_places(n, 1, 32, kind), FORMATS[name].decode(codes), (1, n, depth))[0]
    return pack(codes, FORMATS[name].bits), matrix


def run_low(
    name: str,
    n: int,
    a_registers: np.ndarray,
    b_registers: np.ndarray,
    c: np.ndarray,
    formats: tuple[int, int],
    scales: list[np.ndarray] | None = None,
    selects: tuple[int, int] = (0, 0),
) -> np.ndarray:
    """D [n][n] of an f8f6f4 instruction; c: C as [register][lane]. A lies in accumulation registers."""
    v: dict[int, list[int]] = {63: [0] * LANES}
    for first, registers in ((64 + 8, a_registers), (16, b_registers), (32, c.view(np.uint32))):
        for r, row in enumerate(registers):
            v[first + r] = row.tolist()
    words = [
        span("v", 0, len(c)),
        span("a", 8, len(a_registers)),
        span("v", 16, len(b_registers)),
        span("v", 32, len(c)),
    ]
    modifiers = f"cbsz:{formats[0]} blgp:{formats[1]}"
    if scales is not None:
        v[24], v[25] = scales[0].tolist(), scales[1].tolist()
        words += ["v24", "v25"]
        low, high = [s & 1 for s in selects], [s >> 1 for s in selects]
        modifiers = f"op_sel:[{low[0]},{low[1]},0] op_sel_hi:[{high[0]},{high[1]},0] " + modifiers
    after = snippet.run("gfx950", f"v_mov_b32 v63, v63\n{name} {', '.join(words)} {modifiers}", v=v)
    registers = np.array(after.v[: len(c)], dtype=np.uint32).view(np.float32)
    return scatter(result_places(n, 1, "f32"), registers, (1, n, n))[0]


def c_matrix(c: np.ndarray, n: int) -> np.ndarray:
    return scatter(result_places(n, 1, "f32"), c, (1, n, n))[0]


@pytest.mark.parametrize(("n", "depth"), [(16, 128), (32, 64)])
@pytest.mark.parametrize("a", range(5))
@pytest.mark.parametrize("b", range(5))
def test_f8f6f4(n: int, depth: int, a: int, b: int) -> None:
    rng = np.random.default_rng(100 * n + 10 * a + b)
    a_registers, a_matrix = low_operand(rng, LOW[a], n, depth)
    b_registers, b_matrix = low_operand(rng, LOW[b], n, depth)
    c = rng.standard_normal((n * n // LANES, LANES)).astype(np.float32)
    case = Case("", n, depth)
    got = run_low(f"v_mfma_f32_{n}x{n}x{depth}_f8f6f4", n, a_registers, b_registers, c, (a, b))
    check(case, got[None], a_matrix[None], b_matrix.T[None], c_matrix(c, n)[None], f"{n}x{n}x{depth} {LOW[a]} {LOW[b]}")

    selects = (int(rng.integers(4)), int(rng.integers(4)))
    words = [rng.integers(0, 1 << 32, LANES, dtype=np.uint32) for _ in range(2)]
    scaled = []
    for word, select, matrix in zip(words, selects, (a_matrix, b_matrix)):
        byte = rng.integers(110, 145, LANES).astype(np.uint32)  # lane: row l % n, the 32 k of block l / n
        word &= np.uint32(~(0xFF << 8 * select) & 0xFFFFFFFF)
        word |= byte << np.uint32(8 * select)
        factor = 2.0 ** (byte.astype(float).reshape(LANES // n, n).T - 127)
        scaled.append(matrix * np.repeat(factor, 32, axis=1))
    got = run_low(f"v_mfma_scale_f32_{n}x{n}x{depth}_f8f6f4", n, a_registers, b_registers, c, (a, b), words, selects)
    check(
        case,
        got[None],
        scaled[0][None],
        scaled[1].T[None],
        c_matrix(c, n)[None],
        f"scaled {n}x{n}x{depth} {LOW[a]} {LOW[b]}",
    )


@pytest.mark.parametrize(("n", "depth"), [(16, 128), (32, 64)])
def test_extreme_scales(n: int, depth: int) -> None:
    """A scaled operand beyond f32's range whose product is within it; scale 0 is 2^-127; scale 255 is NaN."""
    rng = np.random.default_rng(5)
    a_registers, a_matrix = low_operand(rng, "bf8", n, depth)
    b_registers, b_matrix = low_operand(rng, "bf8", n, depth)
    c: np.ndarray = np.zeros((n * n // LANES, LANES), np.float32)
    name = f"v_mfma_scale_f32_{n}x{n}x{depth}_f8f6f4"
    constant: list[np.ndarray] = [np.full(LANES, x, np.uint32) for x in (254, 0, 255, 127)]
    got = run_low(name, n, a_registers, b_registers, c, (1, 1), [constant[0], constant[1]])
    check(Case("", n, depth), got[None], a_matrix[None], b_matrix.T[None], c_matrix(c, n)[None], "scales 254 and 0")
    got = run_low(name, n, a_registers, b_registers, c, (1, 1), [constant[1], constant[3]])
    small = 2.0**-127
    want = a_matrix * small @ b_matrix.T
    assert np.all(
        np.abs(got - want) <= depth * (2.0**-150 + 2.0**-24 * (np.abs(a_matrix) * small @ np.abs(b_matrix.T)))
    )
    nan_row = constant[3].copy()
    nan_row[3] = 255  # row 3, first block
    got = run_low(name, n, a_registers, b_registers, c, (1, 1), [nan_row, constant[3]])
    assert np.isnan(got[3]).all() and not np.isnan(np.delete(got, 3, 0)).any()


@pytest.mark.parametrize(("scale", "power"), [("s3", 3), ("1.0", 0), ("0.5", -1), ("-4.0", 2), ("64", -127)])
def test_a_scale_that_no_vector_register_holds(scale: str, power: int) -> None:
    """Bits 23 to 30 of it, whatever op_sel says: a defect of the hardware's (llvm/llvm-project pull request 158117)."""
    ones = [0x38383838] * LANES  # of e4m3
    v = dict.fromkeys(range(8, 24), ones) | dict.fromkeys(range(32, 48), [0] * LANES) | {24: [127] * LANES}
    for operands in (f"{scale}, v24", f"v24, {scale}"):
        product = f"v_mfma_scale_f32_32x32x64_f8f6f4 v[32:47], v[8:15], v[16:23], v[32:47], {operands}"
        after = snippet.run("gfx950", f"{product} op_sel_hi:[0,0,0]", v=v, s={3: 0x41017F7F})
        got = np.array(after.v[32:48], dtype=np.uint32).view(np.float32)
        assert (got == 64 * 2.0**power).all(), operands


def test_what_was_seen_on_an_mi355x() -> None:
    """A probe of four-bit products, as published: CLAUDE.md of THINNGO2511/AMD-GPU-MODE (fec9130)."""
    ones, exponent = [0x22222222] * LANES, [127] * LANES
    own = [0x11111111 * (lane & 7) for lane in range(LANES)]  # a value for each lane, at a scale for eight lanes
    steps = [127 + (lane >> 3) for lane in range(LANES)]
    each = [[0x11111111 * k] * LANES for k in (1, 2, 3, 4)]  # a value for each register

    def seen(a: list[list[int]], b: list[list[int]], scales: tuple[list[int], list[int]]) -> list[list[float]]:
        v = {i: [0] * LANES for i in range(32, 48)} | {24: scales[0], 25: scales[1]}
        v |= {first + i: row for first, rows in ((8, a), (16, b)) for i, row in enumerate(rows)}
        operands = "v[32:47], v[8:11], v[16:19], v[32:47], v24, v25"
        modifiers = "op_sel_hi:[0,0,0] cbsz:4 blgp:4"
        after = snippet.run("gfx950", f"v_mfma_scale_f32_32x32x64_f8f6f4 {operands} {modifiers}", v=v)
        return np.array(after.v[32:48], dtype=np.uint32).view(np.float32).T.tolist()

    by_column = seen([ones] * 4, [own] * 4, (exponent, steps))
    for lane, value in ((0, 0), (1, 272), (2, 544), (7, 3264), (9, 544), (17, 1088), (25, 2176), (33, 272)):
        assert by_column[lane] == [value] * 16, lane
    by_row = seen([own] * 4, [ones] * 4, (steps, exponent))
    first = [0, 272, 544, 816]
    assert by_row[0] == by_row[31] == [x * 2**group for group in range(4) for x in first]
    assert by_row[32] == by_row[63] != by_row[0]
    for a, b in (([ones] * 4, each), (each, [ones] * 4)):
        assert np.all(np.array(seen(a, b, (exponent, exponent))) == 80)


# --- sparse -----------------------------------------------------------------------------------------


def test_an_instructions_flops_are_those_of_its_shape() -> None:
    """Of dense ones two for each term of each element; of sparse ones half of the depth is zero."""
    for _, case in DENSE:
        assert facts_of(case.name).flops * LANES == 2 * case.n * case.n * case.depth * case.blocks, case.name
    for _, case, _ in SPARSE:
        assert facts_of(case.name).flops * LANES == case.n * case.n * case.depth, case.name
    for n, k in ((16, 128), (32, 64)):
        assert facts_of(f"v_mfma_scale_f32_{n}x{n}x{k}_f8f6f4").flops * LANES == 2 * n * n * k
    vector = {"v_fma_f32": 2, "v_pk_fma_f32": 4, "v_mul_f32": 1, "v_dot4_i32_i8": 8, "v_add_u32": 0, "v_max_f32": 0}
    assert {name: facts_of(name).flops for name in vector} == vector


SPARSE = [(arch, case, deep) for arch in ("gfx942", "gfx950") for case, deep in sparse_cases(arch)]


@pytest.mark.parametrize(("arch", "case", "deep"), SPARSE, ids=lambda x: x.name if isinstance(x, Case) else str(x))
def test_sparse(arch: str, case: Case, deep: bool) -> None:
    rng = np.random.default_rng(6)
    n, fa, fb = case.n, FORMATS[case.a], FORMATS[case.b]
    groups = case.depth * n // LANES // 4  # of four k, a lane
    index_bits = 4 * groups
    for cbsz, abid in ((0, 0), (0, 32 // index_bits - 1), (1, 1)):
        index_set = abid if cbsz == 0 else 0
        a_codes = fa.random_codes(rng, (2 * groups, LANES))
        values = fa.decode(a_codes)
        first = rng.integers(0, 3, (groups, LANES))
        second = rng.integers(first + 1, 4)
        index = rng.integers(0, 1 << 32, LANES, dtype=np.uint64)
        index &= ~np.uint64(((1 << index_bits) - 1) << index_set * index_bits)
        a = np.zeros((n, case.depth))
        for q in range(groups):
            index |= (first[q] | second[q] << 2).astype(np.uint64) << np.uint64(index_set * index_bits + 4 * q)
            for lane in range(LANES):
                k = 4 * group_of(case, deep, lane, q)
                a[lane % n, k + first[q, lane]] = values[2 * q, lane]
                a[lane % n, k + second[q, lane]] = values[2 * q + 1, lane]
        b_codes = fb.random_codes(rng, (4 * groups, LANES))
        b = scatter(
            operand_places(n, 1, 4 * groups, "runs of 8" if deep else ""), fb.decode(b_codes), (1, n, case.depth)
        )[0].T
        operands = random_operands(Case("", n, 32, 1, "f16", "f16", case.result), rng)  # for C
        c = operands.c_registers
        v = {r: row.tolist() for r, row in enumerate(c)}
        a_registers, b_registers = pack(a_codes, fa.bits), pack(b_codes, fb.bits)
        v.update({20 + r: row.tolist() for r, row in enumerate(a_registers)})
        v.update({24 + r: row.tolist() for r, row in enumerate(b_registers)})
        v[40] = index.tolist()
        words = [span("v", 0, len(c)), span("v", 20, len(a_registers)), span("v", 24, len(b_registers)), "v40"]
        text = f"{case.name} {', '.join(words)} cbsz:{cbsz} abid:{abid}"
        after = snippet.run(arch, text, v=v, exec=0)
        result = result_values(case, np.array(after.v[: len(c)], np.uint64))
        got = scatter(operands.places, result, (1, n, n))
        check(case, got, a[None], b[None], operands.c, text)


def test_sparse_skips_what_it_does_not_pick() -> None:
    """An infinity in B at a place that A leaves out must not meet A's implied zero."""
    v = {r: [0] * LANES for r in range(48)}
    v[20] = v[21] = [0x3C003C00] * LANES  # A: all ones
    v[24], v[25] = [0x3C003C00] * LANES, [0x7C007C00] * LANES  # B: k 0, 1 one, k 2, 3 infinite
    v[26], v[27] = v[24], v[25]
    v[40] = [0x44] * LANES  # places 0 and 1 of both groups
    state = snippet.run("gfx942", "v_smfmac_f32_16x16x32_f16 v[0:3], v[20:21], v[24:27], v40", v=v)
    assert set(np.array(state.v[:4], np.uint32).view(np.float32).reshape(-1).tolist()) == {16.0}


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "text"),
    [
        ("gfx942", "v_mfma_f32_16x16x32_bf16 v[0:3], v[4:7], v[8:11], v[0:3]"),
        ("gfx942", "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3]"),
        ("gfx950", "v_mfma_f32_16x16x8_xf32 v[0:3], v[4:5], v[6:7], v[0:3]"),
        ("gfx942", "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3] cbsz:1"),
        ("gfx942", "v_mfma_f32_16x16x16_f16 v[0:3], v[4:6], v[7:9], v[0:3]"),
        ("gfx942", "v_mfma_f32_16x16x4_f32 v[0:3], -v4, v5, v[0:3]"),
    ],
)
def test_what_the_arch_lacks_is_refused(arch: str, text: str) -> None:
    with pytest.raises(UnsupportedInstruction, match=text.split()[0]):
        snippet.run(arch, text)
