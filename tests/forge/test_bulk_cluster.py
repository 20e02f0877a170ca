"""Bulk runs on a Dask cluster: the verdicts of this machine, whatever becomes of workers and of the scheduler."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forge
from forge.bulk import slots
from forge.console import EXIT_BAD_INPUT, EXIT_FAIL
from tests.forge.test_bulk import OPTIONS, PROBLEM, RIGHT, SUBMISSIONS, forge_judge, read
from tests.support.evaltools import ROOT, names_itself, processes_named
from tests.support.limits import ENDS_S

pytest.importorskip("distributed")
pytestmark = pytest.mark.long
NAMES = ("right", "bias", "wrong", "dies", "no Python")


class Dask:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.file, self.processes = folder / "scheduler.json", list[subprocess.Popen[bytes]]()
        self.scheduler = self.start("scheduler", "--host=127.0.0.1", "--port=0", "--no-dashboard")
        self.wait(self.file.exists)
        self.address: str = json.loads(self.file.read_text())["address"]

    def start(self, what: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words, f"--scheduler-file={self.file}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.file.parent
        )
        self.processes.append(process)
        return process

    def worker(self) -> subprocess.Popen[bytes]:
        return self.start("worker", "--no-nanny", "--nthreads=1", "--no-dashboard")

    @staticmethod
    def wait(true: Any) -> None:
        deadline = time.monotonic() + ENDS_S / 2
        while not true():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def has_workers(self, count: int) -> bool:
        from distributed import Client

        with Client(self.address, timeout=30) as client:
            client.wait_for_workers(count, timeout=ENDS_S / 2)
        return True


@contextlib.contextmanager
def dask(folder: Path, workers: int) -> Iterator[Dask]:
    folder.mkdir(exist_ok=True)
    made = Dask(folder)
    try:
        started = [made.worker() for _ in range(workers)]
        assert not started or made.has_workers(workers)
        yield made
    finally:
        for process in made.processes:
            process.kill()
        for process in made.processes:
            process.wait()


def lines(names: tuple[str, ...], **more: str) -> str:
    asked = {**{name: SUBMISSIONS[name][0] for name in names}, **more}
    return "".join(json.dumps({"id": name, "source": source}) + "\n" for name, source in asked.items())


def test_verdicts_are_this_machines_though_a_worker_is_killed(tmp_path: Path) -> None:
    name = f"cluster{os.getpid()}"
    slow = f"{names_itself(name)}\nimport time\ntime.sleep(10)\n{RIGHT}"
    words: tuple[str | Path, ...] = (*OPTIONS, "--timeout", "60")
    with dask(tmp_path / "dask", 0) as own:
        first = own.worker()
        assert own.has_workers(1)
        asked = lines((), slow=slow) + lines(NAMES)
        far = forge_judge(*words, "--scheduler", own.address, "--out", tmp_path / "far", lines=asked)
        own.wait(lambda: processes_named(name))  # the only worker's
        first.kill()
        own.wait(lambda: not processes_named(name))
        own.worker(), own.worker()
        _, said = far.communicate(timeout=ENDS_S)
        assert far.returncode == EXIT_FAIL and "Traceback" not in said, said
    near = forge_judge(*words, "--workers=2", "--out", tmp_path / "near", lines=lines(NAMES))
    near.communicate(timeout=ENDS_S)
    there, here = ({one.id: one for one in read(tmp_path / file)} for file in ("far", "near"))
    assert there.pop("slow").status == "passed" and there.keys() == here.keys() == set(NAMES)
    for name, mine in here.items():
        other = there[name]
        assert (other.status, other.blame, other.message, other.key) == (
            mine.status, mine.blame, mine.message, mine.key,
        )  # fmt: skip
        if mine.report is not None and other.report is not None:
            for one, two in zip(mine.report.cases, other.report.cases, strict=True):
                assert (one.status, one.buts, one.device_report, one.accuracy) == (
                    two.status, two.buts, two.device_report, two.accuracy,
                )  # fmt: skip


def test_a_scheduler_that_vanishes_is_a_record_for_each_submission_left(tmp_path: Path) -> None:
    name, out = f"vanishes{os.getpid()}", tmp_path / "out"
    hangs = f"{names_itself(name)}\n{SUBMISSIONS['hangs'][0]}"
    words = (*OPTIONS, "--timeout", "20", "--out", out)
    asked = lines(("right",), hangs=hangs, wrong=SUBMISSIONS["wrong"][0])
    with dask(tmp_path / "dask", 1) as own:
        run = forge_judge(*words, "--scheduler", own.address, lines=asked)
        own.wait(lambda: processes_named(name))
        own.scheduler.kill()
        _, said = run.communicate(timeout=ENDS_S)
    assert run.returncode == EXIT_BAD_INPUT and "Traceback" not in said, said
    assert [(one.id, one.status) for one in read(out)] == [
        ("right", "passed"), ("hangs", "machine_error"), ("wrong", "machine_error"),
    ]  # fmt: skip
    assert {one.message for one in read(out)[1:]} == {"the Dask scheduler went away: call again to go on"}
    again = forge_judge(*words, lines=lines(("right",), wrong=SUBMISSIONS["wrong"][0]))
    _, said = again.communicate(timeout=ENDS_S)
    assert again.returncode == EXIT_FAIL and "1 passed, 1 wrong; 1 of them before" in said


def test_as_a_library_and_what_is_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dask(tmp_path / "dask", 1) as own:
        with forge.Judge(scheduler=own.address, problem=PROBLEM, device="gfx942") as one:
            assert one.judge(RIGHT).status == "passed"
            monkeypatch.setattr(slots, "versions", lambda: {"torch": "0.1"})
            with pytest.raises(forge.MachineError, match="the worker on .* has other versions: torch .*, not 0.1"):
                one.judge(RIGHT)
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        run = forge_judge(*OPTIONS, "--scheduler", address, lines=lines(("right",)))
        _, said = run.communicate(timeout=ENDS_S)
        assert run.returncode == EXIT_BAD_INPUT and said.count("\n") == 1 and "no Dask scheduler there" in said, said


def test_a_cluster_without_workers_is_given_up_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forge.cluster.ALONE_S", 2.0)
    monkeypatch.setattr("forge.bulk.slots.LOOK_S", 0.2)
    with dask(tmp_path / "dask", 1) as own:
        with forge.Judge(scheduler=own.address, problem=PROBLEM, device="gfx942") as one:
            own.processes[-1].kill()
            verdicts = list(one.judge_all([{"source": RIGHT}, {"source": RIGHT}, {"file": "/nowhere.py"}]))
    assert sorted(each.status for each in verdicts) == ["invalid", "machine_error", "machine_error"]
    assert all("no worker for" in each.message for each in verdicts if each.status == "machine_error")
