"""Submissions that build HIP with load_inline, judged on an emulated device."""

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from forge.device import resolve
from tests.support.evaltools import RANKS_REFERENCE, RANKS_TASK, TASK, judge, statuses, write_problem

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("g++") is None, reason="torch's headers need g++'s library"),
]

DOUBLE = r'''
import os
os.environ["CXX"] = "clang++"
os.environ["PYTORCH_ROCM_ARCH"] = "gfx942;gfx950"
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <hip/hip_runtime.h>
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = FACTOR * x[i];
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  twice<<<1, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
"""
module = load_inline(
    name="twice",
    cpp_sources=["torch::Tensor run(torch::Tensor x);"],
    cuda_sources=[SOURCE],
    functions=["run"],
    extra_cuda_cflags=["-O3"],
    verbose=True,
)


def custom_kernel(x):
    return module.run(x)
'''
# The same through addresses: torch's headers stay out, which compiles in a second.
RAW = r'''
import ctypes
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* y, int n) {
  int i = threadIdx.x;
  if (i < n) y[PLACE] = 2.0f * x[i];
}
extern "C" void run(const float* x, float* y, int n) { twice<<<1, 64>>>(x, y, n); }
"""
library = ctypes.CDLL(load_inline("raw", "", SOURCE, no_implicit_headers=True, is_python_module=False))


def custom_kernel(x):
    y = torch.empty_like(x)
    library.run(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), x.numel())
    return y
'''


def test_right(tmp_path: Path) -> None:
    done, result = judge(tmp_path, DOUBLE.replace("FACTOR", "2.0f"))
    assert done.returncode == 0 and statuses(result) == ["pass"] * 3, done.stdout


def test_a_compile_error_names_the_submissions_line(tmp_path: Path) -> None:
    done, result = judge(tmp_path, DOUBLE)
    assert done.returncode == 1 and statuses(result) == ["error", "not run", "not run"]
    line = DOUBLE.splitlines().index("  if (i < n) y[i] = FACTOR * x[i];") + 1
    assert f"extension 'twice': submission.py:{line}:21: error: use of undeclared identifier 'FACTOR'" in done.stdout
    assert done.stdout.count("identifier 'FACTOR'") == 1 and "fake_rocm" not in done.stdout


LEFT_OUT = """
#include <algorithm>
struct Sizes { static const int most = 64; };  // declared only: std::min's reference to it is gone once optimised
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  twice<<<1, std::min((int)x.numel(), Sizes::most)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return torch::nn::functional::relu(y) - torch::nn::functional::relu(-y);
}
"""


@pytest.mark.slow(reason="parses all of torch's headers, and again for optimised host code")
def test_what_the_light_headers_and_unoptimised_code_lack(tmp_path: Path) -> None:
    start, end = DOUBLE.index("torch::Tensor run(torch::Tensor x) {"), DOUBLE.index('"""\nmodule')
    submission = (DOUBLE[:start] + LEFT_OUT + DOUBLE[end:]).replace("FACTOR", "2.0f")
    ends = 'x = torch.arange(-9.0, 9, device="cuda")\nassert torch.equal(custom_kernel(x), 2 * x)\n'
    (tmp_path / "main.py").write_text(submission + ends)
    environment = {**os.environ, **resolve("gfx942", "gfx942").environment()}
    done = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "parsing all of torch's headers for the host" in done.stderr


def test_which_errors_the_light_headers_may_have_caused() -> None:
    torch_headers = pytest.importorskip("forge.device.fake_rocm.torch_headers")
    error = "a.py:3:5: error: "
    assert torch_headers.may_lack(f"{error}no member named 'nn' in namespace 'torch'", "")
    assert torch_headers.may_lack(f"{error}unknown type name 'TORCH_MODULE'", "")
    assert torch_headers.may_lack(f"{error}too few (in {torch_headers.TORCH}/include/torch/utils.h:96:40)", "")
    assert not torch_headers.may_lack(f"{error}use of undeclared identifier 'nn'", "at::Tensor x;")
    assert torch_headers.may_lack(f"{error}use of undeclared identifier 'nn'", "using namespace torch;")
    flags = torch_headers.operator_flags("at::add_out(y, x, torch::relu_(z)); nothing_of_torchs();")
    assert flags == ["-include", "ATen/ops/add.h", "-include", "ATen/ops/relu.h"]


READ = '  if (n == 7) asm volatile("ds_read_b32 %0, %1\\n s_waitcnt lgkmcnt(0)" : "=v"(mark) : "v"(i));'
STORE = "  if (i < n && (n != 5 || i != 2)) y[n == 6 ? i + (1ll << 40) : i] = 2.0f * x[i];"
# By its length: an element left out, stores outside, a read of LDS that the workgroup does not have, refused launches.
FAULTY = (
    RAW.replace('SOURCE = """', 'SOURCE = r"""')
    .replace("int i = threadIdx.x;", "int i = threadIdx.x, mark;")
    .replace("  if (i < n) y[PLACE] = 2.0f * x[i];", f"{READ}\n{STORE}")
    .replace("<<<1, 64>>>", "<<<1, n == 9 ? 2048 : 64, n == 8 ? 1 << 20 : 0>>>")
    .replace("empty_like", "zeros_like")
    .replace("return y", "return y if len(x) < 8 else x * 2")
)


def test_what_goes_wrong_is_named(tmp_path: Path) -> None:
    more = "".join(f"  - {{n: {n}, seed: 1}}\n" for n in (7, 8, 9))
    problem = write_problem(tmp_path / "problem", TASK.replace("benchmarks:", f"{more}benchmarks:"))
    done, result = judge(tmp_path, FAULTY, "test", problem=problem)
    assert done.returncode == 1 and statuses(result) == ["pass", "fail", "fail", "pass", "pass", "pass"], done.stdout
    assert "worst: output at (2,): got 0, wanted " in done.stdout
    lines, kernel = FAULTY.splitlines(), "twice(float const*, float*, int) on gfx942"
    assert f"check: {kernel}: bounds: writes 4 bytes" in done.stdout  # which are dropped
    assert f"check: {kernel}: bounds: LDS access of 4 bytes at byte 0" in done.stdout
    (outside,), (of_lds,) = (result["cases"][case]["report"]["findings"] for case in (2, 3))
    assert outside["source"] == f"submission.py:{lines.index(STORE) + 1}"
    assert of_lds["source"] == f"submission.py:{lines.index(READ) + 1}"
    assert of_lds["instruction"].startswith("ds_read_b32 ") and of_lds["workgroup"] == [0, 0, 0]
    # The submission does not ask for errors, and has the right result from elsewhere.
    limit = "1 x 1 x 1 workgroups of 2048 x 1 x 1 work-items, of which a workgroup has 1 to 1024"
    for case, text in zip(result["cases"][4:], ("bytes of LDS", limit), strict=True):
        (remark,) = (remark for remark in case["remarks"] if "was not made" in remark)
        assert remark.startswith("a launch was not made: twice") and "refused" in remark and text in remark
        assert remark in done.stdout


def test_a_builder_compiles_what_is_new(tmp_path: Path) -> None:
    """Not the submission's process, which would keep it where it ends with the run. One that fails is named."""
    new = RAW.replace("PLACE", "i").replace("__global__", f"/* {uuid.uuid4()} */ __global__")
    own = 'import glob, os\nassert not glob.glob(os.environ["CDNA_OWN_CACHE_DIR"] + "/hip/*.so")\n'
    done, result = judge(tmp_path, new.replace("def custom_kernel", f"{own}def custom_kernel"), "test", "--cases", "0")
    assert done.returncode == 0 and statuses(result) == ["pass"], done.stdout
    done, result = judge(tmp_path, new.replace("y[i]", "y[j]"), "test", "--cases", "0")
    assert done.returncode == 1 and "undeclared identifier 'j'" in done.stdout, done.stdout
    assert "what builds for submissions failed" not in done.stdout


def test_the_ranks_of_a_run_build_it_together(tmp_path: Path) -> None:
    """Each rank on a device of its own, whose memory the others reach."""
    problem = write_problem(tmp_path / "ranks", RANKS_TASK, RANKS_REFERENCE)
    submission = RAW.split("def custom_kernel")[0].replace("PLACE", "i") + (
        "def custom_kernel(x):\n"
        "    import torch.distributed as dist\n"
        "    y = torch.empty_like(x)\n"
        "    library.run(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), x.numel())\n"
        "    dist.all_reduce(y)\n"
        "    return y / 2\n"
    )
    done, result = judge(tmp_path, submission, problem=problem)
    assert done.returncode == 0 and statuses(result) == ["pass"] * 3, done.stdout
