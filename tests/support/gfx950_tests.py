"""What the tests of both variants of an MI355X problem share: `run` is the fixture of tests/kernels/conftest.py."""

from typing import Any

import torch

from tests.support.reference_folders import relative_error

Row = dict[str, Any] | None


def check(run: Any, *calls: tuple[Any, Row]) -> list[torch.Tensor]:
    """Results of these calls, which are right."""
    made = run(*calls)
    for (case, row), out in zip(calls, made, strict=True):
        error = relative_error(out, case.wanted(row))
        assert error < case.ROUNDING, (case, row, error)
    return made


def check_order(run: Any, *calls: tuple[Any, Row], times: int = 6) -> None:
    """Neither workgroups' order nor waves' changes a bit of these calls' results."""
    first = run(*calls)
    again = run(*calls * times, order_seed=1)  # each launch has an order of its own
    assert all(torch.equal(before, out) for before, out in zip(first * times, again, strict=True))
