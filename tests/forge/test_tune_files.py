"""The tuner on any file: what it finds to tune, how it tries rows on a Dask cluster, and what it writes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from forge.cluster import Cluster, ClusterError, cluster
from forge.tune import files
from forge.tune.command import main, parser
from forge.tune.spaces import FileSpace, SpaceError, space_of
from forge.tune.trial import Job, Outcome
from forge.tune.trials_log import Setting, Trial, TrialsLog
from tests.support.evaltools import ROOT, write_problem
from tests.support.limits import ENDS_S

KERNEL = """\
import torch
import triton
import triton.language as tl


{DECORATOR}@triton.jit
def double(x, y, n, BLOCK: tl.constexpr, PASSES: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for _ in range(PASSES):
        tl.store(y + at, tl.load(x + at, mask=at < n, volatile=True) * 2, mask=at < n)
        tl.debug_barrier()


def custom_kernel(x):
    y = torch.empty_like(x)
{LAUNCH}
    return y
"""
TABLE = """\
# é: columns are counted in bytes by Python
SPACE = {"PASSES": [1, 30]}
DEFAULT = {"PASSES": 30, "BLOCK": 64}
TUNING = {
    # length
    (64,): {"PASSES": 2, "BLOCK": 32},
}
""" + KERNEL.replace("{DECORATOR}", "").replace(
    "{LAUNCH}", '    row = TUNING.get((len(x),), DEFAULT)\n    double[(1,)](x, y, len(x), row["BLOCK"], row["PASSES"])'
)
AUTOTUNED = KERNEL.replace(
    "{DECORATOR}",
    """\
@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 64, "PASSES": 30}, num_warps=1),  # é
        triton.Config({"BLOCK": 64, "PASSES": 1}, num_warps=1),
    ],
    key=["n"],
)
""",
).replace("{LAUNCH}", "    double[(1,)](x, y, len(x))")
DEFINES = '''\
SOURCE = r"""
#define BLOCK 256  // tune: 64 128 256
  #define UNROLL (2)  // tune: 4 8
#define OTHER 3  // not to be tuned
"""
'''


def test_a_table_in_a_file() -> None:
    space = space_of(TABLE, "s.py", "gfx942")
    assert (space.columns, space.start, space.by_case) == ({"PASSES": [1, 30]}, {"PASSES": 30, "BLOCK": 64}, True)
    tried: dict[str, Any] = {}
    text = space.with_row({"PASSES": 1, "BLOCK": 64}).replace("@KEYS_FILE@", os.devnull)
    exec("TUNING = {(1,): {'PASSES': 9}}\n" + text[text.index("class _Tried") :], tried)
    assert tried["TUNING"].get((5,)) == {"PASSES": 1, "BLOCK": 64} == tried["TUNING"][7] and 3 in tried["TUNING"]
    assert space_of(TABLE.replace("SPACE", "ROOM"), "s.py", "").columns == {"PASSES": [2, 30], "BLOCK": [32, 64]}


def test_configs_of_an_autotuner() -> None:
    space = space_of(AUTOTUNED, "s.py", "gfx942")
    configs = space.columns["double"]
    assert len(configs) == 2 and "'PASSES': 1" in configs[1] and not space.by_case
    one = space.with_row({"double": configs[1]})
    compile(one, "s.py", "exec")
    assert f"configs=[{configs[1]}],\n    key=" in one and one.count("triton.Config") == 1
    assert space_of(one, "s.py", "").columns == {"double": [configs[1]]}


def test_marked_defines() -> None:
    space = space_of(DEFINES, "s.py", "gfx942")
    assert space.columns == {"BLOCK": ["64", "128", "256"], "UNROLL": ["(2)", "4", "8"]}
    assert space.start == {"BLOCK": "256", "UNROLL": "(2)"} and space.with_row(space.start) == DEFINES
    changed = space.with_row({"BLOCK": "64", "UNROLL": "8"})
    assert "#define BLOCK 64  // tune: 64 128 256" in changed and "  #define UNROLL 8  //" in changed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "s.py: nothing to tune: no '#define"),
        ("def f(:\n", "s.py:1: not valid Python"),
        ("TUNING = {1: (2, 3)}\n", "rows with named columns"),
        ("TUNING = {1: f()}\n", "s.py:1: TUNING is no literal"),
        ("TUNING = {1: {'A': 2}}\n", "one value in each column: say in SPACE what else to try"),
        (AUTOTUNED.replace("configs=[", "configs=all_of()and["), "the configs of double's autotune are computed"),
        (DEFINES.replace("UNROLL (2)", "BLOCK 8"), "s.py:3: a second '#define BLOCK' to tune"),
    ],
)
def test_what_cannot_be_tuned(text: str, message: str) -> None:
    with pytest.raises(SpaceError) as error:
        space_of(text, "s.py", "gfx942")
    assert message in str(error.value) and "\n" not in str(error.value)


# ---------------------------------------------------------------- the search, with workers that answer at once


class Answers(Cluster):
    """Workers that need no time: a row's time is what `us` makes of the job's text."""

    def __init__(self, us: Any) -> None:
        self.us, self.tried = us, 0

    def workers(self) -> int:
        return 2

    def results(self, function: Any, jobs: Any, end: Any) -> Any:
        for job in jobs:
            self.tried += 1
            us = self.us(job)
            outcome = Outcome("pass", "", {"modelled": us}, ("(7,)",), {"torch": "1"})
            yield job, outcome if us else Outcome("fail", "values differ", {}, (), {"torch": "1"})


def file_tuner(folder: Path, text: str, us: Any) -> files.FileTuner:
    write_problem(folder / "problem")
    path = folder / "mine.py"
    path.write_text(text)
    words = [str(folder / "problem"), "--submission", str(path), "--device", "gfx942", "--triton", "installed"]
    args = parser().parse_args(words)
    problem, _ = files.find(args)
    harness, _ = files.choose_harness(problem, None)
    cases, _ = files.cases_to_run(problem, harness, "benchmark", args)
    device = files.resolve("gfx942", "gfx942")
    plan = files.EvalPlan("benchmark", problem, text.encode(), harness, device, cases, None, 60.0)
    space = space_of(text, str(path), "gfx942")
    log = TrialsLog(folder / "log.jsonl", files.setting_of(plan, space))
    return files.FileTuner(plan, space, log, "modelled", Answers(us), None, 1)


def test_one_row_serves_all_cases_of_a_file_with_defines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def us(job: Job) -> float | None:
        if "BLOCK 64" in job.text:
            return None if "n: 8" in job.case else 0.1  # the fastest, and wrong in one case
        return (5.0 if "BLOCK 128" in job.text else 9.0) - (1.0 if "UNROLL 8" in job.text else 0.0)

    text = DEFINES + "def custom_kernel(x): return x\n"
    tuner = file_tuner(tmp_path, text, us)
    tuner.search()
    assert tuner.finish(tmp_path / "mine.py", write=True) == 0
    written = (tmp_path / "mine.py").read_text()
    assert "#define BLOCK 128  //" in written and "#define UNROLL 8  //" in written
    assert "geometric mean of 3 cases: 4 us (before 9)" in capsys.readouterr().out


def test_the_same_command_goes_on_and_a_second_tuner_shares_the_log(tmp_path: Path) -> None:
    text = DEFINES + "def custom_kernel(x): return x\n"
    first = file_tuner(tmp_path, text, lambda job: 5.0)
    second = file_tuner(tmp_path, text, lambda job: 5.0)  # begun before the first has tried anything
    first.search()
    second.search()
    third = file_tuner(tmp_path, text, lambda job: 5.0)
    third.search()
    assert [getattr(tuner.where, "tried") for tuner in (first, second, third)] == [3 * 9, 0, 0]  # noqa: B009


def test_rows_of_a_table_are_written_by_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuner = file_tuner(tmp_path, TABLE, lambda job: 1.0 if "'PASSES': 1," in job.text else 8.0)
    tuner.search()
    assert tuner.finish(tmp_path / "mine.py", write=True) == 0
    written = (tmp_path / "mine.py").read_text()
    compile(written, "mine.py", "exec")
    row = next(line for line in written.splitlines() if line.startswith("    (7,"))
    assert '"PASSES": 1' in row and "modelled, not measured" in row and "    # length\n" in written


@pytest.mark.parametrize("text", [DEFINES + "def custom_kernel(x): return x\n", AUTOTUNED, TABLE])
def test_rows_that_were_tried_are_known_after_one_is_written(text: str, tmp_path: Path) -> None:
    def us(job: Job) -> float:
        return (
            1.0
            if any(fast in job.text for fast in ("BLOCK 128", "[triton.Config({'PASSES': 1}", "'PASSES': 1,"))
            else 8.0
        )

    first = file_tuner(tmp_path, text, us)
    first.search()
    assert first.finish(tmp_path / "mine.py", write=True) == 0
    written = (tmp_path / "mine.py").read_text()
    assert written != text
    second = file_tuner(tmp_path, written, us)
    second.search()
    assert getattr(second.where, "tried") == 3  # noqa: B009 - as it is now, in each case


def test_workers_of_another_version_are_refused(tmp_path: Path) -> None:
    tuner = file_tuner(tmp_path, DEFINES + "def custom_kernel(x): return x\n", lambda job: 5.0)
    tuner.note(tuner.plan.cases[0], None, Outcome("pass", "", {"modelled": 1.0}, (), {"torch": "1"}))
    with pytest.raises(files.ProblemError, match="different versions of torch"):
        tuner.note(tuner.plan.cases[1], None, Outcome("pass", "", {"modelled": 1.0}, (), {"torch": "2"}))


def test_two_writers_do_not_mix_their_lines(tmp_path: Path) -> None:
    setting = Setting("p", "file", "", "a card", "gfx942", "")
    logs = [TrialsLog(tmp_path / "log.jsonl", setting) for _ in range(2)]

    def write(log: TrialsLog, name: str) -> None:
        for number in range(40):
            log.end(Trial(f"{name} {number}", {"A": "x" * 20_000}, "pass", modelled_us=1.0))

    threads = [threading.Thread(target=write, args=(log, str(i))) for i, log in enumerate(logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert len(lines) == 80 and all("trial" in json.loads(line) for line in lines)
    logs[0].reread()
    assert len(logs[0].trials) == 80


# ---------------------------------------------------------------- Dask


def test_a_scheduler_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    write_problem(tmp_path / "problem")
    (tmp_path / "mine.py").write_text(TABLE)
    words = [str(tmp_path / "problem"), "--submission", str(tmp_path / "mine.py"), "--device", "gfx942"]
    words += ["--trials-log", str(tmp_path / "log.jsonl"), "--triton", "installed"]
    assert main([*words, "--scheduler", "tcp://127.0.0.1:9"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and said[0].startswith("forge.tune: --scheduler tcp://127.0.0.1:9: no Dask scheduler there")
    assert main([*words, "--scheduler", "nonsense://x"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert main(["amd-fp8-mm", "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert "--scheduler goes with a file" in capsys.readouterr().err


def test_a_tuner_whose_workers_are_all_killed_says_so_and_goes_on_when_one_comes(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    write_problem(tmp_path / "problem")
    (tmp_path / "mine.py").write_text(AUTOTUNED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as own:
        started = ("-m", "distributed.cli.dask_worker", own.scheduler_address, "--no-nanny", "--nthreads=1")
        command = [sys.executable, *started]
        workers = [subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) for _ in range(2)]
        own.wait_for_workers(2)
        words = "tune problem --submission mine.py --device gfx942 --cases 0 --write --timeout=500".split()
        process = subprocess.Popen(
            [sys.executable, "-m", "forge", *words, "--scheduler", own.scheduler_address],
            cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            while not own.scheduler.tasks and process.poll() is None:
                time.sleep(0.1)
            for worker in workers:
                worker.kill()
            said = ""
            while "no worker is left; what is done is kept" not in said:
                assert (line := process.stdout.readline()), said
                said += line
            workers.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
            said += process.communicate(timeout=ENDS_S)[0]
        finally:
            everyone: list[subprocess.Popen[Any]] = [*workers, process]
            for each in everyone:
                each.kill()
                each.wait()
    assert process.returncode == 0 and "a worker is there again" in said and "mine.py: written" in said, said
    assert TrialsLog(tmp_path / "tune-mine.jsonl", Setting("", "", "", "", "", "")).others == 3, said


def test_a_cluster_without_workers_ends_the_command_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("forge.cluster.LOOK_S", 0.1)
    monkeypatch.setattr("forge.cluster.ALONE_S", 0.6)
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as own:
        with distributed.Client(own) as client:
            with pytest.raises(ClusterError, match="no worker for 0.01 min; what is done is kept"):
                list(Cluster(client).results(abs, [-1, -2], None))
            assert capsys.readouterr().out.count("no worker is left") == 1
            own.scale(1)
            assert sorted(Cluster(client).results(abs, [-1, -2], None)) == [(-2, 2), (-1, 1)]


def test_ctrl_c_ends_it_in_order(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    write_problem(tmp_path / "problem")
    (tmp_path / "mine.py").write_text(AUTOTUNED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    words = ["tune", "problem", "--submission", "mine.py", "--device", "gfx942"]
    process = subprocess.Popen(
        [sys.executable, "-m", "forge", *words],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    while "as it is: " not in said and (line := process.stdout.readline()):
        said += line
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said += process.communicate(timeout=ENDS_S)[0]
    assert "stopped: call again to go on" in said and "Traceback" not in said, said
    assert process.returncode == 130


def test_a_cluster_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match=r"pip install distributed"), cluster(None, 1):
        pass


def test_every_space_says_what_it_is() -> None:
    for text, word in ((TABLE, "TUNING"), (AUTOTUNED, "@triton.autotune of double"), (DEFINES, "#defines: BLOCK")):
        space: FileSpace = space_of(text, "s.py", "gfx942")
        assert space.what.startswith(word)
