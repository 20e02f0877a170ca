"""lab/tune_search.py: what a search may ask for, and that columns moved together are found."""

from __future__ import annotations

import itertools
from typing import Any

from lab.tune_search import NEAR, SHARE, Whole, by_columns, searched, together

VALUES = [(64, 128, 256), (64, 128, 256), (64, 128), (16, 32), (0, 1, 2), (0, 1), (64, 128, 256, 512)]


def us(row: tuple[Any, ...]) -> float | None:
    """Two columns are slow unless they move together: a ridge, on which no single step is faster. Some rows fail."""
    if row[1] == 64 and row[4] == 2:
        return None
    return 10.0 + 8 * (row[0] != row[1]) - row[0] / 64 + row[2] / 64 + row[4] + row[6] / 512


def test_a_search_keeps_to_its_share_and_moves_columns_together() -> None:
    whole = Whole("ridge", "abcdefg", {row: us(row) for row in itertools.product(*VALUES)})
    found = {how: [searched(whole, how, seed) for seed in range(4)] for how in (by_columns, together)}
    assert all(tried <= SHARE for done in found.values() for _, tried in done)
    assert all(over <= NEAR for over, _ in found[together])
    assert max(over for over, _ in found[by_columns]) > NEAR  # it stays on the ridge
