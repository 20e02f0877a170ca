# but: half of the rows hold the bias alone
def custom_kernel(data):
    a, w, bias = data
    half = a.clone()
    half[len(a) // 2 :] = 0
    return product((half, w, bias))
