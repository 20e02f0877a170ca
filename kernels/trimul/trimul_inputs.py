"""What trimul's variants ask of their inputs, before anything is launched."""

import torch

from kernels.common.tensor_checks import check_on_gpu, check_tensor

HIDDEN = 128
MOST_DIM = 768
MOST_N = 8192  # offsets inside a row of x, and of rows of a tile, have 32 bits

PROJECTIONS = ("left_proj", "left_gate", "right_proj", "right_gate", "out_gate")


def weight_shapes(dim):
    """The weights' names, and their shapes."""
    projections = {f"{name}.weight": (HIDDEN, dim) for name in PROJECTIONS}
    of_hidden = {"to_out_norm.weight": (HIDDEN,), "to_out_norm.bias": (HIDDEN,)}
    return {"norm.weight": (dim,), "norm.bias": (dim,), **projections, **of_hidden, "to_out.weight": (dim, HIDDEN)}


def table_key(n):
    """Of tuning tables: the power of two from n on, 64 to 1024."""
    return min(max(1 << (n - 1).bit_length(), 64), 1024)


def trimul_inputs(data):
    """(x, mask, {"norm_weight": ..., "left_proj": ...}, (batch, n, dim)) of (x, mask, weights, config) as the problem
    hands them over, checked. ValueError names tensor and rule."""
    x, mask, weights, config = data
    if config["hidden_dim"] != HIDDEN:
        raise ValueError(f"hidden_dim must be {HIDDEN}, got {config['hidden_dim']}")
    dim = config["dim"]
    if dim % 8 or not 0 < dim <= MOST_DIM:
        raise ValueError(f"dim must be a multiple of 8 up to {MOST_DIM}, got {dim}")
    if x.dim() != 4 or x.shape[1] != x.shape[2] or not 0 < x.shape[1] <= MOST_N or x.shape[0] == 0:
        raise ValueError(f"x must have the shape (batch, n, n, dim), n from 1 to {MOST_N}, got {tuple(x.shape)}")
    check_on_gpu("x", x)
    batch, n = x.shape[:2]
    check_tensor("x", x, (batch, n, n, dim), torch.float32)
    check_tensor("mask", mask, (batch, n, n), torch.float32, torch.int64, device=x.device)
    given = {}
    for name, shape in weight_shapes(dim).items():
        if name not in weights:
            raise ValueError(f"weights lack {name}")
        check_tensor(name, weights[name], shape, torch.float32, device=x.device)
        key = name.removesuffix(".weight") if len(shape) == 2 else name  # a matrix is called by what it is of
        given[key.replace(".", "_")] = weights[name]
    return x, mask, given, (batch, n, dim)
