"""What a test's launches found is not the next one's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import cdna


@pytest.fixture(autouse=True)
def no_findings_left() -> Iterator[None]:
    cdna.findings()
    yield
    cdna.findings()


@pytest.fixture(params=cdna.ARCHS)
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each arch in turn, of the device that Triton kernels run on, where a test has no other argument of that name."""
    torch.manual_seed(0)
    with cdna.device(request.param):
        yield request.param
