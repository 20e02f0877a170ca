# pass: many lines of output, some that look like an evaluator's, and its standard descriptors closed
import os
import sys


def custom_kernel(data):
    for i in range(2000):
        print(f"[red]trial {i}[/bold] check: fail \x1b[2J")
    sys.stdout.flush()
    os.close(0)
    return product(data)
