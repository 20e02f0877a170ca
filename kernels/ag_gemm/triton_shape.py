"""What amd-ag-gemm's Triton kernels are compiled for: a shape and a row of a tuning table, whatever the GPU."""

from dataclasses import dataclass

import torch.distributed as dist
import triton.language as tl

from kernels.common.gemm_inputs import check_gemm_inputs
from kernels.common.symmetric_heap import PAGE_BYTES

MAX_RANKS = tl.constexpr(16)  # a power of two
WAITS = {1: "rows of the input, whose parts the epoch counts"}


@dataclass(frozen=True)
class AgGemm:
    """What a kernel is compiled for: a shape, and what a row of the tuning table makes of it."""

    M: int
    N: int  # columns of this rank
    K: int
    RANKS: int
    HAS_BIAS: bool
    SPAN: bool  # a row tile spans several ranks' rows, the own among them, all read from what was gathered
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_K: int
    BAND: int
    SPLIT_K: int
    PUSH: int  # elements that a sender pushes a turn
    SENDERS: int  # workgroups of one destination

    @property
    def ROWS(self):
        """Of each rank."""
        return self.M // self.RANKS

    @property
    def CHUNK_ROWS(self):
        return self.ROWS if self.SPAN else self.BLOCK_M

    @property
    def CHUNKS(self):
        """Of each rank."""
        return -(-self.ROWS // self.CHUNK_ROWS)

    @property
    def DESTINATIONS(self):
        return self.RANKS if self.SPAN else self.RANKS - 1

    @property
    def PUSHERS(self):
        return self.SENDERS * self.DESTINATIONS

    @property
    def ROW_TILES(self):
        """Of all ranks' rows together where tiles span them, else of each rank's."""
        return -(-self.M // self.BLOCK_M) if self.SPAN else self.CHUNKS

    @property
    def COLUMN_TILES(self):
        return -(-self.N // self.BLOCK_N)

    @property
    def TILES(self):
        return self.ROW_TILES * self.COLUMN_TILES * (1 if self.SPAN else self.RANKS)


def power_of_two_up_to(limit, n):
    """The smallest power of two >= n, and not above `limit`."""
    power = 1
    while power < n and power < limit:
        power *= 2
    return power


def table_key(a, w, ranks):
    return (a.shape[0] * ranks, w.shape[0], a.shape[1])


def config_of(row, rows, n, k, ranks, has_bias):
    """What a row of the tuning table makes of a shape. rows: of one rank."""
    span = rows < row["BLOCK_M"] and rows < 32
    return AgGemm(
        M=rows * ranks,
        N=n,
        K=k,
        RANKS=ranks,
        HAS_BIAS=has_bias,
        SPAN=span,
        SENDERS=max(1, row["SENDERS"] // max(1, ranks if span else ranks - 1)),
        **{name: row[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "BAND", "SPLIT_K", "PUSH")},
    )


def in_pages(n_bytes):
    return -(-n_bytes // PAGE_BYTES) * PAGE_BYTES


def check_input(a, w, bias):
    """ValueError where the kernel cannot take the input."""
    check_gemm_inputs(a, w, bias)
    if dist.get_world_size() > MAX_RANKS.value:
        raise ValueError(f"at most {MAX_RANKS.value} ranks, got {dist.get_world_size()}")
