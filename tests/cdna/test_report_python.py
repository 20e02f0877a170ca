"""`python -m cdna report file.py`: the HIP that a Python file builds, found by importing it; and kernels' names."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdna.__main__ import main
from cdna.hip.names import demangled, template_arguments
from cdna.hip.submission import Found, assembly_of_source

pytestmark = pytest.mark.long

FILE = r'''
import os
from torch.utils.cpp_extension import load_inline
from task import input_t, output_t
import triton
import triton.language as tl

SIZE = 64
SOURCE = r"""
#include <hip/hip_runtime.h>
template <int N> __global__ void __launch_bounds__(128) scale(float* x) {
  __shared__ float part[N];
  part[threadIdx.x % N] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = part[(threadIdx.x + 1) % N] * FACTOR;
}
template __global__ void scale<SIZE>(float*);
template __global__ void scale<32>(float*);
"""
module = load_inline("mine", "", SOURCE.replace("SIZE", str(SIZE)), no_implicit_headers=True, functions=["scale"],
                     extra_cuda_cflags=["-DFACTOR=3.0f", "--offload-arch=gfx90a"])
answer = module.scale(1)

LAZY = """
#include <cuda_runtime.h>
__global__ void lazy(int* x) { *x = 1; }
"""

@triton.jit
def double(x):
    tl.store(x, 2 * tl.load(x))


def custom_kernel(data: input_t) -> output_t:
    return load_inline("lazy", "", LAZY)
'''


def report(tmp_path: Path, text: str, *options: str) -> int:
    (tmp_path / "file.py").write_text(text)
    return main(["report", str(tmp_path / "file.py"), *options])


def test_what_is_built_and_what_may_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(tmp_path, FILE, "--dynamic-lds", "1024") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"mine in {tmp_path}/file.py" and lines[5] == f"LAZY in {tmp_path}/file.py"
    assert lines[3].split()[0] == "scale<64>" and lines[3].split()[6:8] == ["1280", "128"]
    assert lines[4].split()[0] == "scale<32>" and lines[4].split()[6:8] == ["1152", "128"]
    assert lines[8].split()[0] == "lazy"
    assert lines[9].startswith("note: not compiled as it stands: SOURCE: file.py:")  # it is made another of
    assert lines[10].startswith("note: Triton kernels") and lines[10].endswith(": double")


def test_a_compile_error_names_the_files_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(tmp_path, FILE.replace("* FACTOR", "* FACTORS").replace('.replace("SIZE", str(SIZE))', "")) == 2
    said = capsys.readouterr().err
    line = FILE.splitlines().index("  x[threadIdx.x] = part[(threadIdx.x + 1) % N] * FACTOR;") + 1
    assert f"file.py:{line}:" in said and "FACTORS" in said, said


def test_an_import_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was built before counts, and so do texts further down."""
    assert report(tmp_path, FILE.replace("answer =", "raise SystemExit('no GPU')\nanswer =")) == 0
    out = capsys.readouterr().out
    assert "was imported up to SystemExit: no GPU" in out and "scale<64>" in out and "\nlazy " in out


def test_a_source_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler_calls: list[list[str]]
) -> None:
    monkeypatch.setenv("CDNA_CACHE_DIR", str(tmp_path))
    source = Found("mine", "__global__ void mine(int* x) { *x = 1; }\n", [], [], torch_headers=False)
    first = assembly_of_source(source, "gfx942")
    done = len(compiler_calls)
    assert assembly_of_source(source, "gfx942") == first and len(compiler_calls) == done > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [("x = 1\n", "builds no HIP"), ("def f(:\n", "SyntaxError"), ("import os; os._exit(3)\n", "exit code 3")],
)
def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    assert report(tmp_path, text) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("readable", "name", "arguments"),
    [
        ("void ns::k<4, f<2, 3>, (E)1>(int*, g<5>)", "ns::k", ["4", "f<2, 3>", "(E)1"]),
        ("scale(float*)", "scale", []),
        ("void (anonymous namespace)::k<3>(int)", "k", ["3"]),
        ("a::b<2>::k(int)", "a::b<2>::k", []),
        ("plain_c_name", "plain_c_name", []),
    ],
)
def test_template_arguments(readable: str, name: str, arguments: list[str]) -> None:
    assert template_arguments(readable) == (name, arguments)


def test_demangling() -> None:
    assert demangled("_Z4axpyILi1ELb1EEvPf") in ("void axpy<1, true>(float*)", "_Z4axpyILi1ELb1EEvPf")
    assert demangled("plain") == "plain"
