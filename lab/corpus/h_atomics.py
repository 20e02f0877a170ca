# pass: a sum split over blocks that add to the output as they come
@triton.jit
def _add(a, w, out, N, K: tl.constexpr, PART: tl.constexpr):
    row, column, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    k = part * PART + tl.arange(0, PART)
    tl.atomic_add(out + row * N + column, tl.sum(tl.load(a + row * K + k) * tl.load(w + column * K + k)))


def custom_kernel(data):
    a, w, bias = data
    out = bias.repeat(len(a), 1)
    _add[(len(a), len(w), 4)](a, w, out, len(w), a.shape[1], a.shape[1] // 4)
    return out
