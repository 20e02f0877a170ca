# pass: an output in another order
def custom_kernel(data):
    return product(data).T.contiguous().T
