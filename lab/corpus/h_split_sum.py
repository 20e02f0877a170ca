# pass: the sum in two launches, the second adding to what the first has written
def custom_kernel(data):
    a, w, bias = data
    half = a.shape[1] // 2
    output = product((a[:, :half].contiguous(), w[:, :half].contiguous(), bias))
    rest = product((a[:, half:].contiguous(), w[:, half:].contiguous(), torch.zeros_like(bias)))
    return output.add_(rest)
