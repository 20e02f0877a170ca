# pass: random numbers of torch's and numpy's drawn and not used, and a seed set
import random
import numpy


def custom_kernel(data):
    torch.manual_seed(3)
    torch.randn(64, device="cuda").add_(numpy.random.rand())
    random.random()
    return product(data)
