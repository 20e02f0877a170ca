# pass: an output buffer that is used again
kept = {}


def custom_kernel(data):
    shape = (len(data[0]), len(data[1]))
    if shape not in kept:
        kept[shape] = torch.empty(shape, device=data[0].device)
    return product(data, kept[shape])
