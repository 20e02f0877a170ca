"""amd-mxfp4-mm in HIP: c = MXFP4(a) @ MXFP4(b).T in one launch, a quantised inside. mxfp4_mm_gfx950.hip says how."""

import functools

import torch

from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.common.split_k import split_k_workspace
from kernels.common.tensor_checks import round_up
from kernels.mxfp4_mm.hip_gfx950_tuning import DEFAULT, TUNING
from kernels.mxfp4_mm.inputs import check_inputs

HIP_SOURCE = hip_source("mxfp4_mm_gfx950.hip")


@functools.cache
def extension():
    return load_extension("mxfp4_mm_hip", HIP_SOURCE, functions=["mxfp4_mm"], arch="gfx950", preload_arguments=True)


def run_row(data, row):
    """Launch with the given row of the tuning table; `custom_kernel` has checked the data."""
    a, _, _, b, b_scale = data
    (m, k), n = a.shape, b.shape[0]
    c = torch.empty((m, n), dtype=torch.bfloat16, device=a.device)
    block_m, block_n = 16 * row["FM"], 16 * row["FN"] * row["WAVES_N"]
    partial = arrived = 0
    if row["SPLIT_K"] > 1:
        n_tiles = -(-m // block_m) * round_up(-(-n // block_n), 8)
        workspace = split_k_workspace(a.device, row["SPLIT_K"] * n_tiles * block_m * block_n, n_tiles)
        partial, arrived = (part.data_ptr() for part in workspace)
    tile = (row["FM"], row["FN"], row["WAVES_N"], row["WAVES_K"], row["STEPS"])
    addresses = (a.data_ptr(), b.data_ptr(), b_scale.data_ptr(), c.data_ptr(), partial, arrived)
    extension().mxfp4_mm(*addresses, m, n, k, *tile, row["SPLIT_K"])
    return c


def tuning_row(data):
    return TUNING.get((*data[0].shape[:1], data[3].shape[0], data[0].shape[1]), DEFAULT)


def custom_kernel(data):
    """(a, b, b_q, b_shuffle, b_scale_sh) -> c bf16 [M, N]; b and b_q are not read.

    a bf16 [M, K]; b_shuffle fp4x2 [N, K/2] and b_scale_sh e8m0 [N up to 256, K/32 up to 8], as reference/utils.py
    shuffles them. Any M, N a multiple of 16, K of 64.
    """
    a, _, _, b, b_scale = data
    check_inputs(a, b, b_scale)
    return run_row(data, tuning_row(data))
