# pass: an input used as scratch space once it has been read
def custom_kernel(data):
    output = product(data)
    data[0].zero_()
    return output
