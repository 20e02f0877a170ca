"""Thread traces as rows: the traced text as a kernel, and what is held against it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from cdna.cards import cards
from lab.time_model import runner
from lab.time_model.page import trace_line, trace_rows
from lab.time_model.rows import Row, RowError
from lab.time_model.traces import Memory, assembly, read_trace, trace_launch, traced_kernel

# A wave adds 3 to its work-items' dwords as often as an argument says; the trace has a loop, an accumulation register
# and a jump over what no wave executes.
CODE = [
    ("s_load_dwordx2 s[4:5], s[0:1], 0x8", 8),
    ("s_load_dword s6, s[0:1], 0x1c", 8),
    ("v_lshlrev_b32_e32 v1, 2, v0", 4),
    ("v_mov_b32_e32 v11, 0", 4),
    ("v_accvgpr_write_b32 a2, v11", 8),
    ("s_waitcnt lgkmcnt(0)", 4),
    ("v_add_u32_e32 v11, 3, v11", 4),
    ("s_sub_i32 s6, s6, 1", 4),
    ("s_cmp_lg_u32 s6, 0", 4),
    ("s_cbranch_scc1 65532", 4),  # back to the addition
    ("s_branch 1", 4),
    ("v_mov_b32_e32 v11, 0", 4),
    ("global_store_dword v1, v11, s[4:5]", 8),
    ("s_endpgm", 4),
]
LAUNCH = "kernel=sum grid=4,2 block=64 lds=256 kernarg=8:@256,28:5"
SHAPE = dict(pair.split("=", 1) for pair in LAUNCH.split())
ROW = Row("flydsl", "MI350X", "trace", "examples/sum/code.json", "0" * 40, SHAPE, 5.0, "abc")
CYCLES = 3000  # of the span


def trace(code: list[tuple[str, int]] = CODE, start: int = 4096, **files: Any) -> dict[str, bytes]:
    """Two traced waves; the second engine's clock is 1000 cycles behind the first's."""
    lines: list[list[Any]] = [["; sum_0", 0, 0, "", 3, start, 0, 0, 0, 0]]
    for number, (text, size) in enumerate(code, start=1):
        hits = 0 if number == 12 else 2
        stall = 2000 if "waitcnt" in text else 0
        latency = 900 if text == "s_endpgm" else stall + 8
        lines.append([text, 0, number, f"sum.py:{number // 10}", 3, start, hits, latency, stall, 0])
        start += size
    events = {
        "0": [[5000, 1, 0, 0, 1, 1], [5004, 1, 1, 0, 1, 1], [7000, 1, 0, 0, 0, 1], [7500, 1, 1, 0, 0, 1]],
        "1": [[4000 + CYCLES - 10, 1, 0, 0, 1, 1], [4000 + CYCLES, 1, 0, 0, 0, 1]],
        "version": "3.0.0",
    }
    clocks = {"SE0": [[1000, 50], [3000, 150]], "SE1": [[0, 50], [2000, 150]], "metadata": {"frequency": 100000000}}
    contents = {"code.json": {"code": lines}, "occupancy.json": events, "realtime.json": clocks, **files}
    return {f"examples/sum/{name}": json.dumps(content).encode() for name, content in contents.items()}


def test_a_traced_kernel_does_what_its_text_says() -> None:
    kernel = traced_kernel(ROW, read_trace(trace()), "gfx950")
    launch = trace_launch(ROW, cards()["MI350X"])
    assert launch.grid == (4, 2, 1) and launch.block == (64, 1, 1)
    kernel.launch(launch.grid, launch.block, launch.kernarg)
    out = launch.slots[0]
    assert isinstance(out, Memory) and (out.view("i4") == 15).all()


def test_registers_are_those_that_the_text_names() -> None:
    text = assembly(read_trace(trace()), "gfx950", 256)
    assert ".amdhsa_accum_offset 12\n" in text and ".vgpr_count: 15\n" in text
    assert ".vgpr_count: 12\n" in assembly(read_trace(trace([one for one in CODE if "acc" not in one[0]])), "gfx950", 0)


def test_what_a_trace_says_of_itself() -> None:
    one = read_trace(trace())
    assert (one.name, one.waves, one.mhz, one.waves_on_cu, one.span_cycles) == ("sum_0", 2, 2000.0, 2, CYCLES)
    assert one.code[-1].waited == 900 and one.code[5].waited == 2000


def test_a_trace_is_held_against_the_model() -> None:
    told = runner.model_row(ROW, tuple(trace().items()))
    assert "error" not in told, told["error"]
    assert told["code"] == "sum" and told["counters"]["vgprs"] == 15 and told["counters"]["groups"] == 8
    assert told["span_us"] == CYCLES / 2000 and told["traced_mhz"] == 2000
    assert told["span_ratio"] == pytest.approx(told["parts_us"]["replay"] / told["span_us"], rel=1e-3)
    assert told["stall_cycles"][0] == (2000 + 900) / 2
    kernel_arguments, *_ = [text for text, traced, modelled in told["hottest"] if traced == 1000 and modelled > 500]
    assert kernel_arguments == "s_waitcnt lgkmcnt(0)"
    (row,) = trace_rows([told])
    assert row[:2] == ["sum", "1.5"]
    assert told["hot"] == 3 and told["hot_lines"] == 2 and math.isnan(told["line_ranks"])
    far = [
        {**told, "span_ratio": ratio, "stall_ranks": rank, "line_ranks": of_lines}
        for ratio, rank, of_lines in ((0.9, 0.85, 1.0), (1.3, 0.8, math.nan), (1.1, 0.1, 0.5))
    ]
    assert trace_line(far) == (
        "3 traces: spans modelled / traced 1.10 at the median, 2 within 15 %; rank correlation of stalls 0.80 at the "
        "median, 2 of 0.8 or more; by lines of the source 0.75, 1"
    )
    assert trace_line([]) == ""


def test_warm_caches_are_those_of_the_stalls_too() -> None:
    """A row's calls may each have arguments of their own: more than the memory-side cache holds."""
    load = ("global_load_dword v3, v1, s[4:5]", 8)
    code = [*CODE[:6], load, ("s_waitcnt vmcnt(0)", 4), *CODE[6:]]
    code[11] = ("s_cbranch_scc1 65532", 4)
    content = tuple(trace(code).items())

    def wait_for_memory(row: Row) -> int:
        told = runner.model_row(row, content)
        assert "error" not in told, told["error"]
        (modelled,) = [modelled for text, _, modelled in told["hottest"] if text == "s_waitcnt vmcnt(0)"]
        return modelled

    warm = wait_for_memory(replace(ROW, shape={**SHAPE, "grid": "1"}))
    cold = wait_for_memory(replace(ROW, shape={**SHAPE, "calls_in_turn": "1000000", "grid": "1"}))
    assert cold - warm > 0.5 * (cards()["MI350X"].memory_cycles - cards()["MI350X"].memory_side_cycles)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"code.json": {"code": []}}, "no thread trace: ValueError"),
        ({"realtime.json": {}}, "no thread trace: .*SE"),
        (
            {"code.json": {"code": [["; k", 0, 0, "", 3, 0, 0, 0, 0, 0], ["s_branch 7", 0, 1, "", 3, 0, 1, 1, 1, 0]]}},
            "at 32",
        ),
    ],
)
def test_what_is_no_trace_is_named(files: dict[str, Any], said: str) -> None:
    with pytest.raises(RowError, match=said):
        assembly(read_trace(trace(**files)), "gfx950", 0)


def test_a_row_without_a_grid_is_named() -> None:
    with pytest.raises(RowError, match="has no 'grid' of up to three numbers"):
        trace_launch(replace(ROW, shape={"kernarg": "0:@16", "block": "64"}), cards()["MI350X"])
