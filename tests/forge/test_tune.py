"""The tuner: finds the better row, refuses wrong ones, goes on after a stop, and writes rows into the table."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forge.device.cards import CARDS
from forge.device.emulated import EmulatedDevice
from forge.generate.pysource import GenerationError
from forge.generate.tuning import NewRow, read_table, with_rows
from forge.task.watched_table import WatchedTable
from forge.tune.best import best_of, by_key
from forge.tune.command import main as tune_main
from forge.tune.search import Search
from forge.tune.trials_log import Setting, Trial, TrialsLog, lines_of
from tests.support import evaltools
from tests.support.evaltools import ROOT
from tests.support.limits import ENDS_S
from tests.support.prepared import run_evaluator
from tests.support.toy_check import write_files

pytestmark = pytest.mark.long

SCRIPT = "tests/support/toy_tune.py"
SET = """\
sets:
  - name: toys
    problems:
      - {directory: reference/toy, name: toy, gpus: [MI300], arch: gfx942, harness: amd, variant: triton}
      - {directory: reference/toy_sum, name: toy-sum, gpus: [MI300x2], arch: gfx942, harness: amd_distributed,
         variant: triton}
"""
TASK = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
ranking_by: geom
tests: [{CASE}]
benchmarks: [{CASE}]
"""
# A tolerance so wide that zeros pass, as some problems have.
REFERENCE = evaltools.REFERENCE.replace("ref_kernel(x))", "ref_kernel(x), atol=100)")
VARIANT = '''\
"""Doubles a vector."""

import os
import time

import torch
import triton
import triton.language as tl

from kernels.toy.triton_tuning import DEFAULT, TUNING


@triton.jit
def double(x, y, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr, PASSES: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for _ in range(PASSES):
        value = tl.load(x + at, mask=at < n, volatile=True) * FACTOR
        tl.store(y + at, value, mask=at < n)
        tl.debug_barrier()


def custom_kernel(x):
    row = TUNING.get((len(x), "n"), DEFAULT)
    if row["MODE"] == "hang":
        time.sleep(600)
    if row["MODE"] == "die":
        os._exit(7)
    y = torch.empty_like(x)
    factor = 2 if row["MODE"] == "right" else 0
    double[(triton.cdiv(len(x), row["BLOCK"]),)](x, y, len(x), factor, row["BLOCK"], row["PASSES"])
    return y
'''
TABLE = '''\
"""A row a length."""

DEFAULT = {"PASSES": 40, "BLOCK": 64, "MODE": "right"}

SPACE = {"PASSES": [1, 6, 40], "BLOCK": [48, 64, 512], "MODE": ["right", "zeros"]}

TUNING = {
    # length, unit
    (64, "n"): {"PASSES": 2, "BLOCK": 32, "MODE": "right"},  # as measured
}
'''
SPACE_LINE = next(line + "\n" for line in TABLE.splitlines() if line.startswith("SPACE"))
SUM_VARIANT = '''\
"""Sums over ranks; the kernel doubles, so half goes in."""

import torch
import torch.distributed as dist
import triton
import triton.language as tl

from kernels.toy_sum.triton_tuning import DEFAULT, TUNING


@triton.jit
def double(x, y, n, PASSES: tl.constexpr):
    at = tl.program_id(0) * 64 + tl.arange(0, 64)
    for _ in range(PASSES):
        tl.store(y + at, tl.load(x + at, mask=at < n, volatile=True) * 2, mask=at < n)
        tl.debug_barrier()


def custom_kernel(x):
    row = TUNING.get((dist.get_world_size(), len(x)), DEFAULT)
    if row["FAILS_ON"] == dist.get_rank():
        raise ValueError(f"no such row on rank {dist.get_rank()}")
    y, half = torch.empty_like(x), x / 2
    double[(triton.cdiv(len(x), 64),)](half, y, len(x), row["PASSES"])
    dist.all_reduce(y)
    return y
'''
SUM_TABLE = """\
DEFAULT = {"PASSES": 40, "FAILS_ON": -1}
SPACE = {"FAILS_ON": [-1, 1], "PASSES": [40, 1]}
TUNING = {}
"""


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    """A repository with the two problems."""
    case = "{n: 4000, seed: 1}"
    files = {
        "task.yml": SET,
        "reference/toy/task.yml": TASK.replace("{CASE}", case),
        "reference/toy/reference.py": REFERENCE,
        "kernels/toy/triton.py": VARIANT,
        "kernels/toy/triton_tuning.py": TABLE,
        "reference/toy_sum/task.yml": TASK.replace("{CASE}", "{world_size: 2, n: 4000, seed: 1}"),
        "reference/toy_sum/reference.py": evaltools.RANKS_REFERENCE.replace("flag):", "flag=False):"),
        "kernels/toy_sum/triton.py": SUM_VARIANT,
        "kernels/toy_sum/triton_tuning.py": SUM_TABLE,
    }
    write_files(tmp_path, files)
    return tmp_path


def tune(root: Path, *args: str, code: int = 0) -> str:
    """The tuner's output."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = run_evaluator(
        str(root), *args, folder=root, environment=environment, arch="gfx942", checks="", timeout=ENDS_S, script=SCRIPT
    )
    assert done.returncode == code and "Traceback" not in done.stderr, done.stdout + done.stderr
    return done.stdout + done.stderr


def trials(root: Path, name: str = "toy", path: str = "") -> list[dict[str, Any]]:
    lines = lines_of(root / (path or f"tune-{name}-triton.jsonl"))
    return [msgspec.to_builtins(line.trial) for line in lines if line.trial]


def test_finds_the_better_row_refuses_wrong_ones_and_writes(toys: Path) -> None:
    said = tune(toys, "toy", "--device", "gfx942", "--write")
    tried = trials(toys)
    assert tried[0]["row"] is None and tried[1]["row"] == {"PASSES": 40, "BLOCK": 64, "MODE": "right"}
    best = min((trial for trial in tried if trial["status"] == "pass"), key=lambda trial: trial["modelled_us"])
    assert best["row"]["PASSES"] == 1 and best["modelled_us"] < 0.5 * tried[0]["modelled_us"]
    odd = [trial for trial in tried if trial["row"] and trial["row"]["BLOCK"] == 48]
    assert odd and all(trial["status"] == "error" and "power of 2" in trial["message"] for trial in odd)
    zeros = [trial for trial in tried if trial["row"] and trial["row"]["MODE"] == "zeros"]
    wrong = [trial for trial in zeros if trial["status"] == "wrong"]
    assert wrong and all(trial["modelled_us"] is None for trial in zeros)
    assert all("the official check passes it" in trial["message"] for trial in wrong)
    table = (toys / "kernels/toy/triton_tuning.py").read_text()
    row = next(line for line in table.splitlines() if "(4000," in line)
    assert row.startswith('    (4000, "n"): {"PASSES": 1, "BLOCK": ') and "modelled, not measured" in row
    assert "    # length, unit\n    (  64" not in table and "  # as measured\n" in table
    assert "decided modelled, not measured" in said

    again = tune(toys, "toy", "--device", "gfx942")  # the table has changed: as it is now is tried, and no row again
    assert len(trials(toys)) == len(tried) + 1 and "as it is: " in again and "PASSES=40" not in again


def test_a_hair_takes_no_row_and_the_table_gets_what_the_search_ended_at(tmp_path: Path) -> None:
    """Modelled times differ by a thousandth from process to process, by where memory lies."""
    log = TrialsLog(tmp_path / "j.jsonl", Setting("toy", "triton", "", "a card", "gfx942", ""))
    times = {None: 9.0, 64: 2.620, 512: 2.619, 256: 9.1}
    for block, us in times.items():
        row = None if block is None else {"BLOCK": block}
        log.end(Trial("n: 1", row, "pass", key="[1]", modelled_us=us))
    best = best_of(log, ["n: 1"], "modelled")
    assert best is not None and best.row == {"BLOCK": 64} and best.us == 2.620
    log.end(Trial("n: 1", None, "pass", key="[1]", modelled_us=2.63))
    best = best_of(log, ["n: 1"], "modelled")
    assert best is not None and best.row is None


def test_cases_with_one_key_get_the_row_that_serves_them_together(tmp_path: Path) -> None:
    log = TrialsLog(tmp_path / "log.jsonl", Setting("p", "v", "s", "emulated", "gfx942", "1"))
    for case, *times in (("n: 1", 4.0, 1.0, 2.0), ("n: 2", 4.0, 9.0, 2.0), ("n: 3", 5.0, 1.0, 2.0)):
        for block, us in zip((None, 64, 32), times):
            row = None if block is None else {"BLOCK": block}
            log.end(Trial(case, row, "pass", key="[1]" if case < "n: 3" else "[2]", modelled_us=us))
    log.end(Trial("n: 1", {"BLOCK": 16}, "pass", key="[1]", modelled_us=0.1))  # nobody knows of it in the other case
    shared, alone = by_key(log, ["n: 1", "n: 2", "n: 3"])
    best = best_of(log, shared, "modelled")
    assert best is not None and (best.row, best.us, best.before_us) == ({"BLOCK": 32}, 2.0, 4.0)
    assert (best := best_of(log, alone, "modelled")) is not None and best.row == {"BLOCK": 64}


def wait_for(path: Path, text: str, count: int) -> None:
    deadline = time.monotonic() + ENDS_S
    while time.monotonic() < deadline and not (path.exists() and path.read_text().count(text) == count):
        time.sleep(0.1)


def test_goes_on_after_a_stop_and_leaves_a_row_alone_that_never_ends(toys: Path) -> None:
    table = toys / "kernels/toy/triton_tuning.py"
    table.write_text(TABLE.replace(SPACE_LINE, 'SPACE = {"MODE": ["right", "hang"]}\n'))
    log = toys / "tune-toy-triton.jsonl"
    said = []
    # Ctrl-C, which the log notes, says nothing of the row: only the second death does.
    for count, end in ((1, signal.SIGKILL), (2, signal.SIGINT), (4, signal.SIGKILL)):
        process = evaltools.start(
            ROOT / SCRIPT, toys, "toy", "--device", "gfx942", checks="", cwd=toys, stdout=subprocess.PIPE
        )
        wait_for(log, '"MODE":"hang"}', count)
        time.sleep(0.3)
        process.send_signal(end)
        said.append(process.communicate(timeout=ENDS_S)[0])
        assert process.returncode == (130 if end == signal.SIGINT else -end)
    assert "2 rows tried before" in said[1] and "stopped: call again to go on" in said[1]
    log.write_text(log.read_text() + '{"setting": {"cut of')
    last = tune(toys, "toy", "--device", "gfx942")
    assert "2 rows tried before" in last and "MODE=hang" not in last and len(trials(toys)) == 2, last


def test_stopping_before_the_first_row_was_tried_spoils_nothing(tmp_path: Path) -> None:
    """Its compilation is what one waits for longest, and gets impatient."""
    setting = Setting("toy", "triton", "", "a card", "gfx942", "")
    for _ in range(3):
        log = TrialsLog(tmp_path / "j.jsonl", setting)
        assert log.known("n: 1", None) is None
        log.begin("n: 1", None)
        log.stop("n: 1", None)
    for _ in range(2):
        TrialsLog(tmp_path / "j.jsonl", setting).begin("n: 1", None)
    known = TrialsLog(tmp_path / "j.jsonl", setting).known("n: 1", None)
    assert known is not None and known.status == "crash" and "never ended" in known.message


def test_a_submission_that_cannot_run_is_told_each_time(toys: Path) -> None:
    (toys / "kernels/toy/triton_tuning.py").write_text(TABLE.replace("40", "1").replace('"right"', '"die"', 1))
    for _ in range(2):
        said = tune(toys, "toy", "--device", "gfx942", code=1)
        assert "cannot be tuned: crash: " in said and "exit code 7" in said


def test_a_row_that_hangs_or_kills_its_process_is_bounded(toys: Path) -> None:
    table = toys / "kernels/toy/triton_tuning.py"
    table.write_text(TABLE.replace(SPACE_LINE, 'SPACE = {"PASSES": [40, 1], "MODE": ["right", "hang", "die"]}\n'))
    said = tune(toys, "toy", "--device", "gfx942", "--timeout", "10")
    found = {trial["row"]["MODE"]: trial for trial in trials(toys) if trial["row"]}
    assert found["hang"]["status"] == "timeout" and "no result after 10 s in custom_kernel" in found["hang"]["message"]
    assert found["die"]["status"] == "crash" and "exit code 7" in found["die"]["message"]
    assert "2 crash, 2 timeout" in said
    assert "PASSES=1 BLOCK=64 MODE=right" in said


def test_a_variant_that_keeps_its_first_row_is_told_so(toys: Path) -> None:
    variant = toys / "kernels/toy/triton.py"
    text = variant.read_text().replace('TUNING.get((len(x), "n"), DEFAULT)', 'kept_table().get((len(x), "n"), DEFAULT)')
    keeps = "@functools.cache\ndef kept_table():\n    return TUNING\n\n\ndef custom_kernel"
    variant.write_text(text.replace("import os", "import functools\nimport os").replace("def custom_kernel", keeps))
    said = tune(toys, "toy", "--device", "gfx942", code=2)
    assert "did not look up (4000, 'n') again in the submission's TUNING, so no row takes effect" in said


def test_ranks_agree_on_a_row_that_fails_on_one_of_them(toys: Path) -> None:
    said = tune(toys, "toy-sum", "--device", "gfx942", "--write", "--timeout", "12")
    found = {(trial["row"] or {"FAILS_ON": 9})["FAILS_ON"]: trial for trial in trials(toys, "toy-sum")}
    assert found[1]["status"] == "error" and "rank 1: ValueError: no such row on rank 1" in found[1]["message"], said
    assert found[-1]["status"] == "pass" and found[-1]["row"]["PASSES"] == 1  # tried after ranks were replaced
    assert '    (2, 4000): {"PASSES": 1, ' in (toys / "kernels/toy_sum/triton_tuning.py").read_text()


class Timed(EmulatedDevice):
    """An emulated device whose times are taken: of a variant that sleeps."""

    emulated = False

    def __init__(self) -> None:
        super().__init__(CARDS["gfx942"])
        self.label = "a card"


def test_times_on_both_clocks_and_again_what_is_best(toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (toys / "kernels/toy/triton.py").write_text(
        "import time\n\nfrom kernels.toy.triton_tuning import DEFAULT, TUNING\n\n\ndef custom_kernel(x):\n"
        '    time.sleep(TUNING.get((len(x),), DEFAULT)["MS"] / 1e3)\n    return x * 2\n'
    )
    table = toys / "kernels/toy/triton_tuning.py"
    table.write_text('DEFAULT = {"MS": 8}\nSPACE = {"MS": [8, 3, 30]}\nTUNING = {}\n')
    monkeypatch.setattr("forge.tune.command.resolve", lambda name, arch: Timed())
    monkeypatch.chdir(toys)
    assert tune_main(["toy", "--write", "--trials-log", "j.jsonl"], toys) == 0
    last = {(trial["row"] or {"MS": 0})["MS"]: trial for trial in trials(toys, path="j.jsonl")}
    assert {ms: trial["runs"] for ms, trial in last.items()} == {0: 2, 8: 1, 3: 2, 30: 1}
    assert 3000 < last[3]["b2b_us"] < last[8]["b2b_us"] > 8000 and last[3]["harness_us"] > 3000  # a sleep may be longer
    assert last[30]["b2b_us"] > 30e3 and last[30]["harness_us"] is None  # not worth the time
    assert '    (4000,): {"MS": 3},  # ' in table.read_text() and "back to back" in table.read_text()


def test_rows_from_another_table_and_from_the_log_alone(toys: Path) -> None:
    other = toys / "other.py"
    other.write_text('DEFAULT = {"PASSES": 3, "OLD": 1}\nTUNING = {}\n')
    said = tune(toys, "toy", "--device", "gfx942", "--rows-from", str(other), "--minutes", "0.5")
    assert "PASSES=3 BLOCK=64 MODE=right: " in said
    table = toys / "kernels/toy/triton_tuning.py"
    table.write_text(re.sub(r'\{(?="PASSES": \d)', '{"NEW": 0, ', TABLE))  # in rows, not in SPACE
    said = tune(toys, "toy", "--minutes", "0", "--write")
    assert "not for kernels/toy/triton_tuning.py: its rows have the columns NEW, PASSES, BLOCK, MODE" in said
    assert "(4000," not in table.read_text()
    table.write_text(TABLE)
    said = tune(toys, "toy-sum", "--minutes", "0", "--write", "--trials-log", "tune-toy-triton.jsonl", code=2)
    assert "no trial of toy-sum triton in this log, only of toy triton" in said
    said = tune(toys, "toy", "--minutes", "0", "--write")
    assert "rows written" in said and "warning" not in said
    assert '(4000, "n")' in table.read_text()
    variant = toys / "kernels/toy/triton.py"
    variant.write_text(variant.read_text() + "# changed\n")
    assert "were tried with other sources than are here now" in tune(toys, "toy", "--minutes", "0")


@pytest.mark.parametrize(
    "args, words",
    [
        (["toy", "--variant", "hip"], "has no variant 'hip'"),
        (["toy", "--minutes", "0"], "no trial of toy triton in this log"),
        (["toy", "--minutes", "0", "--trials-log", "."], "cannot be read"),
        (["toy", "--device", "gfx942", "--trials-log", "no/such/folder/j.jsonl"], "j.jsonl: cannot be written"),
        (["toy", "--minutes", "-1"], "must not be negative"),
        (["toy", "--cases", "7", "--device", "gfx942"], "no case 7"),
        (["toy", "--device", "gfx950"], "triton_tuning.py: states no SPACE for gfx950, and --rows-from names no rows"),
        (["toy", "--rows-from", "nowhere.py"], "nowhere.py: cannot be read"),
    ],
)
def test_bad_input_is_one_line(toys: Path, args: list[str], words: str) -> None:
    table = toys / "kernels/toy/triton_tuning.py"
    table.write_text(TABLE.replace("SPACE = {", 'SPACE = {"gfx942": {').replace('"zeros"]}', '"zeros"]}}'))
    said = tune(toys, *args, code=2)
    assert words in said and len(said.splitlines()) == 1 and said.startswith("forge.tune: ")


# ---------------------------------------------------------------- parts


def searched(search: Search, us: Callable[[dict[str, int]], float | None], at_once: int = 1) -> list[dict[str, int]]:
    """The rows that it asks for until it ends."""
    asked = []
    while rows := search.ask(at_once):
        asked += rows
        for row in rows:
            search.tell(row, us(row))
    return asked


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_search_moves_columns_together_and_asks_for_no_row_twice(at_once: int) -> None:
    def us(row: dict[str, int]) -> float | None:
        """A ridge, on which no single step is faster; the row beside the best fails."""
        far = abs(row["a"] - row["b"])
        return None if (row["a"], row["b"]) == (6, 7) else 10.0 + 4 * far - row["a"] + (row["c"] - 2) ** 2

    search = Search({"a": list(range(8)), "b": list(range(8)), "c": [0, 1, 2, 3]}, {"a": 1, "b": 0, "c": 0})
    asked = searched(search, us, at_once)
    assert asked[0] == {"a": 1, "b": 0, "c": 0} and search.best == {"a": 7, "b": 7, "c": 2}
    assert len(asked) == len({tuple(row.values()) for row in asked}) < 80 < 256


def test_a_search_takes_whole_rows_first_and_small_spaces_whole() -> None:
    space = {"a": [1, 2, 3, 4], "b": [0, 1, 2]}
    search = Search(space, {"a": 1, "b": 0, "kept": 5}, [{"a": 9, "b": 1}])
    asked = searched(search, lambda row: None if row["a"] == 3 else abs(row["a"] - 4) + abs(row["b"] - 2) + 1.0)
    assert asked[:2] == [{"a": 1, "b": 0, "kept": 5}, {"a": 9, "b": 1}] and len(asked) == 13
    assert search.best == {"a": 4, "b": 2, "kept": 5} and all(row["kept"] == 5 for row in asked if row["a"] < 9)


def test_rows_of_another_table_are_tried_where_no_column_tells_them_apart() -> None:
    rows = [{"a": 1}, {"a": 2}, {"a": 3}]
    search = Search({}, rows[0], [*rows[1:], rows[1]])
    assert searched(search, lambda row: 9.0 - row["a"]) == rows and search.best == rows[2]


def test_a_space_too_large_to_look_at_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forge.tune.search.MOST_ROWS", 300)
    space = {str(column): list(range(6)) for column in range(5)}
    search = Search(space, dict.fromkeys(space, 0))
    assert len(searched(search, lambda row: 100.0 + sum(abs(at - 4) for at in row.values()))) < 150 < 6**5
    assert search.best_us is not None and search.best_us < 103


def test_keys_that_are_looked_up_are_noted() -> None:
    table = WatchedTable({1: "row"})
    assert table.get(1) == "row" and table.get(2, "other") == "other" and 3 not in table
    assert table.asked == [1, 2, 3]


def test_a_space_may_be_stated_by_architecture(tmp_path: Path) -> None:
    text = 'DEFAULT = {"A": 1}\nTUNING = {}\nSPACE = {"gfx942": {"A": [1, 2]}, "sm_90": {"A": [4]}}\n'
    (tmp_path / "t.py").write_text(text)
    assert read_table(tmp_path, "t.py", "sm_90").space == {"A": [4]}
    assert read_table(tmp_path, "t.py", "gfx950").space == {}


def test_rows_are_put_where_they_belong_and_nothing_else_changes() -> None:
    text = (
        'DEFAULT = {"A": 1, "B": "x"}\n\n# rows\nTUNING = {\n    # large\n'
        '    ("g", 512, 4): {"A": 10, "B": "x"},  # 3 us\n'
        '    # small\n    ("h", 64, 4): {"A": 2, "B": "y"},\n    # end\n}\nAFTER = 1\n'
    )
    new = [NewRow(("h", 8, 4), {"A": 7, "B": "x"}, "1 us"), NewRow(("g", 512, 4), {"A": 3, "B": "y"}, "2 us")]
    assert with_rows(text, "t.py", new) == text.replace(
        '    ("g", 512, 4): {"A": 10, "B": "x"},  # 3 us\n', '    ("g", 512, 4): {"A":  3, "B": "y"},  # 2 us\n'
    ).replace('    ("h", 64', '    ("h",   8, 4): {"A":  7, "B": "x"},  # 1 us\n    ("h", 64')
    row = '    ("h", 8, 4): {"A": 7, "B": "x"},  # 1 us\n'
    assert with_rows("TUNING = {}\n", "t.py", new[:1]) == "TUNING = {\n" + row + "}\n"
    with pytest.raises(GenerationError, match="put each"):
        with_rows("TUNING = {(1, 2): {}, (1, 3): {}}\n", "t.py", new)


@pytest.mark.parametrize(
    "text, words",
    [
        ("DEFAULT = (1, 2)\nTUNING = {}\n", "needs rows with named columns"),
        ('DEFAULT = {"A": 1}\nTUNING = {}\nSPACE = {"B": [1]}\n', "a column that DEFAULT lacks: B"),
        ('DEFAULT = {"A": 1}\nTUNING = {}\nSPACE = {"A": 1}\n', "from column to a list of values"),
    ],
)
def test_tables_that_cannot_be_tuned(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "t.py").write_text(text)
    with pytest.raises(GenerationError, match=words):
        read_table(tmp_path, "t.py")
