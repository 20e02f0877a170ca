# pass: a launcher out of closures, cached by shape, and a callable object
import functools


@functools.cache
def launcher(m, n, k):
    grid = (m, n)

    def launch(a, w, bias, out):
        _product[grid](a, w, bias, out, n, k)
        return out

    return launch


class Kernel:
    __slots__ = ("calls",)

    def __init__(self):
        self.calls = 0

    def __call__(self, data):
        self.calls += 1
        a, w, bias = data
        return launcher(len(a), len(w), a.shape[1])(a, w, bias, torch.empty(len(a), len(w), device="cuda"))


custom_kernel = Kernel()
