# pass: the task's types loaded again
import importlib

import task


def custom_kernel(data):
    importlib.reload(task)
    return product(data)
