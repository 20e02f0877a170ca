"""Rows of a tuning table, each once: what tests execute at tiny sizes, whatever shape a row was chosen for."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


def different_rows(table: ModuleType) -> list[dict[str, Any]]:
    """TUNING's and DEFAULT's rows without those that are equal to an earlier one."""
    rows: list[dict[str, Any]] = []
    for row in [*table.TUNING.values(), table.DEFAULT]:
        if row not in rows:
            rows.append(row)
    return rows


def row_text(row: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in row.items())


ALIKE = pytest.mark.slow(reason="an earlier row differs in the number of splits or the order of tiles alone")


def row_parameters(table: ModuleType) -> list[Any]:
    """The rows for parametrize. Of those that differ in no more than ALIKE says the first runs without --slow."""
    kinds: list[dict[str, Any]] = []
    made = []
    for row in different_rows(table):
        kind = {n: min(v, 2) if n in ("SPLIT_K", "SPLITS") else v for n, v in row.items() if n != "GROUP_M"}
        made.append(pytest.param(row, id=row_text(row), marks=[ALIKE] * (kind in kinds)))
        kinds.append(kind)
    return made
