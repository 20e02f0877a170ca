"""What a test's launches found is not the next one's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import cdna


@pytest.fixture(autouse=True)
def no_findings_left() -> Iterator[None]:
    cdna.findings()
    yield
    cdna.findings()
