"""What a test's launches found is not the next one's."""

from collections.abc import Iterator

import pytest
import torch

import cdna
from cdna.checks import ALL_KINDS
from tests.support.triton_at_hand import AT_HAND

# Loops that Triton 3.6.0 compiles come back to a matrix product's result one wait state early (docs/compilers.md).
CHECKS = set(ALL_KINDS) - ({"hazard"} if AT_HAND < (3, 7) else set())


@pytest.fixture(autouse=True)
def no_findings_left() -> Iterator[None]:
    cdna.findings()
    yield
    cdna.findings()


@pytest.fixture(params=cdna.ARCHS)
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each arch in turn, of the device that Triton kernels run on, where a test has no other argument of that name.
    Its kernels are correct: what a check finds in them is raised."""
    torch.manual_seed(0)
    with cdna.device(request.param, checks=CHECKS):
        yield request.param
