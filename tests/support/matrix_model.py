"""Number formats and register layouts of the matrix instructions: what tests compare the engine with.

From the formats' definitions (OCP 8-bit Floating Point Specification, OCP Microscaling Formats) and AMD's
matrix instruction calculator; for layouts that it does not cover, the sources in docs/emulated-device.md.
"""

from dataclasses import dataclass, field

import numpy as np

LANES = 64


# --- formats: codes to values, from their definitions ---------------------------------------------


def small_float(exponent_bits: int, mantissa_bits: int, bias: int, specials: str) -> np.ndarray:
    """Value of every code. specials: ieee, fn (all ones is NaN), fnuz (the code of -0 is NaN), finite."""
    bits = 1 + exponent_bits + mantissa_bits
    values = np.zeros(1 << bits)
    for code in range(1 << bits):
        sign = -1.0 if code >> (bits - 1) else 1.0
        exponent, mantissa = code >> mantissa_bits & (1 << exponent_bits) - 1, code & (1 << mantissa_bits) - 1
        fraction = mantissa / (1 << mantissa_bits)
        value = fraction * 2.0 ** (1 - bias) if exponent == 0 else (1 + fraction) * 2.0 ** (exponent - bias)
        if specials == "ieee" and exponent == (1 << exponent_bits) - 1:
            value = np.nan if mantissa else np.inf
        if specials == "fn" and code & (1 << bits - 1) - 1 == (1 << bits - 1) - 1:
            value = np.nan
        values[code] = np.nan if specials == "fnuz" and code == 1 << bits - 1 else sign * value
    return values


@dataclass(frozen=True)
class Format:
    """How `bits` bits of a register read as a number."""

    bits: int
    values: np.ndarray | None = field(default=None, compare=False)  # table of all codes, else decoded by dtype
    dtype: str = ""

    def decode(self, codes: np.ndarray) -> np.ndarray:
        if self.values is not None:
            return self.values[codes]
        if self.dtype == "bf16":
            return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if self.dtype == "xf32":  # the upper 19 bits
            return (codes & 0xFFFFE000).astype(np.uint32).view(np.float32).astype(np.float64)
        unsigned = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[self.bits]
        return codes.astype(unsigned).view(self.dtype).astype(np.float64)

    def random_codes(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Codes of finite numbers; of floats wider than a byte, such of moderate size."""
        if self.values is not None:
            return rng.choice(np.flatnonzero(np.isfinite(self.values)), shape).astype(np.uint64)
        if self.dtype == "i1":
            return rng.integers(0, 256, shape, dtype=np.uint64)
        x = rng.standard_normal(shape) * 2.0 ** rng.integers(-4, 5, shape)
        if self.bits == 64:
            return x.view(np.uint64)
        if self.dtype == "f2":
            return x.astype(np.float16).view(np.uint16).astype(np.uint64)
        raw = x.astype(np.float32).view(np.uint32).astype(np.uint64)
        return raw >> 16 if self.dtype == "bf16" else raw


FORMATS = {
    "f64": Format(64, dtype="f8"),
    "f32": Format(32, dtype="f4"),
    "xf32": Format(32, dtype="xf32"),
    "f16": Format(16, dtype="f2"),
    "bf16": Format(16, dtype="bf16"),
    "i8": Format(8, dtype="i1"),
    "fp8_fnuz": Format(8, small_float(4, 3, 8, "fnuz")),
    "bf8_fnuz": Format(8, small_float(5, 2, 16, "fnuz")),
    "fp8": Format(8, small_float(4, 3, 7, "fn")),
    "bf8": Format(8, small_float(5, 2, 15, "ieee")),
    "fp6": Format(6, small_float(2, 3, 1, "finite")),
    "bf6": Format(6, small_float(3, 2, 3, "finite")),
    "fp4": Format(4, small_float(2, 1, 1, "finite")),
}


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """codes [element][lane] to dwords [register][lane], without gaps from bit 0 up."""
    registers = np.zeros((codes.shape[0] * bits // 32, LANES), np.uint64)
    for e, row in enumerate(codes):
        if bits == 64:
            registers[2 * e], registers[2 * e + 1] = row & 0xFFFFFFFF, row >> 32
            continue
        at, shift = e * bits // 32, e * bits % 32
        registers[at] |= row << shift & 0xFFFFFFFF
        if shift + bits > 32:
            registers[at + 1] |= row >> (32 - shift)
    return registers


# --- layouts ----------------------------------------------------------------------------------------


def operand_places(n: int, blocks: int, elements: int, kind: str) -> np.ndarray:
    """Of A or B: [element][lane] -> (block, row or column, k)."""
    places: np.ndarray = np.zeros((elements, LANES, 3), int)
    for e in range(elements):
        for lane in range(LANES):
            group = lane // n
            if kind == "f64 4x4":
                place = (lane // 4 % 4, lane % 4, lane // 16)
            elif blocks > 1:
                place = (group, lane % n, e)
            elif kind == "two runs of 16":
                place = (0, lane % n, e // 16 * 16 * (LANES // n) + 16 * group + e % 16)
            elif kind == "runs of 8":
                place = (0, lane % n, e // 8 * 8 * (LANES // n) + 8 * group + e % 8)
            else:
                place = (0, lane % n, group * elements + e)
            places[e, lane] = place
    return places


def result_places(n: int, blocks: int, kind: str) -> np.ndarray:
    """Of C and D: [register or pair][lane] -> (block, row, column)."""
    per_block = max(1, n * n // LANES)
    registers = 4 if n == 4 and kind != "f64" else n * n * blocks // LANES
    places: np.ndarray = np.zeros((registers, LANES, 3), int)
    for r in range(registers):
        for lane in range(LANES):
            if n == 4 and kind == "f64":
                place = (lane // 4 % 4, lane // 16, lane % 4)
            elif n == 4:
                place = (lane // 4, r, lane % 4)
            elif kind == "f64":
                place = (0, 4 * r + lane // 16, lane % 16)
            elif n == 16:
                place = (r // per_block, 4 * (lane // 16) + r % 4, lane % 16)
            else:
                place = (r // per_block, 8 * (r % per_block // 4) + 4 * (lane // 32) + r % 4, lane % 32)
            places[r, lane] = place
    return places


@dataclass(frozen=True)
class Case:
    """One instruction: n x n x depth, `blocks` of them."""

    name: str
    n: int
    depth: int
    blocks: int = 1
    a: str = "f16"
    b: str = "f16"
    result: str = "f32"


def elements_per_lane(case: Case) -> int:
    return case.depth * case.n * case.blocks // LANES


def dense_cases(arch: str) -> list[Case]:
    cases = []
    for t, k in (("f32", 1), ("f16", 4), ("bf16", 4), ("i8", 4)):
        result = "i32" if t == "i8" else "f32"
        for n, blocks in ((32, 2), (16, 4), (4, 16)):
            cases.append(Case(f"v_mfma_{result}_{n}x{n}x{k}_{blocks}b_{t}", n, k, blocks, t, t, result))
    singles = {
        "f32": [(32, 2), (16, 4)],
        "f16": [(32, 8), (16, 16)],
        "bf16": [(32, 8), (16, 16)],
        "i8": [(32, 16), (16, 32)],
    }
    if arch == "gfx942":
        singles["xf32"] = [(32, 4), (16, 8)]
    else:
        singles["f16"] += [(32, 16), (16, 32)]
        singles["bf16"] += [(32, 16), (16, 32)]
        singles["i8"] += [(32, 32), (16, 64)]
    for t, shapes in singles.items():
        result = "i32" if t == "i8" else "f32"
        cases += [Case(f"v_mfma_{result}_{n}x{n}x{k}_{t}", n, k, 1, t, t, result) for n, k in shapes]
    flavour = "_fnuz" if arch == "gfx942" else ""
    for a in ("fp8", "bf8"):
        for b in ("fp8", "bf8"):
            for n, k in ((32, 16), (16, 32)):
                cases.append(Case(f"v_mfma_f32_{n}x{n}x{k}_{a}_{b}", n, k, 1, a + flavour, b + flavour))
    cases.append(Case("v_mfma_f64_16x16x4_f64", 16, 4, 1, "f64", "f64", "f64"))
    cases.append(Case("v_mfma_f64_4x4x4_4b_f64", 4, 4, 4, "f64", "f64", "f64"))
    return cases


def span(file: str, first: int, count: int) -> str:
    return f"{file}{first}" if count == 1 else f"{file}[{first}:{first + count - 1}]"


def scatter(places: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(shape)
    seen: np.ndarray = np.zeros(shape, bool)
    where = places[..., 0], places[..., 1], places[..., 2]
    out[where], seen[where] = values, True
    assert seen.all(), "the layout leaves an element out"
    return out


def sparse_cases(arch: str) -> list[tuple[Case, bool]]:
    """(instruction, whether it has the depth that gfx950 added)"""
    flavour = "_fnuz" if arch == "gfx942" else ""
    cases = []
    for deep in (False, True) if arch == "gfx950" else (False,):
        for n, k in ((16, 32), (32, 16)):
            k *= 2 if deep else 1
            cases += [(Case(f"v_smfmac_f32_{n}x{n}x{k}_{t}", n, k, 1, t, t), deep) for t in ("f16", "bf16")]
            cases.append((Case(f"v_smfmac_i32_{n}x{n}x{2 * k}_i8", n, 2 * k, 1, "i8", "i8", "i32"), deep))
            cases += [
                (Case(f"v_smfmac_f32_{n}x{n}x{2 * k}_{a}_{b}", n, 2 * k, 1, a + flavour, b + flavour), deep)
                for a in ("fp8", "bf8")
                for b in ("fp8", "bf8")
            ]
    return cases


def group_of(case: Case, deep: bool, lane: int, nth: int) -> int:
    """Which four k of its row are a lane's nth."""
    g, per_lane = lane // case.n, case.depth * case.n // LANES // 4
    if not deep or FORMATS[case.a].bits == 16:
        return g * per_lane + nth
    if case.n == 16:
        return [0, 4, 16, 20][g] + [0, 1, 8, 9, 2, 3, 10, 11][nth]
    return 8 * g + [0, 1, 4, 5, 2, 3, 6, 7][nth]
