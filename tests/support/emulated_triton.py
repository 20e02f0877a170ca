"""Triton variants on an emulated card in this process, their memory poisoned, with all checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

import cdna


@contextmanager
def card(arch: str = "gfx950", order_seed: int = 0) -> Iterator[None]:
    """Inside, kernels run on CPU tensors, what a check finds is raised, torch.empty gives NaN and large integers."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # with this torch fills what it does not initialise
    try:
        with cdna.device(arch, checks="all", order_seed=order_seed):
            yield
    finally:
        torch.use_deterministic_algorithms(before)


def distinct_rows(table: dict, default: dict) -> list[dict]:
    """The rows of a tuning table that differ, the default among them."""
    rows: list[dict] = []
    for row in (default, *table.values()):
        if row not in rows:
            rows.append(row)
    return rows


def described(row: dict) -> str:
    """For the id of a test."""
    return " ".join(map(str, row.values()))
