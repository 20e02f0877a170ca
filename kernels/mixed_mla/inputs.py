"""What amd-mixed-mla's variants take."""

import torch

from kernels.common.tensor_checks import check_tensor, round_up

N_HEADS, K_COLUMNS, V_COLUMNS = 16, 576, 512


def check_inputs(q, kv_data, qo_indptr, kv_indptr, config, cache):
    """ValueError unless the tensors are as `custom_kernel` says; of the caches the one that is named."""
    batch, queries_each, width = config["batch_size"], config["q_seq_len"], K_COLUMNS
    fixed = {"num_heads": N_HEADS, "num_kv_heads": 1, "qk_head_dim": width, "v_head_dim": V_COLUMNS}
    for name, size in fixed.items():
        if config[name] != size:
            raise ValueError(f"config[{name!r}] must be {size}, got {config[name]}")
    if batch < 1 or queries_each < 1:
        raise ValueError(f"config: batch_size and q_seq_len must be 1 or more, got {batch} and {queries_each}")
    check_tensor("q", q, (batch * queries_each, N_HEADS, width), torch.bfloat16)
    check_tensor("qo_indptr", qo_indptr, (batch + 1,), torch.int32, device=q.device)
    check_tensor("kv_indptr", kv_indptr, (batch + 1,), torch.int32, device=q.device)
    if cache == "fp8":
        kv, kv_scale = kv_data["fp8"]
        check_tensor('kv_data["fp8"][0]', kv, (kv.shape[0], 1, width), torch.float8_e4m3fn, device=q.device)
        check_tensor('kv_data["fp8"][1]', kv_scale, (1,), torch.float32, device=q.device)
    elif cache == "mxfp4":
        kv, kv_scale = kv_data["mxfp4"]
        fp4, e8m0 = (torch.float4_e2m1fn_x2, torch.uint8), (torch.float8_e8m0fnu, torch.uint8)
        check_tensor('kv_data["mxfp4"][0]', kv, (kv.shape[0], 1, width // 2), *fp4, device=q.device)
        padded = (round_up(kv.shape[0], 256), round_up(width // 32, 8))
        check_tensor('kv_data["mxfp4"][1]', kv_scale, padded, *e8m0, device=q.device)
    else:
        kv = kv_data["bf16"]
        check_tensor('kv_data["bf16"]', kv, (kv.shape[0], 1, width), torch.bfloat16, device=q.device)
