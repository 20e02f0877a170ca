"""skinny-gemm-fp8 in HIP: c = (a @ b.T) * scale for at most 32 rows of a, one launch.

Products are summed in fp32, scaled, and rounded to fp16 once. skinny_gemm_fp8_gfx942.hip says how.
"""

import functools

import torch

from kernels.common.fp8_checks import FNUZ_ONLY
from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.common.split_k import split_k_workspace
from kernels.skinny_gemm_fp8.hip_gfx942_tuning import DEFAULT, TUNING
from kernels.skinny_gemm_fp8.host import check_inputs, register_operator, split_k

HIP_SOURCE = hip_source("skinny_gemm_fp8_gfx942.hip")

STEP_K = 256  # of a wave, as in the HIP source


@functools.cache
def extension():
    return load_extension("skinny_gemm_fp8_hip", HIP_SOURCE, functions=["skinny_gemm_fp8"], preload_arguments=True)


def table_row(m, n, k):
    """The row for a [m, k] and b [n, k], with a SPLIT_K that is not 0."""
    row = TUNING.get((16 if m <= 16 else 32, n, k), DEFAULT)
    if row["SPLIT_K"]:
        return row
    return {**row, "SPLIT_K": split_k(-(-n // (16 * row["BLOCKS"])), k, STEP_K * row["WAVES"])}


def skinny_gemm_fp8(a, b, scale):
    """c = (a @ b.T) * scale: fp16 [m, n], summed in fp32 and rounded once.

    a e4m3fnuz [m, k] with m at most 32, b e4m3fnuz [n, k], scale fp32 [1]; contiguous, on the current GPU; k a multiple
    of 64. ValueError before anything is launched otherwise.
    """
    m, n, k = check_inputs(a, b, scale, FNUZ_ONLY)
    row = table_row(m, n, k)
    blocks, waves, slices = row["BLOCKS"], row["WAVES"], row["SPLIT_K"]
    n_tiles = -(-n // (16 * blocks))
    c = torch.empty((m, n), dtype=torch.float16, device=a.device)
    partial_at = arrived_at = 0
    if slices > 1:
        partial, arrived = split_k_workspace(a.device, n_tiles * slices * m * 16 * blocks, n_tiles)
        partial_at, arrived_at = partial.data_ptr(), arrived.data_ptr()
    extension().skinny_gemm_fp8(
        a.data_ptr(),
        b.data_ptr(),
        scale.data_ptr(),
        c.data_ptr(),
        partial_at,
        arrived_at,
        m,
        n,
        k,
        blocks,
        waves,
        slices,
    )
    return c


register_operator(skinny_gemm_fp8)


def tuning_row(data):
    """The row that custom_kernel(data) uses."""
    a, b, _ = data
    return table_row(a.shape[0], *b.shape)


def custom_kernel(data):
    """a e4m3fnuz [m, k], b e4m3fnuz [n, k], scale fp32 [1] -> c fp16 [m, n]."""
    return skinny_gemm_fp8(*data)
