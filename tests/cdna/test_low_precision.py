"""Every conversion between f32, f16, bf16 and the formats of 8, 6 and 4 bits: all codes, awkward floats.

Narrowing is defined here again, by search in float64 among the format's own values. torch's dtypes are
compared with where they mean the same.
"""

import numpy as np
import pytest
import torch

from cdna.testing import snippet
from tests.support.matrix_model import FORMATS, LANES, pack, small_float, span

ROUND_TO_NEAREST = 0xF0
SATURATE = ROUND_TO_NEAREST | 1 << 23  # MODE with FP16_OVFL
VALUES = {
    **{name: FORMATS[name].values for name in ("fp8", "bf8", "fp8_fnuz", "bf8_fnuz", "fp6", "bf6", "fp4")},
    "f16": small_float(5, 10, 15, "ieee"),
    "bf16": small_float(8, 7, 127, "ieee"),
}
ARCHS = ("gfx942", "gfx950")


def flavour(arch: str, name: str) -> str:
    return name + ("_fnuz" if arch == "gfx942" else "")


def table(name: str) -> np.ndarray:
    values = VALUES[name]
    assert values is not None
    return values


def same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Equal as numbers with the same sign of zero, or both NaN."""
    return (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)


def bits_of(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32).view(np.uint32)


def awkward_floats(name: str, seed: int = 0) -> np.ndarray:
    """f32 that a rounding to the format can get wrong: its values, midpoints, neighbours, every size."""
    rng = np.random.default_rng(seed)
    finite = np.unique(np.abs(table(name)[np.isfinite(table(name))])).astype(np.float32)
    if len(finite) > 2048:
        finite = np.concatenate([finite[:64], finite[-64:], rng.choice(finite, 512)])
        finite.sort()
    middle = ((finite[:-1].astype(np.float64) + finite[1:]) / 2).astype(np.float32)
    with np.errstate(over="ignore"):
        top = finite[-1] * np.float32([1, 1 + 1 / 32, 1 + 1 / 16, 1 + 1 / 8, 1.25, 1.5, 2, 4, 1e4])
    x = np.concatenate([finite, middle, top]).astype(np.float32)
    with np.errstate(over="ignore"):
        x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(0))])
    sizes = np.exp2(rng.uniform(-149, 128, 512)).astype(np.float32)
    special = np.float32([0, np.inf, np.nan, 2.0**-149, 2.0**-126, 3.4e38])
    x = np.concatenate([x, sizes, special])
    return np.concatenate([x, -x])


def lanes_of(x: np.ndarray) -> np.ndarray:
    """Padded to whole waves: [wave][lane]."""
    return np.resize(x, (-(-len(x) // LANES), LANES))


def narrow(name: str, x: np.ndarray, saturate: bool = False) -> np.ndarray:
    """Codes of the values nearest to x (float64), ties to the even code; NaN if the format has one."""
    values = table(name)
    sign_bit = len(values) // 2
    magnitudes = values[:sign_bit]
    codes = np.flatnonzero(np.isfinite(magnitudes))
    order = codes[np.argsort(magnitudes[codes])]
    steps = magnitudes[order]
    largest = steps[-1]
    beyond = 2 * largest - steps[-2]  # where the next value would lie
    grid: np.ndarray = np.append(steps, beyond)
    a = np.abs(x)
    with np.errstate(invalid="ignore"):
        upper = np.clip(np.searchsorted(grid, a), 1, len(grid) - 1)
        low_gap, high_gap = a - grid[upper - 1], grid[upper] - a
        up = (high_gap < low_gap) | (high_gap == low_gap) & (upper % 2 == 0)
    index = np.where(up, upper, upper - 1)
    overflow = index == len(grid) - 1  # an infinity too
    has_infinity, has_nan = bool(np.isinf(values).any()), bool(np.isnan(values).any())
    if has_infinity:
        above = int(np.flatnonzero(np.isinf(values))[0])
    elif has_nan:
        above = int(np.flatnonzero(np.isnan(values))[0])
    else:
        above = int(order[-1])
    code = order[np.minimum(index, len(order) - 1)]
    code = np.where(overflow & (not saturate), above, code)
    nan_code = np.flatnonzero(np.isnan(values))[-1] % sign_bit if has_nan else order[-1]
    code = np.where(np.isnan(x), nan_code, code) | np.where(np.signbit(x), sign_bit, 0)
    if name.endswith("fnuz"):  # no negative zero: its code is the NaN
        code = np.where(code % sign_bit == 0, 0, code)
        code = np.where(np.isnan(x) | overflow & (not saturate), sign_bit, code)
    return code


def check_codes(name: str, text: str, x: np.ndarray, got: np.ndarray, want: np.ndarray) -> None:
    """Codes equal, or both NaN."""
    values = table(name)
    fine = (got == want) | np.isnan(values[got]) & np.isnan(values[want])
    assert fine.all(), f"{text}: {x[~fine][0]!r}: got {got[~fine][0]:#x}, want {want[~fine][0]:#x}"


# --- unscaled fp8 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("op", ["fp8", "bf8"])
def test_widen_all_codes(arch: str, op: str) -> None:
    values = table(flavour(arch, op))
    codes: np.ndarray = np.arange(256, dtype=np.uint32).reshape(4, LANES).T  # lane l holds codes l, 64+l, ...
    packed = sum(codes[:, b] << np.uint32(8 * b) for b in range(4)).tolist()
    text = "\n".join(
        [f"v_cvt_f32_{op} v1, v0"]
        + [f"v_cvt_f32_{op}_sdwa v{2 + b}, v0 src0_sel:BYTE_{b}" for b in range(4)]
        + [f"v_cvt_pk_f32_{op} v[6:7], v0", f"v_cvt_pk_f32_{op}_sdwa v[8:9], v0 src0_sel:WORD_1"]
    )
    state = snippet.run(arch, text, v={0: packed})
    got = np.array(state.v, np.uint32).view(np.float32)
    for register, byte in ((1, 0), (2, 0), (3, 1), (4, 2), (5, 3), (6, 0), (7, 1), (8, 2), (9, 3)):
        assert same(got[register], values[codes[:, byte]].astype(np.float32)).all(), (register, byte)


TORCH = {
    "fp8_fnuz": torch.float8_e4m3fnuz,
    "bf8_fnuz": torch.float8_e5m2fnuz,
    "bf8": torch.float8_e5m2,
    "fp8": torch.float8_e4m3fn,
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("op", ["fp8", "bf8"])
@pytest.mark.parametrize("mode", [ROUND_TO_NEAREST, SATURATE])
def test_narrow_pair(arch: str, op: str, mode: int) -> None:
    """The pair goes to the half that op_sel names; the other half stays."""
    name = flavour(arch, op)
    for x in lanes_of(awkward_floats(name)):
        y = np.roll(x, 7)
        text = f"v_cvt_pk_{op}_f32 v2, v0, v1\nv_cvt_pk_{op}_f32 v3, -v0, |v1| op_sel:[0,0,1]"
        v = {0: bits_of(x).tolist(), 1: bits_of(y).tolist(), 2: [0xABCD1234] * LANES, 3: [0xABCD1234] * LANES}
        state = snippet.run(arch, text, v=v, mode=mode)
        low, high = np.array(state.v[2], np.uint32), np.array(state.v[3], np.uint32)
        assert (low >> 16 == 0xABCD).all() and (high & 0xFFFF == 0x1234).all()
        for got, source in ((low & 0xFF, x), (low >> 8 & 0xFF, y), (high >> 16 & 0xFF, -x), (high >> 24, np.abs(y))):
            want = narrow(name, source.astype(np.float64), mode == SATURATE)
            check_codes(name, text, source, got, want)
        # torch saturates fp8's two formats differently from release to release; within range all agree.
        largest = float(table(name)[np.isfinite(table(name))].max())
        inside = np.abs(x) <= largest
        rounded = torch.from_numpy(x[inside]).to(TORCH[name]).view(torch.uint8).numpy().astype(np.uint32)
        assert (rounded == (low & 0xFF)[inside]).all()


def stochastic(name: str, x: float, random: int) -> float:
    """x cut off to the format after adding the random fraction (32 bits) of the step at x."""
    values = table(name)
    grid: np.ndarray = np.unique(np.abs(values[np.isfinite(values)]))
    a = abs(x)
    below = grid[np.searchsorted(grid, a, side="right") - 1]
    above = grid[min(np.searchsorted(grid, a, side="right"), len(grid) - 1)]
    if above == below:
        return float(np.copysign(below, x))
    fraction = (a - below) / (above - below)
    return float(np.copysign(above if fraction + random / 2.0**32 >= 1 else below, x))


@pytest.mark.parametrize(
    ("arch", "op", "name", "places"),
    [(arch, f"v_cvt_sr_{op}_f32", flavour(arch, op), 4) for arch in ARCHS for op in ("fp8", "bf8")]
    + [("gfx950", "v_cvt_sr_f16_f32", "f16", 2), ("gfx950", "v_cvt_sr_bf16_f32", "bf16", 2)],
)
def test_stochastic_rounding(arch: str, op: str, name: str, places: int) -> None:
    rng = np.random.default_rng(1)
    largest = 100.0
    width = 32 // places
    for place in range(places):
        selects = f"op_sel:[0,0,{place & 1},{place >> 1}]" if places == 4 else f"op_sel:[0,0,{place}]"
        x = (
            (rng.standard_normal(LANES) * np.exp2(rng.uniform(-20, 5, LANES)))
            .clip(-largest, largest)
            .astype(np.float32)
        )
        x[:3] = [0, np.nan, 1.0]
        random = rng.integers(0, 1 << 32, LANES, dtype=np.uint64)
        random[3:6] = [0, 0xFFFFFFFF, 0x80000000]
        state = snippet.run(
            arch, f"{op} v2, v0, v1 {selects}", v={0: bits_of(x).tolist(), 1: random.tolist(), 2: [0x11223344] * LANES}
        )
        d = np.array(state.v[2], np.uint32)
        mask = ((1 << width) - 1) << width * place
        assert (d & np.uint32(~mask & 0xFFFFFFFF) == 0x11223344 & ~mask).all()
        got = table(name)[(d & np.uint32(mask)) >> np.uint32(width * place)]
        # Bits of the random number below f32's last place do not take part.
        want = np.array([np.nan if np.isnan(a) else stochastic(name, float(a), 0) for a in x])
        upper = np.array([np.nan if np.isnan(a) else stochastic(name, float(a), 0xFFFFFFFF) for a in x])
        assert (same(got, want) | same(got, upper) | (got == 0) & (want == 0)).all()
        exact = np.array([np.nan if np.isnan(a) else stochastic(name, float(a), int(r)) for a, r in zip(x, random)])
        assert (np.isnan(x) | (got == exact)).mean() > 0.95
        assert np.isnan(got[1]) and got[2] == 1.0


def test_stochastic_rounding_is_fair() -> None:
    """1.3 lies between fp8's 1.25 and 1.375: over random numbers it rounds up as often as it lies above."""
    random = np.random.default_rng(2).integers(0, 1 << 32, LANES * 32, dtype=np.uint64).reshape(32, LANES)
    ups = 0
    for row in random:
        v = {0: [int(bits_of(np.array(1.3)))] * LANES, 1: row.tolist(), 2: [0] * LANES}
        d = np.array(snippet.run("gfx950", "v_cvt_sr_fp8_f32 v2, v0, v1", v=v).v[2])
        ups += int((table("fp8")[d] == 1.375).sum())
    assert abs(ups / random.size - 0.4) < 0.04


# --- bf16 -------------------------------------------------------------------------------------------


def test_bf16_pair() -> None:
    x = awkward_floats("bf16")
    x = np.concatenate(
        [x, np.random.default_rng(3).integers(0, 1 << 32, 4096, dtype=np.uint64).astype(np.uint32).view(np.float32)]
    )
    for low in lanes_of(x):
        high = np.roll(low, 5)
        v = {0: low.view(np.uint32).tolist(), 1: high.view(np.uint32).tolist()}
        state = snippet.run("gfx950", "v_cvt_pk_bf16_f32 v2, v0, v1\nv_cvt_pk_bf16_f32 v3, -v0, |v1|", v=v)
        plain, signed = np.array(state.v[2], np.uint32), np.array(state.v[3], np.uint32)
        for got, source in (
            (plain & 0xFFFF, low),
            (plain >> 16, high),
            (signed & 0xFFFF, -low),
            (signed >> 16, np.abs(high)),
        ):
            rounded = (
                torch.from_numpy(source.copy())
                .to(torch.bfloat16)
                .view(torch.int16)
                .numpy()
                .view(np.uint16)
                .astype(np.uint32)
            )
            number = ~np.isnan(source)
            assert (got == rounded)[number].all()
            assert ((got & 0x7FFF) > 0x7F80)[~number].all()


def test_bf16_widen() -> None:
    for codes in np.arange(1 << 16, dtype=np.uint32).reshape(-1, LANES)[::7]:
        text = "v_cvt_f32_bf16 v1, v0\nv_cvt_f32_bf16_sdwa v2, v0 src0_sel:WORD_1\nv_cvt_f32_bf16_e64 v3, -v0"
        state = snippet.run("gfx950", text, v={0: (codes | (codes ^ 0x8000) << 16).tolist()})
        assert state.v[1] == (codes << 16).tolist()
        assert state.v[2] == state.v[3] == ((codes ^ 0x8000) << 16).tolist()


# --- scaled: v_cvt_scalef32_* -----------------------------------------------------------------------

RAW = {"f32": 32, "f16": 16, "bf16": 16, "fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}


def to_codes(name: str, x: np.ndarray) -> np.ndarray:
    """Exact codes of f32, f16 or bf16 values."""
    if name == "f32":
        return bits_of(x).astype(np.uint64)
    return (x.astype(np.float16).view(np.uint16) if name == "f16" else bits_of(x) >> 16).astype(np.uint64)


def to_values(name: str, codes: np.ndarray) -> np.ndarray:
    if name == "f32":
        return codes.astype(np.uint32).view(np.float32).astype(np.float64)
    return table(name)[codes]


def unpack(registers: np.ndarray, bits: int, count: int) -> np.ndarray:
    """[register][lane] to codes [element][lane]."""
    whole = [sum(int(registers[r, lane]) << 32 * r for r in range(len(registers))) for lane in range(LANES)]
    return np.array([[x >> e * bits & (1 << bits) - 1 for x in whole] for e in range(count)], np.uint64)


def wide_inputs(name: str, to: str, count: int, seed: int) -> np.ndarray:
    """Values of `name` [element][lane], sized around the target's, with zeros, infinities, a NaN."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, LANES)) * np.exp2(rng.integers(-6, 7, (count, LANES)))
    steps = table(to)[np.isfinite(table(to))]
    exact = rng.choice(steps, (count, LANES))
    between = (exact + rng.choice(steps, (count, LANES))) / 2
    x = np.where(rng.random((count, LANES)) < 0.5, x, np.where(rng.random((count, LANES)) < 0.5, exact, between))
    x = x.astype(np.float32)
    x[0, :6] = [0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    if name == "f16":
        return x.astype(np.float16).astype(np.float32)
    return (bits_of(x) & 0xFFFF0000).view(np.float32) if name == "bf16" else x


def scale_register(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(dwords, the powers of two they mean): only the exponent field counts."""
    exponent = rng.integers(-6, 7, LANES)
    mantissa = rng.integers(0, 1 << 23, LANES)
    sign = rng.integers(0, 2, LANES)
    return (sign << 31 | (exponent + 127) << 23 | mantissa).astype(np.uint64), np.exp2(exponent.astype(float))


# target, source, elements; then the operand widths follow from the mnemonic
NARROWING = (
    [(f"pk_{to}_{s}", s, to, 2) for to in ("fp8", "bf8", "fp4") for s in ("f32", "f16", "bf16")]
    + [(f"2xpk16_{to}_f32", "f32", to, 32) for to in ("fp6", "bf6")]
    + [(f"pk32_{to}_{s}", s, to, 32) for to in ("fp6", "bf6") for s in ("f16", "bf16")]
)


@pytest.mark.parametrize(("op", "source", "to", "count"), NARROWING)
@pytest.mark.parametrize("mode", [ROUND_TO_NEAREST, SATURATE])
def test_scaled_narrowing(op: str, source: str, to: str, count: int, mode: int) -> None:
    rng = np.random.default_rng(4)
    x = wide_inputs(source, to, count, 5)
    scale, factor = scale_register(rng)
    two_sources = source == "f32"
    if two_sources:  # elements alternate between the two
        halves = [pack(to_codes(source, x[0::2]), 32), pack(to_codes(source, x[1::2]), 32)]
    else:
        halves = [pack(to_codes(source, x), 16)]
    out_bits = count * RAW[to]
    places = {8: 4, 16: 2}.get(out_bits, 1)
    for place in range(places):
        words, v, at = [], {}, 8
        for half in halves:
            words.append(span("v", at, len(half)))
            v.update({at + r: row.tolist() for r, row in enumerate(half)})
            at += len(half)
        v[at] = scale.tolist()
        n_out = max(1, out_bits // 32)
        v.update({r: [0x5A5A5A5A] * LANES for r in range(n_out)})
        zeros = "0," * len(words)
        select = {4: f"op_sel:[0,0,{place & 1},{place >> 1}]", 2: f"op_sel:[0,{zeros}{place}]", 1: ""}[places]
        text = f"v_cvt_scalef32_{op} {span('v', 0, n_out)}, {', '.join(words)}, v{at} {select}"
        state = snippet.run("gfx950", text, v=v, mode=mode)
        registers = np.array(state.v[:n_out], np.uint64)
        if places > 1:
            mask = ((1 << out_bits) - 1) << out_bits * place
            assert ((registers[0] & (0xFFFFFFFF ^ mask)) == (0x5A5A5A5A & ~mask)).all(), text
            registers = registers >> out_bits * place
        got = unpack(registers, RAW[to], count)
        for e in range(count):
            want = narrow(to, x[e].astype(np.float64) / factor, mode == SATURATE)
            check_codes(to, text, x[e] / factor, got[e].astype(int), want)


WIDENING = (
    [(f"pk_{to}_{s}", s, to, 2) for s in ("fp8", "bf8", "fp4") for to in ("f32", "f16", "bf16")]
    + [(f"{to}_{s}", s, to, 1) for s in ("fp8", "bf8") for to in ("f32", "f16")]
    + [(f"pk32_{to}_{s}", s, to, 32) for s in ("fp6", "bf6") for to in ("f32", "f16", "bf16")]
)


@pytest.mark.parametrize(("op", "source", "to", "count"), WIDENING)
def test_scaled_widening(op: str, source: str, to: str, count: int) -> None:
    rng = np.random.default_rng(6)
    scale, factor = scale_register(rng)
    in_bits = count * RAW[source]
    n_in, n_out = max(1, in_bits // 32), max(1, count * RAW[to] // 32)
    places = 32 // in_bits if in_bits < 32 else 1
    registers = rng.integers(0, 1 << 32, (n_in, LANES), dtype=np.uint64)
    if n_in == 1:
        registers[0] = (
            np.random.default_rng(7).permutation(256)[:64] * 0x01010101
        )  # with every place the same: all codes
        registers[0] ^= 0x00C08040
    for place in range(places):
        select = {4: f"op_sel:[{place & 1},{place >> 1},0]", 2: f"op_sel:[{place},0,0]", 1: ""}[places]
        v = {8 + r: row.tolist() for r, row in enumerate(registers)} | {14: scale.tolist(), 0: [0x5A5A5A5A] * LANES}
        text = f"v_cvt_scalef32_{op} {span('v', 16, n_out)}, {span('v', 8, n_in)}, v14 {select}"
        v.update({16 + r: [0x5A5A5A5A] * LANES for r in range(n_out)})
        state = snippet.run("gfx950", text, v=v)
        codes = unpack(registers >> np.uint64(in_bits * place) if n_in == 1 else registers, RAW[source], count)
        out = np.array(state.v[16 : 16 + n_out], np.uint64)
        if op.startswith("f16_"):
            assert (out[0] >> 16 == 0x5A5A).all()
        got = to_values(to, unpack(out, RAW[to], count))
        for e in range(count):
            want = table(source)[codes[e]] * factor
            if to == "f16":  # the only one whose range is narrower than the source's times the scale
                with np.errstate(over="ignore"):
                    want = want.astype(np.float16).astype(np.float64)
            assert same(got[e], want).all(), text


def test_f16_half_select() -> None:
    v = {0: [0x5A5A5A5A] * LANES, 1: [0x38] * LANES, 2: [0x3F800000] * LANES}
    state = snippet.run("gfx950", "v_cvt_scalef32_f16_fp8 v0, v1, v2 op_sel:[0,0,1]", v=v)
    assert set(state.v[0]) == {0x3C005A5A}


STOCHASTIC = (
    [(f"sr_{to}_{s}", s, to, 1) for to in ("fp8", "bf8") for s in ("f32", "f16", "bf16")]
    + [(f"sr_pk_fp4_{s}", s, "fp4", 2) for s in ("f32", "f16", "bf16")]
    + [(f"sr_pk32_{to}_{s}", s, to, 32) for to in ("fp6", "bf6") for s in ("f32", "f16", "bf16")]
)


@pytest.mark.parametrize(("op", "source", "to", "count"), STOCHASTIC)
def test_scaled_stochastic(op: str, source: str, to: str, count: int) -> None:
    """Each element takes the next number of v_prng_b32's sequence."""
    rng = np.random.default_rng(8)
    x = (wide_inputs(source, to, count, 9) * np.float32(2.0**-5)).clip(-1, 1)
    x[0, 2:6] = 0.5
    x = to_values(source, to_codes(source, x))  # exact in the source's format, whatever the multiplication did
    scale, factor = scale_register(rng)
    factor = np.minimum(factor, 1.0)
    scale = (np.log2(factor).astype(int) + 127).astype(np.uint64) << np.uint64(23)
    x = x * factor * 0.5  # below every format's largest value
    x = to_values(source, to_codes(source, x.astype(np.float32)))
    random = rng.integers(0, 1 << 32, LANES, dtype=np.uint64)
    raw = (
        pack(to_codes(source, x.astype(np.float32)), RAW[source])
        if count > 1
        else to_codes(source, x.astype(np.float32))
    )
    n_in, out_bits = len(raw), count * RAW[to]
    n_out = max(1, out_bits // 32)
    v = {8 + r: row.tolist() for r, row in enumerate(raw)} | {40: random.tolist(), 41: scale.tolist()}
    v.update({r: [0] * LANES for r in range(n_out)})
    state = snippet.run("gfx950", f"v_cvt_scalef32_{op} {span('v', 0, n_out)}, {span('v', 8, n_in)}, v40, v41", v=v)
    got = to_values(to, unpack(np.array(state.v[:n_out], np.uint64), RAW[to], count))
    chain = random.copy()
    close = 0
    for e in range(count):
        scaled = x[e] / factor
        low = np.array([stochastic(to, float(a), 0) for a in scaled])
        high = np.array([stochastic(to, float(a), 0xFFFFFFFF) for a in scaled])
        assert ((got[e] == low) | (got[e] == high)).all(), op
        close += int(sum(got[e] == [stochastic(to, float(a), int(r)) for a, r in zip(scaled, chain)]))
        chain = (chain << np.uint64(1) & np.uint64(0xFFFFFFFF)) ^ np.where(
            chain >> np.uint64(31), np.uint64(197), np.uint64(0)
        )
    assert close > 0.95 * count * LANES


def test_extreme_scale_exponents() -> None:
    """Exponent field 0 is 2^-127, 255 is NaN; a value may leave f32's range on the way without harm."""
    v = {
        0: [0] * LANES,
        1: bits_of(np.full(LANES, 2.0**-126)).tolist(),
        2: [0x00400000] * LANES,
        3: [0x7F800000] * LANES,
    }
    state = snippet.run(
        "gfx950",
        "v_cvt_scalef32_pk_fp8_f32 v0, v1, v1, v2\nv_cvt_scalef32_pk_fp8_f32 v0, v1, v1, v3 op_sel:[0,0,0,1]",
        v=v,
    )
    low = np.array(state.v[0], np.uint32)
    assert (table("fp8")[low & 0xFF] == 2.0).all()
    assert np.isnan(table("fp8")[low >> 24]).all()


def test_exec_keeps_inactive_lanes() -> None:
    v = {0: [7] * LANES, 1: bits_of(np.ones(LANES)).tolist()}
    state = snippet.run("gfx942", "v_cvt_pk_fp8_f32 v0, v1, v1", v=v, exec=0xFFFFFFFF)
    assert set(state.v[0][:32]) == {0x4040} and set(state.v[0][32:]) == {7}


def test_f16_results_saturate_but_keep_infinity() -> None:
    codes = [0x7B, 0x7C, 0xFB, 0x3C]  # bf8: 57344, infinity, -57344, 1
    v = {0: [0] * LANES, 1: codes * 16, 2: [0x43000000] * LANES}  # times 128
    text = "v_cvt_scalef32_f16_bf8 v0, v1, v2"
    wrapped = np.array(snippet.run("gfx950", text, v=v).v[0][:4], np.uint16).view(np.float16)
    saturated = np.array(snippet.run("gfx950", text, v=v, mode=SATURATE).v[0][:4], np.uint16).view(np.float16)
    assert wrapped.tolist() == [np.inf, np.inf, -np.inf, 128]
    assert saturated.tolist() == [65504, np.inf, -65504, 128]
