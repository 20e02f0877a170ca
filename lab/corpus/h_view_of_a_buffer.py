# pass: the transposed middle of a larger buffer, with a gradient
def custom_kernel(data):
    a, w, bias = data
    buffer = torch.zeros((len(w) + 3, len(a) + 5), device=a.device)
    view = buffer[1 : 1 + len(w), 2 : 2 + len(a)].t()
    view.copy_(product(data))
    return view.requires_grad_()
