"""What CUDA builds of our HIP kernels keep for a process is kept for each of its devices: they change with its rank."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.limits import ENDS_S

ROOT = Path(__file__).resolve().parents[2]

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
    """And a refusal stays one: the second call must not take silence for success."""
    (tmp_path / "program.cpp").write_text(PROGRAM)
    command = ["g++", "-std=c++17", "-Wall", "-Werror", "-Wno-unused-function", f"-I{ROOT / 'kernels/common/sm90'}"]
    subprocess.run([*command, "program.cpp", "-o", "program"], cwd=tmp_path, check=True, timeout=ENDS_S)
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True, timeout=ENDS_S).stdout
    assert said == 3 * "00 00 11 " + "2 2 2\n"
