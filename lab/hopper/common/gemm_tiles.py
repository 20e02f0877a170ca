"""What gemm_tiles.py has no better way for on Hopper: tiles by TMA, and a barrier inside a pipelined loop."""

import triton
import triton.language as tl


@triton.jit
def descriptor_tile(
    a,  # descriptor of bf16 [.., K], blocks [BLOCK_M, BLOCK_K]
    w,  # descriptor of bf16 [N, K], blocks [BLOCK_N, BLOCK_K]
    first_row,
    first_column,
    K: tl.constexpr,
    part,  # of SPLIT_K: which slice of k
    SPLIT_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """As gemm_tile(); rows past the end of a matrix count as zeros."""
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    blocks: tl.constexpr = (K + BLOCK_K - 1) // BLOCK_K  # what lies past the end of k reads as zero
    if SPLIT_K == 1:
        for block in range(blocks):
            x = a.load([first_row, block * BLOCK_K])
            y = w.load([first_column, block * BLOCK_K])
            acc = tl.dot(x, y.T, acc)
    else:
        for block in range(part * blocks // SPLIT_K, (part + 1) * blocks // SPLIT_K):
            x = a.load([first_row, block * BLOCK_K])
            y = w.load([first_column, block * BLOCK_K])
            acc = tl.dot(x, y.T, acc)
    return acc


@triton.jit
def tile_stored():
    """stores_complete(), for use in a loop that shall be pipelined.

    Triton does not overlap the iterations of a loop with a barrier of its own in it, not even of the loop inside that
    loads tiles: so the barrier hides in assembly.
    """
    tl.inline_asm_elementwise("bar.sync 0; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
