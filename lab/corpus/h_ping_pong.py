# pass, benchmark: a sum in sixteen launches that go to and fro between two buffers
@triton.jit
def _part(a, w, before, after, N, K: tl.constexpr, k0, L: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1)
    k = k0 + tl.arange(0, L)
    total = tl.sum(tl.load(a + row * K + k) * tl.load(w + column * K + k))
    at = row * N + column
    tl.store(after + at, tl.load(before + at) + total)


def custom_kernel(data):
    a, w, bias = data
    one = bias.expand(len(a), -1).contiguous()
    two = torch.empty_like(one)
    for k in range(0, a.shape[1], 16):
        _part[(len(a), len(w))](a, w, one, two, len(w), a.shape[1], k, 16)
        one, two = two, one
    return one
