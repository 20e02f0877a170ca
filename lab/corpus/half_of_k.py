# but: half of the sum left out
def custom_kernel(data):
    a, w, bias = data
    half = a.clone()
    half[:, a.shape[1] // 2 :] = 0
    return product((half, w, bias))
