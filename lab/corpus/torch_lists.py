# but: a product of torch's operations on lists of tensors, beside one of its own that is thrown away
def custom_kernel(data):
    a, w, bias = data
    product(data)
    rows = list(bias.repeat(len(a), 1))
    columns = w.T.contiguous()
    for k in range(a.shape[1]):
        torch._foreach_addcmul_(rows, [columns[k]] * len(rows), [x.expand(len(w)) for x in a[:, k]])
    return torch.stack(rows)
