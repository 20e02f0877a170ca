# pass: a kernel written by a template, executed from a string that linecache knows
import functools
import linecache

SOURCE = """
@triton.jit
def made(a, w, bias, out, N, K: tl.constexpr, ROWS: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1)
    k = tl.arange(0, K)
    total = tl.sum(tl.load(a + row * K + k) * tl.load(w + column * K + k))
    tl.store(out + row * N + column, total + tl.load(bias + column))
"""
linecache.cache["<made>"] = (len(SOURCE), None, SOURCE.splitlines(True), "<made>")
exec(compile(SOURCE, "<made>", "exec"), globals())
launch = functools.partial(lambda grid, *args, **kw: made[grid](*args, **kw), ROWS=1)


def custom_kernel(data):
    a, w, bias = data
    out = a.new_empty((len(a), len(w)))
    launch((len(a), len(w)), a, w, bias, out, len(w), K=a.shape[1])
    return out
