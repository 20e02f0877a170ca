"""What a forge.Judge of a test starts comes from a process that has imported torch."""

from collections.abc import Iterator

import pytest

from tests.support.evaltools import prepared_slots


@pytest.fixture(autouse=True, scope="session")
def slots() -> Iterator[None]:
    with prepared_slots():
        yield
