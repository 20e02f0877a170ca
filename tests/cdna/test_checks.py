"""The checks of what hardware hides: planted faults are found and named, correct kernels lead to no finding."""

import re
from pathlib import Path

import pytest
import torch

import cdna
from cdna.checks import ALL_KINDS
from tests.support.checked_kernels import CASES


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_correct_kernels_have_no_finding(name: str, arch: str) -> None:
    """What is found is raised. Of other kinds of kernels test_triton.py and test_triton_language.py tell."""
    result, expected = CASES[name]()
    torch.testing.assert_close(result.double(), expected.double(), rtol=2e-2, atol=2e-2)


def test_a_flag_that_is_written_as_it_is_read_orders() -> None:
    """On threads, what says a flag may come between a reader's look at what it says and the reading itself: one in a
    hundred of these was called a race."""
    with cdna.device("gfx950", checks={"race"}):
        for _ in range(300):
            result, expected = CASES["spin_on_a_flag"]()
            assert result.equal(expected)


def test_the_page_of_checks_names_them_all() -> None:
    page = (Path(__file__).parents[2] / "docs/emulated-device.md").read_text().partition("## Checks\n")[2]
    assert tuple(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == ALL_KINDS
