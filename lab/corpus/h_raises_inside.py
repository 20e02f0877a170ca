# pass: exceptions of its own that it handles, and a warning
import warnings


def custom_kernel(data):
    try:
        torch.ones(2, 3) @ torch.ones(2, 3)
    except RuntimeError:
        warnings.warn("the quick way does not take these shapes", stacklevel=1)
    try:
        raise SystemExit(0)
    except SystemExit:
        return product(data)
