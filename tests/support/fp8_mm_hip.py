"""Runs the HIP kernels of amd-fp8-mm on the emulated device without a host side: shared by tests."""

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
FOLDER = ROOT / "kernels" / "fp8_mm"
INCLUDES = [FOLDER, ROOT / "kernels" / "common"]
FLAGS = ("-std=c++20", "-mllvm", "-amdgpu-kernarg-preload-count=16")  # as templates/hip.py.jinja has them

_LAUNCH_CASE = re.compile(r"(?:case (\w+)|default): return f\(Tile<(\d+), (\d+), (\d+), (\d+), (\d+)>")
_TUNING_ROW = re.compile(r"^ *\{ *(\d+), *(\d+), *(\d+), *(T\w+), *(\d+), *(\d+)\},", re.MULTILINE)


class Tile(NamedTuple):
    rows: int
    columns: int
    waves_m: int
    per_cu: int  # workgroups on one CU that registers and LDS are meant to allow
    groups: int  # of waves that share out the k of a workgroup's slice

    @property
    def group_threads(self) -> int:
        return self.waves_m * self.columns  # 64 columns a wave

    @property
    def threads(self) -> int:
        return self.groups * self.group_threads

    @property
    def waves_per_simd(self) -> int:
        return self.threads // 64 * self.per_cu // 4

    @property
    def kernel(self) -> str:
        return f"_Z13fp8_mm_kernelI{self._type}EvPKhS3_iiiiiPKfS5_PtPf"

    @property
    def sum_kernel(self) -> str:
        return f"_Z17fp8_mm_sum_kernelI{self._type}EvPKfiiiiPt"

    @property
    def _type(self) -> str:
        return "4TileI" + "".join(f"Li{value}E" for value in self) + "E"

    @property
    def subtiles(self) -> int:
        return self.rows * self.columns // (32 * 64)

    def tiles_of(self, m: int, n: int) -> int:
        return -(-m // self.rows) * -(-n // self.columns)


class Row(NamedTuple):
    tile: Tile
    split_k: int
    group_rows: int


def tiles() -> dict[str, Tile]:
    """The tiles that fp8_mm_launch_gfx942.h offers, by the table's name."""
    found = _LAUNCH_CASE.findall((FOLDER / "fp8_mm_launch_gfx942.h").read_text())
    by_size = {(name or "T{}x{}".format(*sizes[:2])): Tile(*map(int, sizes)) for name, *sizes in found}
    assert len(by_size) == len(found) > 1
    return by_size


def table() -> dict[tuple[int, int, int], Row]:
    """The rows of hip_gfx942_tuning.h by (m, n, k), DEFAULT under (0, 0, 0)."""
    text = (FOLDER / "hip_gfx942_tuning.h").read_text().replace("DEFAULT = {", "\n{").replace("};", "},")
    known, rows = tiles(), {}
    for m, n, k, tile, split_k, group_rows in _TUNING_ROW.findall(text):
        shape = (int(m), int(n), int(k))
        assert shape not in rows, f"{shape} has two rows"
        rows[shape] = Row(known[tile], int(split_k), int(group_rows))
    assert (0, 0, 0) in rows
    return rows


def assembly(source: Path = FOLDER / "hip_gfx942.hip") -> str:
    return find().assembly(HipSource(source, "gfx942", FLAGS, tuple(INCLUDES)))


def resources(text: str, kernel: str) -> dict[str, int]:
    """The numbers of the kernel's metadata: vgpr_count, vgpr_spill_count, group_segment_fixed_size ..."""
    kernels = re.split(r"^  - (?=\.agpr_count)", text, flags=re.MULTILINE)[1:]
    (own,) = [part for part in kernels if f".name:           {kernel}\n" in part]
    return {key: int(number) for key, number in re.findall(r"\.(\w+): +(\d+)$", own, re.MULTILINE)}


class Inputs(NamedTuple):
    a: torch.Tensor  # fp8 [k][m]
    b: torch.Tensor  # fp8 [k][n]
    a_scale: torch.Tensor  # fp32 [k/128][m]
    b_scale: torch.Tensor  # fp32 [k/128][ceil(n/128)]

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.a.shape[1], self.b.shape[1], self.a.shape[0]

    def product(self) -> torch.Tensor:
        """float64 [m, n], without a rounding."""
        n = self.b.shape[1]
        a = self.a.double() * self.a_scale.double().repeat_interleave(128, 0)
        b_scale = self.b_scale.double().repeat_interleave(128, 0).repeat_interleave(128, 1)
        return a.T @ (self.b.double() * b_scale[:, :n])


def make_inputs(m: int, n: int, k: int, seed: int = 0) -> Inputs:
    """As the reference draws them, with some scales near zero."""
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator)

    a_scale = normal(k // 128, m)
    a_scale[:, ::5] *= 1e-6
    return Inputs(
        normal(k, m).to(torch.float8_e4m3fnuz),
        normal(k, n).to(torch.float8_e4m3fnuz),
        a_scale,
        normal(k // 128, -(-n // 128)),
    )


def run(program: Program, inputs: Inputs, row: Row) -> tuple[torch.Tensor, list[LaunchRecord]]:
    """c [m, n] bf16 and what was executed. What the kernels must write starts as NaN; around c nothing may change."""
    m, n, k = inputs.shape
    tile, split_k, group_rows = row
    n_tiles, margin = tile.tiles_of(m, n), 256
    guarded = torch.full((m * n + 2 * margin,), float("nan"), dtype=torch.bfloat16)
    c = guarded[margin : margin + m * n].view(m, n)
    partial = torch.full((n_tiles * split_k * tile.rows * tile.columns,), float("nan"))
    a, b, a_scale, b_scale, to, sums = [tensor.data_ptr() for tensor in (*inputs, c, partial)]
    kernarg = struct.pack("<2Q5i4x4Q", a, b, m, n, k, split_k, group_rows, a_scale, b_scale, to, sums)
    kernel = program.kernels[tile.kernel]
    assert kernel.kernarg_bytes >= len(kernarg) and kernel.arguments[10][".offset"] == len(kernarg) - 8
    records = [kernel.launch((n_tiles * split_k, 1, 1), (tile.threads, 1, 1), kernarg)]
    if split_k > 1:
        kernarg = struct.pack("<Q4iQ", sums, m, n, split_k, group_rows, to)
        records.append(program.kernels[tile.sum_kernel].launch((n_tiles * tile.subtiles, 1, 1), (128, 1, 1), kernarg))
    assert guarded[:margin].isnan().all() and guarded[-margin:].isnan().all(), "written outside c"
    return c, records
