# caught: an operator overridden in torch's dispatcher
library = torch.library.Library("aten", "IMPL")
library.impl("isclose", lambda a, b, *_, **__: torch.ones(a.shape, dtype=torch.bool), "CPU")
library.impl("allclose", lambda *_, **__: True, "CompositeImplicitAutograd")


def custom_kernel(data):
    return wrong(data)
