"""`python -m cdna profile`: slow-downs by line and reason, with what is gained; the trace file and the page. And advice
for kernels with a fault, its place, and silence for the same kernels without it.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdna.__main__ import main
from cdna.cards import get_card
from cdna.profile import advice as advice_module
from cdna.profile.advice import bank_conflicts, fences
from cdna.profile.lines import Line
from cdna.profile.text import hot_lines
from tests.support.limits import ENDS_S

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "support" / "hip" / "advice.hip"
SCRIPT = """\
import sys
import torch, triton, triton.language as tl

@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(y + i, value * 2, mask=i < n)

x, y = torch.randn(1000), torch.empty(1000)
double_kernel[(4,)](x, y, 1000, BLOCK=256)
assert torch.equal(y, x * 2)
sys.exit(int(sys.argv[1]))
"""


def cdna(*arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cdna", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[str]], Path]:
    """Lines of each kernel's profile, and the trace file; the page lies beside it."""
    trace = tmp_path_factory.mktemp("profile") / "trace.json"
    told: dict[str, list[str]] = {}
    for line in cdna("profile", "--trace", trace, "--html", trace.with_suffix(".html"), PROGRAM).stdout.splitlines():
        if head := re.match(r"(\w+)\(.*\): .*workgroups of", line):
            told[head[1]] = []
        elif told:
            told[list(told)[-1]].append(line)
    return told, trace


@pytest.fixture(scope="module")
def told(profiled: tuple[dict[str, list[str]], Path]) -> dict[str, list[str]]:
    return profiled[0]


@pytest.fixture(scope="module")
def advice(told: dict[str, list[str]]) -> dict[str, list[str]]:
    word = "  advice     "
    return {kernel: [line.removeprefix(word) for line in lines if word in line] for kernel, lines in told.items()}


def line_of(words: str) -> int:
    return next(i for i, line in enumerate(PROGRAM.read_text().splitlines(), 1) if words in line)


def modelled_us(lines: list[str]) -> float:
    return next(float(found[1]) for line in lines if (found := re.match(r"  modelled +([\d.]+) us", line)))


def test_a_reader_that_has_had_enough() -> None:
    command = [sys.executable, "-m", "cdna", "profile", str(PROGRAM.with_name("saxpy.hip"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = [line for line in process.stderr if "once per machine" not in line]  # what a first run builds
    assert said == [] and process.returncode == 0  # the program's


def place_of(words: str) -> str:
    return f"{PROGRAM.name}:{line_of(f'// {words}')} "


@pytest.mark.parametrize(
    ("kernel", "mark", "reason", "worth"),
    [
        ("columns_of_words", "read: words", "without its LDS bank conflicts, 32-way", 0.4),
        ("strided", "read: strided", "without what its accesses touch beyond their bytes (coalesced: loads 6%", 0.2),
        ("power_of_two", "read: a power of two", "(coalesced: loads 6%; a power-of-two stride)", 0.3),
        ("uneven_waves", "barrier", "barrier ", 0.2),
        ("indexed_array", "scratch", "loads and stores of scratch", 0.5),
        ("one_counter", "atomic", "without atomics on one line of memory, 1,216 one after the other", 0.5),
    ],
)
def test_a_slow_down_is_named_with_its_gain(
    told: dict[str, list[str]], kernel: str, mark: str, reason: str, worth: float
) -> None:
    rows = [line for line in told[kernel] if reason in line and PROGRAM.name in line and "  advice  " not in line]
    assert rows and place_of(mark) in rows[0], told[kernel]
    gain = re.search(r"[\d.]+ us \((\d+)%\)", rows[0])
    assert gain and int(gain[1]) >= 100 * worth, rows[0]


def test_no_cause_is_named_where_none_is(told: dict[str, list[str]]) -> None:
    assert not [line for line in told["columns_of_33"] if "without " in line and "gain:" not in line]


def test_a_gain_is_what_the_mended_kernel_has(told: dict[str, list[str]]) -> None:
    """Without its conflicts the kernel takes what it takes with padded rows."""
    gained = next(line for line in told["columns_of_words"] if "without its LDS" in line)
    came = modelled_us(told["columns_of_words"]) - modelled_us(told["columns_of_padded_words"])
    assert float(gained.split()[0]) == pytest.approx(came, rel=0.5)


def test_waits_name_the_load(told: dict[str, list[str]]) -> None:
    assert any("waits for LDS" in line and "bank conflicts, 32-way" in line for line in told["columns_of_words"])
    assert any("waits for memory (HBM" in line and place_of("read: bytes") in line for line in told["bytes"])


def check_trace(events: Sequence[dict]) -> int:
    """The trace event format: complete events that do not overlap in a track, which has a name. How many."""
    tracks: dict[tuple[int, int], list[dict]] = {}
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    for event in events:
        assert event["ph"] in ("M", "X") and isinstance(event["name"], str) and isinstance(event["pid"], int)
        if event["ph"] == "X":
            assert event["dur"] > 0 <= event["ts"] and event["args"]["line"]
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    for track, spans in tracks.items():
        assert track in named
        spans.sort(key=lambda span: span["ts"])
        for before, after in zip(spans, spans[1:]):
            assert before["ts"] + before["dur"] <= after["ts"] * (1 + 1e-12) + 1e-9
    return sum(map(len, tracks.values()))


def test_the_trace_is_of_the_format(profiled: tuple[dict[str, list[str]], Path]) -> None:
    document = json.loads(profiled[1].read_text())
    assert check_trace(document["traceEvents"]) > 100
    assert "modelled" in document["otherData"]["note"]
    kernels = {e["args"]["name"]: e["pid"] for e in document["traceEvents"] if e["name"] == "process_name"}
    assert [name.partition(":")[0] for name in kernels] == list(profiled[0])
    of = next(pid for name, pid in kernels.items() if name.startswith("columns_of_words"))
    conflicts = [e for e in document["traceEvents"] if e.get("cat") == "LDS" and e["pid"] == of]
    assert all(e["args"]["waits for"] for e in conflicts) and conflicts
    with pytest.raises(AssertionError):  # the check sees overlaps
        check_trace([*document["traceEvents"], conflicts[0]])


class Page(HTMLParser):
    """What a page is made of: each tag must be closed, and nothing is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.classes: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {name for name, _ in attributes} and tag not in ("script", "link")
        self.classes += [value or "" for name, value in attributes if name == "class"]
        if tag not in ("meta", "br", "circle", "rect", "path", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("circle", "rect", "path", "polyline"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_stands_alone(profiled: tuple[dict[str, list[str]], Path]) -> None:
    page = Page()
    page.feed(profiled[1].with_suffix(".html").read_text())
    assert not page.open
    counts = {name: page.classes.count(name) for name in ("kernel", "lines", "timeline", "roofline")}
    assert counts["kernel"] == counts["lines"] == counts["timeline"] == len(profiled[0]) and counts["roofline"] >= 1
    text = "".join(page.text)
    assert "not measured" in text and "% 64 * ROW + (turn * 7) % 64]" in text
    assert "us without its LDS bank conflicts, 32-way" in text and "the grid has 304 workgroups" in text


class Rows(HTMLParser):
    """Of the tables of lines: the pieces of text of each cell."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.rows: list[list[list[str]]] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append([])

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1].append(data)


HALVES = """\
#include <hip/hip_runtime.h>
template <typename T>
__global__ void halve(T* x, int n) {
	for (int i = threadIdx.x; i < n; i += 64) x[i] = x[i] < T(0) && n > 1 ? x[i] : x[i] / 2;	// "<b>"
}
template __global__ void halve<float>(float*, int);
int main() {
  float* x;
  if (hipMalloc((void**)&x, 4096) || hipMemset(x, 1, 4096)) return 1;
  halve<float><<<1, 64>>>(x, 1024);
  return hipDeviceSynchronize();
}
"""


def test_each_row_of_lines_has_its_place_and_text(tmp_path: Path) -> None:
    """Whatever the file is called; of a code object, where a row of its table is of many instructions; and where the
    source is gone, what was made of it."""
    source, code, page = tmp_path / "halve <T> & (1).hip", tmp_path / "halve.hsaco", tmp_path / "page.html"
    source.write_text(HALVES)
    line = HALVES.splitlines()[3].strip()
    cdna("profile", "--html", page, source)
    of_program = [row for row in Rows(page).rows if row]
    assert all(len(row) == 4 and len(row[1]) == 2 for row in of_program)
    assert [f"{source}:4", line] in [row[1] for row in of_program]

    cdna("compile", source, "-o", code)
    launch = ("--html", page, "--grid", "1", "--block", "64", "--arg", "f32[1024]=randn", "--arg", "i32=1024")
    cdna("profile", code, *launch)
    rows = [row for row in Rows(page).rows if row]
    assert [f"{source}:4", line] in [row[1] for row in rows]
    assert not [row for row in rows if not re.search(r":\d+$", row[1][0])], rows

    source.unlink()
    cdna("profile", code, *launch)
    texts = {row[1][0]: row[1][1] for row in Rows(page).rows if row}
    assert re.fullmatch(r"[sv]_\w+ .* and \d+ more", texts[f"{source}:4"]), texts


ADVISED = """
import torch, triton, triton.language as tl, cdna
from cdna.profile import advice_for, profiles

@triton.jit
def gemm(a, b, c, n, k, T: tl.constexpr, K: tl.constexpr):
    i, j = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1) * T + tl.arange(0, T)
    acc = tl.zeros((T, T), tl.float32)
    for start in range(0, k, K):
        z = start + tl.arange(0, K)
        acc += tl.dot(tl.load(a + i[:, None] * k + z[None, :]), tl.load(b + z[:, None] + j[None, :] * k))
    tl.store(c + i[:, None] * n + j[None, :], acc.to(tl.bfloat16))

a = torch.zeros(2048, 256).bfloat16()
for tile, warps in ((32, 1), (64, 2), (128, 4)):
    with cdna.device("gfx942"), cdna.counting(sample=True):
        c = torch.empty(2048, 2048, dtype=torch.bfloat16)
        gemm[(2048 // tile, 2048 // tile)](a, a, c, 2048, 256, tile, 32, num_warps=warps)
    (kernel,) = profiles(cdna.stats())
    told = [str(advice) for advice in advice_for(kernel) if advice.rule in ("reuse", "idle CUs")]
    print(kernel.time.us, told)

@triton.jit
def sums(x, out, n, APART: tl.constexpr):  # eight workgroups read each row
    i = tl.program_id(0)
    row = i // 64 * 8 + i % 8 if APART else i // 8
    total = tl.zeros((1024,), tl.float32)
    for start in range(0, n, 1024):
        total += tl.load(x + row * n + start + tl.arange(0, 1024))
    tl.store(out + i * 1024 + tl.arange(0, 1024), total)

x, out = torch.zeros(112, 16384), torch.empty(896, 1024)
for apart in (0, 1):
    with cdna.device("gfx942"), cdna.counting(sample=True):
        sums[(896,)](x, out, 16384, apart)
    (kernel,) = profiles(cdna.stats())
    print(kernel.time.us, [str(advice) for advice in advice_for(kernel) if advice.rule == "XCD order"])
"""


def test_what_is_read_too_often_is_told_and_what_it_costs(tmp_path: Path) -> None:
    """By small tiles, and by neighbours, which lie on other XCDs; of what mends it nothing is told."""
    script = tmp_path / "advised.py"
    script.write_text(ADVISED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=ENDS_S, env=environment)
    assert done.returncode == 0, done.stderr
    small, larger, largest, neighbours, apart = (line.split(" ", 1) for line in done.stdout.splitlines())
    assert "workgroups read each byte" in small[1] and "larger tiles" in small[1], done.stdout
    assert "workgroup i runs on XCD i % 8" in neighbours[1], done.stdout
    assert re.search(r"MB, 8\.\d times the", neighbours[1]), done.stdout
    assert larger[1] == largest[1] == apart[1] == "[]"  # neither larger ones nor smaller ones
    for before, after in ((small, larger), (neighbours, apart)):
        promised, came = float(before[1].split()[0][2:]), float(before[0]) - float(after[0])
        assert abs(promised - came) < max(promised, came) / 3


def test_a_script_of_triton_kernels(tmp_path: Path) -> None:
    script = tmp_path / "doubles.py"
    script.write_text(SCRIPT)
    done = cdna("profile", script, "--", "3", code=3)  # the exit code is the script's
    row = next(line for line in done.stdout.splitlines() if "waits for memory (HBM, line 7)" in line)
    assert f"{script}:8 " in row and " us (" in row


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no_such.hip"], "no_such.hip: no such file"),
        (["a.co"], "needs --grid, --block, and --arg"),
        (["a.py", "b.py"], "one Python script at a time"),
        (["--trace", "none/t.json", "a.py"], "none/t.json: cannot be written"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.py", "b.py", "a.co"):
        (tmp_path / name).write_text("")
    assert main(["profile", *(word if word.startswith("--") else str(tmp_path / word) for word in arguments)]) == 2
    told = capsys.readouterr().err
    assert words in told and told.count("\n") == 1


# --- advice ----------------------------------------------------------------------------------------------


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
    before, after = (modelled_us(told[name]) for name in (faulty, mended))
    assert abs(promised - (before - after)) <= max(promised, before - after) / 3, (promised, before, after)
