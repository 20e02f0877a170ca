# pass: a kernel
def custom_kernel(data):
    return product(data)
