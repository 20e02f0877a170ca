# pass: an output that is a part of a larger, padded buffer
def custom_kernel(data):
    a, w, bias = data
    padded = torch.full((len(a) + 3, len(w) + 5), float("nan"), device=a.device)
    padded[1 : len(a) + 1, 2 : len(w) + 2] = product(data)
    return padded[1 : len(a) + 1, 2 : len(w) + 2]
