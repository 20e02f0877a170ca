# but, emulated: numpy's product on the host
def custom_kernel(data):
    a, w, bias = (tensor.cpu().numpy() for tensor in data)
    return torch.from_numpy(a @ w.T + bias).to(data[0].device)
