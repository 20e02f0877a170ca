"""HIP, by clang: wait states and waits of what it compiles, on all paths."""

from __future__ import annotations

import torch

from cdna.binary.all_paths import look_at
from cdna.binary.elf import read
from cdna.binary.statements import statements_of
from cdna.hip.compile.results import stored
from cdna.hip.compile.source import HipSource
from cdna.hip.compile.toolchain import find

from .clang import HEAD, at_all_levels, launched
from .corpus import Answer, arch, reproducer


def _without_findings(text: str, *flags: str) -> Answer:
    """0 findings of waits and hazards on all paths."""
    path = stored((HEAD + text).encode(), ".hip")
    kernels = look_at(statements_of(read(find().code_object(HipSource(path, arch(), flags)))))
    named = [one for kernel in kernels for one in kernel.findings if one.certainty != "undecided"]
    assert kernels
    return Answer(torch.tensor([len(named)]), torch.tensor([0]))


_BUFFER = """
typedef unsigned uint4_ __attribute__((ext_vector_type(4)));
__device__ __attribute__((always_inline)) void store(uint4_ v, void* to, int offset, int scalar) {
  __builtin_amdgcn_raw_buffer_store_b128(v, __builtin_amdgcn_make_buffer_rsrc(to, 0, 0x7fffffff, 0x27000), offset,
                                         scalar, 0);
}
"""


@reproducer("llvm #197267, ROCm/llvm-project #2446", "hip")
def data_of_a_wide_store_overwritten() -> list[Answer]:
    """A buffer store of 16 bytes with an offset in a scalar register: its data is overwritten too early."""
    text = (
        _BUFFER
        + """
    __global__ void k(const uint4_* x, void* to, int scalar, int n) {
      uint4_ v = x[threadIdx.x];
      for (int i = 0; i < n; i++) {
        store(v, to, threadIdx.x * 16, scalar);
        v = v * 3u + 1u;
        scalar += 2048;
      }
    }"""
    )
    x, n = torch.randint(0, 2**31, (64, 4)), 5
    values, want = x.clone(), torch.zeros(n, 128, 4, dtype=torch.int64)
    for i in range(n):
        want[i, :64] = values
        values = (values * 3 + 1) & 0xFFFFFFFF
    answers = []
    for level in ("-O1", "-O3"):
        to = torch.zeros(n, 128, 4, dtype=torch.int32)
        launched(text, level, 64, x.int(), to, 0, n)
        answers += [Answer(to.long() & 0xFFFFFFFF, want), _without_findings(text, level)]
    return answers


@reproducer("llvm #202333, #203770; triton #10719", "hip")
def wide_store_in_a_branch() -> list[Answer]:
    """The same in a branch that a mask takes, whose end drops the wait state; wrong in LLVM's main for a while."""
    text = (
        _BUFFER
        + """
    __global__ void k(const uint4_* x, void* to, void* also, int scalar, int n) {
      uint4_ v = x[threadIdx.x];
      if ((int)threadIdx.x < n) store(v, to, threadIdx.x * 16, scalar);
      v = v + 1u;
      if ((int)threadIdx.x < n - 3) store(v, also, threadIdx.x * 16, scalar);
    }"""
    )
    x, answers = torch.randint(0, 2**30, (64, 4)).int(), []
    for level in ("-O1", "-O3"):
        to, also = torch.zeros(64, 4).int(), torch.zeros(64, 4).int()
        launched(text, level, 64, x, to, also, 0, 40)
        want, later = torch.zeros_like(to), torch.zeros_like(to)
        want[:40], later[:37] = x[:40], x[:37] + 1
        answers += [Answer(to, want), Answer(also, later), _without_findings(text, level)]
    return answers


@reproducer("llvm #222040, #218363", "hip")
def products_close_together() -> list[Answer]:
    """Matrix products of different kinds whose results are read soon: wait states of up to 20."""
    text = """
    typedef _Float16 h4 __attribute__((ext_vector_type(4)));
    typedef float f4 __attribute__((ext_vector_type(4)));
    typedef float f16_ __attribute__((ext_vector_type(16)));
    __global__ void k(const h4* a, const h4* b, float* out) {
      f4 small = {};
      f16_ large = {};
      for (int i = 0; i < 3; i++) {
        h4 x = a[i * 64 + threadIdx.x], y = b[i * 64 + threadIdx.x];
        large = __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, large, 0, 0, 0);
        small = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, small, 0, 0, 0);
        small[0] += large[3];
      }
      float sum = small[0] + small[1] + small[2] + small[3];
      for (int i = 0; i < 16; i++) sum += large[i];
      out[threadIdx.x] = sum;
    }"""
    return [_without_findings(text, level) for level in ("-O1", "-O3")]


@reproducer("ROCm/rocm-systems #9735", "hip")
def lds_written_and_read_in_one_wave() -> list[Answer]:
    """A wave's write to LDS and its read need no wait between them, the register that was read does."""
    text = """
    __global__ void k(const int* x, int* out) {
      __shared__ int s[64];
      s[threadIdx.x] = x[threadIdx.x];
      __builtin_amdgcn_wave_barrier();
      int v = s[63 - threadIdx.x];
      s[threadIdx.x] = v + 1;
      __builtin_amdgcn_wave_barrier();
      out[threadIdx.x] = s[threadIdx.x ^ 5] * 3 + v;
    }"""
    x = torch.randint(0, 999, (64,)).int()
    v = x.flip(0)
    answers = at_all_levels(text, (v + 1)[torch.arange(64) ^ 5] * 3 + v, 64, x)
    return [*answers, _without_findings(text, "-O3")]


@reproducer("facebookexperimental/triton #2058, FlyDSL", "hip")
def copy_to_lds_behind_its_wait() -> list[Answer]:
    """A copy from memory to LDS and a wait for it: the compiler must keep the wait before the reads."""
    text = """
    __global__ void k(const int* x, int* out) {
      __shared__ int s[128];
      auto from = (__attribute__((address_space(1))) int*)x + threadIdx.x;
      auto to = (__attribute__((address_space(3))) int*)s;
      __builtin_amdgcn_global_load_lds(from, to, 4, 0, 0);
      __builtin_amdgcn_global_load_lds(from + 64, to + 64, 4, 0, 0);
      __builtin_amdgcn_s_waitcnt(0x0f70);  // vmcnt(0)
      __syncthreads();
      out[threadIdx.x] = s[127 - threadIdx.x] + s[threadIdx.x];
    }"""
    x = torch.randint(0, 999, (128,)).int()
    answers = at_all_levels(text, x.flip(0)[:64] + x[:64], 64, x)
    return [*answers, _without_findings(text, "-O3")]
