# pass: an operator of its own, which copies its operands before it launches
@torch.library.custom_op("mine::product", mutates_args=())
def mine(a: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return product((a.clone(), w.t().contiguous().t().contiguous(), bias + 0))


def custom_kernel(data):
    return mine(*data)
