"""What suites count and time: assembly of a few lines, and an addition in Triton."""

import torch
import triton
import triton.language as tl

import cdna
from cdna.launch.program import Kernel
from cdna.observe.counters import clear_caches
from cdna.observe.records import LaunchRecord, take_records
from tests.support.assembled import program

EACH_ITS_LINE = "v_lshl_add_u32 v1, s20, 10, v0\nv_lshlrev_b32 v1, 7, v1\n"  # lanes of 1024; s20: the workgroup


def run(
    body: str,
    arch: str = "gfx942",
    lds: int = 0,
    groups: int = 1,
    waves: int = 1,
    buffer: int = 1 << 16,
    scratch: int = 0,
    launches: int = 1,
    sample: bool = False,
) -> cdna.Counters:
    """Count the last launch of `body` (s[0:1]: kernel arguments; s[2:3] becomes the address of a zeroed buffer; s20:
    workgroup; v0: work-item)."""
    data = torch.zeros(buffer + 128, dtype=torch.uint8)
    address = data.data_ptr() + -data.data_ptr() % 128  # lines start where the buffer does
    start = (
        "s_mov_b32 s20, s2\n" * ("s20" in body)
        + "s_load_dwordx2 s[2:3], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_and_b32 v0, 0x3ff, v0\n"
    )
    kernel: Kernel = program(start + body, arch, lds, scratch).kernels["k"]
    with cdna.counting(sample):
        clear_caches()
        for _ in range(launches):
            record = kernel.launch((groups, 1, 1), (64 * waves, 1, 1), address.to_bytes(8, "little"))
    take_records()
    assert record.counters is not None
    return record.counters


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, N, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < N
    x = tl.load(x_ptr + offset, mask=inside)
    tl.store(out_ptr + offset, x + tl.load(y_ptr + offset, mask=inside), mask=inside)


def aligned(n: int, dtype: torch.dtype) -> torch.Tensor:
    """n random elements that start a line, as a GPU's allocator would place them."""
    size = torch.empty((), dtype=dtype).element_size()
    raw = torch.randn(n + 128 // size).to(dtype)
    return raw[-raw.data_ptr() % 128 // size :][:n]


def addition(n: int, block: int) -> LaunchRecord:
    """Of n elements, whose caches were cold, by workgroups of a block each."""
    x, y, out = (aligned(n, torch.float32) for _ in range(3))
    with cdna.device("gfx942"), cdna.counting():
        clear_caches()
        add_kernel[(n // block,)](x, y, out, n, BLOCK=block)
    assert torch.equal(out, x + y)
    return take_records()[-1]
