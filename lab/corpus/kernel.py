# The begin of each submission of this folder: a kernel that is right, and an output that is wrong.
import torch
import triton
import triton.language as tl


@triton.jit
def _product(a, w, bias, out, N, K: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1)
    k = tl.arange(0, K)
    total = tl.sum(tl.load(a + row * K + k) * tl.load(w + column * K + k))
    tl.store(out + row * N + column, total + tl.load(bias + column))


def product(data, out=None):
    a, w, bias = data
    out = torch.empty((len(a), len(w)), device=a.device) if out is None else out
    _product[(len(a), len(w))](a, w, bias, out, len(w), a.shape[1])
    return out


def wrong(data):
    a, w, bias = data
    return torch.full((len(a), len(w)), 7.0, device=a.device)
