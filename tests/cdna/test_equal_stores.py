"""Stores of one value by several at once are no race, also while the first of them is still under way."""

import pytest

from tests.support.hip_programs import PROGRAMS, run_built

KINDS = ["dwords", "bytes", "unaligned", "streams"]


def stored(*words: str) -> tuple[str, str]:
    # More threads than cores: some stand still between a store's check and the store itself.
    done = run_built(PROGRAMS / "equal_stores.hip", *words, CDNA_CHECKS="race", CDNA_THREADS="4")
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_equal(kind: str) -> None:
    assert stored(kind) == ("no finding", "")


# Of a dword whose bytes several workgroups have stored, nobody is known to be the last.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bytes"])
def test_unlike(kind: str) -> None:
    says, told = stored(kind, "unlike")
    assert says == "hipErrorLaunchFailure"
    assert "race: writes another value to" in told or "race: writes other values to" in told
