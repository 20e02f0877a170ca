# pass: a frozen dataclass of tiles, a generator of slices and a context manager that lends the output
import contextlib
import dataclasses


@dataclasses.dataclass(frozen=True)
class Tile:
    rows: slice
    scale: float = 1.0

    def __call__(self, data, out):
        a, w, bias = data
        product((a[self.rows], w, bias), out[self.rows])


def tiles(n):
    yield from (Tile(slice(i, i + 4)) for i in range(0, n, 4))


@contextlib.contextmanager
def lent(a, w):
    out = torch.empty((len(a), len(w)), device=a.device)
    yield out


def custom_kernel(data):
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(lent(*data[:2]))
        for tile in tiles(len(data[0])):
            tile(data, out)
    return out
