# pass: an output that is a view of another dtype of what the kernel wrote
def custom_kernel(data):
    out = product(data)
    raw = out.view(torch.int32)
    return raw.clone().view(torch.float32)
