# pass: an autograd function with saved tensors and a hook, called through a module of modules
class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, w, bias):
        ctx.save_for_backward(a, w)
        return product((a, w, bias))

    @staticmethod
    def backward(ctx, grad):
        a, w = ctx.saved_tensors
        return grad @ w, grad.T @ a, grad.sum(0)


class Model(torch.nn.Module):
    def forward(self, data):
        a, w, bias = (x.detach().requires_grad_() for x in data)
        return Linear.apply(a, w, bias)


model = torch.nn.Sequential(Model(), torch.nn.Identity())


def custom_kernel(data):
    return model(data).detach()
