"""--check of HIP: kernels are compiled for the problem's GPU, launches noted by case, and nothing is executed."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from forge.compile_report.report import archs_of
from tests.support.prepared import HIP_EXTENSIONS
from tests.support.toy_check import Checked, check_toy, check_toy_alone, tasks, write_files

pytestmark = [pytest.mark.long, pytest.mark.skipif(shutil.which("g++") is None, reason="torch's libraries need g++'s")]
ROOT = Path(__file__).resolve().parents[2]
TASK = """
files: [{name: submission.py, source: "@SUBMISSION@"}, {name: reference.py, source: reference.py}]
lang: py
tests: [{m: 64, n: 64, seed: 1}, {m: 64, n: 65, seed: 1}]
benchmarks: [{m: 4194304, n: 4096, seed: 1}]
"""
# 32 GB of input in the benchmark: only its shape may be made
REFERENCE = """
import torch
def generate_input(m, n, seed):
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    return torch.randn((m, n), device="cuda", dtype=torch.bfloat16, generator=gen), torch.empty(m, device="cuda")
"""
HIP = r"""#include <hip/hip_runtime.h>

template <int ROWS, bool ALL> __global__ void __launch_bounds__(256) row_sums(const short* x, float* y, int n) {
    extern __shared__ float part[];
    __shared__ float fixed[ROWS];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i] * ROWS;
    part[threadIdx.x] = sum;
    fixed[threadIdx.x % ROWS] = sum;
    __syncthreads();
    y[blockIdx.x] = part[0] + fixed[n % ROWS] + ALL;
    if (ALL) __builtin_trap();  // nothing is executed
}

void run(int64_t x, int64_t y, int m, int n, int lds_bytes) {
    if (m > 1000) row_sums<64, true><<<m, 256, lds_bytes>>>((const short*)x, (float*)y, n);
    else if (n % 64) row_sums<16, false><<<m, 64, lds_bytes>>>((const short*)x, (float*)y, n);
    else row_sums<32, true><<<m, THREADS, lds_bytes>>>((const short*)x, (float*)y, n);
    if (m < 0) row_sums<48, false><<<m, 128, 0>>>((const short*)x, (float*)y, n);
}
""".replace("THREADS", "128")
VARIANT = """
import torch

from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source

SOURCE = hip_source("kernel.hip")
MODULE = load_extension("toy_check", SOURCE, ["run"])


def custom_kernel(data):
    x, y = data
    m, n = x.shape
    assert x.device.type == "cuda" and torch.cuda.get_device_properties(0).multi_processor_count > 0
    MODULE.run(x.data_ptr(), y.data_ptr(), m, n, 1024 if n == 4096 else 512)
    return y
"""
Check = Callable[..., Checked]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Exit code, lines of the table and error output of checking the toy problem's kernel. alone: as users start it."""

    def checked(
        hip: str = HIP,
        task: str = TASK,
        gpus: str = "MI300",
        name: str = "plain.py",
        variant: str = VARIANT,
        reference: str = REFERENCE,
        alone: bool = False,
    ) -> Checked:
        files = {
            "task.yml": tasks(gpus),
            "reference/toy/task.yml": task,
            "reference/toy/reference.py": reference,
            f"kernels/toy/{name}": variant,
        }
        if hip:
            files["kernels/toy/kernel.hip"] = hip
        for common in ("hip_source.py", "hip_extension.py", "symmetric_heap.py"):
            files[f"kernels/common/{common}"] = (ROOT / "kernels/common" / common).read_text()
        write_files(tmp_path, files)
        return check_toy_alone(tmp_path, capsys) if alone else check_toy(tmp_path, imports=[HIP_EXTENSIONS])

    return checked


def rows(lines: list[str]) -> dict[str, list[str]]:
    """Cells of each line of the table, by the template's arguments."""
    cells = [re.split(r"\s{2,}", line) for line in lines if line.startswith("row_sums")]
    return {row[1].partition(" threads")[0]: row for row in cells}


def test_every_instantiation_with_the_cases_that_launch_it(check: Check) -> None:
    code, lines, errors = check(alone=True)
    assert (code, errors) == (0, ""), (lines, errors)
    found = rows(lines)
    assert set(found) == {"<16, false>", "<32, true>", "<48, false>", "<64, true>"}
    assert found["<32, true>"][1].endswith(" threads=128") and found["<32, true>"][-1] == "test 0"
    assert found["<16, false>"][1].endswith(" threads=64") and found["<16, false>"][-1] == "test 1"
    assert found["<64, true>"][1].endswith(" threads=256") and found["<64, true>"][-1] == "benchmark 0"
    assert found["<48, false>"][1].endswith(" threads=256") and found["<48, false>"][-1] == "none"
    assert [found[key][7] for key in ("<16, false>", "<64, true>", "<48, false>")] == ["64/512", "256/1024", "192/0"]


def test_too_much_lds_and_too_many_threads(check: Check) -> None:
    code, lines, errors = check(HIP.replace("m, 128, lds_bytes", "m, 512, 65536"))
    assert code == 1
    where = r"gen_submission\.py: kernels/toy/kernel\.hip:\d+: row_sums \(<32, true> threads=512\) "
    assert re.search(where + r"takes 65664 bytes of LDS a workgroup; gfx942 has 65536", errors), errors
    assert re.search(where + r"is compiled for at most 256 threads", errors), errors


def test_a_compile_error_names_the_users_line(check: Check) -> None:
    code, _, errors = check(HIP.replace("float sum = 0;", "float sum = nothing;"))
    assert code == 1 and "kernels/toy/kernel.hip:6:" in errors and "'nothing'" in errors, errors


def test_an_error_of_host_code_names_its_case(check: Check) -> None:
    code, _, errors = check(variant=VARIANT.replace("    m, n = x.shape\n", "    m, n = x.shape\n    assert n != 65\n"))
    assert code == 1 and "AssertionError" in errors and "(test 1)" in errors, errors


def test_a_hip_variant_with_tensors(check: Check) -> None:
    """The benchmark's 32 GB lie in memory that nobody touches."""
    hip = HIP.replace("#include <hip/hip_runtime.h>", "#include <hip/hip_runtime.h>\n#include <torch/types.h>").replace(
        "void run(int64_t x, int64_t y, int m, int n, int lds_bytes) {",
        "torch::Tensor custom_kernel(torch::Tensor a, torch::Tensor b) {\n"
        "    TORCH_CHECK(a.is_cuda() && b.is_cuda());\n"
        "    const int m = a.size(0), n = a.size(1), lds_bytes = n == 4096 ? 1024 : 512;\n"
        "    auto x = a.data_ptr(), y = b.data_ptr();",
    )
    code, lines, errors = check(hip="", name="plain.hip", variant=hip.rstrip().removesuffix("}") + "    return b;\n}\n")
    assert (code, errors) == (0, ""), (lines, errors)
    assert rows(lines)["<64, true>"][-1] == "benchmark 0" and rows(lines)["<32, true>"][-1] == "test 0"


def test_a_distributed_kernel_as_rank_0_sees_it(check: Check) -> None:
    variant = VARIANT.replace("import torch\n", "import torch\nimport torch.distributed as dist\n").replace(
        "import hip_source\n", "import hip_source\nfrom kernels.common.symmetric_heap import symmetric_heap\n"
    )
    variant = variant.replace(
        "    m, n = x.shape\n",
        "    m, n = x.shape\n    heap = symmetric_heap()\n    region = heap.region((m, n), 4096)\n"
        "    assert (heap.rank, heap.world_size, dist.get_world_size()) == (0, 8, 8) and region.next_epoch() == 1\n"
        "    assert len(region.addresses) == 8 and region.table.shape == (8,)\n",
    )
    reference = REFERENCE.replace("(m, n, seed)", "(m, n, seed, rank, world_size=8)")
    task = TASK.replace("64, seed: 1}", "64, seed: 1, world_size: 8}")
    code, lines, errors = check(variant=variant, task=task, gpus="MI300x8", reference=reference)
    assert (code, errors) == (0, ""), (lines, errors)
    assert rows(lines)["<32, true>"][-1] == "test 0"


def test_archs() -> None:
    assert archs_of("load(arch='gfx942') # gfx950 too", "gfx942") == ["gfx942"]
    assert archs_of('arch="gfx942;gfx950"', "gfx942") == ["gfx942", "gfx950"]
    assert archs_of("--offload-arch=gfx950,gfx942,gfx90a", "gfx942") == ["gfx942", "gfx950"]


def test_a_wait_that_is_missing_on_some_path_is_wrong(check: Check) -> None:
    early = '    asm volatile("ds_read_b32 %0, %1" : "=v"(sum) : "v"(0));\n    __syncthreads();'
    code, lines, errors = check(HIP.replace("    __syncthreads();", early))
    assert code == 1 and "row_sums (<64, true> threads=256): wait: " in errors
    assert "before the wait for it: `ds_read_b32 " in errors and "kernel.hip:" in errors
    assert any(line.startswith("waits and hazards on every path: ") for line in lines)
