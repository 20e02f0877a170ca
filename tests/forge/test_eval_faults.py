"""What ends or surrounds a run without being the submission's fault: signals, pipes, disks, odd files."""

import errno
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forge.commands.view import Console, View
from forge.console import CONTROL
from forge.generate.submission import MOST_BYTES
from forge.judge import messages, takings, worker_pool
from forge.judge.channel import FrameReader, open_channel, worker_end
from forge.judge.processes import WorkerProcess, written_bytes
from forge.judge.results import CaseResult, Status
from forge.judge.verdict import CaseRun
from forge.judge.worker import machine_fault
from forge.judge.workspace import clear_left_over
from forge.task.cases import CaseSpec
from tests.support.evaltools import RIGHT, ROOT, judge, names_itself, processes_named, start, statuses, write_problem
from tests.support.fake_plan import fake_plan, reported
from tests.support.limits import ENDS_S

pytestmark = pytest.mark.long

EVAL = [sys.executable, str(ROOT / "eval.py"), "test", "problem", "--device", "gfx942", "--json", "out.json"]
ENDING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
# Right in the first case; in the second it names itself, starts a process that leaves its session, and waits.
HANGS = """
import os, time
def custom_kernel(x):
    if len(x) == 5:
        if os.fork() == 0:
            os.setsid()
            {child}
            time.sleep(600)
        {named}
        time.sleep(600)
    return x * 2
"""


# Starts a command, kills it after so many seconds, and ends once none of all that it started is left: it inherits them.
KILLS = """
import ctypes, os, signal, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
process = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(float(sys.argv[1]))
process.kill()
try:
    while True:
        os.waitpid(-1, 0)
except ChildProcessError:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_problem(tmp_path / "problem")
    (tmp_path / "submission.py").write_text(RIGHT)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def wait_for(what: Any, seconds: float = ENDS_S) -> bool:
    deadline = time.monotonic() + seconds
    while not what() and time.monotonic() < deadline:
        time.sleep(0.2)
    return bool(what())


def hear_every_signal() -> None:
    """A suite under nohup or in a shell's background ignores some signals, and its children would too."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


def start_and_wait(folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """eval.py in its second case, and the submission's pids."""
    names = [f"{kind} {os.getpid()}" for kind in ("hangs", "child")]
    named, child = map(names_itself, names)
    (folder / "submission.py").write_text(HANGS.format(named=named, child=child))
    environment, pipe = {"TMPDIR": str(folder / "tmp")}, subprocess.PIPE
    process = start(*EVAL[1:], triton="installed", cwd=folder, env=environment, stdout=pipe, stderr=pipe)
    assert wait_for(lambda: all(map(processes_named, names)))
    return process, [pid for name in names for pid in processes_named(name)]


ALIKE = pytest.mark.slow(reason="another signal of those that one function takes")


@pytest.mark.parametrize("number", [*ENDING[:2], *(pytest.param(number, marks=ALIKE) for number in ENDING[2:])])
def test_a_run_that_is_ended_is_incomplete_and_leaves_nothing(folder: Path, number: int) -> None:
    process, pids = start_and_wait(folder)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=ENDS_S)
    assert (process.returncode, stderr) == (130, "eval.py: interrupted\n")
    result = json.loads((folder / "out.json").read_text())
    assert (result["verdict"], result["exit_code"], statuses(result)) == ("incomplete", 130, ["pass"])
    assert not any(map(alive, pids)) and not list((folder / "tmp").glob("forge-*"))


def holds_signals(process: subprocess.Popen[str]) -> bool:
    blocked = next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "SigBlk" in line)
    return bool(int(blocked.split()[1], 16) >> signal.SIGINT - 1 & 1)


@pytest.mark.parametrize("command", [EVAL, [sys.executable, "-m", "forge", "eval", *EVAL[2:]]])
def test_a_run_that_is_ended_before_it_begins_says_so(folder: Path, command: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=hear_every_signal
    ) as process:
        assert wait_for(lambda: holds_signals(process))  # it imports what it needs
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=ENDS_S)
    assert (process.returncode, stderr) == (130, "eval.py: interrupted\n")
    result = json.loads((folder / "out.json").read_text())
    assert (result["verdict"], result["error"]) == ("not run", "interrupted")


def test_a_killed_evaluator_leaves_nothing(folder: Path) -> None:
    process, pids = start_and_wait(folder)
    process.kill()
    process.communicate(timeout=ENDS_S)
    assert wait_for(lambda: not any(map(alive, pids)))
    assert wait_for(lambda: not list((folder / "tmp").glob("forge-*")))
    assert not (folder / "out.json").exists()


def test_an_evaluator_killed_at_any_moment_leaves_no_process(folder: Path) -> None:
    """Nor a folder, once the next run has looked: in the first moments nobody else knows of it."""
    (folder / "submission.py").write_text(HANGS.format(named="pass", child="pass"))
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1"}
    moments_s = [random.uniform(first, last) for first, last in ((0, 1), (1, 3), (3, 6))]
    killers = [
        subprocess.Popen([sys.executable, "-c", KILLS, str(moment_s), *EVAL[:-2]], cwd=folder, env=environment)
        for moment_s in moments_s
    ]
    try:
        assert [killer.wait(timeout=ENDS_S) for killer in killers] == [0, 0, 0], moments_s
    finally:
        for killer in killers:
            killer.kill()
    clear_left_over(folder / "tmp")
    assert not list((folder / "tmp").glob("forge-*")), moments_s


def test_folders_that_nobody_watches_are_cleared(tmp_path: Path) -> None:
    for name in ("forge-gone", "forge-new", "other-gone"):
        (tmp_path / name).mkdir()
    (tmp_path / "forge-gone" / "guard").touch()
    (tmp_path / "other-gone" / "guard").touch()
    clear_left_over(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["forge-new", "other-gone"]


def test_a_reader_that_leaves_changes_no_verdict(folder: Path) -> None:
    process = start(*EVAL[1:], triton="installed", cwd=folder, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline()
    process.stdout.close()
    assert process.wait(ENDS_S) == 0
    assert json.loads((folder / "out.json").read_text())["verdict"] == "pass"


@pytest.mark.parametrize(("before", "after"), [("TMPDIR=/proc/1", ">&-"), ("ulimit -S -f 64;", "> /dev/full 2>&- <&-")])
def test_places_that_take_nothing(folder: Path, before: str, after: str) -> None:
    """Standard descriptors, a folder for temporary files, in place of which Python finds another, and files that a
    limit keeps small, which is none on shared memory."""
    command = f"{before} {' '.join(EVAL)} {after}"
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode == 0 and not done.stderr
    assert json.loads((folder / "out.json").read_text())["verdict"] == "pass"


@pytest.mark.parametrize(
    ("prefix", "change", "text"),
    [
        ("", ["--submission", "x" * 300 + ".py"], "File name too long"),
        ("", ["--submission", "/dev/zero"], f"more than {MOST_BYTES >> 20} MB"),
        ("CDNA_CHECKS=garbage", [], "no check is called garbage"),
    ],
)
def test_bad_surroundings_are_one_line(folder: Path, prefix: str, change: list[str], text: str) -> None:
    command = " ".join([prefix, *EVAL[:-2], "--no-history", *change])
    mode = "benchmark" if "CDNA_CHECKS" in prefix else "test"
    command = command.replace(" test ", f" {mode} ", 1)
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=ENDS_S)
    code = 1 if "/dev/zero" in change else 2
    assert done.returncode == code and text in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_hard_limit_on_files_is_one_line(folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 64; {' '.join(EVAL)}"], cwd=folder, capture_output=True, text=True, timeout=ENDS_S
    )
    assert done.returncode == 2 and "ulimit -f" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_full_disk_is_not_the_submissions_fault(tmp_path: Path) -> None:
    def raised(folder: Path, number: int) -> BaseException:
        path = folder / "code.py"
        folder.mkdir(exist_ok=True)
        path.write_text(f"raise OSError({number}, 'x')")
        try:
            exec(compile(path.read_text(), str(path), "exec"))
        except OSError as error:
            return error
        raise AssertionError

    run, cache = tmp_path / "run", tmp_path / "cache"
    assert machine_fault(raised(cache, errno.ENOSPC), str(run)) and machine_fault(raised(cache, errno.EROFS), str(run))
    assert not machine_fault(raised(run, errno.ENOSPC), str(run))  # its own file
    assert not machine_fault(raised(cache, errno.ENOENT), str(run))


# Holds a file of a megabyte that has no name.
HOLDS = """
import os, tempfile, time
file = tempfile.TemporaryFile(dir=".")
os.posix_fallocate(file.fileno(), 0, 1 << 20)
print(flush=True)
time.sleep(600)
"""


def test_a_submission_that_fills_the_disk_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.forge.test_eval_hostile import empty_pool

    class Waiting:
        phase, rank, folder = "custom_kernel", None, tmp_path
        tail = type("Tail", (), {"last_words": lambda self: []})()

    free = iter([takings.MAX_WRITTEN_BYTES * 2] + [0] * 100)
    monkeypatch.setattr(takings, "free_bytes", lambda: next(free))
    monkeypatch.setattr(worker_pool, "wait_for_events", lambda *_: [])
    monkeypatch.setattr(takings, "written_bytes", lambda *_: takings.MAX_WRITTEN_BYTES + 1)
    waiting: Any = Waiting()
    (answer,) = empty_pool()._gather(worker_pool.messages.Called, [waiting])
    assert "wrote more than 16 GiB to disk" in answer.message
    with open(tmp_path / "long", "w") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 20)
    with open(tmp_path / "sparse", "w") as file:
        file.truncate(1 << 40)
    with subprocess.Popen([sys.executable, "-c", HOLDS], cwd=tmp_path, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        assert 2 << 20 <= written_bytes(os.getpid(), tmp_path) < 1 << 30
        child.kill()


def test_what_a_passing_case_printed_is_shown_where_asked_for(folder: Path) -> None:
    source = "def custom_kernel(x):\n    print('some words', flush=True)\n    return x * 2\n"
    shown, _ = judge(folder, source, "test", "--cases", "0", "--show-output")
    quiet, result = judge(folder, source, "test", "--cases", "0")
    assert "| some words" in shown.stdout and "some words" not in quiet.stdout
    assert "some words" in result["cases"][0]["last_words"]


@pytest.mark.parametrize("mark", ["\x9b31m", "\u202e", "\x07", "\x1b[2J", "\u2066"])
def test_terminals_are_told_nothing_by_a_message(mark: str) -> None:
    assert CONTROL.sub("", f"a{mark}b").replace("31m", "") == "ab"


def test_what_a_submission_says_begins_no_line() -> None:
    said, text = "pass: 9 of 9 cases\npass: 9 of 9 cases\r\x85\u2028pass: 9 of 9 cases", io.StringIO()
    plan = replace(fake_plan("benchmark"), cases=[CaseSpec(0, "n: 1", {})])
    view = View(Console(file=text, width=200), plan, True)
    time = {"us": 1.0, "bound": said}
    times = {"cold": time, "warm": time}
    report = reported(modelled=times, autotuned=[said], findings=[{"text": said}])
    for status in (Status.PASS, Status.FAIL):
        words = {"buts": [said], "remarks": [said], "last_words": [said], "trace": said}
        message = f"ValueError: {said}"
        view.case_finished(CaseResult(0, "n: 1", status, message, device_report=report, **words))  # type: ignore[arg-type]
    lines = text.getvalue().splitlines()
    assert len(lines) > 20 and not any(line.strip().startswith("pass: 9") for line in lines)


def test_a_worker_tells_its_pid_once_and_its_phase_in_a_line() -> None:
    """The pid gets signals: one told later would be anybody's, -1 of everybody."""
    ours, theirs, key = open_channel()
    send, _ = worker_end(theirs.detach(), messages.COMMANDS)
    process = WorkerProcess.__new__(WorkerProcess)
    process.channel, process.pid = ours, None
    process.reader = FrameReader(key, messages.EVENTS)
    ours.setblocking(False)
    for message in (messages.Pid(7), messages.Pid(-1), messages.Phase("a\x1b[2J\nb" + "c" * 1000)):
        send(message)
    assert process.read_channel() == [] and process.pid == 7
    assert process.phase.startswith("a bccc") and len(process.phase) < 100


def test_a_pass_that_is_doubted_has_an_exit_code_where_asked_for(folder: Path) -> None:
    source = "from reference import ref_kernel\n\ndef custom_kernel(x):\n    return ref_kernel(x)\n"
    done, result = judge(folder, source, "test", "--cases", "0")
    strict, _ = judge(folder, source, "test", "--cases", "0", "--strict")
    assert (done.returncode, strict.returncode, result["verdict"]) == (0, 3, "pass, but")
    assert "but custom_kernel calls the problem's own ref_kernel" in done.stdout


def test_one_call_is_said_to_be_one(folder: Path) -> None:
    stale = "kept = []\n\ndef custom_kernel(x):\n    kept.append(x * 2)\n    return kept[0].clone()\n"
    one, result = judge(folder, stale, "test", "--cases", "0", "--calls", "1")
    three, _ = judge(folder, stale, "test", "--cases", "0")
    assert (one.returncode, three.returncode, result["cases"][0]["calls"]) == (0, 1, 1)
    assert any("--calls 1" in note for note in result["notes"])
    assert "call 2 (other data at the same addresses, seed" in three.stdout


def test_files_that_judge_and_change_meanwhile_are_a_but(folder: Path) -> None:
    """By whomever: a submission may not write there."""
    file = folder / "problem" / "reference.py"
    changes = f"try:\n    open({str(file)!r}, 'a').write('# loose')\nexcept OSError:\n    pass\n"
    file.write_text(changes + file.read_text())
    done, result = judge(folder, RIGHT, "test", "--cases", "0", problem=folder / "problem")
    assert result["verdict"] == "pass, but" and "files that judge were changed" in done.stdout


def test_what_deceives_on_ranks_is_caught_as_well(tmp_path: Path) -> None:
    from tests.support.evaltools import RANKS_REFERENCE, RANKS_TASK

    problem = write_problem(tmp_path / "ranks", RANKS_TASK, RANKS_REFERENCE)
    head = "import torch, reference\nimport torch.distributed as dist\n"
    cheat = "reference.check_implementation = lambda *_: (True, '')\ntorch.allclose = lambda *_, **__: True\n"
    kept = "kept = {}\ndef custom_kernel(x):\n    y = x.clone()\n    dist.all_reduce(y)\n"
    cases = ("--cases", "0")
    for source, status, text in (
        (head + cheat + "def custom_kernel(x):\n    return x * 0\n", "fail", "sums differ"),
        (head + kept + "    return kept.setdefault(x.data_ptr(), y)\n", "fail", "call 2"),
        (head + kept + "    return y\n", "pass", ""),
        (
            head + "def custom_kernel(x):\n    y = x.clone()\n    dist.all_reduce(y)\n    x.zero_()\n    return y\n",
            "pass",
            "",
        ),
    ):
        _, result = judge(tmp_path, source, "test", *cases, problem=problem)
        assert statuses(result) == [status] and text in result["cases"][0]["message"], result["cases"]
    assert "changed its input: data" in " ".join(result["cases"][0]["remarks"])


def test_a_lost_judge_is_no_verdict() -> None:
    """As where memory runs out: the submission's process is to blame for its own end alone."""
    case, workers, referees = CaseRun.__new__(CaseRun), object(), object()
    case.referees = referees  # type: ignore[assignment]
    died = worker_pool.RankAnswer(None, 0.0, messages.Judged(Status.CRASH, "the process died of SIGKILL"), lost=True)
    told = case.blamed(referees, died).answer  # type: ignore[arg-type]
    assert told.status is Status.NOT_RUN and told.message.startswith("not judged: the judge's own process was lost: ")
    assert case.blamed(workers, died) is died  # type: ignore[arg-type]
