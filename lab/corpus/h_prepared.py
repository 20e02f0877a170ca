# pass: tables larger than the output, of the host's from the first call and of a kernel's from the import
import numpy

tables = {}
half = torch.full((16, 256), 0.5, device="cuda")


def custom_kernel(data):
    a, w, bias = data
    if a.shape not in tables:
        tables[a.shape] = torch.from_numpy(numpy.full(a.shape, 2.0)).cuda().bfloat16()
    return product((a * tables[a.shape] * half, w, bias))
