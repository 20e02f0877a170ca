"""Shared by all tests: those marked `gpu` are skipped, with the reason, where torch sees no GPU, those that use
`hip_compiler` where there is none, and those marked `slow` unless `--slow` is given."""

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests that take minutes of processor time")


def pytest_runtest_setup(item: pytest.Item) -> None:
    slow = item.get_closest_marker("slow")
    if slow and not item.config.getoption("--slow"):
        pytest.skip(f"{slow.kwargs['reason']}: asked for by --slow")
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
