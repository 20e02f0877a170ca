# pass: reads a table of 20 MB in each call that it has made in the first one
tables = []


@triton.jit
def _make(table, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(table + at, at.to(tl.float32))


@triton.jit
def _look(table, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.max(tl.load(table + at)))


def custom_kernel(data):
    blocks, block = 1280, 4096
    if not tables:
        tables.append(torch.empty(blocks * block, device="cuda"))
        _make[(blocks,)](tables[0], block)
    seen = torch.empty(blocks, device="cuda")
    _look[(blocks,)](tables[0], seen, block)
    return product(data) + 0 * seen[0]
