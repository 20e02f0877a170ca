# pass: functional transforms around what surrounds the kernel, and in-place operations on views
def custom_kernel(data):
    a, w, bias = data
    halves = torch.func.vmap(lambda row: row * 0.5)(a)
    out = torch.zeros((len(a), len(w)), device=a.device)
    out.view(-1)[: out.numel()].copy_(product((halves, w, bias * 0)).flatten())
    return out.mul_(2).add_(bias)
