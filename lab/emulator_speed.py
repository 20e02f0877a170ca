"""How fast the emulated device executes: wave instructions a second of some kernels, with and without checks.

    python lab/emulator_speed.py [--arch gfx942|gfx950] [--repeats 5]
    python lab/emulator_speed.py --mgpusim CHECKOUT [--llvm /usr/lib/llvm-19/bin]

The second form runs the gfx942 code objects of MGPUSim's samples and counts a CPU second, not one of the clock.
The best of the repeats counts: other work on the machine only slows a run down.
"""

# In a Triton kernel only the compile-time arguments carry an annotation.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
from __future__ import annotations

import argparse
import os
import re
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import triton
import triton.language as tl

import cdna
from cdna.launch.program import Kernel, Program


@triton.jit
def add_kernel(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(a + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)


@triton.jit
def softmax_kernel(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    values = tl.load(x + i)
    weights = tl.exp(values - tl.max(values, 0))
    tl.store(out + i, weights / tl.sum(weights, 0))


@triton.jit
def matmul_kernel(a, b, out, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + k + rk[None, :])
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(out + rm[:, None] * N + rn[None, :], acc)


def kernels() -> dict[str, Callable[[], object]]:
    """Name -> launches it once, on tensors of its own."""
    n = 65536
    a, b, out = torch.randn(n), torch.randn(n), torch.zeros(n)
    x, y = torch.randn(256, 512), torch.zeros(256, 512)
    m, k = 64, 512
    half = torch.randn(m, k).half(), torch.randn(k, 256).half(), torch.zeros(m, 256)
    return {
        f"vector addition, {n} fp32": lambda: add_kernel[(n // 1024,)](a, b, out, n, BLOCK=1024),
        "softmax, 256 rows of 512 fp32": lambda: softmax_kernel[(256,)](x, y, N=512),
        f"product {m}x256x{k}, fp16": lambda: matmul_kernel[(m // 64, 4)](*half, k, 256, BM=64, BN=64, BK=32),
    }


def rate(launch: Callable[[], object], checks: str, repeats: int) -> tuple[int, float]:
    """(wave instructions of a launch, the most a second)."""
    best = float("inf")
    with cdna.checks.use(checks):
        launch()  # compiles
        cdna.stats()
        for _ in range(repeats):
            start = time.perf_counter()
            launch()
            best = min(best, time.perf_counter() - start)
    count = sum(cdna.stats()[-1].by_unit.values())
    return count, count / best


class Sample(NamedTuple):
    """A kernel of MGPUSim's samples and its launch, the same as theirs."""

    file: str  # below amd/benchmarks
    grid: tuple[int, int, int]  # workgroups
    block: tuple[int, int, int]  # work-items
    arguments: list[torch.Tensor | int | float | None]
    lds_bytes: int
    right: Callable[[], bool]  # whether the last launch computed what it should


def samples() -> dict[str, Sample]:
    """Name and size, as options of MGPUSim's sample -> its launch.

    Workgroups of the product and of the bodies share one scratch buffer, so there is one row of workgroups (they write
    the same) and one workgroup.
    """
    n = 65536
    x, positive = torch.arange(n) - 0.5, torch.zeros(n)
    n_fir, taps = 32768, torch.arange(16.0)
    signal, filtered = torch.arange(float(n_fir)), torch.zeros(n_fir)
    padded = torch.nn.functional.pad(signal, (15, 0))[None, None]
    width = 512
    matrix = torch.arange(width * width, dtype=torch.int32).view(width, width)
    transposed = torch.zeros_like(matrix)
    a, b, c = torch.rand(32, 256), torch.rand(256, 512), torch.zeros(32, 512)
    bodies = 256
    place, speed = torch.rand(bodies, 4) * 50, torch.zeros(bodies, 4)
    new_place, new_speed = torch.zeros(bodies, 4), torch.zeros(bodies, 4)

    def speed_is_right() -> bool:
        between = place[None, :, :3] - place[:, None, :3]
        pull = place[:, 3] / ((between**2).sum(2) + 500).sqrt() ** 3
        return torch.allclose(new_speed[:, :3], (pull[:, :, None] * between).sum(1) * 0.005)

    return {
        f"relu -length {n}": Sample(
            "dnn/layer_benchmarks/relu/kernels_gfx942.hsaco",
            (n // 64, 1, 1),
            (64, 1, 1),
            [n, x, positive],
            0,
            lambda: torch.equal(positive, x.relu()),
        ),
        f"fir -length {n_fir}": Sample(
            "heteromark/fir/kernels_gfx942.hsaco",
            (n_fir // 256, 1, 1),
            (256, 1, 1),
            [filtered, taps, signal, torch.zeros(17), 16],
            0,
            lambda: torch.equal(filtered, torch.nn.functional.conv1d(padded, taps.flip(0)[None, None])[0, 0]),
        ),
        f"matrixtranspose -width {width}": Sample(
            "amdappsdk/matrixtranspose/kernels_gfx942.hsaco",
            (width // 64, width // 64, 1),
            (16, 16, 1),
            [transposed, matrix, None, width // 4, width // 4, width // 64, 0, 0],
            16384,
            lambda: torch.equal(transposed, matrix.T),
        ),
        "matrixmultiplication -x 256 -y 32 -z 512": Sample(
            "amdappsdk/matrixmultiplication/kernels_gfx942.hsaco",
            (16, 1, 1),
            (8, 8, 1),
            [a, b, c, 256, torch.zeros(1024)],
            0,
            lambda: torch.allclose(c, a @ b),
        ),
        f"nbody -particles {bodies}": Sample(
            "amdappsdk/nbody/nbody_gfx942.hsaco",
            (1, 1, 1),
            (bodies, 1, 1),
            [place, speed, bodies, 0.005, 500.0, torch.zeros(bodies, 4), new_place, new_speed],
            0,
            speed_is_right,
        ),
    }


def packed(arguments: list[torch.Tensor | int | float | None]) -> bytes:
    """The kernel's arguments: addresses, 32-bit integers and floats, each at a multiple of its size."""
    kernarg = b""
    for value in arguments:
        if isinstance(value, (int, float)):
            kernarg += struct.pack("<f" if isinstance(value, float) else "<i", value)
        else:
            address = 0 if value is None else value.data_ptr()
            kernarg += bytes(-len(kernarg) % 8) + struct.pack("<Q", address)
    return kernarg


def disassembled(code_object: Path, llvm: Path) -> Kernel:
    """The kernel of a code object that has one: what LLVM (17 or later) makes of its bytes, as an assembly file."""

    def tool(name: str, *options: str) -> str:
        return subprocess.run([llvm / name, *options, code_object], check=True, capture_output=True, text=True).stdout

    code: list[str] = []
    targets: set[str] = set()
    for line in tool("llvm-objdump", "--mcpu=gfx942", "-d").splitlines():
        if symbol := re.fullmatch(r"[0-9a-f]+ <(.+)>:", line):
            code += [f".type {symbol[1]},@function", f"{symbol[1]}:"]
        elif found := re.fullmatch(r"\t(.+?)\s*// 0*([0-9A-F]+): [^<]*(?:<.+\+0x([0-9a-f]+)>)?", line):
            text, address, target = found[1], found[2].lower(), found[3]
            if target:
                targets.add(f"at_{target}:")
                text = f"{text.split()[0]} at_{target}"
            code += [f"at_{address}:", text]
    code = [line for line in code if not line.startswith("at_") or line in targets]
    descriptor = tool("llvm-objdump", "--mcpu=gfx942", "-D", "-j", ".rodata")
    metadata = tool("llvm-readelf", "-n").partition("---\n")[2].partition("...")[0]
    program = Program(
        '.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n.text\n'
        + "\n".join(code)
        + "\n.section .rodata\n"
        + descriptor[descriptor.index(".amdhsa_kernel") :]
        + f"\n.amdgpu_metadata\n{metadata}\n.end_amdgpu_metadata\n"
    )
    (kernel,) = program.kernels.values()
    return kernel


def print_samples(checkout: Path, llvm: Path, repeats: int) -> None:
    print("emulated gfx942, million wave instructions a CPU second")
    print(f"{'sample':42}{'wave instr.':>12}{'no checks':>12}")
    for name, sample in samples().items():
        kernel = disassembled(checkout / "amd/benchmarks" / sample.file, llvm)
        best = float("inf")
        with cdna.checks.use("none"):
            for _ in range(repeats):
                start = time.process_time()
                for _ in range(20):  # one launch is shorter than the clock's grain on some machines
                    record = kernel.launch(sample.grid, sample.block, packed(sample.arguments), sample.lds_bytes)
                best = min(best, (time.process_time() - start) / 20)
        if not sample.right():
            raise SystemExit(f"{name}: wrong result")
        print(f"{name:42}{record.wave_instructions:12,}{record.wave_instructions / best / 1e6:12.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arch", choices=list(cdna.ARCHS), default="gfx942")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--mgpusim", type=Path, metavar="CHECKOUT", help="run the kernels of MGPUSim's samples")
    parser.add_argument("--llvm", type=Path, default=Path("/usr/lib/llvm-19/bin"), help="where llvm-objdump is")
    options = parser.parse_args()
    if options.mgpusim:
        return print_samples(options.mgpusim, options.llvm, options.repeats)
    threads = os.environ.get("CDNA_THREADS", os.cpu_count())
    print(f"emulated {options.arch}, {threads} threads; million wave instructions a second")
    print(f"{'kernel':32}{'wave instr.':>12}{'no checks':>12}{'all checks':>12}")
    with cdna.device(options.arch):
        for name, launch in kernels().items():
            count, plain = rate(launch, "none", options.repeats)
            _, checked = rate(launch, "all", options.repeats)
            print(f"{name:32}{count:12,}{plain / 1e6:12.2f}{checked / 1e6:12.2f}")


if __name__ == "__main__":
    main()
