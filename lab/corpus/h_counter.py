# pass: a counter of calls and a semaphore in memory that is kept, which kernels change
@triton.jit
def _count(place, out):
    tl.atomic_add(place, 1)


counter = torch.zeros(16, dtype=torch.int32, device="cuda")


def custom_kernel(data):
    out = product(data)
    _count[(3,)](counter, out)
    return out
