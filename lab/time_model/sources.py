"""Rows whose code is a HIP source with one kernel template: read from a checkout, compiled with a row's arguments.

A source is compiled as it is, below files that stand for headers it names and does not need on the device, and with an
explicit instantiation behind it. What lies behind the kernel, host code that instantiates others, may be cut off.
"""

from __future__ import annotations

import functools
import math
import os
import re
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdna.cards import Card, cards
from cdna.hip.compile.compilers import INCLUDE_DIR
from cdna.hip.compile.source import HipSource
from cdna.hip.compile.toolchain import find
from cdna.launch.program import Kernel, Program

from .launches import LAUNCHES, Launch, Memory, PlacedLaunch, Slot
from .rows import Row, RowError

# What hipcc, which compiled the kernels of the published times, added to every optimised compilation where it had no
# function support (ROCm's hipBin_amd.h has had both defaults). Without it Snektron's larger tiles keep sums in scratch.
HIPCC_FLAGS = ("-mllvm", "-amdgpu-early-inline-all=true", "-mllvm", "-amdgpu-function-calls=false")

Files = tuple[tuple[str, bytes], ...]  # path in the repository, content; the row's code first


@dataclass(frozen=True)
class Template:
    """kernel: a part of its mangled name. instantiation: C++ of a row, behind the source. cut: where the source ends,
    "" for its end. empty_headers: instead of those of that name. folders: of headers. hip: the version it is for."""

    kernel: str
    instantiation: Callable[[Row], str] = lambda row: ""
    cut: str = ""
    empty_headers: tuple[str, ...] = ()
    flags: Callable[[Row], tuple[str, ...]] = lambda row: ()
    folders: tuple[str, ...] = ()
    hip: str = "6"  # warpSize is a constant in it


@dataclass
class PackedLaunch(Launch):
    """Of a kernel with C++ arguments: addresses of 8 bytes, numbers of 4."""

    @property
    def kernarg(self) -> bytes:
        packed = b""
        for slot in self.slots:
            if isinstance(slot, Memory) or slot is None:
                packed += b"\0" * (-len(packed) % 8) + struct.pack("<Q", slot.address if slot else 0)
            else:
                packed += struct.pack("<i", int(slot))
        return packed


def _numbers(row: Row, *names: str) -> list[int]:
    return [row.number(name) for name in names]


def _transpose(row: Row) -> str:
    arguments = ", ".join(str(n) for n in _numbers(row, "rows", "columns", "tile", "block", "vector"))
    return (
        f"template __global__ void transpose_kernel::transpose_kernel<__FP8_TYPE, {arguments}>"
        "(__FP8_TYPE*, const __FP8_TYPE*);"
    )


def fp8_transpose(row: Row, card: Card) -> Launch:
    """fp8 [rows, columns] -> [columns, rows], a square tile a workgroup."""
    rows, columns, tile, block, vector = _numbers(row, "rows", "columns", "tile", "block", "vector")
    grid = (columns // tile, rows // tile, 1)
    across = tile // vector
    return PackedLaunch(grid, [Memory(rows * columns), Memory(rows * columns)], block=(across, block // across, 1))


def _gemm(row: Row) -> str:
    m, n, k, warp_m, warp_n, warp_k = _numbers(row, "block_m", "block_n", "block_k", "warp_m", "warp_n", "warp_k")
    block, pipeline, fused = _numbers(row, "block", "pipeline", "fused")
    turned = "true" if fused else "false"
    return (
        f"template __global__ void kernel<{block}, cube{{{m}, {n}, {k}}}, cube{{{warp_m}, {warp_n}, {warp_k}}}, "
        f"__uint128_t, {pipeline}, {turned}, false>(const fp8*, const fp8*, const fp32*, const fp32*, bf16*, int, int, "
        "int, int, fp32*, int*);"
    )


def fp8_template(row: Row, card: Card) -> Launch:
    """fp8 [k, m] and [k, n], scales for 1 x 128 and 128 x 128 elements -> bf16 [m, n]."""
    m, n, k, block_m, block_n, block = _numbers(row, "m", "n", "k", "block_m", "block_n", "block")
    a, b, out = Memory(m * k), Memory(n * k), Memory(2 * m * n)
    scales = [Memory(4 * m * -(-k // 128)), Memory(4 * -(-n // 128) * -(-k // 128))]
    grid = (1, -(-m // block_m), -(-n // block_n))
    return PackedLaunch(grid, [a, b, *scales, out, m, n, k, k, None, None], block=(block, 1, 1))


_GL_BYTES = 48  # HipKittens' gl: an address, four sizes, an empty member


def _tensors(
    grid: tuple[int, int, int], threads: int, lds_bytes: int, *tensors: tuple[int, int, int, int, int]
) -> Launch:
    """Of a kernel of HipKittens, which takes a struct of tensors and a stream. tensors: an element's bytes, sizes."""
    slots: list[Slot] = []
    offsets: list[int] = []
    for number, (width, *sizes) in enumerate(tensors):
        slots += [Memory(width * math.prod(sizes)), *sizes]
        offsets += [_GL_BYTES * number + 8 * place for place in range(5)]
    launch = PlacedLaunch(grid, slots, block=(threads, 1, 1), lds_bytes=lds_bytes)
    launch.offsets, launch.kernarg_bytes = offsets, _GL_BYTES * len(tensors) + 8
    return launch


def kittens_gemm(row: Row, card: Card) -> Launch:
    """bf16 [n, n] x [n, n] -> bf16 [n, n]."""
    n, tile, threads, lds = _numbers(row, "n", "tile", "threads", "lds")
    across = n // tile
    grid = (across, across, 1) if row.shape.get("grid_dims") == "2" else (across * across, 1, 1)
    return _tensors(grid, threads, lds, *[(2, 1, 1, n, n)] * 3)


def kittens_rotary(row: Row, card: Card) -> Launch:
    """bf16 [16, 16, n, 128], sines and cosines bf16 [n, 64]."""
    n = row.number("n")
    x, sines = (2, 16, 16, n, 128), (2, 1, 1, n, 64)
    return _tensors((16, 16, n // 32), 64, 0, x, x, sines, sines)


def kittens_attention(row: Row, card: Card) -> Launch:
    """bf16 [16, n, heads, dim], keys and values with fewer heads; f32 [16, heads, 1, n] beside the output."""
    n, heads, kv_heads, dim = _numbers(row, "n", "heads", "kv_heads", "dim")
    q, kv = (2, 16, n, heads, dim), (2, 16, n, kv_heads, dim)
    return _tensors((heads, n // 256, 16), 512, 160_000, q, kv, kv, q, (4, 16, heads, 1, n))


def _attention_flags(row: Row) -> tuple[str, ...]:
    names = {"n": "N", "heads": "H", "kv_heads": "H_KV"}
    return _KITTENS_FLAGS + tuple(f"-DATTN_{macro}={row.number(name)}" for name, macro in names.items())


def _attention(row: Row) -> str:
    return "template __global__ void attend_ker<ATTN_D>(const attn_globals<ATTN_D>);"


def hf_swiglu(row: Row, card: Card) -> Launch:
    """fp16 [rows, 2 n], gate and up side by side, and a scale -> fp8 [rows, n]; a buffer beside it of no columns."""
    rows, n, threads = _numbers(row, "rows", "n", "threads")
    slots: list[Slot] = [Memory(4 * rows * n), Memory(4), Memory(rows * n), None, rows, n, 0]
    return PackedLaunch((-(-rows * n // 8 // threads), 1, 1), slots, block=(threads, 1, 1))


def hf_residual_rms(row: Row, card: Card) -> Launch:
    """fp16 x and residual [rows, n], the latter in place, weight [n], and a scale -> fp8 [rows, n]."""
    rows, n, threads = _numbers(row, "rows", "n", "threads")
    fp16 = Memory(2 * rows * n), Memory(2 * rows * n), Memory(2 * n)
    epsilon = 0  # as bits; a row of zeros takes as long as any
    slots: list[Slot] = [*fp16, Memory(4), Memory(rows * n), None, epsilon, n, 0]
    return PackedLaunch((rows, 1, 1), slots, block=(threads, 1, 1))


def hf_skinny(row: Row, card: Card) -> Launch:
    """fp8 [m, k] x [n, k] and a scale, added to fp16 [m, n] in slices of k."""
    m, n, k, split = _numbers(row, "m", "n", "k", "split")
    slots: list[Slot] = [Memory(m * k), Memory(n * k), Memory(2 * m * n), Memory(4), m, n, k, k, split]
    waves = sum(_numbers(row, "loads_a", "loads_b", "multiply"))
    return PackedLaunch((card.compute_units, 1, 1), slots, block=(64 * waves, 1, 1))


def _skinny(row: Row) -> str:
    arguments = ", ".join(str(n) for n in _numbers(row, "lanes_b", "loads_a", "loads_b", "multiply", "ring"))
    types = "const fp8*, const fp8*, half*, const float*, int, int, int, int, int"
    return f"template __global__ void _tsr_kernel<{arguments}>({types});"


_KITTENS_FLAGS = ("-DKITTENS_CDNA4", "-DHIP_ENABLE_WARP_SYNC_BUILTINS", "-ffast-math")
# Torch's headers are for the host code that is cut off. FP8_MAX stands in no version of macros.h that could be had.
_HF: dict[str, Any] = {
    "empty_headers": (
        "torch/all.h",
        "ATen/cuda/CUDAContext.h",
        "c10/cuda/CUDAGuard.h",
    ),
    "flags": lambda row: ("-DFP8_MAX=448.0f",),
}
_KITTENS: dict[str, Any] = {
    "cut": "\nPYBIND11_MODULE(",
    "empty_headers": ("include/pyutils/pyutils.cuh",),
    "folders": ("include",),
    "hip": "7",
}
TEMPLATES = {
    "fp8_transpose": Template("transpose_kernel", _transpose),
    "fp8_template": Template("6kernelI", _gemm, cut="\nvoid run(\n", empty_headers=("pybind11/pybind11.h",)),
    "hf_residual_rms": Template(
        "_residual_rms_vectorized",
        lambda row: (
            "template __global__ void _residual_rms_vectorized<__hip_fp8x2_storage_t, true>(const half*, half*, "
            "const half*, const float*, __hip_fp8x2_storage_t*, half*, float, int, int);"
        ),
        **_HF,
    ),
    "hf_skinny": Template("_tsr_kernel", _skinny, cut="\nvoid async_gemm(", **_HF),
    "hf_swiglu": Template("_swiglu_vectorized", **_HF),
    "kittens_gemm": Template("micro_tk", flags=lambda row: _KITTENS_FLAGS, **_KITTENS),
    "kittens_rotary": Template(
        "tk_fused_rotary",
        lambda row: "template __global__ void tk_fused_rotary<HEAD_DIM>(const rotary_globals<HEAD_DIM>);",
        flags=lambda row: _KITTENS_FLAGS,
        **_KITTENS,
    ),
    "kittens_attention": Template("attend_ker", _attention, flags=_attention_flags, **_KITTENS),
}
LAUNCHES |= {
    "fp8_transpose": fp8_transpose,
    "fp8_template": fp8_template,
    "hf_residual_rms": hf_residual_rms,
    "hf_skinny": hf_skinny,
    "hf_swiglu": hf_swiglu,
    "kittens_attention": kittens_attention,
    "kittens_gemm": kittens_gemm,
    "kittens_rotary": kittens_rotary,
}


@functools.lru_cache(maxsize=8)
def _program(files: Files, family: str, instantiation: str, flags: tuple[str, ...], arch: str) -> Program:
    template = TEMPLATES[family]
    with tempfile.TemporaryDirectory(prefix="time-model-") as folder:
        for name, content in [*files, *((header, b"") for header in template.empty_headers)]:
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        code = Path(folder, files[0][0])
        text = code.read_text(encoding="utf-8")
        if template.cut:
            text = text.partition(template.cut)[0]
        code.write_text(f"{text}\n{instantiation}\n", encoding="utf-8")
        os.environ["CDNA_HIP_VERSION"] = template.hip
        folders = tuple(Path(folder, name) for name in template.folders)
        if folders:
            folders += (INCLUDE_DIR / "hip",)  # headers of HIP without their folder, as its own makefiles have it
        source = HipSource(code, arch, ("-std=c++20", "-w", *HIPCC_FLAGS, *flags), (Path(folder), *folders))
        return Program(find().assembly(source))


def kernel_of(row: Row, files: Files) -> Kernel:
    """The row's kernel, compiled. RowError where the source has no kernel of this family's name."""
    template = TEMPLATES[row.family]
    arch = cards()[row.card].name
    program = _program(files, row.family, template.instantiation(row), template.flags(row), arch)
    found = [kernel for name, kernel in program.kernels.items() if template.kernel in name]
    if len(found) != 1:
        raise RowError(f"{row.code}: {len(found)} kernels of {', '.join(program.kernels)} instead of one")
    return found[0]


_MMA = re.compile(
    r"^mma: \((\d+) (\d+) (\d+)\) \((\d+) (\d+) (\d+)\) \((\d+) (\d+) (\d+)\) (\d) (\d) (\d+): \S+ ms (\S+) us", re.M
)
_NAMES = "m n k block_m block_n block_k warp_m warp_n warp_k pipeline fused block".split()


def template_rows(name: str, about: dict[str, str], text: str) -> list[Row]:
    """The rows that a repository's own file of results has: one for each line of a kernel."""
    code, digest, commit = (about[key] for key in ("source_file", "blob", "commit"))
    rows = []
    for found in _MMA.finditer(text):
        *values, us = found.groups()
        shape = dict(zip(_NAMES, values, strict=True))
        rows.append(Row(name, about["card"], "fp8_template", code, digest, shape, float(us), commit))
    if not rows:
        raise RowError(f"{about['times']}: no line of it is a time of a kernel")
    return rows
