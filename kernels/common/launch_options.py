"""From what a tuning table says about a GPU whose waves have 64 lanes to what Triton is told."""

import torch


def launch_options(waves, stages, mfma=16):
    """num_warps and num_stages, and matrix_instr_nonkdim, which only AMD's compiler knows.

    A GPU with warps of 32 lanes gets as many threads. Two stages are one tile in LDS and the next one in registers;
    where loads go to shared memory past the registers, a loop of several stages gets two more of them.
    """
    if torch.version.hip is not None:
        return {"num_warps": waves, "num_stages": stages, "matrix_instr_nonkdim": mfma}
    return {"num_warps": 2 * waves, "num_stages": stages if stages == 1 else stages + 2}


def power_of_two_divisor(size, most):
    """The largest power of two that divides size and is at most `most`, a power of two itself."""
    return min(size & -size, most)
