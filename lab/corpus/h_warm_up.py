# pass: a call at import, on the task's own inputs
from reference import generate_input

product(generate_input(m=16, n=32, k=64, seed=1))


def custom_kernel(data):
    return product(data)
