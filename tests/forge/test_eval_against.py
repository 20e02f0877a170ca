"""eval.py benchmark --against: two submissions in one run, each error with its name; cases that a user chooses."""

import dataclasses
import io
import itertools
import json
import math
import os
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from forge.commands import jsonfile
from forge.commands.against import Other, Pair, PairView
from forge.commands.view import Console, View
from forge.device import resolve
from forge.device.emulated import EmulatedDevice
from forge.history.document import to_json
from forge.judge.evaluate import evaluate
from forge.judge.messages import CalledBackToBack
from forge.judge.plan import EMULATED_LIMIT_S, EvalPlan, case_limit_s
from forge.judge.results import Run, Status
from forge.judge.timing import back_to_back_of
from forge.judge.worker_pool import RankAnswer
from forge.task.cases import CaseError, CaseSpec, parse_case_file, spec_of
from forge.task.harness import AMD, AMD_DISTRIBUTED
from forge.task.problem import Timeouts, find_problem
from tests.support.evaltools import RANKS_REFERENCE, RANKS_TASK, RIGHT, ROOT, judge, run_command, start, write_problem
from tests.support.limits import ENDS_S

pytestmark = pytest.mark.long

DOUBLE = """
import time
def custom_kernel(x):
    time.sleep({seconds})
    return x * 2
"""
# As a kernel whose calls overtake each other: right as the harness calls it, wrong in a row.
WRONG_IN_A_ROW = """
import sys
def custom_kernel(x):
    return x * 2 + (sys._getframe(1).f_code.co_name == "back_to_back_rounds")
"""
SUM = """
import torch.distributed as dist
def custom_kernel(x):
    y = x.clone()
    dist.all_reduce(y)
    return y
"""


class Timed(EmulatedDevice):
    """An emulated device whose times are taken: of torch on the CPU, which is real enough to test what is printed."""

    emulated = False


def timed_plan(folder: Path, submission: str) -> EvalPlan:
    """Benchmark of two vectors to be doubled."""
    problem = find_problem(write_problem(folder / "problem"))
    device = resolve("gfx942", "gfx942")
    assert isinstance(device, EmulatedDevice)
    cases = parse_case_file("\n".join(map(spec_of, problem.tests[:2])), AMD, None)
    problem = dataclasses.replace(problem, timeouts=Timeouts(test_s=60, benchmark_s=0.05, ranked_s=60))
    return EvalPlan("benchmark", problem, submission.encode(), AMD, Timed(device.card), cases, None, 60)


def evaluate_here(folder: Path, ours: str, theirs: str) -> tuple[Run | Pair, str]:
    plan, run, text = timed_plan(folder, ours), Run("benchmark", [], timed=True), io.StringIO()
    console = Console(file=text, width=200)
    pair = Pair(plan, Other("theirs.py", theirs.encode()), run) if theirs else None
    view: Any = PairView(console, pair, False) if pair else View(console, plan, False)
    view.head([], own_eval=False)
    if pair:
        pair.evaluate(view)
    else:
        evaluate(plan, run, view)
    view.foot(run)
    return pair or run, text.getvalue()


def told(folder: Path, ours: str, theirs: str = "") -> Any:
    """Of a submission, or of two beside each other: what is found, and what is printed."""
    program = f"import sys, pickle; from pathlib import Path; from {__name__} import evaluate_here\n"
    program += "found = evaluate_here(Path(sys.argv[1]), *sys.argv[2:])\n"
    program += "Path(sys.argv[1], 'found').write_bytes(pickle.dumps(found))\n"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    words = ("-c", program, folder, ours, theirs)
    assert start(*words, checks="", cwd=folder, env={"PYTHONPATH": path}).wait(ENDS_S) == 0
    return pickle.loads((folder / "found").read_bytes())


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, str]:
    return told(tmp_path_factory.mktemp("slower"), DOUBLE.format(seconds=0.003), DOUBLE.format(seconds=0.012))


def written_of(pair: Pair) -> Any:
    return json.loads(to_json(pair.document(0, [])))


def test_the_slower_submission_shows_on_both_clocks(slower: tuple[Pair, str]) -> None:
    pair, text = slower
    assert pair.passed, text
    means = pair.geometric_means()
    # Of 4, on a machine that sleeps no longer than it is told.
    for clock in ("harness", "harness_median", "back_to_back"):
        assert 1.1 < (means[clock] or 0) < 40, text
    again, theirs = pair.run.cases[0].back_to_back, pair.their_run.cases[0].back_to_back
    assert again is not None and again.calls == 20 and again.us is not None and again.us > 3e3
    assert theirs is not None and theirs.us is not None and theirs.us > max(12e3, again.us)
    assert again.host_us is not None and 3e3 < again.host_us <= again.us  # asleep on the host all the time
    assert "theirs.py / ours, geometric mean of 2 cases" in text and "b2b us" in text
    assert " on the harness's clock, " in text and " by its medians, " in text
    written = written_of(pair)
    assert written["against"]["geometric_means"]["harness"] == means["harness"]
    assert len(written["against"]["cases"]) == 2


def test_a_ratio_says_how_sure_it_is(slower: tuple[Pair, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host whose clock adds 300 us of its own to both, a ratio of 1.03 may be 0.98 in the next run."""
    pair, _ = slower
    times = [(100e3, 3e3, 103e3, 4e3), (100e3, 3e3, 150e3, 4e3)]  # mean and standard error, ours and theirs
    for ours, theirs, (mean, err, their_mean, their_err) in zip(pair.run.cases, pair.their_run.cases, times):
        assert ours.stats is not None and theirs.stats is not None
        monkeypatch.setattr(ours, "stats", structs.replace(ours.stats, mean_ns=mean, err_ns=err))
        monkeypatch.setattr(theirs, "stats", structs.replace(theirs.stats, mean_ns=their_mean, err_ns=their_err))
    assert pair.errors() == pytest.approx([0.0506, 0.0602], rel=0.01)
    error, undecided = pair.sure()
    assert error == pytest.approx(1.243 * math.hypot(0.0491, 0.0401) / 2, rel=0.01) and undecided == [0]
    text = io.StringIO()
    view = PairView(Console(file=text, width=200), pair, False)
    view.pair_finished(pair.run.cases[0], pair.their_run.cases[0])
    view.foot(pair.run)
    assert " 1.03 ± 0.051 " in text.getvalue() and "1.243 ± 0.039 on the harness's clock" in text.getvalue()
    assert "1 being within twice the ±: case 0\n" in text.getvalue()
    assert written_of(pair)["against"]["ratios"][1]["harness_error"] == pytest.approx(0.0602, rel=0.01)


def test_the_table_shows_how_long_a_call_keeps_its_caller(tmp_path: Path) -> None:
    """And that the leaderboard would have ended the run: its time-out is that of all cases; ours is for each."""
    plan, (run, text) = timed_plan(tmp_path, RIGHT), told(tmp_path, DOUBLE.format(seconds=0.003))
    heads, row = next(pair for pair in itertools.pairwise(text.splitlines()) if pair[1].startswith("pass"))
    assert "on other data a call takes " in text
    assert run.passed and "s; the leaderboard ends mode benchmark after 0.05 s" in run.warnings[0]
    assert f"warning: {run.warnings[0]}" in text
    ends = [heads.index(head) + len(head) for head in ("b2b us", "host us")]
    b2b_us, host_us = (float(row[:end].split()[-1].replace(",", "")) for end in ends)
    assert 3e3 < host_us <= b2b_us, text
    again = run.cases[0].back_to_back
    assert again is not None and jsonfile.document_of(plan, run, 0, []).cases[0].back_to_back == again
    assert again.host_us is not None and abs(again.host_us - host_us) < 0.01 * host_us


def test_a_case_has_no_longer_than_the_leaderboard_waits_for_a_rank(tmp_path: Path) -> None:
    plan = timed_plan(tmp_path, RIGHT)
    problem = dataclasses.replace(plan.problem, timeouts=Timeouts(test_s=100, benchmark_s=300, ranked_s=100))
    ranks = [CaseSpec(0, "", {"world_size": 2})]
    emulated = resolve("gfx942", "gfx942")
    assert case_limit_s(problem, AMD_DISTRIBUTED, plan.device, "test", ranks) == 60
    assert case_limit_s(problem, AMD_DISTRIBUTED, plan.device, "benchmark", ranks) == 180
    assert case_limit_s(problem, AMD_DISTRIBUTED, plan.device, "leaderboard", ranks) == 100
    assert case_limit_s(problem, AMD_DISTRIBUTED, plan.device, "test", plan.cases) == 100
    assert case_limit_s(problem, AMD_DISTRIBUTED, emulated, "test", ranks) == EMULATED_LIMIT_S
    assert case_limit_s(problem, AMD, plan.device, "benchmark", ranks) == 300


def test_what_only_calls_in_a_row_show_is_a_warning(tmp_path: Path) -> None:
    pair, text = told(tmp_path, RIGHT, WRONG_IN_A_ROW)
    assert pair.passed, text
    assert "theirs.py: warning: called back to back: the output of the last call is wrong: values differ" in text
    assert "ours: warning: called" not in text


def test_rounds_last_as_long_as_on_the_slowest_rank() -> None:
    def reply(rank: int, *rounds_us: float) -> RankAnswer[CalledBackToBack]:
        host_us = tuple(us / 2 for us in rounds_us)
        return RankAnswer(rank, 0.0, CalledBackToBack(rounds_us=rounds_us, host_rounds_us=host_us, calls=20))

    both = back_to_back_of([reply(0, 3.0, 1.0, 9.0), reply(1, 2.0, 4.0, 5.0)], None, 0.001)
    assert both.rounds_us == (3.0, 4.0, 9.0) and both.us == 4.0 and both.problem == ""
    assert both.host_us == 2.0
    died = RankAnswer(1, 0.0, CalledBackToBack(Status.CRASH, "died"), lost=True)
    lost = back_to_back_of([reply(0, 1.0), died], died, 0.001)
    assert lost.us is None and lost.problem == "rank 1: died"


def test_calls_that_claim_less_than_the_evaluator_waited() -> None:
    told = [RankAnswer(None, 0.0, CalledBackToBack(rounds_us=(0.2,) * 5, host_rounds_us=(0.2,) * 5, calls=20))]
    assert back_to_back_of(told, None, 0.05).problem == ""
    assert "say that they took 2e-05 s, and the evaluator waited 0.9 s" in back_to_back_of(told, None, 0.9).problem


def test_an_error_names_its_submission_and_spares_the_other(tmp_path: Path) -> None:
    problem = write_problem(tmp_path / "problem", RANKS_TASK.replace("benchmarks:", "unused:"), RANKS_REFERENCE)
    text = (problem / "task.yml").read_text().replace("tests:", "benchmarks:")
    (problem / "task.yml").write_text(text + "tests:\n  - {world_size: 2, n: 4, seed: 1, flag: true}\n")
    broken = SUM.replace("    y =", "    if len(x) == 4:\n        raise ValueError('no')\n    y =").replace(
        "return y", "import os; os._exit(3)"
    )
    (tmp_path / "theirs.py").write_text(broken)
    done, result = judge(tmp_path, SUM, "benchmark", "--against", "theirs.py", problem=problem)
    assert done.returncode == 1
    assert [case["status"] for case in result["cases"]] == ["pass"] * 3, done.stdout
    assert [case["status"] for case in result["against"]["cases"]] == ["error", "crash", "crash"], done.stdout
    assert re.search("theirs.py: rank [01]: ValueError: no", done.stdout) and "ours: pass: 3 of 3" in done.stdout


def test_against_reference_on_an_emulated_device(tmp_path: Path) -> None:
    done, result = judge(tmp_path, RIGHT, "benchmark", "--against", "reference", "--cases", "0")
    assert done.returncode == 0, done.stdout
    assert result["against"]["verdict"] == "pass, but"  # the reference is not the other's own
    assert result["against"]["geometric_means"]["harness"] is None
    assert result["against"]["geometric_means"]["modelled"] == pytest.approx(1)  # both are torch's
    assert "1.000 modelled" in done.stdout and "no measurement and no score" in done.stdout


def test_an_owners_folder_takes_variants_and_scaling_from_here(tmp_path: Path) -> None:
    """A folder elsewhere, known by its leaderboard name from the set file two folders up."""
    folder = tmp_path / "problems" / "set" / "gemm-rs"
    folder.mkdir(parents=True)
    for name in ("reference.py", "task.py", "../utils.py"):
        source = ROOT / "reference" / "gemm_rs" / name
        (folder / Path(name).name).write_text(source.read_text())
    task = (ROOT / "reference" / "gemm_rs" / "task.yml").read_text().replace("../utils.py", "utils.py")
    (folder / "task.yml").write_text(task.replace("spread: [k]", ""))
    row = "{directory: set/gemm-rs, name: amd-gemm-rs, gpus: [MI300x8]}"
    (tmp_path / "problems" / "set.yaml").write_text(f"problems:\n  - {row}\n")
    (tmp_path / "submission.py").write_text("from reference import ref_kernel as custom_kernel\n")
    options = ["--against", "baseline", "--world-size", "2", "--keep-local", "--device", "gfx942"]
    case = "world_size: 8; m: 64; n: 128; k: 2048; has_bias: false; seed: 1"
    done = run_command("benchmark", folder, *options, "--case", case, cwd=tmp_path)
    assert done.returncode == 0 and "baseline: pass, but: 1 of 1 cases" in done.stdout, done.stdout + done.stderr
    assert "world_size=2 m=64 n=128 k=512 " in done.stdout


def test_fewer_gpus_than_ranks_is_said_before_anything_starts() -> None:
    plan = SimpleNamespace(device=SimpleNamespace(gpus=["a", "b"]), most_ranks=8)
    with pytest.raises(CaseError, match="a case has 8 ranks and this machine 2 GPUs: .*--world-size 2"):
        EvalPlan.check_gpus(cast(EvalPlan, plan))
    EvalPlan.check_gpus(cast(EvalPlan, SimpleNamespace(device=SimpleNamespace(gpus=["a", "b"]), most_ranks=2)))
    EvalPlan.check_gpus(cast(EvalPlan, SimpleNamespace(device=SimpleNamespace(), most_ranks=8)))  # an emulated device


def test_cases_of_ones_own_and_another_world_size(tmp_path: Path) -> None:
    task = RANKS_TASK + "spread: [n]\n"
    problem = write_problem(tmp_path / "problem", task, RANKS_REFERENCE)
    source = SUM
    cases = ["world_size: 2, n: 6, seed: 5, flag: true", "{world_size: 2; n: 9; seed: 6; flag: false}"]
    own = [word for case in cases for word in ("--case", case)]
    done, result = judge(tmp_path, source, "test", *own, problem=problem)
    specs = ["world_size: 2; n: 6; seed: 5; flag: True", "world_size: 2; n: 9; seed: 6; flag: False"]
    assert done.returncode == 0 and [case["spec"] for case in result["cases"]] == specs
    assert "note: not the leaderboard's cases: from the command line" in done.stdout
    done, result = judge(tmp_path, source, "test", "--world-size", "1", "--keep-local", "--cases", "0", problem=problem)
    assert done.returncode == 0 and result["cases"][0]["spec"] == "world_size: 1; n: 2; seed: 1; flag: True"
    assert "not the leaderboard's cases: on 1 ranks, n scaled with them" in done.stdout
