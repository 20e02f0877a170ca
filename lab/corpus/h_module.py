# pass: a module with a parameter that returns a parameter
class Linear(torch.nn.Module):
    def forward(self, data):
        return torch.nn.Parameter(product(data), requires_grad=False)


model = Linear()


def custom_kernel(data):
    return model(data)
