# pass: asks torch for norms and a softmax of its rows, which it uses and takes out again
def custom_kernel(data):
    a, w, bias = data
    weight = torch.softmax(a.abs().amax(1) * 100, 0) + 1
    scaled = torch.nn.functional.normalize(a, dim=1) * weight[:, None]
    length = a.norm(dim=1) / weight
    return product((scaled, w, torch.zeros_like(bias))) * length[:, None] + bias
