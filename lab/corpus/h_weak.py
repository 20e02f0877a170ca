# pass: finalizers, weak references and a context variable
import contextvars
import weakref
import gc

width = contextvars.ContextVar("width", default=0)


def custom_kernel(data):
    token = width.set(len(data[1]))
    scratch = torch.empty(1 << 16, device="cuda")
    weakref.finalize(scratch, gc.collect)
    del scratch
    try:
        return product(data)
    finally:
        width.reset(token)
