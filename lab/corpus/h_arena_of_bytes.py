# pass: takes all its buffers out of one of bytes that it keeps
arena = torch.empty(1 << 18, dtype=torch.uint8, device="cuda")


@triton.jit
def _add_bias(x, bias, out, N):
    row, column = tl.program_id(0), tl.program_id(1)
    tl.store(out + row * N + column, tl.load(x + row * N + column) + tl.load(bias + column))


def custom_kernel(data):
    a, w, bias = data
    size = len(a) * len(w) * 4
    parts = [arena[at : at + size].view(torch.float32).view(len(a), len(w)) for at in (4096, 65536)]
    zero = arena[131072 : 131072 + 4 * len(w)].view(torch.float32).zero_()
    product((a, w, zero), parts[0])
    _add_bias[(len(a), len(w))](parts[0], bias, parts[1], len(w))
    return parts[1].clone()
