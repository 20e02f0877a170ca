"""What amd-gemm-rs' Triton kernels are compiled for: a shape and a row of a tuning table, whatever the GPU."""

from dataclasses import dataclass

import triton
import triton.language as tl

from kernels.common.gemm_inputs import check_gemm_inputs

MAX_RANKS = tl.constexpr(16)  # a power of two


@dataclass(frozen=True)
class Shape:
    """What a kernel is compiled for: a shape, and what a row of the tuning table makes of it."""

    M: int
    N: int
    K: int  # of one rank
    RANKS: int
    HAS_BIAS: bool
    SPAN: int  # 0: a tile has rows of one rank; otherwise of so many, all ROWS of each
    FLAG_BYTES: int  # where the slots of even calls begin in a region, and how far on those of odd ones
    SLOT_BYTES: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_K: int
    GROUP_M: int
    SPLIT_K: int
    SUM_ROWS: int  # that an adder adds, CHUNK_ROWS at a time
    CHUNK_ROWS: int

    @property
    def ROWS(self):
        """Of each rank."""
        return self.M // self.RANKS

    @property
    def COLUMN_TILES(self):
        return -(-self.N // self.BLOCK_N)

    @property
    def OWN_ROW_TILES(self):
        """Row tiles that have rows of this rank."""
        return 1 if self.SPAN else -(-self.ROWS // self.BLOCK_M)

    @property
    def OWN_TILES(self):
        return self.OWN_ROW_TILES * self.COLUMN_TILES

    @property
    def SHARES(self):
        """Parts in which the product is computed, one after the other: each rank's rows, or all."""
        return 1 if self.SPAN else self.RANKS

    @property
    def SHARE_TILES(self):
        return self.COLUMN_TILES * -(-self.RANKS // self.SPAN) if self.SPAN else self.OWN_TILES

    @property
    def PIECES(self):
        """Workgroups that add a tile's rows."""
        return -(-min(self.ROWS, self.BLOCK_M) // self.SUM_ROWS)


@triton.jit
def rounded_tile(acc, bias, first_column, C: tl.constexpr):
    """bf16 of acc + bias, the addition in fp32."""
    if C.HAS_BIAS:
        rn = first_column + tl.arange(0, C.BLOCK_N)
        acc += tl.load(bias + rn, mask=rn < C.N, other=0.0).to(tl.float32)[None, :]
    return acc.to(tl.bfloat16)


def check_input(a, w, bias, world_size):
    """ValueError where the kernel does not support what it is given."""
    check_gemm_inputs(a, w, bias)
    m, n = a.shape[0], w.shape[0]
    if world_size > MAX_RANKS.value:
        raise ValueError(f"at most {MAX_RANKS.value} ranks are supported, got {world_size}")
    if m % world_size:
        raise ValueError(f"m must be a multiple of the world size {world_size}, got {m}")
    if m * n >= 1 << 31:
        raise ValueError(f"m * n must be below 2^31, got {m=}, {n=}")
