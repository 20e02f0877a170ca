"""Hopper's kernels, as far as no GPU is needed; and on one the product's tiles."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from forge.device.hip_on_cuda import headers
from lab.hopper.common.gemm_card import H200, IN_TURN
from lab.hopper.gemm_rs.triton import as_pages
from tests.support.evaltools import ROOT
from tests.support.limits import ENDS_S

HOPPER = ROOT / "lab/hopper"

# A runtime of three devices that count what they are asked; the third has no shared memory to give.
PROGRAM = r"""
#include <cstdio>

typedef int cudaError_t;
constexpr cudaError_t cudaSuccess = 0, OUT_OF_IT = 1;
enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaDevAttrMultiProcessorCount = 16 };
static int current, requests[3];
static cudaError_t cudaGetDevice(int* device) { return *device = current, cudaSuccess; }
static cudaError_t cudaFuncSetAttribute(const void*, int, int) {
    requests[current]++;
    return current == 2 ? OUT_OF_IT : cudaSuccess;
}
static cudaError_t cudaDeviceGetAttribute(int* value, int, int device) { return *value = 100 + device, cudaSuccess; }

#include "device_state.h"

int main() {
    const char one = 0, other = 0;
    for (int call = 0; call < 3; call++)
        for (current = 0; current < 3; current++) {
            const cudaError_t answers[] = {allow_shared_memory(&one, 1 << 16), allow_shared_memory(&other, 1 << 17)};
            std::printf("%d%d ", answers[0], answers[1]);
            if (processor_count() != 100 + current) return 1;
        }
    std::printf("%d %d %d\n", requests[0], requests[1], requests[2]);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_every_device_is_asked_once_for_every_kernel(tmp_path: Path) -> None:
    """A process changes its device with its rank. And a refusal stays one: silence is no success in the second call."""
    (tmp_path / "program.cpp").write_text(PROGRAM)
    command = ["g++", "-std=c++17", "-Wall", "-Werror", "-Wno-unused-function", f"-I{HOPPER / 'common'}"]
    subprocess.run([*command, "program.cpp", "-o", "program"], cwd=tmp_path, check=True, timeout=ENDS_S)
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True, timeout=ENDS_S).stdout
    assert said == 3 * "00 00 11 " + "2 2 2\n"


def test_gluon_kernels_for_hopper_can_signal_and_wait(tmp_path: Path) -> None:
    """Gluon takes not all of tl: a tl.full without a layout in peer_signals.py once broke amd-ag-gemm's kernel."""
    (tmp_path / "kernel.py").write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path.insert(0, {str(ROOT)!r})
            import triton
            from triton.backends.compiler import GPUTarget
            from triton.experimental import gluon
            from triton.experimental.gluon._runtime import GluonASTSource
            from lab.hopper.common.peer_signals import signal_add, stores_complete, wait_until_at_least

            @gluon.jit
            def kernel(flag, epoch, alarm, timeout_ticks, peer):
                stores_complete()
                signal_add(flag, 1)
                wait_until_at_least(flag, epoch, alarm, timeout_ticks, 1, peer)

            types = dict(flag="*i32", epoch="i32", alarm="i64", timeout_ticks="i64", peer="i32")
            made = triton.compile(GluonASTSource(kernel, types, {{}}), target=GPUTarget("cuda", 90, 32))
            print("fence.acq_rel.sys" in made.asm["ptx"], len(made.asm["cubin"]) > 0)
            """
        )
    )
    done = subprocess.run([sys.executable, tmp_path / "kernel.py"], capture_output=True, text=True, timeout=ENDS_S)
    assert done.stdout == "True True\n", done.stderr


def test_one_descriptor_reaches_memory_mapped_anywhere() -> None:
    large = 2 << 20
    for places in (
        [0x7F12_0000_0000, 0x7F12_0060_0000, 0x7F11_FE00_0000],
        [0x7F12_0000_1000, 0x0002_0000_3000],  # 8 KiB apart beside 127 TiB: too far
        [0x7F12_0000_0000, 0x0002_0000_0000 + 3 * large],
        [0x1000],
    ):
        found = as_pages(places)
        if found is None:
            assert max(places) - min(places) >= 4096 << 31
            assert any((place - min(places)) % large for place in places)
            continue
        lowest, page_bytes, pages = found
        assert [lowest + page_bytes * page for page in pages] == places
        assert max(pages) < 1 << 31 and page_bytes < 1 << 40 and page_bytes % 16 == 0
    assert as_pages([0x7F12_0000_1000, 0x0002_0000_2000]) is None
    assert as_pages([0x7F12_0000_0000, 0x0002_0000_0000]) is not None


N_TILES, N_IN_TURN = len(H200.tiles), len(IN_TURN)
OF_RANKS = pytest.mark.slow(reason="the product's loops in a kernel of several ranks, which nvcc takes a minute for")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize(
    ("source", "n_kernels"),
    [
        pytest.param("bf16_gemm.hip", N_TILES + N_IN_TURN, id="gemm"),
        pytest.param("gemm_rs/gemm_rs.hip", N_TILES + N_IN_TURN, id="gemm-rs", marks=OF_RANKS),
        pytest.param("ag_gemm/ag_gemm.hip", N_TILES, id="ag-gemm", marks=OF_RANKS),
    ],
)
def test_hoppers_loops_wait_for_no_product_and_do_not_spill(source: str, n_kernels: int, tmp_path: Path) -> None:
    """ptxas puts a wait behind each wgmma where it cannot follow the accumulators, and says so."""
    includes = [f"-I{folder}" for folder in (*headers(tmp_path), ROOT / "kernels/common")]
    flags = ["-O3", "-std=c++20", "-include", "hip/hip_runtime.h", "-gencode=arch=compute_90a,code=sm_90a"]
    flags += ["-Xptxas", "-v", "-x", "cu", "-cubin", "-o", str(tmp_path / "gemm.cubin")]
    command = ["nvcc", *flags, *includes, str(HOPPER / source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_S)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said)
    assert len(spills) == n_kernels and set(spills) == {("0", "0", "0")}
    assert "serialized" not in said


BUILD_S = 300


@pytest.mark.gpu
@pytest.mark.timeout(BUILD_S + 60)
def test_every_tile_of_the_bf16_product(tmp_path: Path) -> None:
    """One after the other and in turn, in slices of k, NaN around the matrices."""
    if torch.version.hip or torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("its tiles are those for NVIDIA's Hopper")
    command = [sys.executable, "-m", "forge.device", "cuda", "--", sys.executable, "lab/bf16_gemm.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BUILD_S)
    assert done.returncode == 0 and " products, 0 wrong" in done.stdout, done.stdout + done.stderr
