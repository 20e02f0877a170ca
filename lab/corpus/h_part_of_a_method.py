# pass: a partial of a method, standard output replaced, warnings as errors
import functools
import io
import sys
import warnings

sys.stdout = io.StringIO()
warnings.simplefilter("error")


class Kernel:
    @torch.no_grad()
    def run(self, data, *, words):
        print(words)
        return product(data)


custom_kernel = functools.partial(Kernel().run, words="a call")
