# pass: a module that makes its kernel when it is asked for
def __getattr__(name):
    if name == "custom_kernel":
        return lambda data: product(data)
    raise AttributeError(name)
