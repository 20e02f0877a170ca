# pass: a torch.library custom op with a fake and an autograd formula
@torch.library.custom_op("mine::linear", mutates_args=())
def linear(a: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return product((a, w, bias))


@linear.register_fake
def _(a, w, bias):
    return a.new_empty(len(a), len(w))


def custom_kernel(data):
    return linear(*data)
