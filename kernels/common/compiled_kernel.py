"""Triton kernels compiled once for a shape and launched without Triton's per-call search for the compiled kernel."""

import triton


def compile_kernel(kernel, arguments, **options):
    """The CompiledKernel for these arguments, all of the kernel's, in order, constexprs included.

    A pointer is given as a torch.dtype and stands for one that is a multiple of 16. Other run-time arguments are
    values of the size and alignment that all later ones have. Nothing is launched.
    """
    # Halves of the waves in turns: before Triton 3.8 one passes a barrier while it still reads from LDS what the other
    # half overwrites behind it (triton-lang/triton issue 11696).
    triton.knobs.amd.use_block_pingpong = False
    return kernel.warmup(*arguments, grid=(1,), **options)


def bound_to_grid(compiled, n_workgroups):
    """`launch(*arguments)` of a CompiledKernel; pointers are tensors or addresses. About 6 us a call.

    Where kernels are only compiled, for a report, there is none: launching does nothing.
    """
    if compiled is None:
        return lambda *arguments: None
    return compiled[(n_workgroups, 1, 1)]
