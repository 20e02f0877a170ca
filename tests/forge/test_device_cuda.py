"""HIP on NVIDIA, as far as it shows without a GPU: flags, sources, headers (where nvcc is), the command."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forge.device.hip_on_cuda import INCLUDE, headers, translate

ROOT = Path(__file__).resolve().parents[2]
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")

# ------------------------------------------------------------ flags and sources


@pytest.mark.parametrize(
    ("given", "kept", "dropped"),
    [
        (["-O3", "-std=c++20", "--offload-arch=gfx942"], "-O3 -std=c++20", "--offload-arch=gfx942"),
        (["-munsafe-fp-atomics -fno-gpu-rdc", "-DN=4"], "-DN=4", "-munsafe-fp-atomics -fno-gpu-rdc"),
        (["-mllvm", "-amdgpu-early-inline-all=true", "-I", "inc"], "-I inc", "-mllvm -amdgpu-early-inline-all=true"),
        (["-ffast-math", "-g", "-Wall"], "--use_fast_math -g -lineinfo", "-Wall"),
        (["-ffp-contract=off", "-std=gnu++17", "-x", "hip"], "--fmad=false -std=c++17", ""),
        (["-Xptxas", "-v", "-DUSE_ROCM=1", "-U__X"], "-Xptxas -v -U__X", "-DUSE_ROCM=1"),
    ],
)
def test_flags(given: list[str], kept: str, dropped: str) -> None:
    assert translate.flags_for_nvcc(given) == (kept.split(), dropped.split())


def test_what_is_hip() -> None:
    for text in ("#include <hip/hip_runtime.h>", "hipMalloc(&p, 4);", "x = __builtin_amdgcn_readlane(x, 0);"):
        assert translate.uses_hip(["int a;", text])
    assert not translate.uses_hip(["cudaMalloc(&p, 4); // hipify me", "__shared__ float chip[4], whipLash;"])


def test_sources_keep_their_lines_and_name_the_file() -> None:
    text = "int a = __shfl_xor(v, 1);\nint b = __ballot (a), c = __shfl_sync(~0u, a, 1) + std::__any(a);\n"
    assert translate.source_for_nvcc(text, 'a"b.hip') == (
        '#line 1 "a\\"b.hip"\nint a = hip_on_cuda::shfl_xor(v, 1);\n'
        "int b = hip_on_cuda::ballot (a), c = __shfl_sync(~0u, a, 1) + std::__any(a);\n"
    )


@pytest.mark.parametrize(
    ("said", "first"),
    [
        (
            "Error building extension 'a': [1/2] nvcc -c x.cu\nFAILED: x.o\n"
            'kernels/a/k.hip(7): error: identifier "b" is undefined\n    x = b;\n        ^\n'
            'kernels/a/k.hip(9): error: identifier "c" is undefined\n\n2 errors detected in the compilation of "x.cu".',
            'kernels/a/k.hip:7: error: identifier "b" is undefined (and 1 more)',
        ),
        (
            "Error building extension 'a': x\n"
            'k.hip(40): error: identifier "__builtin_amdgcn_raw_buffer_store_b64" is undefined\n',
            'k.hip:40: error: identifier "__builtin_amdgcn_raw_buffer_store_b64" is undefined: instructions of AMD',
        ),
        ("Error building extension 'a': x\nmain.cpp:3:10: fatal error: no.h: absent\n", "main.cpp:3: error: no.h"),
        ("Error building extension 'a': x\nptxas error   : Entry k uses too much data\n", "ptxas error   : Entry k"),
    ],
)
def test_the_first_error(said: str, first: str) -> None:
    assert translate.first_error(said).startswith(first)


# ------------------------------------------------------------ what torch is asked to build


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """load() as prepared for NVIDIA; returns what torch's own part of it was given, and the CXX it saw."""
    from torch.utils import cpp_extension

    from forge.device import hip_on_cuda

    seen: dict[str, Any] = {}

    def jit_compile(*args: Any, **kwargs: Any) -> dict[str, Any]:
        seen.update(inspect.signature(cpp_extension._jit_compile).bind(*args, **kwargs).arguments)
        seen["CXX"] = os.environ.get("CXX")
        seen["dependencies"] = os.environ.get("TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES") != "1"
        return seen

    jit_compile.__signature__ = inspect.signature(cpp_extension._jit_compile)  # type: ignore[attr-defined]
    monkeypatch.setattr(cpp_extension, "_jit_compile", hip_on_cuda._with_hip(jit_compile, "sm_90"))
    monkeypatch.setenv("CXX", "a-compiler-that-is-not-here")
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)  # machines with a GPU may set it

    def build(text: str, **flags: Any) -> dict[str, Any]:
        (tmp_path / "k.cu").write_text(text)
        sources = [str(tmp_path / "k.cu")]
        return cpp_extension.load("k", sources, build_directory=str(tmp_path), is_python_module=False, **flags)

    return build


def test_a_hip_source_is_built_with_our_headers(built: Any) -> None:
    flags = ["-O3", "--offload-arch=gfx942"]
    seen = built("#include <hip/hip_runtime.h>\nint x;\n", extra_cuda_cflags=flags, extra_ldflags=["-lamdhip64"])
    (source,) = seen["sources"]
    assert Path(source).name == "k.nvidia.cu" and Path(source).read_text().startswith('#line 1 "k.cu"\n')
    assert seen["extra_include_paths"] == [str(INCLUDE), str(Path(source).parent)] and seen["extra_ldflags"] == []
    assert "#define hipMalloc cudaMalloc\n" in Path(source).with_name("hip_runtime_names.h").read_text()
    optimise, own_arch, digest, *included = seen["extra_cuda_cflags"]
    assert optimise == "-O3" and re.fullmatch("-DHIP_ON_CUDA=[0-9a-f]{8}", digest)
    assert own_arch == "-gencode=arch=compute_90a,code=sm_90a"  # wgmma is in no other
    assert included == ["-include", "hip/hip_runtime.h"]
    assert seen["CXX"] is None and os.environ["CXX"] == "a-compiler-that-is-not-here"
    assert not seen["dependencies"]  # nvcc lists what #line names: absent files, for which ninja builds every time


@pytest.mark.parametrize(
    "flags, listed", [(["-arch=sm_80"], None), (["-gencode", "arch=compute_80,code=sm_80"], None), ([], "8.0")]
)
def test_a_chosen_arch_is_left_alone(
    built: Any, monkeypatch: pytest.MonkeyPatch, flags: list[str], listed: str | None
) -> None:
    if listed:
        monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", listed)
    seen = built("#include <hip/hip_runtime.h>\n", extra_cuda_cflags=flags)
    assert not any("sm_90" in flag for flag in seen["extra_cuda_cflags"])


def test_a_compile_error_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torch.utils import cpp_extension

    from forge.device import hip_on_cuda

    def jit_compile(*args: Any, **kwargs: Any) -> None:
        assert not inspect.signature(cpp_extension._jit_compile).bind(*args, **kwargs).arguments["verbose"]
        raise RuntimeError("Error building extension 'k': [1/2] nvcc ...\nmine.hip(3): error: identifier \"a\"\n")

    jit_compile.__signature__ = inspect.signature(cpp_extension._jit_compile)  # type: ignore[attr-defined]
    monkeypatch.setattr(cpp_extension, "_jit_compile", hip_on_cuda._with_hip(jit_compile, "sm_90"))
    (tmp_path / "k.hip").write_text("#include <hip/hip_runtime.h>\n")
    with pytest.raises(RuntimeError) as error:
        cpp_extension.load("k", [str(tmp_path / "k.hip")], build_directory=str(tmp_path), verbose=True)
    assert str(error.value) == "Error building extension 'k': mine.hip:3: error: identifier \"a\""
    assert "[1/2] nvcc ..." in capsys.readouterr().err


def test_a_cuda_source_is_left_alone(built: Any, tmp_path: Path) -> None:
    seen = built("#include <cuda_runtime.h>\n", extra_cuda_cflags=["-O1"])
    assert seen["sources"] == [str(tmp_path / "k.cu")] and seen["extra_cuda_cflags"] == ["-O1"]
    assert not seen.get("extra_include_paths") and seen["CXX"] == "a-compiler-that-is-not-here"
    assert seen["dependencies"] and "TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES" not in os.environ


# ------------------------------------------------------------ the headers

KERNEL = r"""
#include <hip/hip_runtime.h>
#include <system.h>
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
#include <hip/hip_fp8.h>
__global__ void k(unsigned* x, unsigned long long* y, float* f, __half* h, __hip_bfloat16* b, __hip_fp8_e4m3* q) {
  unsigned expected = 3;
  __hip_atomic_store(x, 5, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
  x[1] = __hip_atomic_load(x + 2, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
  y[1] = __hip_atomic_fetch_add(y, 7, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
  long* signed_64 = reinterpret_cast<long*>(y);
  signed_64[1] = __hip_atomic_fetch_add(signed_64, -1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  f[1] = __hip_atomic_exchange(f, 1.5f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  x[3] = __hip_atomic_compare_exchange_strong(x, &expected, 9u, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                              __HIP_MEMORY_SCOPE_SYSTEM);
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  x[4] = __shfl_xor(x[4], 1) + __popcll(__ballot(f[0] > 0)) + __builtin_amdgcn_readfirstlane(x[5]);
  x[6] = __builtin_amdgcn_perm(x[7], x[8], 0x07060302);
  y[2] = wall_clock64();
  __builtin_amdgcn_s_sleep(2);
  if (x[9]) __builtin_trap();
  f[2] = __half2float(h[0]) + __bfloat162float(b[0]) + float(q[0]);
}
int64_t host(int64_t address) {
  hipDeviceProp_t properties;
  int rate = 0, blocks = 0;
  float* p = nullptr;
  hipIpcMemHandle_t handle;
  hipError_t error = hipGetDeviceProperties(&properties, 0);
  if (error == hipSuccess) error = hipDeviceGetAttribute(&rate, hipDeviceAttributeWallClockRate, 0);
  if (error == hipSuccess) error = hipExtMallocWithFlags((void**)&p, 64, hipDeviceMallocFinegrained);
  if (error == hipSuccess) error = hipHostMalloc(&p, 64, hipHostMallocCoherent);
  if (error == hipSuccess) error = hipIpcGetMemHandle(&handle, p);
  if (error == hipSuccess) error = hipIpcOpenMemHandle((void**)&p, handle, hipIpcMemLazyEnablePeerAccess);
  hipLaunchKernelGGL(k, dim3(1), dim3(32), 0, 0, (unsigned*)address, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (error == hipSuccess) error = hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 256, 0);
  if (error != hipSuccess) puts(hipGetErrorString(error));
  return fail() + properties.gcnArchName[0] + properties.clockRate + blocks + rate;
}
"""


# The C++ library's headers have such host code, and words that sound like HIP's.
SYSTEM = "inline int fail() { __builtin_trap(); return 0; }\nstruct S { template <class T> void __any(T); };\n"


def nvcc(folder: Path, text: str) -> tuple[str, str]:
    """PTX, and what the compiler said."""
    (folder / "system.h").write_text(SYSTEM)
    (folder / "k.cu").write_text(translate.source_for_nvcc(text, "k.hip"))
    flags = ["-std=c++17", "-arch=sm_90a", "-w", *(f"-I{place}" for place in headers(folder)), "-isystem", "."]
    command = ["nvcc", *flags, "-c", "-keep", "k.cu", "-o", "k.o"]  # -ptx would not look at the host's code
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return "".join(p.read_text() for p in folder.glob("*.ptx")), done.stdout + done.stderr


@needs_nvcc
def test_hip_compiles_to_what_it_means(tmp_path: Path) -> None:
    ptx, said = nvcc(tmp_path, KERNEL)
    assert ptx, said
    wanted = (
        "st.release.sys.b32 ld.acquire.sys.b32 atom.add.acq_rel.gpu.u64 atom.exch.relaxed.cta.b32 "
        "atom.cas.relaxed.sys.b32 fence.acq_rel.sys fence.sc.gpu fence.acq_rel.cta bar.warp.sync "
        "shfl.sync.bfly.b32 vote.sync.ballot.b32 %globaltimer nanosleep.u32 trap;"
    ).split()
    assert not [text for text in wanted if text not in ptx]


@needs_nvcc
@pytest.mark.parametrize(
    "code",
    [
        "x[0] = __builtin_amdgcn_s_getreg(4);",
        "__builtin_amdgcn_s_waitcnt(0);",
        "x[0] = __builtin_amdgcn_ds_bpermute(4, x[0]);",
        "__hip_fp8_e4m3_fnuz y(1.f);",
        "hipModule_t module;",
    ],
)
def test_what_has_no_counterpart_is_an_error_that_names_it(tmp_path: Path, code: str) -> None:
    text = f"#include <hip/hip_runtime.h>\n#include <hip/hip_fp8.h>\n\n__global__ void k(int* x) {{ {code} }}\n"
    ptx, said = nvcc(tmp_path, text)
    name = re.search(r"__builtin_amdgcn_\w+|__hip_fp8_e4m3_fnuz|hipModule_t", code)
    assert not ptx and name and "k.hip(4): error" in said and name[0] in said


# ------------------------------------------------------------ the command


def test_any_command_runs_prepared() -> None:
    code = "import torch; print(torch.version.hip is not None, torch.cuda.get_device_name())"
    done = subprocess.run(
        [sys.executable, "-m", "forge.device", "gfx950", "--", sys.executable, "-c", code],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == "True AMD Instinct MI355X", done.stderr


def test_python_of_the_command_is_the_one_that_prepares() -> None:
    """As `uv run` has it: nobody has to activate the environment first."""
    done = subprocess.run(
        [sys.executable, "-m", "forge.device", "gfx942", "--", "python", "-c", "import sys; print(sys.prefix)"],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stdout.strip() == sys.prefix, done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["gfx942"], 2, "usage: python -m forge.device {auto,"),
        (["gfx9", "--", "true"], 2, "unknown device 'gfx9': choose one of"),
        (["gfx942", "--", "no-such-command"], 127, "no-such-command: No such file"),
    ],
)
def test_the_command_refuses_in_one_line(arguments: list[str], code: int, words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "forge.device", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code and words in done.stderr and done.stderr.count("\n") == 1
