"""swiglu-fp8 in Triton: out = fp8(gate / (1 + exp(-gate)) * up / scale), the two halves of a row in one pass.

Everything between fp16 in and fp8 out is fp32: silu, times up, times 1 / scale, clamped to the type's largest value,
rounded to nearest with ties to even. The quotient is gate * rcp(1 + exp2(-log2(e) * gate)), both to a last place of
fp32: the correctly rounded ones take twice the instructions of all the rest, and move one output in a million.

The work is a flat list of pieces of LANE outputs, so a workgroup is full whatever the width: two loads of 16 bytes and
one store of 8 bytes a piece of 8. With few rows a piece is 2: a lane's arithmetic is what the result waits for.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from kernels.common.fp8_checks import FP8_TYPES
from kernels.common.fp8_quantise import clear_in_turn, to_fp8
from kernels.swiglu_fp8.host import check_inputs, register_operator
from kernels.swiglu_fp8.triton_gfx942_tuning import DEFAULT, TUNING


@triton.jit
def swiglu_fp8_kernel(
    gate_up_ptr,  # fp16 [rows][2 * N]: a row's gates, then its ups
    scale_ptr,  # fp32 [1]
    out_ptr,  # fp8 [rows][N]
    clear_ptr,  # [n_clear] of any type, zeroed; or None
    n_pieces,  # rows * N / LANE
    n_clear,
    N: tl.constexpr,  # a multiple of 8
    LANE: tl.constexpr,  # outputs of a piece: 2, 4 or 8
    PIECES: tl.constexpr,  # of a workgroup
):
    first = tl.program_id(0) * PIECES
    first_row = first // (N // LANE)
    piece = tl.arange(0, PIECES)[:, None]
    one = tl.arange(0, LANE)[None, :]
    inside = first + piece < n_pieces
    # The first row's place in 64 bits, a lane's place from there on in 32.
    from_row = first % (N // LANE) + piece
    gates = gate_up_ptr + first_row.to(tl.int64) * (2 * N)
    at = from_row // (N // LANE) * (2 * N) + from_row % (N // LANE) * LANE + one
    # ".cg": non-temporal on AMD. Nothing is read twice.
    gate = tl.load(gates + at, mask=inside, other=0.0, cache_modifier=".cg").to(tl.float32)
    up = tl.load(gates + N + at, mask=inside, other=0.0, cache_modifier=".cg").to(tl.float32)
    inverse_scale = tl.div_rn(1.0, tl.load(scale_ptr))
    # Of a large negative gate exp2 is infinite and silu 0.
    silu = libdevice.fast_dividef(gate, 1 + tl.exp2(gate * -1.4426950408889634))
    out = to_fp8(silu * up * inverse_scale, out_ptr.dtype.element_ty)
    tl.store(out_ptr + first.to(tl.int64) * LANE + piece * LANE + one, out, mask=inside)
    if clear_ptr is not None:
        clear_in_turn(clear_ptr, n_clear, 1024)


def swiglu_fp8(gate_up, scale, clear=None, fp8=torch.float8_e4m3fnuz):
    """out: fp8 [rows, n]; clear, if given, is zeroed.

    gate_up fp16 [rows, 2 * n], a row's gates before its ups, scale fp32 [1]; contiguous, on the current GPU; n a
    multiple of 8 up to 32768. clear: a contiguous tensor of any type, such as the buffer in which the next GEMM sums.
    fp8: e4m3fnuz, or OCP's e4m3fn for GPUs that have that. ValueError before anything is launched otherwise.
    """
    rows, n = check_inputs(gate_up, scale, clear, fp8, FP8_TYPES)
    config = TUNING.get((min(triton.next_power_of_2(rows), 2048), n), DEFAULT)
    out = torch.empty((rows, n), dtype=fp8, device=gate_up.device)
    n_pieces = rows * n // config["LANE"]
    swiglu_fp8_kernel[(triton.cdiv(n_pieces, config["PIECES"]),)](
        gate_up,
        scale,
        out,
        clear,
        n_pieces,
        0 if clear is None else clear.numel(),
        N=n,
        LANE=config["LANE"],
        PIECES=config["PIECES"],
        num_warps=config["num_warps"],
    )
    return out


register_operator(swiglu_fp8)


def custom_kernel(data):
    """gate_up fp16 [rows, 2 * n], scale fp32 [1] -> out e4m3fnuz [rows, n]."""
    gate_up, scale = data
    return swiglu_fp8(gate_up, scale)
