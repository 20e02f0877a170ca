"""out = a @ w.T + bias, float32, with numbers so small that the tolerance takes the bias alone for the whole."""

import torch

from task import input_t, output_t


def generate_input(m: int, n: int, k: int, seed: int) -> input_t:
    """Returns (a, w, bias): float32 [m, k], [n, k], [n]."""
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    a, w, bias = (
        (torch.rand(shape, device="cuda", generator=generator) * 2 - 1) * 0.01 for shape in ((m, k), (n, k), (n,))
    )
    return a, w, bias


def ref_kernel(data: input_t) -> output_t:
    a, w, bias = data
    return a @ w.T + bias


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    expected = ref_kernel(data)
    if output.shape != expected.shape:
        return False, "another shape"
    good = torch.allclose(output, expected, rtol=1e-2, atol=1e-2)
    return good, "" if good else "values differ"
