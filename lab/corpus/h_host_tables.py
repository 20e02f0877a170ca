# pass: tables and a small sum made on the host in each call, and a constant made there at import
import numpy

ONES = torch.from_numpy(numpy.ones(256, numpy.float32)).cuda()


def custom_kernel(data):
    a, w, bias = data
    assert numpy.isfinite(bias.cpu().numpy().sum())
    order = torch.from_numpy(numpy.argsort(a[:, 0].cpu().numpy())).cuda()
    back = torch.tensor(numpy.argsort(order.cpu().numpy()).tolist(), device=a.device)
    return product((a[order] * ONES, w, bias))[back]
