# pass: weights shuffled to another layout by torch in each call, with an index that is made by numpy at import
import numpy

order = torch.from_numpy(numpy.random.RandomState(1).permutation(256)).cuda()


def custom_kernel(data):
    a, w, bias = data
    return product((a[:, order].contiguous(), w[:, order].contiguous(), bias))
