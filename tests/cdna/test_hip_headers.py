"""The headers that we add to HIP's: numbers on host and device against PyTorch, kernels against plain Python."""

import ctypes
import functools
import math
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from cdna.errors import ToolchainError
from cdna.hip.compile import compilers
from cdna.hip.compile.source import HipSource
from cdna.hip.compile.toolchain import Toolchain, find
from cdna.launch.program import Program

ROOT = Path(__file__).parents[1] / "support" / "hip"
ARCHS = ("gfx942", "gfx950")
PLACES = ("host", *ARCHS)
# HIP's number of the form, PyTorch's type, largest number, bits of infinity where it has one
FORMS = {
    "e4m3": (0, torch.float8_e4m3fn, 448.0),
    "e5m2": (1, torch.float8_e5m2, 57344.0),
    "e4m3_fnuz": (2, torch.float8_e4m3fnuz, 240.0),
    "e5m2_fnuz": (3, torch.float8_e5m2fnuz, 57344.0),
}
NATIVE = {"gfx942": ("e4m3_fnuz", "e5m2_fnuz"), "gfx950": ("e4m3", "e5m2"), "host": ()}


@functools.cache
def host_library() -> ctypes.CDLL:
    toolchain = find()
    host = toolchain.host_object(HipSource(ROOT / "numbers.hip", "gfx942"), b"none")
    return ctypes.CDLL(str(toolchain.link([host], shared=True)))


@functools.cache
def program(file: str, arch: str) -> Program:
    return Program(find().assembly(HipSource(ROOT / file, arch)))


def call(place: str, function: str, count: int, *arguments: int | np.ndarray) -> None:
    """`function` of numbers.hip for 0 ... count - 1, arrays as pointers."""
    if place == "host":
        given = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a for a in arguments]
        host_library()[f"host_{function}"](*given, count)
        return
    # Integers come before pointers, and are two or none: so no gap arises between arguments.
    code = "".join("Q" if isinstance(a, np.ndarray) else "i" for a in arguments)
    numbers = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    packed = struct.pack(f"@{code}i", *numbers, count)
    program("numbers.hip", place).kernels[f"device_{function}"].launch((-(-count // 64), 1, 1), (64, 1, 1), packed)


def decoded(form: str) -> np.ndarray:
    """PyTorch's value of each of the 256 codes."""
    return torch.arange(256, dtype=torch.uint8).view(FORMS[form][1]).float().numpy()


def interesting_floats(form: str) -> np.ndarray:
    """Every value, the middles between neighbours, one float either side of each, and what is out of range."""
    values = np.unique(decoded(form)[np.isfinite(decoded(form))])
    middles = (values[1:] + values[:-1]) / 2
    points = np.concatenate([values, middles]).astype(np.float32)
    largest = np.float32(FORMS[form][2])
    outside = np.float32([largest * 1.01, largest * 1.07, largest * 2, 1e30, 3e38, 1e-20, 1e-45, 0.0])
    infinity = np.float32(np.inf)
    points = np.concatenate(
        [
            points,
            np.nextafter(points, infinity),
            np.nextafter(points, -infinity),
            outside,
            -outside,
            np.float32([np.inf, -np.inf, np.nan]),
        ]
    )
    return points.astype(np.float32)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", FORMS)
def test_fp8_codes_have_the_values_that_pytorch_gives_them(form: str, place: str) -> None:
    out: np.ndarray = np.full(256, 42, np.float32)
    given = (FORMS[form][0],) if place == "host" else (FORMS[form][0], 0)
    if place == "host":
        call(place, "decode", 256, *given, out)
    else:  # one int before the pointer: four bytes of padding
        program("numbers.hip", place).kernels["device_decode"].launch(
            (4, 1, 1), (64, 1, 1), struct.pack("@iQi", FORMS[form][0], out.ctypes.data, 256)
        )
    np.testing.assert_array_equal(out, decoded(form))
    assert np.array_equal(np.signbit(out[~np.isnan(out)]), np.signbit(decoded(form)[~np.isnan(out)]))


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", FORMS)
def test_floats_round_to_fp8_as_in_pytorch(form: str, place: str, saturate: bool) -> None:
    kind, dtype, largest = FORMS[form]
    floats = interesting_floats(form)
    codes: np.ndarray = np.full(len(floats), 0xAA, np.uint8)
    call(place, "encode", len(floats), kind, int(saturate), floats, codes)
    wanted_input = torch.from_numpy(floats.copy())
    if saturate:
        # infinity: the largest number in software, what the instruction makes of it where the arch has one
        clamped = wanted_input.clamp(-largest, largest)
        keep = wanted_input.isinf() if form in NATIVE[place] else torch.zeros(len(floats), dtype=torch.bool)
        wanted_input = torch.where(keep, wanted_input, clamped)
    wanted = wanted_input.to(dtype).float().numpy()
    if form == "e4m3":  # PyTorch saturates: from the middle between 448 and what would be 480 on
        beyond = np.isinf(floats) if form in NATIVE[place] else np.zeros(len(floats), bool)
        wanted[beyond if saturate else np.abs(floats) > 464] = np.nan
    got = decoded(form)[codes]
    wrong = ~((got == wanted) | (np.isnan(got) & np.isnan(wanted)))
    assert not wrong.any(), list(zip(floats[wrong].tolist(), got[wrong].tolist(), wanted[wrong].tolist()))[:5]


def sixteen_bits(seed: int) -> np.ndarray:
    """4096 patterns: every exponent, zeros, infinities, NaN, subnormals."""
    special = np.array([0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0x7F80, 0xFF80, 0x7FC0, 1, 0x8001, 0x3C00, 0x3F80, 0x7BFF])
    random = np.random.default_rng(seed).integers(0, 65536, 4096 - len(special))
    return np.random.default_rng(seed + 1).permutation(np.concatenate([special, random])).astype(np.uint16)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["half", "bf16"])
def test_arithmetic_of_16_bit_numbers(dtype: torch.dtype, place: str) -> None:
    a, b, c = sixteen_bits(1), sixteen_bits(2), sixteen_bits(3)
    out: np.ndarray = np.full((len(a), 16), 42, np.float32)
    call(place, "half" if dtype == torch.float16 else "bf16", len(a), a, b, c, out)
    x, y, z = (torch.from_numpy(v.view(np.int16)).view(dtype) for v in (a, b, c))

    def rounded(value: torch.Tensor) -> torch.Tensor:
        return value.to(dtype)

    def fused(p: torch.Tensor, q: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        # in float64 the product is exact; the sum's second rounding matters in almost none of the cases
        return rounded(p.double() * q.double() + r.double())

    def number(p: torch.Tensor, q: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        return torch.where(p.isnan(), q, torch.where(q.isnan(), p, chosen))

    nan = x.isnan() | y.isnan()
    wanted = [
        x + y,
        x - y,
        x * y,
        x / y,
        fused(x, y, z),
        -x,
        x.abs(),
        number(x, y, torch.maximum(x, y)),
        number(x, y, torch.minimum(x, y)),
        (x < y),
        (x != y) & ~nan,
        (x <= y) | nan,
        x.isnan(),
        rounded(fused(x, y, x) * x),
        rounded(fused(y, z, y) * y),
        (x >= y) & (y >= z),
    ]
    names = "+ - * / fma neg abs max min < != <=u isnan fma2.x fma2.y >=2".split()
    for column, (name, want) in enumerate(zip(names, wanted)):
        got, want_floats = out[:, column], want.float().numpy()
        same = (got == want_floats) | (np.isnan(got) & np.isnan(want_floats))
        # the device may flush nothing: subnormals count as they are
        assert same.mean() > (0.998 if "fma" in name else 0.99999), (
            name,
            place,
            int((~same).sum()),
            [
                (hex(a[i]), hex(b[i]), hex(c[i]), float(got[i]), float(want_floats[i]))
                for i in np.flatnonzero(~same)[:4]
            ],
        )


@pytest.mark.parametrize("place", PLACES)
def test_rounding_to_16_bits(place: str) -> None:
    halves: np.ndarray = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)[::37]
    values = np.concatenate([halves, (halves[1:] + halves[:-1]) / 2, halves * (1 + 2.0**-13), halves * (1 - 2.0**-13)])
    values = np.concatenate([values, -values, [70000.0, -70000.0, 1e-9, -1e-9, 1 + 2.0**-8 + 2.0**-40, 3.0e38]])
    out: np.ndarray = np.zeros((len(values), 8), np.uint16)
    call(place, "round", len(values), values, out)
    floats = values.astype(np.float32)

    def bits(column: int) -> np.ndarray:
        return out[:, column].view(np.float16).astype(np.float64)

    with np.errstate(over="ignore"):
        nearest = floats.astype(np.float16)
    np.testing.assert_array_equal(out[:, 0], nearest.view(np.uint16))
    exact = floats.astype(np.float64)
    below = np.where(nearest.astype(np.float64) > exact, np.nextafter(nearest, np.float16(-np.inf)), nearest)
    above = np.where(nearest.astype(np.float64) < exact, np.nextafter(nearest, np.float16(np.inf)), nearest)
    np.testing.assert_array_equal(bits(1), below.astype(np.float64))
    np.testing.assert_array_equal(bits(2), above.astype(np.float64))
    np.testing.assert_array_equal(bits(3), np.where(exact < 0, above, below).astype(np.float64))
    from_float = torch.from_numpy(floats).bfloat16().view(torch.int16).numpy().view(np.uint16)
    # all but that double: for gfx950 the compiler makes one rounding of the two, double to float to bfloat16
    np.testing.assert_array_equal(out[:-2, 4], from_float[:-2])
    np.testing.assert_array_equal(out[:-2, 6], from_float[:-2])
    np.testing.assert_array_equal(out[:, 7], floats.view(np.uint32) >> 16)
    assert out[-2, 5] == 0x3F81, "just above the middle between two bfloat16 numbers: a double is rounded once, up"


@pytest.mark.parametrize("arch", ARCHS)
def test_mathematics_on_the_device(arch: str) -> None:
    x = np.linspace(0.1, 3.9, 64, dtype=np.float32)
    out: np.ndarray = np.zeros((20, 64), np.float32)
    program("kernels.hip", arch).kernels["maths"].launch(
        (1, 1, 1), (64, 1, 1), struct.pack("@QQ", x.ctypes.data, out.ctypes.data)
    )
    functions = [
        math.exp,
        math.sin,
        math.cos,
        lambda v: v**2.5,
        math.erf,
        math.log,
        lambda v: v**-0.5,
        math.tanh,
        math.exp,
        lambda v: math.sin(v) + math.cos(v),
        math.lgamma,
        math.cbrt,
        lambda v: v**3,
        math.exp,
        lambda v: v,
        lambda v: v,
        lambda v: math.hypot(v, 1),
        lambda v: v * v + v,
        lambda v: max(v, 1) + min(v, 2),
        math.sqrt,
    ]
    for row, function in enumerate(functions):
        wanted = np.array([function(float(v)) for v in x])
        np.testing.assert_allclose(out[row], wanted, rtol=3e-6, atol=1e-6, err_msg=f"row {row} of maths")


@pytest.mark.parametrize("arch", ARCHS)
def test_lanes_and_groups_on_the_device(arch: str) -> None:
    out: np.ndarray = np.zeros(384, np.int32)
    ballots: np.ndarray = np.zeros(64, np.uint64)
    program("kernels.hip", arch).kernels["lanes"].launch(
        (1, 1, 1), (64, 1, 1), struct.pack("@QQ", out.ctypes.data, ballots.ctypes.data), dynamic_lds_bytes=256
    )
    t = np.arange(64)
    mixed = 3 + 100 * (t ^ 1) + 10000 * np.where(t + 2 < 64, t + 2, t)
    np.testing.assert_array_equal(out[:64], mixed[::-1])
    np.testing.assert_array_equal(out[64:128], [sum(range(i // 16 * 16, i // 16 * 16 + 16)) for i in t])
    np.testing.assert_array_equal(out[128:192], ((63 - t) & 3) + 1)
    np.testing.assert_array_equal(out[192:256], t // 16 * 100 + t % 16)
    np.testing.assert_array_equal(out[256:320], np.where(t % 3 == 0, 600 + t // 3, 0))
    assert out[320] == 7
    assert set(ballots) == {sum(1 << i for i in range(41, 64))}


def test_programs_may_define_what_rocm_lacks(tmp_path: Path) -> None:
    """Public code brings these functions itself, on the device alone or on both sides; without them ours serve. And it
    makes a pair of halves in a constexpr function, as ROCm 7 lets it."""
    (tmp_path / "own.hip").write_text("""
        #include <hip/hip_bf16.h>
        #include <hip/hip_fp16.h>
        #ifdef OWN
        inline __device__ __hip_bfloat162 __float2bfloat162_rn(const float a) { return {3.0f, 4.0f}; }
        static __host__ __device__ __half2 __hmax2(__half2 a, __half2 b) { return a; }
        #endif
        static __device__ constexpr __half2 twice(const __half& a) { return __half2{a, a}; }
        __global__ void use(float* out, float a) {
          out[0] = __bfloat162float(__float2bfloat162_rn(a).y);
          out[1] = __high2float(__hmax2(twice(5), __half2(2, 6)));
        }
    """)
    for flags, want in ((("-DOWN",), [4, 5]), ((), [7, 6])):
        out: np.ndarray = np.zeros(2, np.float32)
        made = Program(find().assembly(HipSource(tmp_path / "own.hip", "gfx942", flags)))
        made.kernels["_Z3usePff"].launch((1, 1, 1), (1, 1, 1), struct.pack("@Qf", out.ctypes.data, 7.0))
        assert list(out) == want


# kernel of rocwmma.hip: (block, k, type of the operands on gfx942 and gfx950, of the sums)
FNUZ, OCP = (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz), (torch.float8_e4m3fn, torch.float8_e5m2)
FRAGMENTS: dict[str, tuple[int, int, tuple[torch.dtype, torch.dtype], torch.dtype]] = {
    "f16_16": (16, 32, (torch.float16,) * 2, torch.float32),
    "f16_32": (32, 16, (torch.float16,) * 2, torch.float32),
    "half_16": (16, 16, (torch.float16,) * 2, torch.float16),
    "bf16_16": (16, 16, (torch.bfloat16,) * 2, torch.float32),
    "bf16_32": (32, 8, (torch.bfloat16,) * 2, torch.float32),
    "i8_16": (16, 64, (torch.int8,) * 2, torch.int32),
    "i8_32": (32, 16, (torch.int8,) * 2, torch.int32),
    "f32_16": (16, 8, (torch.float32,) * 2, torch.float32),
    "f32_32": (32, 4, (torch.float32,) * 2, torch.float32),
    "f64_16": (16, 8, (torch.float64,) * 2, torch.float64),
    "fp8_16": (16, 64, (FNUZ[0], OCP[0]), torch.float32),
    "fp8_32": (32, 32, (FNUZ[0], OCP[0]), torch.float32),
    "bf8_16": (16, 32, (FNUZ[1], OCP[1]), torch.float32),
}


@pytest.mark.sampled
@pytest.mark.parametrize("arch", ARCHS)
def test_fragments_of_rocwmma(arch: str) -> None:
    """Small whole numbers, whose products every type holds: results are exact."""
    draw = torch.Generator().manual_seed(3)
    for name, (block, k, types, sum_type) in FRAGMENTS.items():
        a, b = (torch.randint(-3, 4, shape, generator=draw) for shape in ((block, k), (k, block)))
        c = torch.randint(-9, 10, (block, block), generator=draw)
        wanted = a @ b + c
        for layouts in ("rr", "cc"):
            given = [a, b, c, torch.zeros_like(c)] if layouts == "rr" else [a.t(), b.t(), c.t(), torch.zeros_like(c)]
            dtypes = [types[ARCHS.index(arch)]] * 2 + [sum_type] * 2
            padded = [torch.nn.functional.pad(x.double(), (0, 8)).to(t) for x, t in zip(given, dtypes, strict=True)]
            addresses = struct.pack("@4Q", *(x.data_ptr() for x in padded))
            program("rocwmma.hip", arch).kernels[f"{name}_{layouts}"].launch((1, 1, 1), (64, 1, 1), addresses)
            result = padded[3].double()[:, :block]
            assert torch.equal(result if layouts == "rr" else result.t(), wanted.double()), (name, layouts)
            assert not padded[3][:, block:].any(), (name, layouts)
    a, b = torch.randint(-3, 4, (32, 16), generator=draw).half(), torch.randint(-3, 4, (16, 32), generator=draw).half()
    d = torch.zeros(32, 32)
    addresses = struct.pack("@3Q", *(x.data_ptr() for x in (a, b, d)))
    program("rocwmma.hip", arch).kernels["mapped"].launch((1, 1, 1), (128, 2, 1), addresses)
    assert torch.equal(d.t(), a.float() @ b.float())


def test_narrow_numbers_ask_nothing_of_types_of_the_users(tmp_path: Path) -> None:
    """rocWMMA, for one, declares its own numbers arithmetic after functions on them have been looked up."""
    (tmp_path / "own.hip").write_text(
        "#include <hip/hip_fp8.h>\n#include <hip/hip_bf16.h>\n#include <hip/hip_fp16.h>\n"
        "struct own { float value; };\n"
        "__device__ int chosen(__hip_bfloat16), chosen(__half), chosen(__hip_fp8_e4m3_fnuz);\n"
        "__device__ inline int chosen(own) { return 1; }\n"
        "__global__ void kernel(int* out) { *out = chosen(own{2.0f}); }\n"
        "template <> struct std::is_arithmetic<own> : std::true_type {};\n"
        "template <> struct std::is_integral<own> : std::true_type {};\n"
    )
    assert "kernel" in find().assembly(HipSource(tmp_path / "own.hip", "gfx942"))


ONE = (
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor ilogb lgamma llrint "
    "llround log log10 log1p log2 logb lrint lround nearbyint rint round sin sinh sqrt tan tanh tgamma trunc"
).split()
TWO = "atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder".split()


@pytest.mark.parametrize("library", ["libstdc++", "libc++"])
def test_floats_functions_in_std(library: str, tmp_path: Path) -> None:
    """clang's own wrapper has all of C's there (__clang_hip_cmath.h); composable_kernel needs them."""
    calls = [f"std::{name}f(x)" for name in ONE] + [f"std::{name}f(x, y)" for name in TWO]
    calls += [
        "std::fmaf(x, y, x)",
        "std::frexpf(x, i)",
        "std::ldexpf(x, *i)",
        "std::modff(x, &y)",
        "std::remquof(x, y, i)",
    ]
    calls += ["std::scalblnf(x, 2)", "std::scalbnf(x, 2)"]
    body = f"(float x, float y, int* i) {{ return {' + '.join(calls)}; }}\n"
    (tmp_path / "std.hip").write_text(
        f"#include <hip/hip_runtime.h>\n#include <cmath>\n__host__ __device__ float both{body}float host{body}"
        "__global__ void kernel(float* x, int* i) { *x = both(*x, *x, i); }\n"
    )
    text = Toolchain(compilers.ziglang(library)).assembly(HipSource(tmp_path / "std.hip", "gfx942"))
    assert "kernel" in text and len(calls) == 55


def test_our_wrapper_headers_make_the_code_that_clang_makes_with_its_own() -> None:
    """Where the machine has a clang with HIP wrapper headers of the version that ziglang holds."""
    try:
        theirs = compilers.clang()
    except ToolchainError as error:
        pytest.skip(f"needs clang 20 or later: {error}")
    ours = compilers.ziglang("libstdc++")
    if theirs.wrapper != "clang" or theirs.version not in ours.version:
        pytest.skip(f"needs the clang of {ours.version} with its HIP headers; this is {theirs.version}")

    def code(compiler: compilers.Compiler) -> list[str]:
        text = Toolchain(compiler).assembly(HipSource(ROOT / "kernels.hip", "gfx942", ("-g0",)))
        return [line for line in text.splitlines() if not re.search(r"ident|cuid|\.file", line)]

    assert code(ours) == code(theirs)
