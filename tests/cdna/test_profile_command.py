"""`python -m cdna profile`: planted slow-downs are named by line and reason, with what is gained; the trace file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cdna.__main__ import main
from tests.support.limits import ENDS_S

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "support" / "hip" / "planted_slow.hip"
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


def test_a_reader_that_has_had_enough() -> None:
    command = [sys.executable, "-m", "cdna", "profile", str(PROGRAM)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0  # the program's


def place_of(words: str) -> str:
    number = next(i for i, line in enumerate(PROGRAM.read_text().splitlines(), 1) if f"// {words}" in line)
    return f"{PROGRAM.name}:{number} "


@pytest.mark.parametrize(
    ("kernel", "mark", "reason", "worth"),
    [
        ("rows_of_32", "conflicts", "without its LDS bank conflicts, 32-way", 0.1),
        ("uncoalesced", "uncoalesced", "without what its accesses touch beyond their bytes (coalesced: loads 6%)", 0.2),
        ("power_of_two", "stride", "(coalesced: loads 6%; a power-of-two stride)", 0.3),
        ("barrier_too_many", "barrier", "barrier ", 0.4),
        ("spilled", "scratch", "loads and stores of scratch", 0.15),
        ("one_counter", "atomics", "without atomics on one line of memory, 9,728 one after the other", 0.8),
    ],
)
def test_a_planted_slow_down_is_named_with_its_gain(
    profiled: tuple[dict[str, list[str]], Path], kernel: str, mark: str, reason: str, worth: float
) -> None:
    rows = [line for line in profiled[0][kernel] if reason in line and PROGRAM.name in line and "advice" not in line]
    assert rows and place_of(mark) in rows[0], profiled[0][kernel]
    gain = re.search(r"[\d.]+ us \((\d+)%\)", rows[0])
    assert gain and int(gain[1]) >= 100 * worth, rows[0]


def test_no_cause_is_named_where_none_is(profiled: tuple[dict[str, list[str]], Path]) -> None:
    assert not [line for line in profiled[0]["rows_of_33"] if "without " in line and "gain:" not in line]


def test_a_gain_is_what_the_mended_kernel_has(profiled: tuple[dict[str, list[str]], Path]) -> None:
    """Without its conflicts the kernel takes what it takes with padded rows, caches apart."""
    lds = {name: next(line for line in told if "modelled " in line) for name, told in profiled[0].items()}
    assert "LDS 16" in lds["rows_of_32"] and "LDS 0.9" in lds["rows_of_33"]
    gained = next(line for line in profiled[0]["rows_of_32"] if "without its LDS" in line)
    assert 0.5 * 15 < float(gained.split()[0]) < 1.5 * 15  # us that the LDS alone takes longer


def test_waits_name_the_load(profiled: tuple[dict[str, list[str]], Path]) -> None:
    assert any("waits for LDS" in line and "bank conflicts, 32-way" in line for line in profiled[0]["rows_of_32"])
    loads = [line for line in profiled[0]["uncoalesced"] if place_of("uncoalesced") in line]
    assert any("waits for memory (HBM)" in line for line in loads)


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
    kernels = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"]
    assert len(kernels) == 7 and kernels[0].startswith("rows_of_32")
    conflicts = [e for e in document["traceEvents"] if e.get("cat") == "LDS" and e["pid"] == 0]
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
    assert counts["kernel"] == counts["lines"] == counts["timeline"] == 7 and counts["roofline"] >= 1
    text = "".join(page.text)
    assert "not measured" in text and "sum += tile[x * 32 + i]" not in text and "sum += tile[x * ROW + i]" in text
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


GEMM = """
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
    print(kernel.time.us, tile, told)
"""


def test_small_tiles_are_told_to_read_too_often(tmp_path: Path) -> None:
    script = tmp_path / "gemm.py"
    script.write_text(GEMM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=ENDS_S, env=environment)
    assert done.returncode == 0, done.stderr
    small, larger, largest = (line.split(" ", 2) for line in done.stdout.splitlines())
    assert "workgroups read each byte" in small[2] and "larger tiles" in small[2], done.stderr
    assert larger[2] == largest[2] == "[]"  # neither larger ones nor smaller ones
    promised, came = float(small[2].split()[0][2:]), float(small[0]) - float(larger[0])
    assert abs(promised - came) < max(promised, came) / 3


SHARED_READS = """
import torch, triton, triton.language as tl, cdna
from cdna.profile import advice_for, profiles

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


def test_neighbours_that_read_the_same_are_told_that_they_lie_on_other_xcds(tmp_path: Path) -> None:
    script = tmp_path / "sums.py"
    script.write_text(SHARED_READS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=ENDS_S, env=environment)
    assert done.returncode == 0, done.stderr
    (before, neighbours), (after, apart) = (line.split(" ", 1) for line in done.stdout.splitlines())
    assert "workgroup i runs on XCD i % 8" in neighbours and re.search(r"MB, 8\.\d times the", neighbours), done.stdout
    assert apart == "[]"
    promised, came = float(neighbours.split()[0][2:]), float(before) - float(after)
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
