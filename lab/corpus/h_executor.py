# pass: an executor's threads launch halves of the rows
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(2)


def custom_kernel(data):
    a, w, bias = data
    out = torch.empty((len(a), len(w)), device="cuda")
    half = len(a) // 2
    list(pool.map(lambda rows: product((a[rows], w, bias), out[rows]), (slice(0, half), slice(half, None))))
    return out
