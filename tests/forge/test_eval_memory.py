"""What ranks save on an emulated device: pages that are fresh, products with zeros, imports that all of them make."""

import functools
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from forge.commands.run import exit_code_of
from forge.device.fake_rocm.launch import OF_EXTENSIONS
from forge.judge import compare, memory, messages, worker_pool
from forge.judge.memory import _is_plenty
from forge.judge.processes import Event, Tail
from forge.judge.results import CaseResult, Run, Status
from forge.judge.verdict import CaseRun
from tests.support.evaltools import EVAL, REFERENCE, RIGHT, run_command, statuses, write_problem
from tests.support.prepared import run_check

ROUNDS = """
import ctypes, resource, sys
import torch
from forge.judge.memory import keep_freed_memory
torch.set_num_threads(1)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work():
    sums = torch.ones(1024, int(sys.argv[2]), dtype=torch.bfloat16)
    for _ in range(3):
        sums = sums + 1
work()
if sys.argv[1] == "none":  # glibc raises it when a block is freed, and then may keep small ones
    assert ctypes.CDLL(None).mallopt(-3, 128 << 10)  # M_MMAP_THRESHOLD: held at where it begins
else:
    keep_freed_memory(sys.argv[1] == "referee")
    work()
before = faults()
for _ in range(8):
    work()
print(faults() - before)
"""


def faults_of_rounds(folder: Path, who: str, columns: int) -> int:
    (folder / "rounds.py").write_text(ROUNDS)
    done = run_check(str(folder / "rounds.py"), who, str(columns))
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize(("who", "megabytes"), [("referee", 64), ("worker", 8)])
def test_freed_memory_is_used_again(who: str, megabytes: int, tmp_path: Path) -> None:
    """In most rounds: small blocks may come to lie in a place that a large one had, so that it takes another."""
    fresh = faults_of_rounds(tmp_path, "none", megabytes * 512)
    assert fresh > 8 * megabytes * 256  # a page is 4 KiB
    assert faults_of_rounds(tmp_path, who, megabytes * 512) < fresh / 2


@pytest.mark.parametrize(
    ("available", "limit", "plenty"),
    [(700, None, True), (700, "max\n", True), (700, "100000\n", False), (600, None, False)],
)
def test_it_is_kept_where_there_is_plenty(tmp_path: Path, available: int, limit: str | None, plenty: bool) -> None:
    meminfo, most = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text(f"MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: {available} kB\nHugePages_Total: 0\n")
    if limit is not None:
        most.write_text(limit)
    assert _is_plenty(str(meminfo), most) is plenty


BIG = torch.arange(48 * 32, dtype=torch.bfloat16).reshape(48, 32)
PRODUCTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "matmul": lambda a, b: torch.matmul(a, b),
    "operator": lambda a, b: a @ b,
    "method": lambda a, b: a.mm(b),
    "linear": lambda a, b: torch.nn.functional.linear(a, b.T.contiguous()),
    "batch": lambda a, b: torch.bmm(a[None], b[None])[0],
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_zeros_are_left_out_and_no_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros, product = torch.zeros(8, 48, dtype=torch.bfloat16), PRODUCTS[name]
    asked: list[bool] = []
    really = compare._zero

    def zero(one: torch.Tensor, other: torch.Tensor) -> bool:
        asked.append(really(one, other))
        return asked[-1]

    monkeypatch.setattr(compare, "_zero", zero)
    for one, other in ((zeros, BIG), (zeros + 1, BIG * 0), (zeros + 1, BIG), (zeros, BIG / 0), (zeros.T @ zeros, BIG)):
        wanted = product(one, other)
        with compare.zero_products():
            got = product(one, other)
        assert got.dtype == wanted.dtype and torch.equal(got.nan_to_num(1e9), wanted.nan_to_num(1e9))
    assert True in asked and False in asked


def test_what_does_not_fit_is_refused_as_ever() -> None:
    for one, other in (
        (torch.zeros(4, 3), torch.zeros(4, 3)),
        (torch.zeros(4, 3), torch.zeros(3, 4, dtype=torch.half)),
    ):
        with compare.zero_products(), pytest.raises(RuntimeError):
            torch.matmul(one, other)
    with compare.zero_products():
        assert torch.matmul(torch.zeros(3), torch.ones(3)) == 0
        assert torch.nn.functional.linear(torch.zeros(2, 3), torch.ones(3)).tolist() == [0, 0]


def test_ranks_find_what_extensions_import_but_not_the_module_that_they_ask_for() -> None:
    """torch.utils.cpp_extension stays out: who forgets to import it must not find it here."""
    text = f"import importlib, sys, torch\nfor name in {OF_EXTENSIONS!r}: importlib.import_module(name)\n"
    text += "print('torch.utils.cpp_extension' in sys.modules, hasattr(torch.utils, 'cpp_extension'))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


# ---------------------------------------------------------------- where there is not enough

HUNGRY = REFERENCE.replace("    return x * 2", "    torch.ones(500_000_000 if len(x) == 5 else 1)\n    return x * 2")
LIMIT_BYTES = 2_000_000_000 - 4096  # of which the two billion bytes above are too many


@pytest.fixture
def group() -> Iterator[Callable[[], object]]:
    """What has a process join a control group of little memory."""
    for above, (most, _) in zip(memory._groups(), memory.GROUP_BYTES):
        if os.access(above / most, os.W_OK):
            folder = above / f"forge-test-{os.getpid()}"
            folder.mkdir()
            try:
                (folder / most).write_text(str(LIMIT_BYTES))
                yield functools.partial(_join, folder)
            finally:
                folder.rmdir()
            return
    pytest.skip("no control group may be made here")


def _join(folder: Path) -> None:
    (folder / "cgroup.procs").write_text(str(os.getpid()))


@pytest.mark.slow(reason="needs a machine of one's own: the system ends processes")
def test_where_memory_runs_out_it_is_no_fault_of_the_submission(tmp_path: Path, group: Callable[[], object]) -> None:
    problem = write_problem(tmp_path / "problem", reference=HUNGRY)
    (tmp_path / "submission.py").write_text(RIGHT)
    command = [sys.executable, str(EVAL), "test", str(problem), *"--device gfx942 --json out.json --calls 1".split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, preexec_fn=group)
    result = json.loads((tmp_path / "out.json").read_text())
    assert done.returncode == 2 and statuses(result) == ["pass", "not run", "pass"], done.stdout + done.stderr
    assert "memory ran out" in result["cases"][1]["message"]


def lost(end: Status) -> worker_pool.RankAnswer[Any]:
    """What a pool makes of a worker's end that somebody else is blamed for."""
    pool = worker_pool.WorkerPool.__new__(worker_pool.WorkerPool)
    pool.oom_kills = worker_pool.oom_kills()
    worker = SimpleNamespace(rank=None, phase="custom_kernel", folder=Path(), tail=Tail())
    return pool._answer(Event(worker, end=end, text="the process died of SIGKILL"), messages.Called, 0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [Status.CRASH, Status.TAMPERED])  # as of the process above it
def test_an_end_is_the_systems_where_it_has_ended_one(end: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lost(end).status is end
    counts = itertools.count()
    monkeypatch.setattr(worker_pool, "oom_kills", lambda: next(counts))
    answer = lost(end)
    assert answer.status is Status.NOT_RUN and answer.lost and "memory ran out" in answer.message


@pytest.mark.parametrize(
    ("ended", "code", "verdict"),
    [("pass,not run", 2, "incomplete"), ("fail,not run", 1, "fail"), ("pass,pass", 0, "pass")],
)
def test_a_case_that_was_not_judged_alone_is_not_the_submissions_fault(ended: str, code: int, verdict: str) -> None:
    cases = [CaseResult(i, "", Status(status)) for i, status in enumerate(ended.split(","))]
    run = Run("test", cases, False, complete=True)
    assert (exit_code_of(run, run.passed, run.doubted, strict=False, trust=False), run.verdict) == (code, verdict)


@pytest.mark.parametrize(
    ("free", "large", "took", "calls"),
    [
        (8.9e9, False, [], 1),
        (9.1e9, False, [], 3),
        (9.1e9, False, [0.5, 4.0], 1),
        (4.1e9, True, [], 3),
        (3.9e9, True, [], 1),
    ],
)
def test_three_calls_are_one_where_they_do_not_fit(
    free: float, large: bool, took: list[float], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: free)
    run = CaseRun.__new__(CaseRun)
    run.timed, run.calls, run.input_bytes, run.large = False, 3, 1_000_000_000, large
    run.referees = cast(worker_pool.WorkerPool, SimpleNamespace(took=took))
    run.result = CaseResult(0, "", Status.PASS)
    assert list(run.that_fit(range(3))) == list(range(calls)) and run.calls == calls
    assert [text[:26] for text in run.result.buts] == ["one call of 3, for want of"] * (calls == 1)
    judged = Run("test", [run.result], False, complete=True)  # what a later call would have shown nobody has seen
    assert exit_code_of(judged, judged.passed, judged.doubted, strict=True, trust=True) == (3 if calls == 1 else 0)


def test_what_is_taken_within_a_block_is_told() -> None:
    with memory.peak() as grown:
        torch.ones(1 << 26)
    assert 0.9 * (1 << 28) < grown[0] < 1 << 29  # the system's count lags a little
    with memory.peak() as grown:
        pass
    assert grown[0] < 1 << 24


# Takes 900 MB, in a child that leaves its group, or in a file that nobody maps; for other data it is right.
TAKES = """
import os, time

def custom_kernel(x):
    if len(x) == 4 and os.fork() == 0:
        os.setsid()
        taken = bytearray(os.urandom(1 << 20) * 900)
        time.sleep(600)
    if len(x) == 5:
        file = os.memfd_create("taken")
        for _ in range(900):
            os.write(file, bytes(1 << 20))
    if len(x) < 6:
        time.sleep(60)
    return x * 2
"""
BOUNDED = """
import sys
sys.path.insert(0, {root!r})
from forge.judge import worker_pool
worker_pool.MOST_TAKEN_BYTES = 600 << 20
from forge.commands.eval import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_submission_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    (tmp_path / "submission.py").write_text(TAKES)
    (tmp_path / "bounded.py").write_text(BOUNDED.format(root=str(EVAL.parent)))
    words = ("test", write_problem(tmp_path / "problem"), "--device", "gfx942", "--json", "out.json", "--no-history")
    done = run_command(*words, cwd=tmp_path, script=tmp_path / "bounded.py")
    cases = json.loads((tmp_path / "out.json").read_text())["cases"]
    text = "it took more than 0.586 GiB of memory in custom_kernel"
    assert [(one["message"], one["fault"]) for one in cases] == [(text, "memory")] * 2 + [("", "")], done.stdout
    assert done.returncode == 1 and [one["status"] for one in cases] == ["crash", "crash", "pass"]


def test_memory_that_several_have_is_counted_once() -> None:
    """A child's pages are its parent's until either writes to them, and a file of memory is one, whoever maps it."""
    ours = memory.taken_bytes([os.getpid()])
    held = torch.ones(1 << 26)
    both = [os.getpid()]
    try:
        while len(both) < 4:
            both.append(os.fork())
            if not both[-1]:
                time.sleep(600)
        assert 0.9 * held.nbytes < memory.taken_bytes(both) - ours < 1.5 * held.nbytes
        assert memory.taken_bytes(both, enough=1 << 50) - ours > 3 * held.nbytes  # in whole pages, which is quicker
    finally:
        for child in both[1:]:
            os.kill(child, 9)
            os.waitpid(child, 0)
