"""MXFP4 on gfx950: 32 consecutive values of e2m1 share one scale, a power of two in e8m0 (its biased exponent).

The quantiser is aiter's "even" mode: with 2^E the largest power of two in a block's largest magnitude the scale is
2^(E-2), or 2^(E-1) from 1.75 * 2^E on; codes are the nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6, never above 6.

Weights and scales come in the order in which aiter shuffles them for the matrix unit. A tile of both is one contiguous
piece for every 16 (scales: 32) rows, and turning it back is a reshape that moves nothing between lanes.
"""

import triton
import triton.language as tl


@triton.jit
def mxfp4_quantize(pairs, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TIES_AWAY: tl.constexpr):
    """pairs: int32 [ROWS, COLUMNS/2], two bf16 each, the even column in the low half; COLUMNS a multiple of 32.

    Returns codes uint8 [ROWS, COLUMNS/2], even column in the low nibble, and scales uint8 [ROWS, COLUMNS/32].
    Ties go to the even code, or away from zero. An infinite or NaN value makes its block's scale 2^126.
    """
    # Magnitudes of bf16 are ordered as their bits are.
    magnitudes = tl.maximum(pairs & 0x7FFF, (pairs >> 16) & 0x7FFF)
    largest = tl.max(magnitudes.reshape(ROWS, COLUMNS // 32, 16), axis=2) << 16  # fp32 bits
    # 0x200000 carries into the exponent from 1.75 on; 4 and 6, the codes of the largest power of two, are 2^2 and more.
    scale = tl.minimum(tl.maximum(((largest + 0x200000) >> 23) - 2, 0), 254)
    divisor = (scale << 23).to(tl.float32, bitcast=True)  # the instruction looks at the exponent field only
    divisor = tl.broadcast_to(divisor[:, :, None], (ROWS, COLUMNS // 32, 16)).reshape(ROWS, COLUMNS // 2)
    if TIES_AWAY:
        # The instruction rounds ties to even. A one below bf16's last bit makes a tie a little more than that.
        even = ((pairs << 16) | 1).to(tl.float32, bitcast=True)
        odd = ((pairs & -0x10000) | 1).to(tl.float32, bitcast=True)
        codes = tl.inline_asm_elementwise(
            "v_cvt_scalef32_pk_fp4_f32 $0, $1, $2, $3", "=v,v,v,v", [even, odd, divisor], tl.int32, True, 1
        )
    else:
        codes = tl.inline_asm_elementwise(
            "v_cvt_scalef32_pk_fp4_bf16 $0, $1, $2", "=v,v,v", [pairs, divisor], tl.int32, True, 1
        )
    return codes.to(tl.uint8), scale.to(tl.uint8)  # of codes the instruction writes the low byte only


@triton.jit
def pack_bf16_pairs(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """bf16 [ROWS, COLUMNS] as the pairs that mxfp4_quantize takes, int32 [ROWS, COLUMNS/2]."""
    even, odd = tl.split(x.reshape(ROWS, COLUMNS // 2, 2))
    even = even.to(tl.uint16, bitcast=True).to(tl.uint32)
    odd = odd.to(tl.uint16, bitcast=True).to(tl.uint32)
    return (even | (odd << 16)).to(tl.int32, bitcast=True)


@triton.jit
def load_mxfp4_weight(
    codes_ptr,  # uint8 [N/16][K/64][2][16][16]: of 16 rows by 32 bytes the first 16 bytes of each row, then the second
    scales_ptr,  # uint8 [N/32][KP/256][4][16][2][2]: row 32*a + 16*b + c, column 8*d + 4*e + f at [a][d][f][c][e][b]
    n,  # the tile's first row and column, multiples of BLOCK_N and BLOCK_K
    k,
    N,
    K,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr,
):
    """codes uint8 [BLOCK_N, BLOCK_K/2] and scales uint8 [BLOCK_N, BLOCK_K/32] of rows n ... and columns k ....

    N is a multiple of 16 and K of 64, BLOCK_N of 32 and BLOCK_K of 256; KP is K up to a multiple of 256.
    Rows past N have codes 0 and any scales: their results are not to be stored. Columns past K are zeros.
    """
    tl.static_assert(BLOCK_N % 32 == 0 and BLOCK_K % 256 == 0)
    strip = n // 16 + tl.arange(0, BLOCK_N // 16)
    byte = tl.arange(0, BLOCK_K * 8)  # of 16 rows
    inside = strip[:, None] < N // 16
    if not EVEN_K:
        inside = inside & (byte[None, :] < (K - k) * 8)
    codes = tl.load(codes_ptr + strip[:, None] * (K * 8) + (k * 8 + byte)[None, :], mask=inside, other=0)
    codes = codes.reshape(BLOCK_N // 16, BLOCK_K // 64, 2, 16, 16).permute(0, 3, 1, 2, 4).reshape(BLOCK_N, BLOCK_K // 2)

    padded_k = (K + 255) // 256 * 256
    rows = n // 32 + tl.arange(0, BLOCK_N // 32)
    byte = tl.arange(0, BLOCK_K)  # of 32 rows
    piece = scales_ptr + rows[:, None] * padded_k + (k + byte)[None, :]
    if EVEN_K:
        scales = tl.load(piece)
    else:
        scales = tl.load(piece, mask=(k + byte)[None, :] < padded_k, other=0)
    scales = scales.reshape(BLOCK_N // 32, BLOCK_K // 256, 4, 16, 2, 2)
    scales = scales.permute(0, 5, 3, 1, 4, 2).reshape(BLOCK_N, BLOCK_K // 32)
    if not EVEN_K:
        # What pads the scales may be anything; a NaN times a code of zero would be one.
        scales = tl.where((k + 32 * tl.arange(0, BLOCK_K // 32) < K)[None, :], scales, 0)
    return codes, scales
