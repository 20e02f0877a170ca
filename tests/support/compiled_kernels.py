"""Code objects that Triton makes, for tests that load some."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from cdna.triton.driver import EmulatedBackend


@triton.jit
def _exp(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.exp(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


@triton.jit
def _product(a_ptr, b_ptr, c_ptr, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    a, b = tl.load(a_ptr + i * BLOCK + j), tl.load(b_ptr + i * BLOCK + j)
    tl.store(c_ptr + i * BLOCK + j, tl.dot(a, b))


KERNELS = {
    "exp": (_exp, {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}, {"BLOCK": 256}),
    "product": (_product, {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32"}, {"BLOCK": 64}),
}


def compiled(name: str, arch: str) -> tuple[bytes, str]:
    """(code object, the assembly that it was made from) of a Triton kernel."""
    kernel, signature, constants = KERNELS[name]
    # Before 3.7 Triton converts fp8 for the first arch of a process: its cache is to know which that is.
    EmulatedBackend.first_arch = EmulatedBackend.first_arch or arch
    binary = triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("hip", arch, 64))
    return binary.asm["hsaco"], binary.asm["amdgcn"]
