"""HIP, by clang: each kernel in words of our own, at the level of optimisation at which it was told of."""

from __future__ import annotations

import struct

import numpy
import torch

from .corpus import Answer, hip, numbers, reproducer

HEAD = "#include <hip/hip_runtime.h>\n"
LEVELS = ("-O0", "-O1", "-O3")


def launched(text: str, flags: str, threads: int, *values: object) -> None:
    hip(HEAD + text, *flags.split())((1,), (threads,), *values)


@reproducer("ROCm/legacy-rocm-build #6412", "hip")
def store_before_a_break() -> list[Answer]:
    """An unrolled loop of two steps, the second of which ends it: what the first stored is lost at -O2."""
    text = """
    __global__ void k(const int* in, long n, int t, int* flags, int* values) {
      for (long round = 0; round < n; round++) {
        int flag[2], value[2];
        flag[0] = 0;
        value[0] = 0;
        for (long i = 0; i < 2; i++) {
          long v = t + i;
          int f = 1;
          if (v != 0) {
            long j = v - 1;
            if (j >= n) break;
            f = in[j];
          }
          flag[i] = f;
          value[i] = 1;
        }
        flags[t] = flag[0];
        values[t] = value[0];
      }
    }"""
    answers = []
    for n in (1, 2, 3):
        source = torch.arange(5, 5 + n).int()
        for t in range(n + 1):
            flags, values = torch.zeros(n + 2).int(), torch.zeros(n + 2).int()
            launched(text, "-O2", 1, source, n, t, flags, values)
            want = 1 if t == 0 else int(source[t - 1])
            answers.append(Answer(torch.stack([flags[t], values[t]]), torch.tensor([want, 1]).int()))
    return answers


@reproducer("ROCm/TheRock #7751", "hip")
def remainder_of_a_literal() -> list[Answer]:
    """~2u % (x + 1) of unsigned numbers, at -O0 by a reciprocal in fp32."""
    text = "__global__ void k(unsigned* out) { out[threadIdx.x] = (~2u) % (threadIdx.x + 1u); }"
    answers = []
    for level in LEVELS:
        out = torch.zeros(64, dtype=torch.int32)
        launched(text, level, 64, out)
        want = numpy.uint32(0xFFFFFFFD) % numpy.arange(1, 65, dtype=numpy.uint32)
        answers.append(Answer(out, numbers(want.view(numpy.int32)), of=torch.arange(64)))
    return answers


@reproducer("llvm #194829, #196418", "hip")
def all_ones_divided_by_a_boolean() -> list[Answer]:
    """0xffffffff / d with d known to be small: taken for a number of 24 bits by its sign bits."""
    text = """
    __global__ void k(const short* x, const unsigned* d, unsigned* out) {
      unsigned a = (unsigned)(int)x[threadIdx.x];
      out[threadIdx.x] = a / ((d[threadIdx.x] & 7u) + 1u);
    }"""
    x = torch.arange(-32, 32).short()
    d = torch.arange(64).remainder(8).int()
    want = x.numpy().astype(numpy.int32).view(numpy.uint32) // (d.numpy().astype(numpy.uint32) + 1)
    answers = []
    for level in LEVELS:
        out = torch.zeros(64, dtype=torch.int32)
        launched(text, level, 64, x, d, out)
        answers.append(Answer(out, numbers(want.view(numpy.int32)), of=x))
    return answers


@reproducer("llvm #198391", "hip")
def quotient_of_extended_shorts() -> list[Answer]:
    """Two shorts extended with their sign, divided as unsigned numbers."""
    text = """
    __global__ void k(const short* x, const short* y, unsigned* out) {
      out[threadIdx.x] = (unsigned)(int)x[threadIdx.x] / (unsigned)(int)y[threadIdx.x];
    }"""
    x, y = torch.tensor([-2, -1, -1, -2, 5, -3, 32767, -32768] * 8).short(), torch.arange(1, 65).sub(33).short()
    y[32] = 7
    wide = [v.numpy().astype(numpy.int32).view(numpy.uint32) for v in (x, y)]
    answers = []
    for level in LEVELS:
        out = torch.zeros(64, dtype=torch.int32)
        launched(text, level, 64, x, y, out)
        answers.append(Answer(out, numbers((wide[0] // wide[1]).view(numpy.int32)), of=x))
    return answers


_DIGITS = """
__global__ void k(const char* text, const int* length, unsigned char* fits) {
  const char* s = text + threadIdx.x * 24;
  unsigned long long value = 0, most = ~0ull;
  bool good = true;
  for (int i = 0; i < length[threadIdx.x]; i++) {
    unsigned long long digit = s[i] - '0';
    if (value > (most - digit) / 10ull) { good = false; break; }
    value = value * 10ull + digit;
  }
  fits[threadIdx.x] = good;
}"""


@reproducer("llvm #151676, ROCm/legacy-rocm-build #5142", "hip")
def numbers_that_fit_64_bits() -> list[Answer]:
    """Whether a text is a number of 64 bits: (most - digit) / 10 is no division of 32 bits."""
    words = [str(v) for v in (0, 9, 42949672950, 2**32, 2**63, 2**64 - 1, 2**64, 10**20, 18446744073709551609)]
    words = (words * 8)[:64]
    text = torch.zeros(64, 24, dtype=torch.int8)
    for row, word in zip(text, words):
        row[: len(word)] = torch.tensor(list(word.encode())).to(torch.int8)
    length = torch.tensor([len(word) for word in words]).int()
    want = torch.tensor([int(word) < 2**64 for word in words]).to(torch.uint8)
    answers = []
    for level in LEVELS:
        fits = torch.full((64,), 9, dtype=torch.uint8)
        launched(_DIGITS, level, 64, text, length, fits)
        answers.append(Answer(fits, want))
    return answers


@reproducer("llvm #80622, #118928", "hip")
def wide_quotient_narrowed() -> list[Answer]:
    """64-bit quotients whose operands have 32, 33 and 40 bits, by shifts: narrowed where they fit."""
    text = """
    __global__ void k(const unsigned long long* x, const unsigned long long* y, unsigned long long* out) {
      unsigned long long a = x[threadIdx.x], b = y[threadIdx.x];
      out[threadIdx.x] = (a >> 24) / (b >> 40 | 1);
      out[64 + threadIdx.x] = (a >> 31) / (b >> 33 | 1);
      out[128 + threadIdx.x] = (a >> 32) % (b >> 32 | 1);
      out[192 + threadIdx.x] = (unsigned long long)((long long)a >> 40) / (b >> 60 | 1);
      out[256 + threadIdx.x] = (unsigned long long)((long long)a >> 32) / ((b >> 62) + 1);
    }"""
    generator = numpy.random.default_rng(0)
    a, b = (generator.integers(0, 2**64, 64, dtype=numpy.uint64) for _ in range(2))
    a[:4], b[:4] = 2**64 - 1, [1 << 40, 1 << 33, 2**64 - 1, 1 << 62]
    u = numpy.uint64
    low = [
        (a >> u(24)) // (b >> u(40) | u(1)),
        (a >> u(31)) // (b >> u(33) | u(1)),
        (a >> u(32)) % (b >> u(32) | u(1)),
        (a.view(numpy.int64) >> 40).view(u) // (b >> u(60) | u(1)),
        (a.view(numpy.int64) >> 32).view(u) // ((b >> u(62)) + u(1)),
    ]
    want, answers = numbers(numpy.concatenate(low).view(numpy.int64)), []
    for level in LEVELS:
        out = torch.zeros(320, dtype=torch.int64)
        launched(text, level, 64, numbers(a.view(numpy.int64)), numbers(b.view(numpy.int64)), out)
        answers.append(Answer(out, want))
    return answers


@reproducer("llvm #204469", "hip")
def most_negative_int_divided_in_64_bits() -> list[Answer]:
    """Two ints made long, -2147483648 / -1 among them: 2147483648 is no result of a division of 32 bits."""
    text = """
    __global__ void k(const int* x, const int* y, long* out) {
      out[2 * threadIdx.x] = (long)x[threadIdx.x] / (long)y[threadIdx.x];
      out[2 * threadIdx.x + 1] = (long)x[threadIdx.x] % (long)y[threadIdx.x];
    }"""
    x = torch.tensor([-(2**31), -(2**31), -(2**31), 2**31 - 1, -7, 7, 0, 12345] * 8)
    y = torch.tensor([-1, 1, 3, -1, 2, -2, -5, -77] * 8)
    quotient = torch.div(x, y, rounding_mode="trunc")
    return at_all_levels(text, torch.stack([quotient, x - quotient * y], 1).reshape(-1), 64, x.int(), y.int())


@reproducer("llvm #201186, #209711", "hip")
def quotient_of_24_bits_in_hip() -> list[Answer]:
    """Unsigned numbers of 24 bits divided by a reciprocal: 0xbf2758 / 0xbf2759 gives 1."""
    text = """
    __global__ void k(const unsigned* x, const unsigned* y, unsigned* out) {
      int i = threadIdx.x;
      out[2 * i] = (x[i] & 0xffffff) / (y[i] & 0xffffff);
      out[2 * i + 1] = (x[i] & 0xffffff) % (y[i] & 0xffffff);
    }"""
    y = torch.cat([torch.tensor([0xBF2759, 0xC32]), torch.arange(3, 257)])
    x = torch.cat([torch.tensor([0xBF2758, 0xE3170D]), 0xFFFFFF // y[2:] * y[2:] - 1])
    answers = []
    for level in LEVELS:
        out = torch.zeros(512, dtype=torch.int32)
        launched(text, level, 256, x.int(), y.int(), out)
        answers.append(Answer(out, torch.stack([x // y, x % y], 1).reshape(-1).int(), of=x.repeat_interleave(2)))
    return answers


@reproducer("llvm #202753, #203436", "hip")
def most_negative_of_23_bits() -> list[Answer]:
    """The most negative signed number of 23 bits divided by -1, and quotients one off a whole one."""
    text = """
    __global__ void k(const int* x, const int* y, int* out) {
      int i = threadIdx.x, a = (x[i] << 9) >> 9, b = (y[i] << 9) >> 9;
      out[2 * i] = a / b;
      out[2 * i + 1] = a % b;
    }"""
    y = torch.cat([torch.tensor([-1, 1, -2]), torch.arange(3, 256)])
    x = torch.cat([torch.full((3,), -0x400000), -(0x3FFFFF // y[3:] * y[3:] - 1)])
    quotient = torch.div(x, y, rounding_mode="trunc")
    answers = []
    for level in LEVELS:
        out = torch.zeros(512, dtype=torch.int32)
        launched(text, level, 256, x.int(), y.int(), out)
        answers.append(Answer(out, torch.stack([quotient, x - quotient * y], 1).reshape(-1).int()))
    return answers


@reproducer("llvm #198603", "hip")
def union_returned() -> list[Answer]:
    """A function returns a union of an array of bytes and a struct of other sizes."""
    text = """
    union U { struct { short a; int b; } s; unsigned char bytes[12]; long long wide; };
    __device__ __attribute__((noinline)) U made(int x) {
      U u;
      for (int i = 0; i < 12; i++) u.bytes[i] = (unsigned char)(x * 7 + i);
      return u;
    }
    __global__ void k(int* out) {
      U u = made(threadIdx.x), v;
      v = u;
      for (int i = 0; i < 12; i++) out[threadIdx.x * 12 + i] = v.bytes[i];
    }"""
    want = (torch.arange(64)[:, None] * 7 + torch.arange(12)) & 255
    return at_all_levels(text, want.reshape(-1).int(), 64)


@reproducer("llvm #198613", "hip")
def nested_unions_assigned() -> list[Answer]:
    """Unions in unions with padding, assigned whole: what padding of one member is the value of another."""
    text = """
    union In { char c; struct { char low; int high; } pair; };
    struct Mid { In in; short tail; };
    union Out { Mid mid; unsigned char bytes[sizeof(Mid)]; };
    __global__ void k(int* out) {
      Out a[2], b;
      for (int i = 0; i < (int)sizeof(Mid); i++) a[threadIdx.x & 1].bytes[i] = (unsigned char)(threadIdx.x + 3 * i);
      b = a[threadIdx.x & 1];
      a[(threadIdx.x & 1) ^ 1] = b;
      for (int i = 0; i < 12; i++) out[threadIdx.x * 12 + i] = a[(threadIdx.x & 1) ^ 1].bytes[i];
    }"""
    want = (torch.arange(64)[:, None] + 3 * torch.arange(12)) & 255
    return at_all_levels(text, want.reshape(-1).int(), 64)


@reproducer("llvm #198606", "hip")
def struct_assigned_in_a_comma() -> list[Answer]:
    """An assignment of a struct within a comma expression, whose value is used."""
    text = """
    struct S { short a; int b; char c; };
    __device__ __attribute__((noinline)) S other(S s) { s.b += 5; return s; }
    __global__ void k(int* out) {
      S x = {(short)threadIdx.x, (int)threadIdx.x * 3, 1}, y = {0, 0, 0}, z;
      z = (y = x, y.a++, other(y));
      out[3 * threadIdx.x] = z.a;
      out[3 * threadIdx.x + 1] = z.b;
      out[3 * threadIdx.x + 2] = y.c + y.a;
    }"""
    i = torch.arange(64)
    return at_all_levels(text, torch.stack([i + 1, 3 * i + 5, i + 2], 1).reshape(-1).int(), 64)


def at_all_levels(text: str, want: torch.Tensor, threads: int, *values: object) -> list[Answer]:
    answers = []
    for level in LEVELS:
        out = torch.zeros_like(want)
        launched(text, level, threads, *values, out)
        answers.append(Answer(out, want))
    return answers


@reproducer("llvm #139908", "hip")
def compared_with_two_equal_halves() -> list[Answer]:
    """x == 0x0000002a0000002a: the halves' constant must not stand for the whole."""
    text = """
    __global__ void k(const unsigned long long* x, int* out) {
      unsigned long long v = x[threadIdx.x];
      out[threadIdx.x] =
          (v == 0x0000002a0000002aull) + 2 * (v < 0x0000002a0000002aull) + 4 * ((v & 0x700000007ull) == 0);
    }"""
    x = torch.tensor([0x2A0000002A, 0x2A, 0x2A00000000, 0x2A0000002B, 0x290000002A, 0, 7 << 32, 8] * 8)
    whole = 0x2A0000002A
    want = [(int(v) == whole) + 2 * (int(v) < whole) + 4 * ((int(v) & 0x700000007) == 0) for v in x]
    return at_all_levels(text, torch.tensor(want).int(), 64, x)


@reproducer("llvm #123221, #124131, #218512", "hip")
def parts_of_parts_of_a_register() -> list[Answer]:
    """A byte of a word of a register, put into another's word: selections of SDWA combined."""
    text = """
    __global__ void k(const unsigned* x, const unsigned* y, int* out) {
      unsigned a = x[threadIdx.x], b = y[threadIdx.x];
      unsigned short high = a >> 16;
      unsigned char second = high >> 8;
      signed char low = (signed char)(unsigned char)high;
      int* o = out + 6 * threadIdx.x;
      o[0] = (unsigned char)(second + (b >> 24));
      o[1] = ((unsigned)second << 8 | (b >> 16 & 255)) & 0xffff;
      o[2] = low + (signed char)(b >> 8);
      o[3] = (unsigned short)(high * (unsigned short)(b >> 16)) >> 8;
      o[4] = (int)(short)(a >> 16) >> 3;
      o[5] = ((a >> 16 & 255) << 8) | ((b & 0xffff) >> 8);
    }"""
    generator = numpy.random.default_rng(1)
    a, b = (generator.integers(0, 2**32, 64, dtype=numpy.int64) for _ in range(2))
    high = a >> 16
    second, low = high >> 8, (high & 255 ^ 128) - 128
    want = [
        second + (b >> 24) & 255,
        second << 8 | b >> 16 & 255,
        low + ((b >> 8 & 255 ^ 128) - 128),
        (high * (b >> 16) & 0xFFFF) >> 8,
        ((high ^ 0x8000) - 0x8000) >> 3,
        (high & 255) << 8 | (b & 0xFFFF) >> 8,
    ]
    x, y = (numbers(v.astype(numpy.uint32).view(numpy.int32)) for v in (a, b))
    return at_all_levels(text, numbers(numpy.stack(want, 1).reshape(-1)).int(), 64, x, y)


@reproducer("llvm #211703", "hip")
def float_to_short_saturated() -> list[Answer]:
    """fp32 to 16 bits clamped first: what the saturating conversion is made of."""
    text = """
    __global__ void k(const float* x, int* out) {
      float v = x[threadIdx.x];
      out[2 * threadIdx.x] = (short)__builtin_fminf(__builtin_fmaxf(v, -32768.0f), 32767.0f);
      out[2 * threadIdx.x + 1] = (unsigned short)__builtin_fminf(__builtin_fmaxf(v, 0.0f), 65535.0f);
    }"""
    x = torch.cat([torch.linspace(-1e5, 1e5, 60), torch.tensor([-32768.5, 32767.9, 65535.9, -0.5])])
    want = torch.stack([x.double().clamp(-32768, 32767).trunc(), x.double().clamp(0, 65535).trunc()], 1)
    return at_all_levels(text, want.reshape(-1).int(), 64, x)


@reproducer("ROCm/legacy-rocm-build #4389", "hip")
def offset_of_a_chosen_pointer() -> list[Answer]:
    """f[1 - i] of either LDS or memory: an address before the array, folded into the instruction's offset."""
    text = """
    __global__ void k(const float* g, const int* where, int which, float* out) {
      __shared__ float s[64];
      s[threadIdx.x] = threadIdx.x * 2.0f;
      __syncthreads();
      const float* f = which ? (const float*)s : g;
      out[threadIdx.x] = f[63 - where[threadIdx.x]];
    }"""
    where, g, answers = torch.arange(64).int(), torch.randn(64), []
    for level in LEVELS:
        for which in (0, 1):
            out = torch.zeros(64)
            launched(text, level, 64, g, where, which, out)
            answers.append(Answer(out, torch.arange(64).float().flip(0) * 2 if which else g.flip(0)))
    return answers


@reproducer("llvm #135659", "hip")
def pair_of_doubles_to_halves() -> list[Answer]:
    """Two fp64 to a pair of fp16, not by way of fp32."""
    text = """
    typedef double double2_ __attribute__((ext_vector_type(2)));
    typedef _Float16 half2_ __attribute__((ext_vector_type(2)));
    __global__ void k(const double2_* x, half2_* out) {
      out[threadIdx.x] = __builtin_convertvector(x[threadIdx.x], half2_);
    }"""
    middle = 1 + torch.arange(128).double() / 1024 + 2.0**-11
    x = torch.stack([middle * (1 + 2.0**-40), middle * (1 - 2.0**-40)], 1).reshape(-1)
    answers = []
    for level in LEVELS:
        out = torch.zeros(256).half()
        launched(text, level, 128, x, out)
        answers.append(Answer(out.double(), torch.from_numpy(x.numpy().astype("float16")).double(), of=x))
    return answers


@reproducer("llvm #109391, AMDGPU.jl #672", "hip")
def loops_from_below_zero() -> list[Answer]:
    """Two loops from -n to n, one in the other."""
    text = """
    __global__ void k(int nx, int ny, float* out) {
      if (threadIdx.x >= 10) return;
      float y = 0;
      for (int i = -nx; i <= nx; i++)
        for (int j = -ny; j <= ny; j++) y += 1;
      out[threadIdx.x] = y;
    }"""
    answers = []
    for level in LEVELS:
        out = torch.zeros(16)
        launched(text, level, 16, 1, 3, out)
        answers.append(Answer(out, torch.tensor([21.0] * 10 + [0.0] * 6)))
    return answers


@reproducer("llvm #207883", "hip")
def value_reloaded_behind_a_barrier() -> list[Answer]:
    """One lane's pair in LDS, read again by 1024 in a loop with barriers; told of gfx11."""
    text = """
    __global__ void __launch_bounds__(1024) k(float* a, int rounds) {
      __shared__ float c, s;
      float v = a[threadIdx.x], w = a[threadIdx.x ^ 1];
      for (int r = 0; r < rounds; r++) {
        if (threadIdx.x == 0) { c = 1.0f / (r + 2); s = r * 0.5f; }
        __syncthreads();
        v = c * v + s * w;
        w = c * w - s;
        __syncthreads();
      }
      a[threadIdx.x] = v;
    }"""
    start, answers = torch.randn(1024), []
    v, w = start.double(), start.double().reshape(-1, 2).flip(1).reshape(-1)
    for r in range(6):
        v, w = v / (r + 2) + r * 0.5 * w, w / (r + 2) - r * 0.5
    for level in ("-O1", "-O3"):
        a = start.clone()
        launched(text, level, 1024, a, 6)
        answers.append(Answer(a.double(), v, rtol=1e-4, atol=1e-3))
    return answers


@reproducer("llvm #62477", "hip")
def lanes_that_hold_the_same() -> list[Answer]:
    """A loop that takes one value's lanes after the other, by readfirstlane and ballot."""
    text = """
    __global__ void k(const int* x, unsigned long long* out) {
      int v = x[threadIdx.x];
      unsigned long long mine = 0;
      for (bool active = true; active;) {
        int first = __builtin_amdgcn_readfirstlane(v);
        unsigned long long m = __ballot(v == first);
        if (v == first) { mine = m; active = false; }
      }
      out[threadIdx.x] = mine;
    }"""
    x = torch.randint(0, 7, (64,)).int()
    masks = [sum(1 << i for i in range(64) if x[i] == v) for v in range(7)]
    want = torch.tensor([struct.unpack("q", struct.pack("Q", masks[int(v)]))[0] for v in x])
    return at_all_levels(text, want, 64, x)


@reproducer("ROCm/llvm-project #248", "hip")
def counters_split_from_a_loop() -> list[Answer]:
    """Atomics on LDS and on memory in one loop, which must not be torn in two past a barrier."""
    text = """
    __global__ void k(const int* x, int n, int* out) {
      __shared__ int count[8];
      if (threadIdx.x < 8) count[threadIdx.x] = 0;
      __syncthreads();
      for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int at = atomicAdd(&count[x[i] & 7], 1);
        atomicAdd(&out[x[i] & 7], at < 1000 ? 1 : 100);
      }
      __syncthreads();
      if (threadIdx.x < 8) out[8 + threadIdx.x] = count[threadIdx.x];
    }"""
    x, answers = torch.randint(0, 8, (500,)).int(), []
    want = torch.bincount(x.long(), minlength=8).int()
    for level in LEVELS:
        out = torch.zeros(16).int()
        launched(text, level, 128, x, 500, out)
        answers.append(Answer(out, torch.cat([want, want])))
    return answers
