"""residual-rmsnorm-fp8 in HIP: residual addition, RMS norm and quantisation in one pass over memory.

    residual = x + residual                         fp16, written back
    r        = rsqrt(mean(residual^2) + eps)        fp32, of each row
    y        = fp16(residual * r) * weight          product in fp32, rounded; product in fp16
    out      = fp8(clamp(y * (1 / scale)))          fp32; to +-240; to nearest, ties to even

residual_rmsnorm_fp8_gfx942.hip says how.
"""

import functools

import torch

from kernels.common.fp8_checks import FNUZ_ONLY
from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.common.tensor_checks import round_up
from kernels.residual_rmsnorm_fp8.hip_gfx942_tuning import DEFAULT, TUNING
from kernels.residual_rmsnorm_fp8.host import check_inputs, register_operator

HIP_SOURCE = hip_source("residual_rmsnorm_fp8_gfx942.hip")

MOST_THREADS = 1024  # of a workgroup


@functools.cache
def extension():
    return load_extension(
        "residual_rmsnorm_fp8_hip", HIP_SOURCE, functions=["residual_rmsnorm_fp8"], preload_arguments=True
    )


def table_row(rows, hidden):
    """The row for x [rows, hidden]; as many eights a lane as a workgroup of MOST_THREADS needs, at least."""
    row = TUNING.get((min(1 << (rows - 1).bit_length(), 2048), hidden), DEFAULT)
    while row["VECTORS"] * MOST_THREADS * 8 < hidden:
        row = {**row, "VECTORS": 2 * row["VECTORS"]}
    return row


def residual_rmsnorm_fp8(x, residual, weight, scale, eps, clear=None, fp8=torch.float8_e4m3fnuz):
    """out: e4m3fnuz [rows, hidden]; residual is updated in place, and clear, if given, zeroed.

    x, residual fp16 [rows, hidden], weight fp16 [hidden], scale fp32 [1], eps a float; contiguous, on the current GPU;
    hidden a multiple of 8 up to 32768. clear: a contiguous tensor of any type, such as the buffer in which the next
    GEMM sums. fp8: e4m3fnuz. ValueError before anything is launched otherwise.
    """
    check_inputs(x, residual, weight, scale, clear, fp8, FNUZ_ONLY)
    rows, hidden = x.shape
    row = table_row(rows, hidden)
    vectors = row["VECTORS"]
    out = torch.empty(x.shape, dtype=fp8, device=x.device)
    extension().residual_rmsnorm_fp8(
        x.data_ptr(),
        residual.data_ptr(),
        weight.data_ptr(),
        scale.data_ptr(),
        out.data_ptr(),
        0 if clear is None else clear.data_ptr(),
        0 if clear is None else clear.nbytes,
        eps,
        rows,
        hidden,
        vectors,
        round_up(-(-hidden // (8 * vectors)), 64),
        row["PER_CU"],
    )
    return out


register_operator(residual_rmsnorm_fp8)


def tuning_row(data):
    """The row that custom_kernel(data) uses."""
    return table_row(*data[0].shape)


def custom_kernel(data):
    """x, residual fp16 [rows, hidden], weight fp16 [hidden], scale fp32 [1], eps -> (out e4m3fnuz, residual)."""
    x, residual, weight, scale, eps = data
    return residual_rmsnorm_fp8(x, residual, weight, scale, eps), residual
