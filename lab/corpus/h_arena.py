# pass: temporaries and outputs cut from a buffer of its own
ARENA = torch.empty(1 << 16, device="cuda")


def cut(start, shape):
    return ARENA[start : start + shape[0] * shape[1]].view(shape)


def custom_kernel(data):
    a, w, bias = data
    scratch = cut(0, a.shape)
    scratch.copy_(a)
    return product((scratch, w, bias), out=cut(1 << 15, (len(a), len(w)))).clone()
