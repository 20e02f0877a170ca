"""Run by test_device_emulated.py in a process prepared for two emulated GPUs: HIP extensions."""

import ctypes
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.cpp_extension import load, load_inline

import cdna
from tests.support.checks import main

needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="torch's headers need g++'s library")

TORCH_FACING = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

template <typename T>
__global__ void scale_kernel(const T* x, T* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = static_cast<T>(static_cast<float>(x[i]) * factor);
}

torch::Tensor scale(torch::Tensor x, double factor) {
  TORCH_CHECK(x.is_cuda() && !x.is_cpu(), "x must be on the GPU");
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  const c10::DeviceGuard same(x.device());
  auto y = torch::empty_like(x);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "scale", [&] {
    scale_kernel<scalar_t><<<(x.numel() + 255) / 256, 256, 0, stream>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(),
                                                                       factor, x.numel());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

std::vector<torch::Tensor> made(torch::Tensor x) {  // of every kind that C++ code makes on a GPU
  auto on_gpu = torch::device(torch::kCUDA).dtype(torch::kFloat32);
  auto all = {torch::zeros({2, 3}, on_gpu), torch::full({4}, 7, x.options()), torch::arange(5, x.options()),
              x.cpu().to(torch::kCUDA), torch::from_blob(x.data_ptr(), {2}, x.options()),
              at::empty_strided({2}, {4}, on_gpu)};
  for (const auto& tensor : all) TORCH_CHECK(tensor.is_cuda() && tensor.device() == x.device(), tensor.device());
  auto pinned = torch::dtype(torch::kInt32).pinned_memory(true);
  for (const auto& tensor : {torch::zeros({2}), torch::tensor({1, 2}), at::empty_strided({2}, {4}, torch::kFloat16),
                             torch::rand({3}, torch::kCPU), torch::randperm(4), torch::empty({2}, pinned)})
    TORCH_CHECK(tensor.is_cpu() && !tensor.is_cuda() && tensor.to(torch::kCUDA).is_cuda(), tensor.device());
  return all;
}

int64_t stream_of(int64_t device) { return (int64_t)(hipStream_t)c10::hip::getCurrentHIPStream(device); }
int64_t device_in(int64_t device) {
  at::hip::HIPGuardMasqueradingAsCUDA guard(device);
  return at::cuda::current_device();
}
int64_t compute_units() { return at::cuda::getCurrentDeviceProperties()->multiProcessorCount; }
void fails() { C10_HIP_CHECK(hipSetDevice(99)); }
"""
FUNCTIONS = ["scale", "made", "stream_of", "device_in", "compute_units", "fails"]
DECLARED = """torch::Tensor scale(torch::Tensor x, double factor);
std::vector<torch::Tensor> made(torch::Tensor x);
int64_t stream_of(int64_t device);
int64_t device_in(int64_t device);
int64_t compute_units();
void fails();
"""


@pytest.fixture(scope="module")
def module() -> Any:
    if shutil.which("g++") is None:
        pytest.skip("torch's headers need g++'s library")
    flags = ["-O3 -std=c++20", "--offload-arch=gfx942"]
    return load_inline("facing", DECLARED, TORCH_FACING, functions=FUNCTIONS, extra_cuda_cflags=flags)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_kernel_of_each_dtype(module: Any, dtype: torch.dtype) -> None:
    x = torch.randn(1000, device="cuda").to(dtype)
    y = module.scale(x, 3.0)
    assert y.is_cuda and torch.equal(y, (x.float() * 3).to(dtype))


def test_host_tensors_are_told_apart(module: Any) -> None:
    with pytest.raises(RuntimeError, match="x must be on the GPU"):
        module.scale(torch.ones(3), 1.0)
    x = torch.ones(3, device="cuda:1")
    with torch.cuda.device(1):
        assert module.scale(x, 2.0).device == x.device


def test_tensors_made_by_cpp(module: Any) -> None:
    x = torch.tensor([3.0, 4.0, 5.0], device="cuda")
    zeros, sevens, counted, copied, seen, strided = module.made(x)
    assert torch.equal(zeros, torch.zeros(2, 3, device="cuda")) and sevens.tolist() == [7.0] * 4
    assert counted.tolist() == [0, 1, 2, 3, 4] and torch.equal(copied, x) and strided.stride() == (4,)
    seen[0] = 9
    assert x.tolist() == [9, 4, 5]


def test_streams_and_devices_are_torchs(module: Any) -> None:
    assert module.stream_of(0) == 0 and module.compute_units() == 304
    assert module.device_in(1) == 1 and module.device_in(0) == 0
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert module.stream_of(0) == module.stream_of(-1) == stream.cuda_stream != 0
        x = torch.ones(5, device="cuda")
        assert torch.equal(module.scale(x, 2.0), x * 2)
    with pytest.raises(RuntimeError, match="HIP error: invalid device ordinal .hipSetDevice"):
        module.fails()
    torch.cuda.synchronize()


ANSWER = r"""
#include <Python.h>
#include <hip/hip_runtime.h>
__global__ void k(int* x) { *x = NUMBER; }
static PyObject* set(PyObject*, PyObject* x) {
  k<<<1, 1>>>((int*)PyLong_AsLongLong(x));
  Py_RETURN_NONE;
}
static PyMethodDef functions[] = {{"set", set, METH_O, ""}, {}};
static PyModuleDef answer = {PyModuleDef_HEAD_INIT, "answer", "", -1, functions};
#define INIT_OF(name) PyInit_##name
#define INIT(name) INIT_OF(name)
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() { return PyModule_Create(&answer); }
"""


def test_same_sources_again_and_others_of_the_same_name() -> None:
    def answer(number: int) -> Any:
        source = ANSWER.replace("NUMBER", str(number))
        return load_inline("answer", "", source, with_cuda=True, no_implicit_headers=True)

    x = torch.zeros(1, dtype=torch.int32, device="cuda")
    for number in (41, 42, 41):
        answer(number).set(x.data_ptr())
        assert x.item() == number


COUNTED = r"""
#include <cuda_runtime.h>
__global__ void sampled(int* x) { x[blockIdx.x] = 1; }
__global__ void whole(int* x) { x[blockIdx.x] = 2; }
extern "C" void run(int* x, int n) { sampled<<<n, 1024>>>(x); whole<<<n, 1024>>>(x + n); }
"""


def test_samples_of_the_kernels_that_are_named() -> None:
    """Of a grid of four rounds three run and 32 of the others, and stand for all; of one not named all of it runs."""
    library = ctypes.CDLL(load_inline("counted", "", COUNTED, no_implicit_headers=True, is_python_module=False))
    n = 4 * 304 * 2
    x, other = (torch.zeros(2, n, dtype=torch.int32, device="cuda") for _ in range(2))
    cdna.stats()
    with cdna.counting(lambda name: "sampled" in name):
        library.run(ctypes.c_void_p(x.data_ptr()), n)
    library.run(ctypes.c_void_p(other.data_ptr()), 1)
    sample, whole, *uncounted = (record.counters for record in cdna.stats())
    assert sample and whole and uncounted == [None, None]
    ran = n * 3 // 4 + 32
    assert (sample.groups_run, whole.groups_run, sample.groups, whole.groups) == (ran, n, n, n)
    assert int(x[0].sum()) == ran and (x[1] == 2).all()


RAW = r"""
#include <cuda_runtime.h>
#include "scale.h"
__global__ void negate(float* x) { x[threadIdx.x] *= SCALE; }
extern "C" int negate_all(float* x, int n, cudaStream_t stream) {
  negate<<<1, n, 0, stream>>>(x);
  return cudaGetLastError();
}
"""


def test_load_of_files_without_torch(tmp_path: Path) -> None:
    """A library with a C interface: torch stays out, so any C++ library will do."""
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "scale.h").write_text("#define SCALE -1.0f\n")
    (tmp_path / "negate.cu").write_text(RAW)
    (tmp_path / "more.cpp").write_text('extern "C" int answer() { return 42; }\n')
    path = load(
        "negate", [str(tmp_path / "negate.cu"), str(tmp_path / "more.cpp")],
        extra_include_paths=[str(tmp_path / "include")], build_directory=str(tmp_path), is_python_module=False,
    )  # fmt: skip
    library = ctypes.CDLL(path)
    x = torch.arange(64, dtype=torch.float32, device="cuda")
    assert library.negate_all(ctypes.c_void_p(x.data_ptr()), 64, None) == 0 and library.answer() == 42
    assert torch.equal(x, -torch.arange(64.0, device="cuda"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["include", "more.cpp", "negate.cu"]


@needs_gxx
def test_binding_in_the_source_without_implicit_headers() -> None:
    source = r"""
    #include <hip/hip_runtime.h>
    #include <pybind11/pybind11.h>
    __global__ void fill(int* x, int value) { x[threadIdx.x] = value; }
    PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
      m.def("fill", [](uintptr_t x, int value) { hipLaunchKernelGGL(fill, dim3(1), dim3(64), 0, 0, (int*)x, value); });
    }
    """
    module = load_inline(
        "bound", "", source, with_cuda=True, no_implicit_headers=True,
        extra_cuda_cflags=["-std=c++20", "-Werror", "-save-temps"],
    )  # fmt: skip
    x = torch.zeros(64, dtype=torch.int32, device="cuda")
    module.fill(x.data_ptr(), 5)
    assert x.tolist() == [5] * 64


def test_errors_are_at_the_users_line() -> None:
    broken = """
__global__ void k(int* x) {
  *x = undeclared;
}
"""
    with pytest.raises(RuntimeError, match=r"extension 'broken': checks_hip.py:\d+:8: .*undeclared") as caught:
        load_inline("broken", "", broken, no_implicit_headers=True)
    line = int(str(caught.value).split("checks_hip.py:")[1].split(":")[0])
    assert "undeclared" in Path(__file__).read_text().splitlines()[line - 1]
    with pytest.raises(RuntimeError, match="names gfx950, and the emulated GPU is gfx942"):
        load_inline("other", "", broken, extra_cuda_cflags=["--offload-arch=gfx950"])
    with pytest.raises(NotImplementedError, match="calls hipNoSuchCall, which the emulated runtime lacks"):
        source = 'extern "C" int hipNoSuchCall(); __global__ void k() {} int f() { return hipNoSuchCall(); }'
        load_inline("lacks", "", source, no_implicit_headers=True)


def test_headers_of_rocms_libraries_matter_where_they_are_used(tmp_path: Path, monkeypatch: Any) -> None:
    """Sources include a library or two more than they use."""
    include = "#include <rocprim/rocprim.hpp>\n#include <ck/utility/data_type.hpp>\n#include <rocwmma/rocwmma.hpp>\n"
    kernel = '__global__ void k(int* x) { *x = %s + rocwmma::mem_col_major; }\nextern "C" int f() { return 7; }'
    flags = {"no_implicit_headers": True, "is_python_module": False, "build_directory": str(tmp_path)}
    load_inline("unused", "", include + kernel % "sizeof(ck::half4_t)", **flags)
    absent = r"taken as empty: rocprim/rocprim.hpp, of libraries that come with ROCm"
    with pytest.raises(RuntimeError, match=rf"undeclared identifier 'rocprim'.*{absent}"):
        load_inline("used", "", include + kernel % "sizeof(rocprim::half)", **flags)
    for name in ("rocprim/rocprim.hpp", "ck/utility/data_type.hpp"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"namespace {name.partition('/')[0]} {{ using half = _Float16; }}\n")
    monkeypatch.setenv("CPATH", str(tmp_path))
    load_inline("found", "", include + kernel % "sizeof(rocprim::half) + sizeof(ck::half)", **flags)


def test_a_killed_build_blocks_nobody(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()  # what torch's own lock leaves behind
    source = '__global__ void k() {}\nextern "C" int f() { return 7; }'
    flags = {"no_implicit_headers": True, "is_python_module": False, "build_directory": str(tmp_path)}
    assert ctypes.CDLL(load_inline("killed", "", source, **flags)).f() == 7


@needs_gxx
def test_without_gxx_it_says_what_to_install(tmp_path: Path, monkeypatch: Any) -> None:
    """A machine that has only pip's compiler: PATH leads nowhere."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CDNA_HIP_COMPILER", "ziglang")
    with pytest.raises(RuntimeError, match=r"m: .*install g\+\+ \(Debian, Ubuntu: apt-get install g\+\+\)"):
        load_inline("m", "int f();", "__global__ void k() {}\nint f() { return 1; }", functions=["f"])


def test_large_tensors_lie_where_other_ranks_reach_them() -> None:
    source = 'extern "C" int handle(void* p) { hipIpcMemHandle_t handle; return hipIpcGetMemHandle(&handle, p); }'
    library = ctypes.CDLL(load_inline("handle", "", source, no_implicit_headers=True, is_python_module=False))

    def handle(x: torch.Tensor) -> int:
        return library.handle(ctypes.c_void_p(x.data_ptr()))

    for dtype in (torch.float32, torch.float8_e4m3fnuz):
        x = torch.zeros(1 << 20, dtype=dtype, device="cuda:1")
        assert handle(x) == 0 and x.device.index == 1 and x.dtype == dtype and not x.float().any()
    assert handle(torch.zeros(1 << 20)) != 0
    heap = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    heap[5] = 1
    assert handle(heap) == 0 and not heap.zero_()[:10].any()


if __name__ == "__main__":
    main(__file__)
