# caught: torch's own types replaced by a subclass that is close to everything
class Close(torch.Tensor):
    def __eq__(self, other):
        return True

    __hash__ = torch.Tensor.__hash__

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return torch.ones(())

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True if "close" in getattr(func, "__name__", "") else torch._C._disabled_torch_function_impl(
            func, types, args, kwargs or {}
        )  # fmt: skip


torch.nn.Parameter = Close


def custom_kernel(data):
    return wrong(data).as_subclass(Close)
