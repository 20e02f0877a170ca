# caught: a bug that shows from the second call on: a sum that is not cleared
total = None


def custom_kernel(data):
    global total
    result = product(data)
    total = result if total is None else total + result + 0.1
    return total.clone()
