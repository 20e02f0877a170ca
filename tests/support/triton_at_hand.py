"""What the Triton that the tests run with can do: some of the language sample is younger than the oldest version."""

import pytest
import triton

from cdna.triton.versions import minor_of

AT_HAND = minor_of(triton.__version__)


def needs(major: int, minor: int, what: str) -> None:
    """Skip the test where Triton is older. what: what older ones lack or do wrong."""
    if AT_HAND < (major, minor):
        pytest.skip(f"Triton {triton.__version__}: {what} came right with {major}.{minor}")
