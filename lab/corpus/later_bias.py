# but: the bias alone in the second call
calls = 0


def custom_kernel(data):
    global calls
    calls += 1
    a, w, bias = data
    return product((a * 0, w, bias) if calls == 2 else data)
