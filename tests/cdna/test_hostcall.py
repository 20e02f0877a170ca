"""What Triton kernels say while they run: device_print, and the text of a device_assert that fails."""

import pytest
import torch
import triton
import triton.language as tl

import cdna


@triton.jit
def speaking(x, limit, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.device_print("value", v)
    tl.device_assert(v < limit, "over the limit")


@pytest.mark.parametrize("arch", cdna.ARCHS)
def test_print_and_assert(arch: str, capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.arange(64, dtype=torch.int32) * 3
    with cdna.device(arch):
        speaking[(1,)](x, 1000, 64, num_warps=1, debug=True)
        lines = capfd.readouterr().out.splitlines()
        assert lines == [f"pid (0, 0, 0) idx ({i:2}) value: {3 * i}" for i in range(64)]
        with pytest.raises(cdna.KernelFault, match="over the limit") as caught:
            speaking[(1,)](x, 100, 64, num_warps=1, debug=True)
    assert "test_hostcall.py:" in str(caught.value)
