"""Run by test_device_emulated.py in a process prepared for an emulated GPU: Triton kernels on its tensors."""

import threading

import pytest
import torch
import triton
import triton.language as tl

from cdna import checks
from forge.device import resolve
from tests.support.checks import main


@triton.jit
def _double_kernel(source, target, elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < elements
    tl.store(target + offsets, tl.load(source + offsets, inside) * 2, inside)


def double(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _double_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


def test_launch_and_report() -> None:
    device = resolve("gfx942", "gfx942")
    device.case_report()
    x = torch.randn(200, device=triton.runtime.driver.active.get_active_torch_device())
    assert x.is_cuda and torch.equal(double(x), x * 2) and torch.equal(double(x[1:]), x[1:] * 2)
    report = device.case_report().kernels["_double_kernel"]
    assert report.launches == 2 and report.grid == (4, 1, 1)
    assert report.wave_instructions == sum(report.by_unit.values()) > 0
    assert device.case_report().empty


def test_in_a_thread() -> None:
    x, results = torch.randn(64, device="cuda"), []
    thread = threading.Thread(target=lambda: results.append(double(x)))
    thread.start()
    thread.join()
    assert torch.equal(results[0], x * 2)


def test_host_tensors_are_refused() -> None:
    x = torch.randn(64, device="cuda")
    with pytest.raises(ValueError, match=r"Pointer argument \(at 0\) cannot be accessed from Triton"):
        _double_kernel[(1,)](x.cpu(), x, 64, BLOCK=64)
    pinned = x.cpu().pin_memory()  # a GPU reaches this
    _double_kernel[(1,)](pinned, x, 64, BLOCK=64)
    assert torch.equal(x.cpu(), pinned * 2)


def test_a_launch_asks_torch_nothing_that_a_package_has_replaced() -> None:
    """FlagGems' nonzero waited for itself: it held a lock, and its launch's checks looked for addresses by nonzero."""
    x = torch.arange(64, device="cuda") + (1 << 33)
    asked: list[str] = []
    library = torch.library.Library("aten", "IMPL")

    def refuse(name: str) -> None:
        def kernel(*_: object) -> None:
            asked.append(name)
            raise NotImplementedError(name)

        library.impl(name, kernel, "CUDA")

    try:
        for name in ("nonzero", "ge.Scalar", "index.Tensor", "any"):
            refuse(name)
        with checks.use("all"):
            y = double(x)
    finally:
        library._destroy()
    assert not asked and torch.equal(y, x * 2)


def test_one_driver_is_active() -> None:
    """vLLM puts a placeholder in Triton's place where there is another number of them."""
    assert [x.driver.is_active() for x in triton.backends.backends.values()].count(True) == 1


if __name__ == "__main__":
    main(__file__)
