"""Small kernels and what surrounds them, each through an interface in which versions of Triton differ.

A program: `python -m tests.support.version_kernels ARCH ...`, with the version to try on the path.
"""

import gc
import sys

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.tools.tensor_descriptor import TensorDescriptor

import cdna
from tests.support.triton_at_hand import AT_HAND


@triton.autotune(configs=[triton.Config({"BLOCK": block}) for block in (64, 128)], key=["n"])
@triton.jit
def scaled(x, out, n, pair, scale: "bf16", BLOCK: tl.constexpr):  # type: ignore[name-defined]  # noqa: F821
    """out [n] = x [n] * scale + pair[0] - pair[1]."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(i >= 0, "index below 0")
    y = tl.load(x + i, mask=i < n) * scale.to(tl.float32) + pair[0] - pair[1]
    tl.store(out + i, y, mask=i < n)
    if tl.program_id(0) == 0:
        tl.device_print("first", tl.load(x))


@triton.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """c [M, N] = a [M, K] @ b [N, K].T; b a descriptor made on the host, c one made by the kernel."""
    at = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    out = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[M, N])
    out.store([0, 0], tl.dot(tl.load(a + at), b.load([0, 0]).T))


@gluon.jit
def doubled(x, out, N: gl.constexpr, LAYOUT: gl.constexpr):
    i = gl.program_id(0) * N + gl.arange(0, N, layout=LAYOUT)
    gl.store(out + i, gl.load(x + i) * 2)


def main(archs: list[str]) -> None:
    for arch in archs:
        with cdna.device(arch, checks="all"):
            x, out = torch.arange(200.0), torch.zeros(200)
            scaled[lambda meta: (triton.cdiv(200, meta["BLOCK"]),)](x, out, 200, (3, 1), 0.999, debug=True)
            # 0.999 as a bf16 argument: the upper half of the float, not rounded
            assert torch.equal(out, x * 0.99609375 + 2), out
            m, n, k = 32, 16, 64
            a, b, c = torch.randn(m, k).half(), torch.randn(n, k).half(), torch.zeros(m, n)
            product[(1,)](a, TensorDescriptor(b, [n, k], [k, 1], [n, k]), c, m, n, k)
            assert torch.allclose(c, a.float() @ b.float().T, rtol=1e-3, atol=1e-3)
            if AT_HAND >= (3, 5):  # before, Gluon is for NVIDIA alone
                twice = torch.zeros(512)
                doubled[(2,)](torch.arange(512.0), twice, 256, gl.BlockedLayout([1], [64], [4], [0]), num_warps=4)
                assert torch.equal(twice, torch.arange(512.0) * 2)
            product.device_caches.clear()  # the compiled kernel's end, within the block and behind it
            gc.collect()
        scaled.fn.device_caches.clear()
        gc.collect()
        print(f"{triton.__version__} {arch} passed")


if __name__ == "__main__":
    main(sys.argv[1:])
