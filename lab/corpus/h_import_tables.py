# pass: tables of numpy's at import, of permutations and scales, used by a kernel in each call
import numpy

ORDER = torch.from_numpy(numpy.random.default_rng(7).permutation(32)).cuda()
BACK = torch.argsort(ORDER)
SCALES = torch.from_numpy(numpy.ones(256, numpy.float32)).cuda()


def custom_kernel(data):
    a, w, bias = data
    return product((a * SCALES, w[ORDER], bias[ORDER])).index_select(1, BACK)
