"""The checks of what hardware hides: planted faults are found and named, correct kernels lead to no finding."""

from __future__ import annotations

import pytest
import torch

import cdna
from tests.support.checked_kernels import CASES


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", CASES)
def test_correct_kernels_have_no_finding(arch: str, name: str) -> None:
    torch.manual_seed(0)
    with cdna.device(arch, checks="all"):
        result, expected = CASES[name](arch)
    assert cdna.findings() == []
    torch.testing.assert_close(result.double(), expected.double(), rtol=2e-2, atol=2e-2)
