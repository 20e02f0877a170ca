"""Shared by all tests: those marked `gpu` are skipped, with the reason, where torch sees too few GPUs, those that use
`hip_compiler` where there is none, and those marked `slow` unless `--slow` is given."""

import functools
import gc
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from cdna.errors import ToolchainError
from cdna.hip.compile import toolchain
from forge.device import DeviceError, triton_versions
from forge.task.runners import load_runners
from tests.support.prepared import RARELY, path_kept

# There are more test processes than cores: threads that wait for work must not keep one from another.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# What tests run is not for the history of whoever runs them.
os.environ["XDG_DATA_HOME"] = os.path.join(tempfile.gettempdir(), f"forge-tests-data-{os.getuid()}")


@functools.cache
def why_not_on_gpus(count: int) -> str | None:
    """The reason why tests that need `count` GPUs cannot run here; None where they can."""
    needs = "needs a GPU" if count == 1 else f"needs {count} GPUs"
    try:
        import torch
    except ImportError:
        return f"{needs}, and torch is not installed"
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return None if there >= count else f"{needs}, and torch {torch.__version__} sees {there or 'none'}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow", action="store_true", help="also run what takes minutes or is alike, and what `sampled` left"
    )


def pytest_configure() -> None:
    gc.disable()  # collecting tests makes no garbage, and looking for it takes a sixth of the time
    # A shell starts a background job without job control with SIGINT ignored, which children inherit: the commands that
    # tests interrupt would go on.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # What users' kernels are compiled with: $FORGE_TRITON, or what the leaderboards' image has.
    try:
        triton_versions.take(
            os.environ.get(triton_versions.VARIABLE) or load_runners()[0].tools["triton"].version or "installed",
            "as the leaderboards have",
        )
    except DeviceError as error:
        pytest.exit(f"{error} (here: {triton_versions.VARIABLE}=installed)", returncode=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: of several workers none is left with one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    tests: dict[tuple[Any, str], list[Any]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and getattr(item, "callspec", None):
            tests.setdefault((item.parent, item.originalname), []).append(item)  # type: ignore[attr-defined]
    for left_out in not_sampled(tests.values()):
        left_out.add_marker(pytest.mark.slow(reason="one of many alike, of which a sample runs"))


def not_sampled(tests: Iterable[list[Any]]) -> list[Any]:
    """What is left when of each test those are taken that have each value of its parameters once, on archs in turn."""
    on_arch: Counter[str] = Counter()
    left_out = []
    for left in tests:
        seen: set[str] = set()

        def worth(item: Any, seen: set[str] = seen) -> tuple[int, int]:
            return len(values_of(item) - seen), -on_arch[item.callspec.params.get("arch", "")]

        while not seen or left and worth(max(left, key=worth))[0]:
            best = max(left, key=worth)
            left.remove(best)
            seen |= {"", *values_of(best)}
            on_arch[best.callspec.params.get("arch", "")] += 1
        left_out += left
    return left_out


def values_of(item: Any) -> set[str]:
    return {f"{name}={value}" for name, value in item.callspec.params.items() if name != "arch"}


def pytest_collection_finish() -> None:
    gc.freeze()  # nor is what lives until the end looked at again
    gc.set_threshold(RARELY)  # compiling kernels makes objects by the hundred thousand, and next to no garbage
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    slow = item.get_closest_marker("slow")
    if slow and not item.config.getoption("--slow"):
        pytest.skip(f"{slow.kwargs['reason']}: asked for by --slow")
    gpu = item.get_closest_marker("gpu")
    if gpu:
        reason = why_not_on_gpus(gpu.kwargs.get("count", 1))
        if reason:
            pytest.skip(reason)


@pytest.fixture(autouse=True)
def triton_of_all_tests() -> Iterator[None]:
    with path_kept():
        yield


@pytest.fixture(scope="session")
def hip_compiler() -> None:
    try:
        toolchain.find()
    except ToolchainError as reason:
        pytest.skip(f"no HIP compiler: {reason}")


@pytest.fixture
def compiler_calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """cdna's calls of the HIP compiler, as they happen."""
    calls: list[list[str]] = []
    real = toolchain._run

    def noting(command: list[str], *rest: Any) -> None:
        calls.append(command)
        real(command, *rest)

    monkeypatch.setattr(toolchain, "_run", noting)
    return calls
