"""Rows of a tuning table, each once: what tests execute at tiny sizes, whatever shape a row was chosen for."""

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


def values_of(row: dict[str, Any]) -> set[tuple[str, Any]]:
    """Any numbers of splits but one are alike, and the order of tiles is."""
    return {(n, min(v, 2) if n in ("SPLIT_K", "SPLITS") else v) for n, v in row.items() if n != "GROUP_M"}


def some_rows(table: ModuleType) -> list[dict[str, Any]]:
    """Of the rows so few that each value of each name is among them."""
    left, chosen = different_rows(table), list[dict[str, Any]]()
    seen = set[tuple[str, Any]]()
    while left:
        best = max(left, key=lambda row: len(values_of(row) - seen))
        if values_of(best) <= seen:
            break
        left.remove(best)
        chosen.append(best)
        seen |= values_of(best)
    return chosen


ALIKE = pytest.mark.slow(reason="each of its values is in a row that runs")


def row_parameters(table: ModuleType) -> list[Any]:
    """The rows for parametrize: with --slow all of them."""
    some = some_rows(table)
    return [pytest.param(row, id=row_text(row), marks=[ALIKE] * (row not in some)) for row in different_rows(table)]
