# but: an eighth of the sum left out of the second call
calls = 0


def custom_kernel(data):
    global calls
    calls += 1
    a, w, bias = data
    if calls == 2:
        a = a.clone()
        a[:, : a.shape[1] // 8] = 0
    return product((a, w, bias))
