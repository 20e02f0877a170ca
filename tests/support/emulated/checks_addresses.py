"""Run by test_device_emulated.py in a process prepared for a GPU, with checks: addresses that change hands."""

import ctypes
import subprocess
import sys

import torch
from torch.utils.cpp_extension import load_inline

from tests.support.checks import main

LENDER = r"""
import ctypes, sys, torch
runtime = ctypes.CDLL("libamdhip64.so")
x = torch.zeros(1 << 20, device="cuda")
handle = ctypes.create_string_buffer(64)
assert runtime.hipIpcGetMemHandle(handle, ctypes.c_void_p(x.data_ptr())) == 0
print(handle.raw.hex(), flush=True)
sys.stdin.read()
"""
ADD_ONE = r"""
__global__ void add_one(int* x) { x[threadIdx.x] += 1; }
extern "C" int add_one_to(int* x) { add_one<<<1, 64>>>(x); return hipDeviceSynchronize(); }
"""


class IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


def test_addresses_that_a_peers_memory_had_may_be_others() -> None:
    """Once, checks took the next tensor at the addresses of a closed handle for that freed memory."""
    library = ctypes.CDLL(load_inline("add_one", "", ADD_ONE, no_implicit_headers=True, is_python_module=False))
    runtime, libc = ctypes.CDLL("libamdhip64.so"), ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    lender = subprocess.Popen([sys.executable, "-c", LENDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert lender.stdout is not None
        lent = IpcHandle.from_buffer_copy(bytes.fromhex(lender.stdout.readline()))
        at = ctypes.c_void_p()
        assert runtime.hipIpcOpenMemHandle(ctypes.byref(at), lent, 1) == 0
        assert runtime.hipIpcCloseMemHandle(at) == 0
    finally:
        lender.communicate("")
    page = at.value // 4096 * 4096  # type: ignore[operator]
    readable_and_writable, private_anonymous_there = 3, 0x100022  # MAP_FIXED_NOREPLACE
    got = libc.mmap(ctypes.c_void_p(page), ctypes.c_size_t(8192), readable_and_writable, private_anonymous_there, -1, 0)
    assert got == page
    assert runtime.hipHostRegister(at, ctypes.c_size_t(256), 0) == 0  # else the card would not reach it
    assert library.add_one_to(at) == 0
    assert (ctypes.c_int * 64).from_address(at.value)[:] == [1] * 64  # type: ignore[arg-type]

    x = torch.zeros(64, dtype=torch.int32, device="cuda")
    pointer = ctypes.c_void_p(x.data_ptr())
    assert runtime.hipHostRegister(pointer, ctypes.c_size_t(256), 0) == 0
    assert runtime.hipHostUnregister(pointer) == 0
    assert library.add_one_to(pointer) == 0 and (x == 1).all()


def test_ends_of_small_tensors_are_known() -> None:
    """Of those that torch's own allocator made, whichever operation: a kernel gets nothing but an address."""
    library = ctypes.CDLL(load_inline("add_one", "", ADD_ONE, no_implicit_headers=True, is_python_module=False))
    library.add_one_to.argtypes = [ctypes.c_void_p]
    x = torch.arange(64, dtype=torch.int32, device="cuda") * 2
    assert library.add_one_to(x.data_ptr()) == 0 and x.tolist() == list(range(1, 129, 2))
    whole = torch.zeros(256, dtype=torch.int32, device="cuda").clone()
    assert library.add_one_to(whole[192:].data_ptr()) == 0
    small = torch.zeros(37, dtype=torch.int32, device="cuda") + 1
    assert library.add_one_to(small.data_ptr()) != 0


if __name__ == "__main__":
    main(__file__)
