"""Rows of a tuning table, each once: what tests execute at tiny sizes, whatever shape a row was chosen for."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def different_rows(table: ModuleType) -> list[dict[str, Any]]:
    """TUNING's and DEFAULT's rows without those that are equal to an earlier one."""
    rows: list[dict[str, Any]] = []
    for row in [*table.TUNING.values(), table.DEFAULT]:
        if row not in rows:
            rows.append(row)
    return rows


def row_text(row: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in row.items())
