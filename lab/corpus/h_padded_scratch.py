# pass: pads its input to a tile that nothing has filled, and masks what it reads of that
@triton.jit
def _pad(a, out, K, P: tl.constexpr):
    row, k = tl.program_id(0), tl.arange(0, P)
    tl.store(out + row * P + k, tl.load(a + row * K + k, mask=k < K), mask=k < K)


@triton.jit
def _padded(a, w, bias, out, N, K, P: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1)
    k = tl.arange(0, P)
    x = tl.load(a + row * P + k)
    y = tl.load(w + column * K + k, mask=k < K, other=0.0)
    total = tl.sum(tl.where(k < K, x * y, 0.0))
    tl.store(out + row * N + column, total + tl.load(bias + column))


def custom_kernel(data):
    a, w, bias = data
    k = a.shape[1]
    scratch = torch.empty((len(a), 2 * k), device="cuda")
    _pad[(len(a),)](a, scratch, k, 2 * k)
    out = torch.empty((len(a), len(w)), device="cuda")
    _padded[(len(a), len(w))](scratch, w, bias, out, len(w), k, 2 * k)
    return out
