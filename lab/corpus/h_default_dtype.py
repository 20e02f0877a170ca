# pass: torch's default dtype and device changed
torch.set_default_dtype(torch.float64)
torch.set_default_device("cuda")


def custom_kernel(data):
    return product(data, torch.empty((len(data[0]), len(data[1])), dtype=torch.float32))
