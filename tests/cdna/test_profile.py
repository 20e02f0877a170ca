"""The advice for kernels with a fault, its place, and silence for the same kernels without it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.limits import ENDS_S

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "hip" / "advice.hip"


@pytest.fixture(scope="module")
def advice() -> dict[str, list[str]]:
    """What `cdna run --counters` advises, by kernel."""
    command = [sys.executable, "-m", "cdna", "run", "--counters", str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode == 0, done.stderr
    told: dict[str, list[str]] = {}
    for line in done.stderr.splitlines():
        if head := re.match(r"(\w+)\(.*\): .*workgroups of", line):
            told[head[1]] = []
        if line.startswith("  advice     "):
            told[list(told)[-1]].append(line.removeprefix("  advice     "))
    return told


def line_of(words: str) -> int:
    return next(i for i, line in enumerate(PROGRAM.read_text().splitlines(), 1) if words in line)


@pytest.mark.parametrize(
    ("faulty", "without", "words", "place"),
    [
        ("few_workgroups", "enough_workgroups", "64 workgroups for 304 CUs: 79% idle", ""),
        ("a_round_and_a_bit", "two_rounds", "320 workgroups are 1 round of 304 and 16 more", ""),
        ("columns_of_32", "columns_of_33", "LDS cycles are bank conflicts of", "// read: columns"),
        ("much_lds", "little_lds", "48,000 bytes of LDS allow 1 workgroups a CU; 15,232 fewer allow 2", ""),
        ("many_registers", "few_registers", "VGPRs allow 2 waves a SIMD;", ""),
        ("strided", "side_by_side", "loads 6% coalesced at", "// read: strided"),
        ("bytes", "dwords", "loads of 1 byte a lane at", "// read: bytes"),
        ("indexed_array", "few_registers", "loads and stores of scratch", ""),
        ("some_lanes", "all_lanes", "12% of the lanes work at", "x = x * 0.5f"),
        ("product", "all_lanes", "multiply-adds of waves at", "// multiply-add"),
        ("one_counter", "many_counters", "atomics of lanes on one 128-byte line", "// atomic"),
        ("uneven_waves", "even_waves", "of their time at the barrier of", "// barrier"),
    ],
)
def test_a_fault_is_named_and_nothing_else(
    advice: dict[str, list[str]], faulty: str, without: str, words: str, place: str
) -> None:
    said = [text for text in advice[faulty] if words in text]
    assert len(said) == 1, advice[faulty]
    if place:
        assert f"{PROGRAM.name}:{line_of(place)}" in said[0]
    assert not advice[without]
