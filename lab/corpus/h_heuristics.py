# pass: heuristics and an autotuner with a hook and restored values over a kernel of tiles
@triton.autotune(
    [triton.Config({"COLUMNS": c}, num_warps=n) for c in (1, 4) for n in (1, 2)], key=["N"], reset_to_zero=["out"]
)
@triton.heuristics({"EVEN": lambda args: args["N"] % 4 == 0})
@triton.jit
def _tiles(a, w, bias, out, N, K: tl.constexpr, COLUMNS: tl.constexpr, EVEN: tl.constexpr):
    row, first = tl.program_id(0), tl.program_id(1) * COLUMNS
    k = tl.arange(0, K)
    left = tl.load(a + row * K + k)
    for i in tl.static_range(COLUMNS):
        total = tl.sum(left * tl.load(w + (first + i) * K + k))
        tl.atomic_add(out + row * N + first + i, total + tl.load(bias + first + i))


def custom_kernel(data):
    a, w, bias = data
    out = torch.zeros((len(a), len(w)), device=a.device)
    _tiles[lambda meta: (len(a), len(w) // meta["COLUMNS"])](a, w, bias, out, len(w), a.shape[1])
    return out
