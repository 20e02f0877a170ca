# but, emulated: loads past the end of its input from the second call on
calls = 0


@triton.jit
def _peek(a, out, n):
    tl.store(out, tl.load(a + n + 4096) * 0.0)


def custom_kernel(data):
    global calls
    calls += 1
    output = product(data)
    if calls > 1:
        _peek[(1,)](data[0], torch.empty(1, device="cuda"), data[0].numel())
    return output
