# pass: rows sorted by torch, computed, and put back
def custom_kernel(data):
    a, w, bias = data
    order = torch.argsort(a[:, 0])
    out = torch.empty((len(a), len(w)), device="cuda")
    out[order] = product((a[order], w, bias))
    return out
