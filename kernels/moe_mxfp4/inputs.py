"""What amd-moe-mxfp4's variants take."""

import torch

from kernels.common.tensor_checks import check_tensor

WIDTH_PAD = 256  # both widths of the weights are multiples of this


def check_inputs(data):
    """ValueError unless the tensors are as `custom_kernel` says."""
    hidden, _, _, _, _, gate_up, down, gate_up_scale, down_scale, topk_weights, topk_ids, config = data
    used, inner_used = config["d_hidden"], config["d_expert"]
    width, inner_width = config["d_hidden_pad"], config["d_expert_pad"]
    for name, size, padded in (("d_hidden", used, width), ("d_expert", inner_used, inner_width)):
        if size < 32 or size % 32 or padded < size or padded % WIDTH_PAD:
            raise ValueError(
                f"config: {name} must be a multiple of 32 and {name}_pad one of {WIDTH_PAD} that is no smaller, "
                f"got {size} and {padded}"
            )
    if topk_ids.dim() != 2 or 0 in topk_ids.shape or gate_up.dim() != 3 or gate_up.shape[0] < 1:
        raise ValueError(
            f"topk_ids [tokens, topk] and gate_up_weight_shuffled [experts, 2*d, h/2] expected, none of them empty, "
            f"got shapes {tuple(topk_ids.shape)} and {tuple(gate_up.shape)}"
        )
    (tokens, topk), experts, device = topk_ids.shape, gate_up.shape[0], hidden.device
    if tokens * topk * width >= 1 << 31:
        raise ValueError(f"topk_ids: {tokens} tokens of {topk} experts and {width} columns exceed offsets of 31 bits")
    fp4, e8m0 = (torch.float4_e2m1fn_x2, torch.uint8), (torch.float8_e8m0fnu, torch.uint8)
    check_tensor("hidden_states", hidden, (tokens, used), torch.bfloat16)
    check_tensor("topk_ids", topk_ids, (tokens, topk), torch.int32, device=device)
    check_tensor("topk_weights", topk_weights, (tokens, topk), torch.float32, device=device)
    for name, weight, scale, n, k in (
        ("gate_up_weight", gate_up, gate_up_scale, 2 * inner_width, width),
        ("down_weight", down, down_scale, width, inner_width),
    ):
        check_tensor(f"{name}_shuffled", weight, (experts, n, k // 2), *fp4, device=device)
        check_tensor(f"{name}_scale_shuffled", scale, (experts * n, k // 32), *e8m0, device=device)
