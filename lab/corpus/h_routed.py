# pass: a loop over experts, each with those rows that torch's sorting gives it, as a router does
def custom_kernel(data):
    a, w, bias = data
    out = torch.zeros((len(a), len(w)), device=a.device)
    expert = a[:, :8].argmax(1)
    for e in range(8):
        rows = (expert == e).nonzero().flatten()
        if len(rows):
            out[rows] = product((a[rows].contiguous(), w, bias))
    return out
