# pass: hands its kernel a pointer to the last element beside the first, which that compares with
@triton.jit
def _until(a, w, bias, out, last, N, K: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1)
    k = tl.arange(0, K)
    at = out + row * N + column
    if at.to(tl.int64) <= last.to(tl.int64):
        total = tl.sum(tl.load(a + row * K + k) * tl.load(w + column * K + k))
        tl.store(at, total + tl.load(bias + column))


def custom_kernel(data):
    a, w, bias = data
    out = torch.empty((len(a), len(w)), device="cuda")
    _until[(len(a), len(w))](a, w, bias, out, out.view(-1)[out.numel() - 1 :], len(w), a.shape[1])
    return out
