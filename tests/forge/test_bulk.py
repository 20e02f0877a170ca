"""Many submissions in one run: each gets the verdict that it would get alone, and nothing that was judged is lost."""

import errno
import functools
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import forge
from forge.bulk import command, journal, slots, verdict
from forge.console import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_PASS, UsageError
from forge.history.document import read_result
from lab.verdicts import PROBLEM, corpus
from tests.support.evaltools import ROOT, names_itself, processes_named, run_command, start, write_problem
from tests.support.limits import ENDS_S

pytestmark = pytest.mark.long

HEAD = (PROBLEM.parent / "kernel.py").read_text()
RIGHT = HEAD + "custom_kernel = product\n"
NO_TRITON = HEAD + "@triton.jit\ndef bad(x):\n    tl.store(x, nothing)\n"
TOLD = (
    "told_integers",
    "told_alphabet",
    "many_arguments",
    "small_constants",
    "result_places",
    "torch_choice",
    "collective_waited",
)
SUBMISSIONS = {
    "right": (RIGHT, "passed"),
    "right too": (RIGHT + "# another\n", "passed"),
    "bias": (next(entry.source for entry in corpus() if entry.name == "bias_only"), "doubtful"),
    "wrong": (HEAD + "custom_kernel = wrong\n", "wrong"),
    "raises": ("def custom_kernel(data):\n    return 1 / 0\n", "crashed"),
    "a circle": ("def custom_kernel(data):\n    error = ValueError()\n    raise error from error\n", "crashed"),
    "dies": ("import os\ndef custom_kernel(data):\n    os.kill(os.getpid(), 11)\n", "crashed"),
    "no Triton": (NO_TRITON + "def custom_kernel(data):\n    bad[(1,)](data[0])\n", "compile_error"),
    "no Python": ("def custom_kernel(data:\n", "invalid"),
    "no kernel": ("def other(data):\n    return data\n", "invalid"),
    # It mentions a compiler, and so comes from the process that RIGHT does.
    "hangs": ("import time  # no triton\ndef custom_kernel(data):\n    time.sleep(1000)\n", "timeout"),
    "memory": (
        "import torch\ndef custom_kernel(data):\n    return torch.empty(1 << 46, device='cuda')\n",
        "out_of_memory",
    ),
    **{  # told to who makes it anew so that none of it seems the host's
        one.name: (one.source, "doubtful") for one in corpus() if one.name in TOLD
    },
    "kills": (next(entry.source for entry in corpus() if entry.name == "parent_killed"), "tampered"),
    "none here": (RIGHT, "machine_error"),
}
BROKEN = {
    "line 1": '{"id": "half',
    "line 2": "[]",
    "both": '{"id": "both", "source": "x", "file": "y"}',
    "mode": '{"id": "mode", "source": "x", "mode": "tst"}',
    "key": '{"id": "key", "source": "x", "kernel": "x"}',
    "gone": '{"id": "gone", "file": "/nowhere.py"}',
    "unknown": '{"id": "unknown", "source": "def custom_kernel(x): pass", "problem": "amd-fp8-nm"}',
    "option": '{"id": "option", "source": "def custom_kernel(x): pass", "problem": "--trust"}',
}
OPTIONS = ("--problem", str(PROBLEM), "--device", "gfx942")


def forge_judge(*words: str | Path, lines: str = "", temporary: Path | None = None) -> subprocess.Popen[str]:
    environment, pipe = {"TMPDIR": str(temporary)} if temporary else {}, subprocess.PIPE
    started = start("-m", "forge", "judge", *words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
    assert started.stdin is not None
    if lines:
        started.stdin.write(lines)
    started.stdin.close()
    started.stdin = None
    return started


def read(file: Path) -> list[verdict.Verdict]:
    return [forge.read_verdict(line) for line in file.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one run of all of them, two at a time, in an order by chance."""
    folder = tmp_path_factory.mktemp("bulk")
    (folder / "tmp").mkdir()
    broken = write_problem(folder / "broken", reference="import nothing_of_that_name\n")
    asked: list[dict[str, Any]] = [{"id": name, "source": source} for name, (source, _) in SUBMISSIONS.items()]
    asked[-1]["problem"] = str(broken)
    random.shuffle(asked)
    lines = [*BROKEN.values(), *map(json.dumps, [*asked, {"id": "right", "source": "another"}])]
    (folder / "requests").write_text("\n".join(lines) + "\n")
    again(folder)
    return folder


def again(folder: Path) -> tuple[int, str]:
    """The same command: its exit code and its last line."""
    words = ("--workers", "2", "--timeout", "60", "--out", folder / "out.jsonl")
    lines = (folder / "requests").read_text()
    started = forge_judge(*OPTIONS, *words, lines=lines, temporary=folder / "tmp")
    _, said = started.communicate(timeout=ENDS_S)
    assert "Traceback" not in said
    return started.returncode, said.splitlines()[-1]


def test_each_submission_has_one_record_with_its_status(folder: Path) -> None:
    by_id: dict[str, list[verdict.Verdict]] = {}
    for one in read(folder / "out.jsonl"):
        by_id.setdefault(one.id, []).append(one)
    second = [one for one in by_id["right"] if one.blame == "request"]
    assert len(second) == 1 and second[0].message == "another submission has the id 'right'"
    by_id["right"].remove(second[0])
    said = {name: [one.status for one in ones] for name, ones in by_id.items()}
    assert said == {name: [status] for name, (_, status) in SUBMISSIONS.items()} | dict.fromkeys(BROKEN, ["invalid"])
    for name, ones in by_id.items():
        blamed = {"passed": "", "machine_error": "machine"}.get(ones[0].status, "submission")
        assert ones[0].blame == ("request" if name in BROKEN else blamed) and "\n" not in ones[0].message
        assert bool(ones[0].message) == (ones[0].status != "passed"), name
    assert by_id["raises"][0].message == "ZeroDivisionError: division by zero (submission.py:2, in custom_kernel)"
    assert by_id["raises"][0].case.startswith("m: 16")


def test_what_is_judged_is_not_judged_again_but_the_machines_errors(folder: Path) -> None:
    before = read(folder / "out.jsonl")
    code, said = again(folder)
    after = read(folder / "out.jsonl")
    assert after[: len(before)] == before and [one.id for one in after[len(before) :]] == ["none here"]
    assert code == EXIT_BAD_INPUT and f"; {len(before) - 1} of them before; " in said


def test_nothing_is_left_of_a_run(folder: Path) -> None:
    assert not list((folder / "tmp").iterdir())


def test_it_is_eval_pys_verdict(folder: Path, tmp_path: Path) -> None:
    of_bulk = {one.id: one for one in read(folder / "out.jsonl") if one.report}
    (tmp_path / "submission.py").write_text(SUBMISSIONS["bias"][0])
    run_command("test", PROBLEM, "--device", "gfx942", "--strict", "--json", "alone.json", cwd=tmp_path)
    alone = read_result(tmp_path / "alone.json")
    mine = of_bulk["bias"].report
    assert mine is not None
    assert (mine.verdict, mine.exit_code, mine.notes, mine.fingerprint.torch) == (
        alone.verdict, alone.exit_code, alone.notes, alone.fingerprint.torch,
    )  # fmt: skip
    for one, other in zip(mine.cases, alone.cases, strict=True):
        assert (one.status, one.buts, one.device_report, one.accuracy) == (
            other.status, other.buts, other.device_report, other.accuracy,
        )  # fmt: skip


# ---------------------------------------------------------------- what ends before its time


def wait_until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + ENDS_S / 2
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_loses_nothing_and_leaves_nothing(number: int, tmp_path: Path) -> None:
    name, temporary, out = f"bulk{os.getpid()}.{number}", tmp_path / "tmp", tmp_path / "out.jsonl"
    temporary.mkdir()
    (tmp_path / "1.py").write_text(RIGHT)
    (tmp_path / "2.py").write_text(f"{names_itself(name)}\n{SUBMISSIONS['hangs'][0]}")
    words = (*OPTIONS, "--out", out)
    started = forge_judge(tmp_path / "1.py", tmp_path / "2.py", *words, temporary=temporary)
    wait_until(lambda: processes_named(name) and read(out))
    started.send_signal(number)
    _, said = started.communicate(timeout=ENDS_S)
    if number == signal.SIGINT:
        assert started.returncode == EXIT_INTERRUPTED and "interrupted: 1 passed." in said
    wait_until(lambda: not processes_named(name) and not list(temporary.iterdir()))
    with out.open("ab") as file:
        file.write(b'{"id": "half a line')
    started = forge_judge(tmp_path / "1.py", *words)
    _, said = started.communicate(timeout=ENDS_S)
    assert started.returncode == EXIT_PASS and "1 passed; 1 of them before" in said
    assert [one.status for one in read(out)] == ["passed"]


def test_a_process_that_is_lost_costs_nothing_but_time() -> None:
    with forge.Judge(problem=PROBLEM, device="gfx942") as one:
        one.submit({"source": RIGHT})
        while one.slots[0].doing == "" or "custom_kernel" not in one.slots[0].doing:
            if verdicts := one.hear(5):
                break
        assert one.slots[0].process is not None
        if not verdicts:
            one.slots[0].process.kill()
        while not verdicts:
            verdicts = one.hear()
        assert [v.status for v in verdicts] == ["passed"]


def test_processes_that_die_at_each_start_are_the_machines_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a process has ended before this one goes on."""
    start = slots.Slot.start

    def start_and_end(slot: slots.Slot) -> None:
        start(slot)
        assert slot.process is not None
        slot.process.wait()

    monkeypatch.setattr(slots.Slot, "start", start_and_end)
    monkeypatch.setattr(slots, "BOOT", "import sys; sys.exit('no engine here')")
    with forge.Judge(workers=2, problem=PROBLEM) as one:
        verdicts = list(one.judge_all([{"source": RIGHT}, {"source": RIGHT}, {"file": "/nowhere.py"}]))
        with pytest.raises(forge.MachineError, match="lost 2 times: .* exit code 1: no engine here"):
            one.judge(RIGHT)
    assert sorted(v.status for v in verdicts) == ["invalid", "machine_error", "machine_error"]


def test_a_limit_of_this_machine_is_no_fault_of_the_request(tmp_path: Path) -> None:
    (tmp_path / "1.py").write_text(RIGHT)
    words = [sys.executable, "-m", "forge", "judge", "1.py", *OPTIONS]
    small = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, preexec_fn=small)
    one = forge.read_verdict(done.stdout)
    assert (one.status, one.blame, done.returncode) == ("machine_error", "machine", EXIT_BAD_INPUT)
    assert "File too large (ulimit -f unlimited?)" in one.message


# ---------------------------------------------------------------- as a library


def test_the_guides_example_runs(tmp_path: Path) -> None:
    example = (ROOT / "docs" / "bulk.md").read_text().partition("```python\n")[2].partition("```")[0]
    (tmp_path / "mine.py").write_text(RIGHT)
    script = example.replace('"amd-fp8-mm"', repr(str(PROBLEM)))
    done = start("-c", script, cwd=tmp_path, stdout=subprocess.PIPE)
    said, _ = done.communicate(timeout=ENDS_S)
    assert done.returncode == 0 and said.splitlines()[:1] == ["passed"] and "crashed" in said


def test_the_package_that_judges_is_a_function_too() -> None:
    import forge.judge.evaluate

    assert callable(forge.judge.evaluate.evaluate)  # type: ignore[attr-defined]
    one = forge.judge("def custom_kernel(data:\n", problem=PROBLEM)
    assert (one.status, one.blame, one.report) == ("invalid", "submission", None)
    with pytest.raises(forge.BadRequest, match="unknown problem 'amd-fp8-nm'"):
        forge.judge(RIGHT, problem="amd-fp8-nm")


def test_who_leaves_before_the_end_gets_no_verdict_of_what_he_left() -> None:
    with forge.Judge(workers=2, problem=PROBLEM, device="gfx942") as one:
        for left in one.judge_all([{"source": SUBMISSIONS["hangs"][0]}, {"source": "x ="}]):
            assert left.status == "invalid"
            break
        del left
        assert not one.busy and one.judge("def custom_kernel(data:\n").id == "3"


def test_what_cannot_be_asked_is_an_exception_of_ours() -> None:
    assert {entry.name for entry in forge.problems()} >= {"amd-fp8-mm"}
    with forge.Judge() as one:
        for asked in ({"problem": "amd-fp8-nm"}, {"problem": "amd-fp8-mm", "device": "gfx9"}):
            with pytest.raises(forge.BadRequest, match="unknown"):
                one.judge(RIGHT, **asked)
        with pytest.raises(forge.BadRequest, match="/nowhere.py"):
            one.judge(Path("/nowhere.py"))
    with pytest.raises(AttributeError):
        forge.judges  # noqa: B018


# ---------------------------------------------------------------- the file


def of(name: str, status: verdict.Outcome = "passed") -> verdict.Verdict:
    return verdict.Verdict(id=name, status=status, key=name)


def test_a_disk_that_is_full_keeps_lines_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with journal.Journal(tmp_path / "out") as kept:
        assert kept.write(of("a")) == ""
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:10]))
        assert kept.write(of("b")).endswith("No space left on device: 1 verdicts wait for room")

        def full(fd: int, data: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        assert "2 verdicts" in kept.write(of("c", "wrong"))
        monkeypatch.setattr(os, "write", write)
        assert kept.write() == ""
    assert [one.id for one in read(tmp_path / "out")] == ["a", "b", "c"]


def test_a_file_of_something_else_is_not_touched(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for text in ("import torch\n", "import torch", '{"id": "a"}\n{"id": 5}\nx'):
        out.write_text(text)
        with pytest.raises(UsageError, match="is no verdict"), journal.Journal(out):
            pass
        assert out.read_text() == text
    out.unlink()
    with journal.Journal(out), pytest.raises(UsageError, match="another run writes it"), journal.Journal(out):
        pass


def test_a_line_that_is_too_long_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "MOST_LINE_BYTES", 1 << 16)
    read_end, write_end = os.pipe()
    requests, taken = command.Requests([], read_end), list[tuple[str, Any]]()
    for data in [b"x" * 30000] * 5 + [b"\n{}\n", b'\n{"id": "last"}']:
        os.write(write_end, data)
        while (one := requests.take()) is not None:
            taken.append(one)
    os.close(write_end)
    while not requests.ended:
        if one := requests.take():
            taken.append(one)
    os.close(read_end)
    assert [name for name, _ in taken] == ["line 1", "line 2", "line 4"]
    assert isinstance(taken[0][1], forge.BadRequest) and taken[1:] == [("line 2", b"{}"), ("line 4", b'{"id": "last"}')]


def test_words_of_a_submission_are_no_markup() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with command.progress_on(console) as bar:
        bar.add_task("[/x] case 1")
    assert isinstance(console.file, io.StringIO) and "[/x] case 1" in console.file.getvalue()


@pytest.mark.parametrize("given", [[], ["--replay"], ["--no-replay"], ["--calls", "1", "--no-replay"]])
def test_options_of_the_evaluator_are_passed_on_as_they_were_given(given: list[str]) -> None:
    assert command.options_of(command.parser().parse_args(given)) == given
