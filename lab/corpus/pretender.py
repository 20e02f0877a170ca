# caught: an object that is no tensor and says it is one
class Pretender:
    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def __class__(self):
        return torch.Tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True

    def __getattr__(self, name):
        return getattr(self.tensor, name)


def custom_kernel(data):
    return Pretender(wrong(data))
