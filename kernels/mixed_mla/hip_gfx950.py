"""amd-mixed-mla in HIP, on the fp8 or the mxfp4 cache. mixed_mla_gfx950.hip says how, docs/kernels/mixed_mla.md why."""

import functools

import torch

from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.common.tensor_checks import round_up
from kernels.mixed_mla.hip_gfx950_tuning import DEFAULT, TUNING
from kernels.mixed_mla.inputs import N_HEADS, V_COLUMNS, check_inputs

HIP_SOURCE = hip_source("mixed_mla_gfx950.hip")
COMPUTE_UNITS = 256  # MI355X
TOKENS_AT_ONCE = 128  # of a workgroup
MOST_SPLITS = 64

# device -> int32 counters, zero between launches
_arrived: dict = {}


@functools.cache
def extension():
    return load_extension("mixed_mla_hip", HIP_SOURCE, functions=["mixed_mla"], arch="gfx950", preload_arguments=True)


def counters(device, n):
    if device not in _arrived or _arrived[device].numel() < n:
        _arrived[device] = torch.zeros(round_up(n, 1024), dtype=torch.int32, device=device)
    return _arrived[device]


def run_row(data, row):
    """Launch with the given row of the tuning table; `custom_kernel` has checked the data."""
    q, kv_data, qo_indptr, kv_indptr, config = data
    kv, kv_scale = kv_data[row["KV"]]
    queries, splits = q.shape[0], row["SPLITS"]
    out = torch.empty((queries, N_HEADS, V_COLUMNS), dtype=torch.bfloat16, device=q.device)
    workspace = (0, 0, 0)
    if splits > 1:
        partial = torch.empty((splits, *out.shape), dtype=torch.int16, device=q.device)
        weights = torch.empty((splits, queries, N_HEADS, 2), dtype=torch.float32, device=q.device)
        workspace = (partial.data_ptr(), weights.data_ptr(), counters(q.device, queries).data_ptr())
    addresses = [tensor.data_ptr() for tensor in (q, kv, kv_scale, qo_indptr, kv_indptr, out)]
    sizes = (config["batch_size"], config["q_seq_len"], queries, splits, row["MOST_MERGED"])
    extension().mixed_mla(*addresses, *workspace, *sizes, row["KV"] == "mxfp4", config["sm_scale"])
    return out


def tuning_row(data):
    """The row that custom_kernel(data) uses: the table's, or DEFAULT with enough splits for all compute units."""
    config = data[-1]
    shape = (config["batch_size"], config["q_seq_len"], config["kv_seq_len"])
    if shape in TUNING:
        return TUNING[shape]
    most = -(-config["kv_seq_len"] // TOKENS_AT_ONCE)
    wanted = -(-COMPUTE_UNITS // max(1, config["batch_size"] * config["q_seq_len"]))
    return {**DEFAULT, "SPLITS": max(1, min(most, wanted, MOST_SPLITS))}


def custom_kernel(data):
    """(q, kv_data, qo_indptr, kv_indptr, config) -> bf16 [queries, 16, 512].

    q bf16 [queries, 16, 576]; of kv_data one form is read, as the tuning row says: "fp8" (e4m3fn [tokens, 1, 576],
    fp32 [1]) or "mxfp4" (fp4x2 [tokens, 1, 288], e8m0 [tokens up to 256, 24]); *_indptr int32 [batch_size + 1]. A
    request may have any number of tokens, and at most config["q_seq_len"] queries: the i-th of n sees all tokens but
    the last n - 1 - i.
    """
    q, kv_data, qo_indptr, kv_indptr, config = data
    row = tuning_row(data)
    check_inputs(q, kv_data, qo_indptr, kv_indptr, config, row["KV"])
    return run_row(data, row)
