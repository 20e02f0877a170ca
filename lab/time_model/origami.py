"""AMD's own analytical model of GEMMs, rocm-origami, asked about the rows that it covers: cycles, to order kernels by.

Its wheel is built beside ROCm; here its sources are compiled with a header that stands for HIP's, for the model asks
HIP for nothing but a device. It is told a kernel's tile, matrix instruction, split of k and workgroups a CU.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cdna.cards import cards

from .launches import tile
from .rows import Row, RowError

DRIVER = Path(__file__).with_name("origami_driver.cpp")
HIP = """\
struct hipDeviceProp_t { char gcnArchName[256]; int multiProcessorCount, l2CacheSize, clockRate, memoryClockRate;
                         unsigned long sharedMemPerBlock; };
using hipError_t = int;
inline hipError_t hipGetDeviceProperties(hipDeviceProp_t*, int) { return 1; }
inline const char* hipGetErrorString(hipError_t) { return "no device"; }
"""
_STEP = {"bf16": 64, "f4": 256, "f8": 128, "i8": 128}  # of k, that a step of AITER's kernels takes
_OPERANDS = {"bf16gemm": "bf16", "f4gemm": "f4", "fp8gemm_blockscale": "f8", "i8gemm": "i8", "fp8_template": "f8"}
COVERED = frozenset(_OPERANDS)


def question(row: Row, groups_per_cu: int) -> str:
    """The driver's line for a row. RowError where the model covers no such kernel."""
    if row.family not in COVERED:
        raise RowError(f"{row.family}: origami knows GEMMs alone")
    card, operands = cards()[row.card], _OPERANDS[row.family]
    m, n, k = (row.number(name) for name in ("m", "n", "k"))
    order, split, instruction = "T N", 1, "0 0 0"  # k lies together; the instruction that it recommends
    if row.family == "fp8_template":
        order = "N T"
        whole = " ".join(row.shape[f"block_{name}"] for name in "mnk")
        instruction = " ".join(row.shape[f"warp_{name}"] for name in "mnk")
    else:
        split = 2 ** row.number("split") if row.family == "f4gemm" else max(row.number("split"), 1)
        whole = " ".join(map(str, (*tile(row), _STEP[operands])))
    words = (
        card.name, card.compute_units, card.lds_bytes, card.l2_bytes, round(card.clock_mhz * 1000), operands,
        "f32" if row.shape.get("out") == "f32" else "bf16", order, 32 if operands == "f4" else 0, m, n, k, whole,
        instruction, groups_per_cu, split,
    )  # fmt: skip
    return " ".join(map(str, words))


def build(package: Path, folder: Path) -> Path:
    """The driver's program, of an unpacked rocm-origami. RowError with the compiler's first words where that fails."""
    (folder / "hip").mkdir()
    (folder / "hip" / "hip_runtime.h").write_text("#pragma once\n" + HIP)
    sources = sorted((package / "src").rglob("*.cpp"))
    if not sources:
        raise RowError(f"{package}: no sources of rocm-origami (pip download --no-binary :all: --no-deps, unpacked)")
    program = folder / "driver"
    command = ["g++", "-std=c++20", "-O1", f"-I{folder}", f"-I{package / 'include'}", str(DRIVER), *map(str, sources)]
    done = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True)
    if done.returncode:
        raise RowError(f"{package}: {next(line for line in done.stderr.splitlines() if 'error' in line)}")
    return program


def cycles(package: Path, questions: Sequence[str]) -> list[float]:
    """What the model says of each."""
    with tempfile.TemporaryDirectory(prefix="origami-") as folder:
        program = build(package, Path(folder))
        done = subprocess.run([program], input="\n".join(questions) + "\n", capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]
