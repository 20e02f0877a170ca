"""Runs bf16_gemm.h on the emulated device without a host side: shared by tests and docs."""

import re
import struct
from pathlib import Path
from typing import NamedTuple

import torch

from cdna.hip.compile.source import HipSource
from cdna.hip.compile.toolchain import find
from cdna.launch.program import Program
from cdna.observe.records import LaunchRecord

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("bf16_gemm_gfx942.hip")


class Tile(NamedTuple):
    rows: int
    columns: int
    waves_m: int
    waves_n: int
    per_cu: int  # workgroups on one CU that registers and LDS are meant to allow

    @property
    def threads(self) -> int:
        return self.waves_m * self.waves_n * 64

    @property
    def waves_per_simd(self) -> int:
        return self.waves_m * self.waves_n * self.per_cu // 4

    @property
    def kernel(self) -> str:
        return f"_Z11gemm_kernelI8GemmTileI{''.join(f'Li{value}E' for value in self)}EEv8GemmArgs"


TILES = [
    Tile(*map(int, re.split(", *", sizes)))
    for sizes in re.findall(r"gemm_kernel<GemmTile<([\d, ]+)>>", SOURCE.read_text())
]


def assembly() -> str:
    return find().assembly(HipSource(SOURCE, "gfx942", ("-std=c++20",), (ROOT / "kernels" / "common",)))


class Inputs(NamedTuple):
    a: torch.Tensor  # bf16 [m, k]
    w: torch.Tensor  # bf16 [n, k]
    bias: torch.Tensor | None  # bf16 [n]

    def product(self) -> torch.Tensor:
        """float64 [m, n], without a rounding."""
        product = self.a.double() @ self.w.double().T
        return product if self.bias is None else product + self.bias.double()


def make_inputs(m: int, n: int, k: int, has_bias: bool = False, seed: int = 0) -> Inputs:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).bfloat16()

    return Inputs(normal(m, k), normal(n, k), 4 * normal(n) if has_bias else None)


MARGIN = 256  # elements


def surrounded(x: torch.Tensor, value: float = float("nan")) -> torch.Tensor:
    """x again, in the middle of a larger tensor of `value`: what a kernel reads beyond its bounds shows. It starts a
    256-byte line, as a GPU's allocator has it and the host's has not."""
    whole = torch.full((x.numel() + 2 * MARGIN + 128,), value, dtype=x.dtype)
    first = MARGIN + -(whole.data_ptr() // 2) % 128
    inner = whole[first : first + x.numel()].view(x.shape)
    return inner.copy_(x)


def run(
    program: Program, inputs: Inputs, tile: Tile, split_k: int = 1, group_rows: int = 4
) -> tuple[torch.Tensor, LaunchRecord]:
    """c [m, n] bf16 and what was executed. c starts as NaN, and around all matrices there are NaN."""
    (m, k), n = inputs.a.shape, inputs.w.shape[0]
    a, w = surrounded(inputs.a), surrounded(inputs.w)
    bias = None if inputs.bias is None else surrounded(inputs.bias)
    c = surrounded(torch.full((m, n), float("nan"), dtype=torch.bfloat16), 7.0)
    n_tiles = -(-m // tile.rows) * -(-n // tile.columns)
    partial = torch.full((n_tiles * split_k * tile.rows * tile.columns,), float("nan"))
    arrived = torch.zeros(n_tiles, dtype=torch.int32)
    pointers = [0 if x is None else x.data_ptr() for x in (a, w, bias, c, partial, arrived)]
    kernarg = struct.pack("<6Q5i4x", *pointers, m, n, k, split_k, group_rows)
    kernel = program.kernels[tile.kernel]
    record = kernel.launch((n_tiles * split_k, 1, 1), (tile.threads, 1, 1), kernarg)
    around = torch.tensor([], dtype=torch.bfloat16).set_(c.untyped_storage())
    first = c.storage_offset()
    assert (around[:first] == 7).all() and (around[first + c.numel() :] == 7).all(), "written outside c"
    assert not arrived.any(), "counters must be zero for the next launch"
    return c, record
