"""swiglu-fp8 in HIP: out = fp8(gate / (1 + exp(-gate)) * up / scale), the two halves of a row in one pass.

Everything between fp16 in and fp8 out is fp32: silu, times up, times 1 / scale, clamped to +-240, rounded to nearest
with ties to even. swiglu_fp8_gfx942.hip says how.
"""

import functools

import torch

from kernels.common.fp8_checks import FNUZ_ONLY
from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.common.tensor_checks import round_up
from kernels.swiglu_fp8.hip_gfx942_tuning import DEFAULT, TUNING
from kernels.swiglu_fp8.host import check_inputs, register_operator

HIP_SOURCE = hip_source("swiglu_fp8_gfx942.hip")


@functools.cache
def extension():
    return load_extension("swiglu_fp8_hip", HIP_SOURCE, functions=["swiglu_fp8"], preload_arguments=True)


def table_row(rows, n):
    """The row for rows of n outputs; 16 outputs a lane only where n is a multiple of that."""
    row = TUNING.get((min(1 << (rows - 1).bit_length(), 2048), n), DEFAULT)
    return {**row, "LANE": 8} if n % row["LANE"] else row


def swiglu_fp8(gate_up, scale, clear=None, fp8=torch.float8_e4m3fnuz):
    """out: e4m3fnuz [rows, n]; clear, if given, is zeroed.

    gate_up fp16 [rows, 2 * n], a row's gates before its ups, scale fp32 [1]; contiguous, on the current GPU; n a
    multiple of 8 up to 32768. clear: a contiguous tensor of any type, such as the buffer in which the next GEMM sums.
    fp8: e4m3fnuz. ValueError before anything is launched otherwise.
    """
    rows, n = check_inputs(gate_up, scale, clear, fp8, FNUZ_ONLY)
    row = table_row(rows, n)
    pieces = n // row["LANE"]
    threads = min(64 * row["WAVES"], round_up(pieces, 64))
    out = torch.empty((rows, n), dtype=fp8, device=gate_up.device)
    extension().swiglu_fp8(
        gate_up.data_ptr(),
        scale.data_ptr(),
        out.data_ptr(),
        0 if clear is None else clear.data_ptr(),
        0 if clear is None else clear.nbytes,
        rows,
        n,
        row["LANE"],
        threads,
        -(-pieces // threads),
    )
    return out


register_operator(swiglu_fp8)


def tuning_row(data):
    """The row that custom_kernel(data) uses."""
    gate_up, _ = data
    return table_row(gate_up.shape[0], gate_up.shape[1] // 2)


def custom_kernel(data):
    """gate_up fp16 [rows, 2 * n], scale fp32 [1] -> out e4m3fnuz [rows, n]."""
    gate_up, scale = data
    return swiglu_fp8(gate_up, scale)
