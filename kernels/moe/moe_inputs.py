"""What amd-mixture-of-experts' variants do with their inputs: checks, and a table of the weights' addresses."""

import functools
import weakref

import torch

from kernels.common.tensor_checks import check_on_gpu, check_tensor

MAX_GROUPS = 64  # routed experts, and the shared one in widths of a routed expert


@functools.lru_cache(maxsize=1)
def matrix_table(device, rows):
    """The rows as int64 on the GPU. Weights other than the last call's are a copy for which nobody waits."""
    return torch.tensor(rows, dtype=torch.int64).pin_memory().to(device, non_blocking=True)


def check_weight(weights, name, shape, device):
    """weights[name], checked."""
    if name not in weights:
        raise ValueError(f"weights lack {name}")
    check_tensor(name, weights[name], shape, torch.float16, device=device)
    return weights[name]


def matrix_rows(weights, device, n_routed, n_shared, d_hidden, d_expert):
    """What matrix_table takes: over the groups, the addresses of gate, of up, of down, and the width of gate's rows."""
    rows: list = [[], [], [], []]
    for name, n_groups in [(f"experts.{i}", 1) for i in range(n_routed)] + [("shared_experts", n_shared)]:
        width = d_expert * n_groups
        gate = check_weight(weights, f"{name}.0.weight", (d_hidden, width), device).data_ptr()
        up = check_weight(weights, f"{name}.1.weight", (d_hidden, width), device).data_ptr()
        down = check_weight(weights, f"{name}.2.weight", (width, d_hidden), device).data_ptr()
        for i in range(n_groups):  # columns of gate and up, rows of down
            of_group = (gate + 2 * i * d_expert, up + 2 * i * d_expert, down + 2 * i * d_expert * d_hidden, width)
            for row, value in zip(rows, of_group):
                row.append(value)
    return tuple(map(tuple, rows))


class CheckedWeights:
    """Weights that matrix_rows has checked. It keeps none of them alive."""

    def __init__(self, weights, *shape):
        self.shape = shape
        self.rows = matrix_rows(weights, *shape)
        self.tensors: list = [(name, weakref.ref(w), w.data_ptr()) for name, w in weights.items()]

    def are(self, weights, *shape):
        """Whether they are these, at the same addresses: asking a hundred tensors for more takes 0.2 ms."""
        if shape != self.shape or len(weights) != len(self.tensors):
            return False
        for name, ref, at in self.tensors:
            weight = weights.get(name)
            if weight is None or ref() is not weight or weight.data_ptr() != at:
                return False
        return True


_checked: list = []  # the last call's


def moe_inputs(data):
    """(x, router, what matrix_table takes, sizes) of (x, weights, config) as the problem hands them over, checked.

    sizes: n_tokens, top_k, n_routed, n_shared, d_hidden, d_expert.
    """
    x, weights, config = data
    n_routed, n_shared = config["n_routed_experts"], config["n_shared_experts"]
    top_k, d_hidden, d_expert = config["n_experts_per_token"], config["d_hidden"], config["d_expert"]
    if not 1 <= top_k <= n_routed or n_shared < 1:
        raise ValueError(f"1 <= top k <= experts and a shared expert expected, got {top_k=}, {n_routed=}, {n_shared=}")
    if n_routed + n_shared > MAX_GROUPS:
        raise ValueError(f"at most {MAX_GROUPS} experts, shared ones included, got {n_routed=}, {n_shared=}")
    if d_hidden % 16 or d_expert % 16 or d_hidden * d_expert * n_shared >= 2**31:
        raise ValueError(f"multiples of 16 and matrices below 2^31 elements expected, got {d_hidden=}, {d_expert=}")
    check_on_gpu("x", x)
    check_tensor("x", x, (config["batch_size"], config["seq_len"], d_hidden), torch.float16)
    if not 0 < x.numel() < 2**31:
        raise ValueError(f"x must have 1 to 2^31 - 1 elements, got {tuple(x.shape)}")
    router = check_weight(weights, "router.weight", (n_routed, d_hidden), x.device)
    shape = (x.device, n_routed, n_shared, d_hidden, d_expert)
    if not _checked or not _checked[0].are(weights, *shape):
        _checked[:] = [CheckedWeights(weights, *shape)]
    return x, router, _checked[0].rows, (x.numel() // d_hidden, top_k, n_routed, n_shared, d_hidden, d_expert)


def shape_of_table(sizes):
    """The key of a tuning table: tokens, experts, top k, d_hidden, d_expert."""
    n_tokens, top_k, n_routed, _, d_hidden, d_expert = sizes
    return n_tokens, n_routed, top_k, d_hidden, d_expert
