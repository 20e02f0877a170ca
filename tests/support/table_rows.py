"""Rows of a tuning table, each once: what tests execute at tiny sizes, whatever shape a row was chosen for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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


@contextmanager
def no_spills(kernel: str) -> Iterator[None]:
    """Inside, each Triton kernel of that name that is compiled, or taken from the cache, keeps to its vector
    registers. (Scalars that shapes of no multiple of 16 cost may go to lanes of these.)"""
    from triton import knobs

    def told(*, metadata: dict[str, Any], metadata_group: dict[str, str], **_: Any) -> None:
        if metadata["name"] == kernel:
            (text,) = (Path(file).read_text() for name, file in metadata_group.items() if name.endswith(".amdgcn"))
            spilled.update(re.findall(r"\.vgpr_spill_count: +[1-9]\d*", text))

    spilled: set[str] = set()
    with knobs.compilation.scope():
        knobs.compilation.listener = told
        yield
    assert not spilled, (kernel, spilled)
