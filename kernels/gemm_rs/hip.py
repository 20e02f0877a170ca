"""amd-gemm-rs in HIP: product, exchange and sum in one launch.

Rank r of W returns rows r*M/W .. (r+1)*M/W - 1 of the sum over all ranks of bf16(a @ w.T + bias). gemm_rs_kernel.hip
says how; docs/kernels/gemm_rs.md why it needs no barrier between calls.
"""

import torch

from kernels.common.gemm_choice import choose_gemm_tile, gpu_arch
from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.common.symmetric_heap import symmetric_heap
from kernels.gemm_rs.hip_tuning import DEFAULT, TUNING

HIP_SOURCE = hip_source("gemm_rs_kernel.hip")

SMALLEST_SLOTS_BYTES = 1 << 20
MERGED_BELOW = 32  # rows of a rank: tiles then span the rows of several
FLAG_BYTES = 4

_module = None
_plans: dict = {}


def extension():
    """The compiled HIP source, built by the first caller of the machine."""
    global _module
    if _module is None:
        _module = load_extension("gemm_rs_hip", HIP_SOURCE, functions=["gemm_rs"])
    return _module


def check_input(a, w, bias, world_size):
    """ValueError where the kernel cannot take the input."""
    if a.dim() != 2 or w.dim() != 2 or a.shape[1] != w.shape[1] or 0 in a.shape or 0 in w.shape:
        raise ValueError(f"input [M, K/W] and weight [N, K/W] expected, got {tuple(a.shape)} and {tuple(w.shape)}")
    if a.shape[0] % world_size:
        raise ValueError(f"rows of the input, {a.shape[0]}, must be a multiple of the world size, {world_size}")
    if bias is not None and bias.shape != w.shape[:1]:
        raise ValueError(f"bias [{w.shape[0]}] expected, got {tuple(bias.shape)}")
    if world_size > 64:
        raise ValueError(f"at most 64 ranks, got {world_size}")
    for name, x in (("input", a), ("weight", w), ("bias", bias)):
        if x is not None and x.dtype != torch.bfloat16:
            raise ValueError(f"{name} must be bfloat16, got {x.dtype}")
        if x is not None and (x.device.type != "cuda" or x.device != a.device):
            raise ValueError(f"{name} must be on the GPU of the input, got {x.device}")
    for name, x in (("input", a), ("weight", w)):
        if 2 * 256 * x.shape[1] >= 1 << 31 or 2 * 256 * w.shape[0] >= 1 << 31:
            raise ValueError(f"256 rows of {name} or of the output take 2 GiB and more: {tuple(x.shape)}")


def padded(x, columns, rows=None):
    """x with zeros after its last column (and row), so that the kernel's 16-byte accesses fit."""
    add_rows = 0 if rows is None else rows - x.shape[0]
    return torch.nn.functional.pad(x, (0, columns - x.shape[-1], 0, add_rows) if x.dim() == 2 else (0, add_rows))


def aligned(x):
    """Contiguous, and beginning at a multiple of 16 bytes."""
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


class Plan:
    """What is the same in all calls of one shape."""

    def __init__(self, heap, a, w, bias):
        check_input(a, w, bias, heap.world_size)
        self.heap, ranks = heap, heap.world_size
        (m, self.k), self.n = a.shape, w.shape[0]
        self.k8, self.n8 = -(-self.k // 8) * 8, -(-self.n // 8) * 8
        self.needs_padding = self.k8 != self.k or self.n8 != self.n
        self.rows = m // ranks
        arch = gpu_arch()
        self.table_key = (arch, m, self.n, self.k)
        self.table_row = TUNING.get(self.table_key)
        row = self.table_row or DEFAULT
        merged = self.rows < MERGED_BELOW
        block_m, block_n, split_k = row["BLOCK_M"], row["BLOCK_N"], row["SPLIT_K"]
        if block_m == 0:
            block_m, block_n, split_k = choose_gemm_tile(
                arch, 1 if merged else ranks, m if merged else self.rows, self.n, self.k
            )
        split_k = min(split_k, -(-self.k // 64))
        row_tiles = -(-(m if merged else self.rows) // block_m)
        column_tiles = -(-self.n // block_n)
        tiles = row_tiles * column_tiles * (1 if merged else ranks)
        # Before there is a region: no peer spins while this one compiles.
        self.launch = extension().gemm_rs

        # Shapes of one size class share a region, flags first: the epoch counts the calls of all of them.
        slots_bytes = SMALLEST_SLOTS_BYTES
        while slots_bytes < 2 * m * self.n8:
            slots_bytes *= 2
        flag_bytes = 65536 + slots_bytes // 32
        assert row_tiles * column_tiles * ranks * FLAG_BYTES <= flag_bytes
        self.region = heap.region(("gemm_rs", slots_bytes), flag_bytes + 2 * slots_bytes)
        heap.name_waits({1: "a tile of the product"})
        self.slots = (flag_bytes, flag_bytes + slots_bytes)
        self.partial = self.arrived = None
        partial_address = arrived_address = 0
        if split_k > 1:
            self.partial = torch.empty(tiles * split_k * block_m * block_n, dtype=torch.float32, device=a.device)
            self.arrived = torch.zeros(tiles, dtype=torch.int32, device=a.device)
            partial_address, arrived_address = self.partial.data_ptr(), self.arrived.data_ptr()
        self.before = (partial_address, arrived_address, self.region.table_address)
        self.after = (block_m, block_n, split_k, row["GROUP_M"], row["SUM_ROWS"], merged)
        self.waiting = (heap.alarm_address, heap.timeout_ticks, self.rows, self.n8, self.k8, heap.rank, ranks)

    def run(self, a, w, bias):
        if self.needs_padding:
            a, w = padded(a, self.k8), padded(w, self.k8, self.n8)
            bias = None if bias is None else padded(bias, self.n8, self.n8)
        a, w = aligned(a), aligned(w)
        bias_address = 0
        if bias is not None:
            bias = aligned(bias)
            bias_address = bias.data_ptr()
        out = torch.empty((self.rows, self.n8), dtype=torch.bfloat16, device=a.device)
        epoch = self.region.next_epoch()
        self.launch(
            a.data_ptr(), w.data_ptr(), bias_address, out.data_ptr(), *self.before, self.slots[epoch & 1],
            *self.waiting, epoch, *self.after,
        )  # fmt: skip
        return out if self.n8 == self.n else out[:, : self.n].contiguous()


def custom_kernel(data):
    """input bf16 [M, K/W], weight bf16 [N, K/W], bias bf16 [N] or None -> bf16 [M/W, N], of the sum over all ranks."""
    a, w, bias = data
    key = (a.shape, w.shape, a.dtype, w.dtype, bias is None or bias.dtype)
    heap = symmetric_heap()
    plan = _plans.get(key)
    if plan is None or plan.heap is not heap or TUNING.get(plan.table_key) is not plan.table_row:
        for old in [old for old, other in _plans.items() if other.heap is not heap]:
            del _plans[old]
        plan = _plans[key] = Plan(heap, a, w, bias)
    return plan.run(a, w, bias)
