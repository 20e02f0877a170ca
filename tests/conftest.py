"""Shared by all tests: those marked `gpu` are skipped, with the reason, where torch sees no GPU, and those that use
`hip_compiler` where there is none."""

import functools

import pytest

from cdna.errors import ToolchainError
from cdna.hip.toolchain import find


@functools.cache
def why_no_gpu() -> str | None:
    """The reason why tests that need a GPU cannot run here; None where they can."""
    try:
        import torch
    except ImportError:
        return "needs a GPU, and torch is not installed"
    if not torch.cuda.is_available():
        return f"needs a GPU, and torch {torch.__version__} sees none"
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        reason = why_no_gpu()
        if reason:
            pytest.skip(reason)


@pytest.fixture(scope="session")
def hip_compiler() -> None:
    try:
        find()
    except ToolchainError as reason:
        pytest.skip(f"no HIP compiler: {reason}")
