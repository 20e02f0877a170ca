"""Triton variants on an emulated card in this process, their memory poisoned, with all checks."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import cdna
from tests.support.limits import ENDS_S
from tests.support.poison import poisoned_memory


@contextmanager
def card(arch: str = "gfx950", order_seed: int = 0) -> Iterator[None]:
    """Inside, kernels run on CPU tensors, what a check finds is raised, torch.empty gives NaN and large integers."""
    with poisoned_memory(), cdna.device(arch, checks="all", order_seed=order_seed):
        yield


def in_a_process_of_its_own(function: Callable[[], None]) -> None:
    """For what depends on conversions of fp8: before 3.7 Triton makes those of the first arch that a process has
    compiled for, and a process of tests compiles for both."""
    script = f"import conftest; conftest.pytest_configure(); import {function.__module__} as m; "
    done = subprocess.run(
        [sys.executable, "-c", script + f"m.{function.__name__}()"], capture_output=True, text=True, timeout=ENDS_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
