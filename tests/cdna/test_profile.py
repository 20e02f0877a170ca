"""The advice for kernels with a fault, its place, and silence for the same kernels without it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdna.cards import get_card
from cdna.profile import advice as advice_module
from cdna.profile.advice import bank_conflicts, fences
from cdna.profile.lines import Line
from cdna.profile.text import hot_lines
from tests.support.limits import ENDS_S

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "hip" / "advice.hip"


@pytest.fixture(scope="module")
def told() -> dict[str, list[str]]:
    """What `cdna run --counters` says, by kernel."""
    command = [sys.executable, "-m", "cdna", "run", "--counters", str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode == 0, done.stderr
    told: dict[str, list[str]] = {}
    for line in done.stderr.splitlines():
        if head := re.match(r"(\w+)\(.*\): .*workgroups of", line):
            told[head[1]] = []
        elif told:
            told[list(told)[-1]].append(line)
    return told


@pytest.fixture(scope="module")
def advice(told: dict[str, list[str]]) -> dict[str, list[str]]:
    word = "  advice     "
    return {kernel: [line.removeprefix(word) for line in lines if word in line] for kernel, lines in told.items()}


def test_what_a_launch_would_take_without_its_fences_is_said(told: dict[str, list[str]]) -> None:
    (row,) = [line for line in told["fenced"] if "without its" in line]
    gain = re.search(r"\((\d+)%\)", row)
    assert f"{PROGRAM.name}:{line_of('// fence')} " in row and gain and int(gain[1]) > 90, row


def test_a_launch_at_the_bandwidth_of_hbm_says_so(told: dict[str, list[str]]) -> None:
    """Which says as well that there is nothing else to advise."""
    (said,) = [line for line in told["stream"] if "near its roof" in line]
    assert "near its roof: HBM alone takes " in said and not [line for line in told["stream"] if "  advice  " in line]
    assert not [line for line in told["one_by_one_and_few_waves"] if "near its roof" in line]


def test_a_bound_is_never_without_a_line_of_its_unit(told: dict[str, list[str]]) -> None:
    """Waves wait for the LDS at lines that use what they get, where a compiler has moved these."""
    first = {**dict.fromkeys(["f:1", "f:2", "f:3", "f:4", "f:5"], {"vector": 9}), "f:6": {"vector": 1}}
    lines = [Line(place, cycles=cycles) for place, cycles in (first | {"f:7": {"lds": 4}, "f:8": {"lds": 8}}).items()]

    def shown(bound: str) -> list[str]:
        kernel: Any = SimpleNamespace(lines=lines, longest_time=SimpleNamespace(bound=bound))
        return [line.place for line in hot_lines(kernel)]

    assert shown("LDS") == shown("LDS latency") == ["f:1", "f:2", "f:3", "f:4", "f:5", "f:8"]
    tile = told["columns_of_a_full_tile"]
    assert any("bound by LDS" in line for line in tile)
    assert any(re.match(r" +[\d.]+%", line) and f":{line_of('// read: a full tile')} " in line for line in tile), tile
    assert shown("vector") == shown("HBM") == shown("matrix") == ["f:1", "f:2", "f:3", "f:4", "f:5"]


@pytest.mark.parametrize(("file", "mend"), [("k.hip", "pad rows by 16 bytes"), ("k.py", "Triton lays tiles out")])
def test_what_mends_conflicts_is_the_users_to_do(file: str, mend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(f"{file}:7", cycles={"lds": 200}, conflict_cycles=100)
    counters = SimpleNamespace(
        unit_cycles={"lds": 200}, lds_conflict_cycles=100, lds_bytes_per_group=1024, groups_on_cu=1,
        waves_per_group=4, vgprs=32, sgprs=16,
    )  # fmt: skip
    time = SimpleNamespace(us=10.0, parts_us={"launch": 2.0, "LDS": 8.0})
    kernel: Any = SimpleNamespace(counters=counters, lines=[line], longest_time=time, card=get_card("gfx942"))
    monkeypatch.setattr(advice_module, "_without", lambda kernel, line, reason: 4.0)
    (said,) = bank_conflicts(kernel)
    assert said.place == line.place and mend in said.text


@pytest.mark.parametrize(
    ("file", "mend"), [("k.hip", "fence once for many stores"), ("k.py", "unless sem is 'relaxed'")]
)
def test_what_orders_atomics_is_the_users_to_say(file: str, mend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = SimpleNamespace(cache_maintenance=9000)
    time = SimpleNamespace(us=71.0, parts_us={"launch": 2.0, "fences": 69.0})
    kernel: Any = SimpleNamespace(counters=counters, lines=[Line(f"{file}:7", fences=9000)], longest_time=time)
    monkeypatch.setattr(advice_module, "_without", lambda kernel, line, reason: 69.0)
    (said,) = fences(kernel)
    assert said.place == f"{file}:7" and mend in said.text


def line_of(words: str) -> int:
    return next(i for i, line in enumerate(PROGRAM.read_text().splitlines(), 1) if words in line)


@pytest.mark.parametrize(
    ("faulty", "without", "words", "place"),
    [
        ("few_workgroups", "enough_workgroups", "64 workgroups for 304 CUs: 79% idle", ""),
        ("a_round_and_a_bit", "two_rounds", "320 workgroups are 1 round of 304 and 16 more", ""),
        ("columns_of_32", "columns_of_33", "8-way: pad rows by 16 bytes", "// read: columns"),
        ("columns_of_words", "columns_of_33", "32-way: pad rows by 4 bytes", "// read: words"),
        ("divided", "dwords", "indices that are divided", "// read: divided"),
        ("rearranged", "as_it_lies", "rearrange or convert what", "// read: rearranged"),
        ("columns_of_a_full_tile", "columns_of_33", "-way: swizzle what lies in a row", "// read: a full tile"),
        ("one_by_one_and_few_waves", "one_by_one_and_many_waves", "waits for what", "// read: one by one"),
        ("one_by_one_and_few_waves", "side_by_side", "; or more waves that share them than 1 a workgroup", ""),
        ("much_lds", "little_lds", "48,000 bytes of LDS allow 1 workgroups a CU; 15,232 fewer allow 2", ""),
        (
            "many_registers",
            "few_registers",
            "VGPRs allow 3 waves a SIMD; 27 fewer allow 4: __launch_bounds__(N, 4)",
            "",
        ),
        ("strided", "side_by_side", "loads 6% coalesced at", "// read: strided"),
        ("bytes", "dwords", "loads of 1 byte a lane at", "// read: bytes"),
        ("indexed_array", "few_registers", "loads and stores of scratch", ""),
        ("some_lanes", "all_lanes", "12% of the lanes work at", "x = x * 0.5f"),
        ("product", "matrix_product", "multiply-adds of waves at", "// multiply-add"),
        ("one_counter", "many_counters", "atomics of lanes on one 128-byte line", "// atomic"),
        ("uneven_waves", "even_waves", "of their time at the barrier of", "// barrier"),
        ("uneven_groups", "even_groups", "workgroup 7 executes ", ""),
        ("growing_groups", "even_groups", "waits for its longest workgroup, which executes 1.9 times as much", ""),
        ("short_rows", "short_rows_together", "25% of the lanes load something at", "// read: masked"),
        ("fenced", "fenced_for_its_workgroup", "instructions write back or invalidate the L2", "// fence"),
        ("few_bins", "many_bins", "atomics of lanes on one word or bank of", "// LDS atomic"),
        ("in_double", "in_float", "instructions of waves compute in fp64 at", "// double"),
        ("products_of_fp32", "products_of_fp16", "matrix instructions of fp32 at", "// fp32 product"),
        ("a_little_each_time", "all_at_once", "8 launches take ", ""),
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
    gains = [float(text.split()[0]) for text in advice[faulty]]
    assert gains == sorted(gains, reverse=True)


@pytest.mark.parametrize(
    ("faulty", "mended", "words"),
    [
        ("few_workgroups", "four_times_as_many", "79% idle"),
        ("a_round_and_a_bit", "one_round", "the last round leaves 95%"),
        ("columns_of_32", "columns_of_36", "-way: pad rows by 16 bytes"),
        ("columns_of_words", "columns_of_padded_words", "32-way: pad rows by 4 bytes"),
        ("columns_of_a_full_tile", "swizzled_columns_of_a_full_tile", "-way: swizzle"),
        ("rearranged", "as_it_lies", "rearrange or convert what"),
        ("divided", "divided_by_eight", "indices that are divided"),
        ("one_by_one_and_few_waves", "one_by_one_and_many_waves", "waits for what"),
        ("much_lds", "lds_for_two", "15,232 fewer allow 2"),
        ("many_registers", "fewer_registers", "fewer allow 4"),
        ("strided", "side_by_side", "loads 6% coalesced"),
        ("bytes", "sixteen_bytes", "loads of 1 byte a lane"),
        ("indexed_array", "unindexed_array", "loads and stores of scratch"),
        ("some_lanes", "those_lanes", "12% of the lanes work"),
        ("product", "matrix_product", "multiply-adds of waves"),
        ("one_counter", "many_counters", "atomics of lanes on one 128-byte line"),
        ("uneven_waves", "waves_in_turn", "of their time at the barrier"),
        ("uneven_groups", "even_groups", "workgroup 7 executes"),
        ("growing_groups", "paired_groups", "waits for its longest workgroup"),
        ("short_rows", "short_rows_together", "25% of the lanes load something"),
        ("fenced", "fenced_for_its_workgroup", "write back or invalidate the L2"),
        ("few_bins", "many_bins", "atomics of lanes on one word or bank"),
        ("in_double", "in_float", "compute in fp64"),
        ("products_of_fp32", "products_of_fp16", "matrix instructions of fp32"),
        ("a_little_each_time", "all_at_once", "8 launches take"),
    ],
)
def test_what_is_promised_comes(
    told: dict[str, list[str]], advice: dict[str, list[str]], faulty: str, mended: str, words: str
) -> None:
    """Within a third, where the advice is followed and nothing else is changed."""
    promised = next(float(text.split()[0]) for text in advice[faulty] if words in text)
    texts = ("\n".join(told[name]) for name in (faulty, mended))
    before, after = (float(us) for text in texts for us in re.findall(r"  modelled +([\d.]+) us", text))
    assert abs(promised - (before - after)) <= max(promised, before - after) / 3, (promised, before, after)
