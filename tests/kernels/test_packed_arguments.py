"""Arguments packed as a struct of HIP source."""

import ctypes

import pytest

from kernels.common.packed_arguments import argument_packer

SOURCE = """
struct Args {
    const float* x;    // [n]
    int n;             // of x; it is followed by a gap
    unsigned short* y;
    float scale;

    int twice() const { return 2 * n; }
};
"""


class Args(ctypes.Structure):
    _fields_ = [("x", ctypes.c_void_p), ("n", ctypes.c_int), ("y", ctypes.c_void_p), ("scale", ctypes.c_float)]


def test_fields_lie_where_c_has_them() -> None:
    address, size, _owner = argument_packer(SOURCE, "Args")(scale=1.5, n=-7, y=2**40, x=2**63)
    assert size == ctypes.sizeof(Args)
    args = Args.from_address(address)
    assert (args.x, args.n, args.y, args.scale) == (2**63, -7, 2**40, 1.5)


def test_names_are_the_structs() -> None:
    with pytest.raises(TypeError, match=r"Args has other fields: \['scale', 'z'\]"):
        argument_packer(SOURCE, "Args")(x=0, n=0, y=0, z=0)
    with pytest.raises(ValueError, match="declares no struct Other"):
        argument_packer(SOURCE, "Other")
