# pass: an output that is a part of a larger buffer, kept and swapped with another from call to call
buffers = []


def custom_kernel(data):
    a, w, bias = data
    if not buffers:
        buffers.extend(torch.empty((len(a) + 4, len(w) + 8), device="cuda") for _ in range(2))
    buffers.reverse()
    view = buffers[0][2 : 2 + len(a), 4 : 4 + len(w)]
    view.copy_(product(data))
    return view
