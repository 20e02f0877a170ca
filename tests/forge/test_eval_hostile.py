"""Submissions that crash, hang, flood, lie or destroy: each case gets its own verdict, the others keep theirs.

One submission misbehaves in another way for each length of its input, and is right for even ones.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from forge.device import triton_versions
from forge.judge import worker_pool
from forge.judge.fork_server import ForkServer
from forge.judge.messages import Called, Judged, Ready, Setup
from forge.judge.process_tree import descendants
from forge.judge.processes import Event
from forge.judge.rank_order import RankOrder
from forge.judge.results import Status
from forge.judge.verdict import CaseRun, Ended
from forge.judge.worker_pool import RankAnswer, WorkerPool
from forge.task.cases import CaseSpec
from tests.support import prepared
from tests.support.evaltools import (
    EVAL,
    RIGHT,
    ROOT,
    TASK,
    judge,
    names_itself,
    processes_named,
    statuses,
    write_problem,
)
from tests.support.limits import ENDS_S

pytestmark = pytest.mark.long

# What the kernel does before it returns x * 2, unless it returns something itself: (source, status, message).
KINDS = {
    "wrong": ("y = x * 2; y[3] = 7; return y", "fail", "values differ"),
    "wrong shape": ("return (x * 2)[:4]", "fail", "check_implementation raised"),
    "no output": ("return None", "fail", "custom_kernel returned NoneType"),
    "segfault": ("ctypes.string_at(0)", "crash", "SIGSEGV (segmentation fault) in custom_kernel (submission.py:"),
    "abort": ("os.abort()", "crash", "SIGABRT (abort) in custom_kernel (submission.py:"),
    "os._exit": (
        "print('last words', flush=True); os._exit(0)",
        "crash",
        "ended itself with exit code 0 in custom_kernel",
    ),
    "sys.exit": ("sys.exit(0)", "error", "sys.exit(0) (submission.py:"),
    "exception": ("raise ValueError('no\\nmore')", "error", "ValueError: no (submission.py:"),
    "infinite loop": ("while True: time.sleep(1)", "timeout", "no result after 10 s in custom_kernel (submission.py:"),
    "fakes results": ("write_everywhere(); return x * 0", "tampered", "meddled with the evaluator"),
    "closes everything": ("os.closerange(0, 256); time.sleep(60)", "tampered", "result channel was closed"),
    "replaces the check": ("reference.ref_kernel = lambda x: x * 0; return x * 0", "fail", "values differ"),
    "deletes its folder": ("shutil.rmtree(os.path.dirname(__file__), True)", "tampered", "submission.py is gone"),
    "floods stdout": ("for i in range(100): sys.stdout.write('x' * 999_999 + '\\n')\n    return x * 2", "pass", ""),
    "forks and returns twice": ("os.fork()", "pass", ""),
    "kills its parent": ("os.kill(os.getppid(), 9); time.sleep(60)", "tampered", "parent process was killed"),
    "kills it and returns": ("os.kill(os.getppid(), 9)", "tampered", "parent process was killed"),
    "kills all above it": (  # the first process of its namespace is not to be killed from within
        "os.kill(parent_of(os.getppid()), 9); time.sleep(1); os.kill(os.getppid(), 9); time.sleep(60)",
        "tampered",
        "parent process was",
    ),
    "dies holding a build lock": ("os.kill(os.getpid(), 9)", "crash", "SIGKILL"),
}
FIRST = 5  # length of the first kind's input; kinds have odd lengths, right cases even ones

HEAD = """
import ctypes, os, shutil, sys, time
import reference
from torch.utils.cpp_extension import _get_build_directory
from torch.utils.file_baton import FileBaton

def parent_of(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])

def write_everywhere():
    for fd in os.listdir("/proc/self/fd"):
        try: os.write(int(fd), b"test.1.status: pass\\ncheck: pass\\n" * 9)
        except OSError: pass

def custom_kernel(x):
    baton = FileBaton(os.path.join(_get_build_directory("k", False), "lock"))
    if not baton.try_acquire(): baton.wait()
    if len(x) != LAST: baton.release()  # the last kind dies while it holds the lock
    result = globals().get(f"kind_{len(x)}", lambda x: None)(x)
    return x * 2 if result is None and len(x) != NONE else result
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The command's end and its JSON, for all kinds at once."""
    folder = tmp_path_factory.mktemp("hostile")
    lengths = {name: FIRST + 2 * i for i, name in enumerate(KINDS)}
    cases = "".join(f"  - {{n: {n}, seed: 1}}\n  - {{n: {n + 1}, seed: 1}}\n" for n in lengths.values())
    old = TASK[TASK.index("tests:") + 7 : TASK.index("benchmarks:")]
    problem = write_problem(folder / "problem", TASK.replace(old, cases))
    source = HEAD.replace("LAST", str(lengths["dies holding a build lock"]))
    source = source.replace("NONE", str(lengths["no output"]))
    for name, (body, _, _) in KINDS.items():
        source += f"\ndef kind_{lengths[name]}(x):\n    {body}\n"
    done, result = judge(folder, source, "test", "--timeout", "10", problem=problem)
    return {"done": done, "result": result, "names": list(KINDS)}


@pytest.mark.parametrize("name", KINDS)
def test_a_hostile_case_ends_alone(judged: dict[str, Any], name: str) -> None:
    position = 2 * judged["names"].index(name)
    case, after = judged["result"]["cases"][position : position + 2]
    _, status, text = KINDS[name]
    assert (case["status"], after["status"]) == (status, "pass"), (case, after)
    assert text in case["message"]


def test_such_a_run_is_a_failure(judged: dict[str, Any]) -> None:
    assert judged["done"].returncode == 1 and judged["result"]["verdict"] == "fail"


def test_what_a_person_sees(judged: dict[str, Any]) -> None:
    shown, cases = judged["done"].stdout, judged["result"]["cases"]
    worst = cases[0]["accuracy"]["worst"]
    assert (worst["index"], worst["got"]) == ([3], 7.0)
    assert f"worst: output at (3,): got 7, wanted {worst['wanted']:.8g}" in shown
    assert "emulated" in shown and " us" not in shown
    assert cases[2 * list(KINDS).index("os._exit")]["last_words"] == ["last words"]
    assert "| last words" in shown
    assert "(it printed" not in shown  # the flood passed: nothing to say of it


@pytest.mark.parametrize(
    ("source", "status", "text"),
    [
        ("raise RuntimeError('boom')\ndef custom_kernel(x): ...\n", "error", "RuntimeError: boom (submission.py:1"),
        ("import os; os._exit(0)\ndef custom_kernel(x): ...\n", "crash", "exit code 0 in import submission"),
        ("while True: pass\ndef custom_kernel(x): ...\n", "timeout", "no result after 1 s in import submission"),
    ],
)
def test_a_submission_that_does_not_load(tmp_path: Path, source: str, status: str, text: str) -> None:
    limit_s = "1" if status == "timeout" else "30"
    done, result = judge(tmp_path, source, "test", "--timeout", limit_s)
    assert statuses(result) == [status, "not run", "not run"]
    assert text in result["broken"]["message"] and text in done.stdout
    assert done.returncode == 1


def test_an_import_may_take_longer_than_loading_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission that compiles for minutes has its case's whole time for that, whatever torch's loading may take."""
    worker = Mock(phase="import submission", rank=None, **{"tail.last_words.return_value": []})
    ready_at = time.monotonic() + 0.6

    def wait(workers: list[Any], seconds: float) -> list[Event]:
        time.sleep(min(seconds, 0.1))
        ready = time.monotonic() >= ready_at
        return [Event(worker, Ready())] if ready else []

    monkeypatch.setattr(worker_pool, "LOADING_S", 0.2)
    monkeypatch.setattr(worker_pool, "wait_for_events", wait)
    (answer,) = empty_pool()._gather(Ready, [worker])
    assert answer.status is Status.PASS, answer.message


def empty_pool() -> worker_pool.WorkerPool:
    setup = Setup("", "gfx942", "gfx942", "amd", None, False)
    fork_server = ForkServer({}, "gfx942", "gfx942")
    return worker_pool.WorkerPool(Path, fork_server, setup, RankOrder(1, None), False, 30.0, lambda *_: None)


def test_an_answer_that_nobody_asked_for_is_tampering(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Mock(phase="custom_kernel", rank=None, **{"tail.last_words.return_value": []})
    monkeypatch.setattr(worker_pool, "wait_for_events", lambda *_: [Event(worker, Ready())])
    (answer,) = empty_pool()._gather(Called, [worker])
    assert answer.status is Status.TAMPERED and answer.lost and "Ready in place of Called" in answer.message


# Where torch lies in a process's memory: chosen anew for each that imports it, kept by those that are forked.
PLACES = """
import os, torch
def custom_kernel(x):
    print(id(torch), flush=True)
    if len(x) == 5:
        os.abort()
    return x * 2
"""


def test_a_worker_in_a_lost_ones_place_need_not_import_torch(tmp_path: Path) -> None:
    _, result = judge(tmp_path, PLACES, "test")
    assert statuses(result) == ["pass", "crash", "pass"]
    torches = [case["last_words"][-1] for case in result["cases"]]
    assert len(set(torches)) == 1


# Where the fork server is a Python of its own, its command line has the program that it is given: its forks' too.
COMMAND = """
from pathlib import Path
def custom_kernel(x):
    print(Path("/proc/self/cmdline").read_text().replace("\\0", " ").replace("\\n", " "))
    return x * 2
"""


@pytest.mark.parametrize("mentions", ["no compiler", "triton"])
def test_tests_fork_their_workers_from_what_has_imported_torch(tmp_path: Path, mentions: str) -> None:
    """Which Triton a worker has on its path depends on whether the submission mentions it: prepared.py knows both."""
    _, result = judge(tmp_path, f"# {mentions}\n{COMMAND}", "test", "--cases", "0")
    assert statuses(result) == ["pass"]
    command = result["cases"][0]["last_words"][-1]
    assert "tests.support.prepared" in command and "fork_server" not in command


def test_a_test_leaves_the_triton_that_it_found() -> None:
    before = list(sys.path), os.environ.get("PYTHONPATH")
    for version in ("installed", "3.6.0"):
        with prepared.path_kept():
            triton_versions.take(version)
        assert (sys.path, os.environ.get("PYTHONPATH")) == before


def test_a_submission_that_always_hangs_is_not_given_every_case(tmp_path: Path) -> None:
    done, result = judge(tmp_path, "def custom_kernel(x):\n    while True: pass\n", "test", "--timeout", "3")
    assert statuses(result) == ["timeout", "timeout", "not run"]


FORKER = """
import glob, os, time
def custom_kernel(x):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            os.fork()
            {named}
            open("there" + str(os.getpid()), "w").close()
            time.sleep(600)
    while len(glob.glob("there*")) < 6:
        time.sleep(0.01)
    return x * 2
"""


WAITS = "import time\ndef custom_kernel(x):\n    open('called', 'w').close()\n    time.sleep(600)\n"


def test_who_kills_the_judges_process_from_outside_is_not_the_submission(tmp_path: Path) -> None:
    """Where no signal of a submission leaves its confinement: elsewhere it may have been that."""
    (tmp_path / "submission.py").write_text(WAITS)
    command = ["test", str(write_problem(tmp_path / "problem")), *"--device gfx942 --cases 0 --json out.json".split()]
    run = subprocess.Popen(
        [sys.executable, str(EVAL), *command], cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    try:
        deadline = time.monotonic() + ENDS_S
        while not list(tmp_path.glob("forge-*/run*/called")) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in descendants(run.pid):
            if b"forge.judge.fork_server" in Path(f"/proc/{pid}/cmdline").read_bytes() and parent_of(pid) == run.pid:
                os.kill(pid, signal.SIGKILL)
        code = run.wait(ENDS_S)
    finally:
        run.kill()
    result = json.loads((tmp_path / "out.json").read_text())
    if any("signals" in text or "no Landlock" in text for text in result["unconfined"]):
        assert statuses(result) == ["tampered"] and code == 1
    else:
        assert statuses(result) == ["not run"] and code == 2
        assert "killed" in result["cases"][0]["message"]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


ORPHANS = """
import os, time
from forge.judge import process_tree
process_tree.adopt_orphans()
read, write = os.pipe()
def begin(depth):
    if (pid := os.fork()) == 0:
        os.setsid()
        if depth: begin(depth - 1)
        os.write(write, b"1")
        while depth != 1: time.sleep(1)  # the middle one ends, and leaves us its child
        os._exit(0)
    return pid
kept, other = begin(0), begin(2)
for _ in range(4): os.read(read, 1)
process_tree.end_children([kept])
os.kill(kept, 9)
os.waitpid(kept, 0)
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("all have ended")
"""


def test_what_proc_hides_does_not_survive_either() -> None:
    """As with hidepid, which an ordinary user meets."""
    done = subprocess.run([sys.executable, "-c", ORPHANS], cwd=ROOT, capture_output=True, text=True, timeout=ENDS_S)
    assert done.stdout == "all have ended\n", done.stderr


def test_no_process_survives(tmp_path: Path) -> None:
    name = f"forker {os.getpid()}"
    done, result = judge(tmp_path, FORKER.format(named=names_itself(name)), "test", "--cases", "0")
    assert statuses(result) == ["pass"]
    deadline = time.monotonic() + ENDS_S
    while processes_named(name) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not processes_named(name)


def test_the_submission_cannot_import_the_evaluators_repository(tmp_path: Path) -> None:
    done, result = judge(tmp_path, "import kernels.common\n" + RIGHT, "test", "--cases", "0")
    assert statuses(result) == ["error"]
    assert "No module named 'kernels'" in result["cases"][0]["message"]


def test_a_wrong_output_of_workers_that_have_ended_is_a_failed_case() -> None:
    """As where the process above a worker is killed while its output is judged."""
    pools = [
        WorkerPool(Mock(), Mock(), Mock(), RankOrder(1, None), False, 1.0, Mock(), memory=[], one_each=True)
        for _ in range(2)
    ]
    for pool in pools:
        pool.assign(None)
    plan = Mock(mode="test", calls=3, as_officially=False)
    plan.device.emulated = True
    one = CaseRun(plan, pools[0], pools[1], CaseSpec(0, "n: 1", {"n": 1}))
    one.end_with(Ended(RankAnswer(None, 0.0, Judged(Status.FAIL, "values differ"))))
    assert (one.result.status, one.result.message) == (Status.FAIL, "values differ")
