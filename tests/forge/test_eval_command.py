"""The command's arguments, the files it is given, and what it says: one line, and a results file that says it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from forge.commands.eval import main
from forge.commands.planning import eval_parser, make_plan
from forge.commands.run import new_run
from forge.history.document import ResultError, read_result
from forge.task.cases import CaseError, given_case, spec_of
from forge.task.problem import ProblemError, find_problem, load_sets
from forge.task.score import published_scores
from tests.support.evaltools import REFERENCE, RIGHT, ROOT, TASK, judge, run_command, statuses, write_problem

pytestmark = pytest.mark.long

DEVICE = ("--device", "gfx942")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_problem(tmp_path / "problem")
    (tmp_path / "submission.py").write_text(RIGHT)
    return tmp_path


def refused(folder: Path, *args: str) -> str:
    """The one line that a command with bad input prints."""
    done = run_command(*args, cwd=folder)
    assert done.returncode == 2, (done.stdout, done.stderr)
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("eval.py: "), done.stderr
    return lines[0]


Quick = Callable[..., str]


@pytest.fixture
def quick(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Quick:
    """`refused` without a process of its own: for input that is refused before any worker is started."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("POPCORN_FD", raising=False)
    monkeypatch.setattr("forge.commands.eval.fill", lambda *args: pytest.fail("was not refused"))

    def run(*args: str, code: int = 2) -> str:
        (folder / "out.json").write_text(json.dumps({"schema": 1, "verdict": "pass"}))  # of the run before
        assert main([*args, *(() if "--json" in args else ("--json", "out.json"))]) == code
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("eval.py: ")
        if "--json" not in args:
            with pytest.raises(ResultError, match="holds no run"):
                read_result(folder / "out.json")
            written = json.loads((folder / "out.json").read_text())
            assert written["exit_code"] == code and f"eval.py: {written['error']}" == lines[0]
        return lines[0]

    return run


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["tst", "problem"], "unknown mode 'tst': choose one of test, benchmark, leaderboard, profile"),
        (["test", "amd-fp8-m"], "did you mean 'amd-fp8-mm'?"),
        (["test", "nowhere/at/all"], "unknown problem 'nowhere/at/all'"),
        (["test", "."], "no task.yml here"),
        (["test", "problem", "--device", "gfx90a"], "unknown device 'gfx90a'"),
        (["test", "problem", "--cases", "3"], "no case 3; there are 3 test cases, 0 to 2"),
        (["test", "problem", "--cases", "one"], "'one' is neither an index nor a range"),
        (["test", "problem", "--harness", "amb"], "unknown harness 'amb'"),
        (["test", "problem", "--timeout", "0"], "must be more than 0"),
        (["test", "problem", "--timeout", "soon"], "invalid float value"),
        (["test", "problem", "--seed", "-1"], "must not be negative"),
        (["test", "problem", "--json", "no/such/folder/x.json"], "cannot be written"),
        (["test", "problem", "--submission", "missing.py"], "missing.py: no such file"),
        (["test", "problem", "--submission", "problem"], "a folder, not a submission file"),
        (["benchmark", "problem", "--against", "nowhere.py"], "--against nowhere.py: no such file"),
        (["test", "problem", "--case", "n: four, seed: 1"], "'n: four, seed: 1': n must be an integer, found 'four'"),
        (["test"], "which PROBLEM? submission.py has no line '#!POPCORN leaderboard ...' that says it"),
        (["test", "problem", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["test", "problem", "--json", "submission.py"], "is the submission itself"),
        (["test", "problem", "--json", "problem/reference.py"], "is one of the problem's files"),
        (["test", "problem", "--json", "problem/task.yml"], "is one of the problem's files"),
        (["test", "problem", "--case", "n: 4"], "lacks seed"),
        (["test", "problem", "--case", "n: 4, seed: 1, m: 2"], "has unknown m"),
        (["test", "problem", "--case", "n 4"], "not 'key: value, key: value', as in 'n: 4, seed: 1'"),
        (["test", "problem", "--case", "n: 4, seed: 1", "--cases", "0"], "only one of them chooses"),
        (["test", "problem", "--world-size", "2"], "have no world_size"),
        (["test", "problem", "--keep-local"], "goes with --world-size"),
        (["test", "problem", *DEVICE, "--against", "reference"], "goes with mode benchmark, and on an emulated"),
        (["benchmark", "problem", *DEVICE, "--html", "p.html"], "goes with mode profile on an emulated device"),
        (["profile", "problem", *DEVICE, "--trace", "none/t.json"], "--trace none/t.json: cannot be written"),
    ],
)
def test_arguments_that_are_refused(folder: Path, quick: Quick, args: list[str], text: str) -> None:
    assert text in quick(*args)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("world_size: 2, m: 64, has_bias: maybe", "has_bias must be true or false, found 'maybe'"),
        ("world_size: 2, m: 64, has_bias: 1", "has_bias must be true or false, found '1'"),
        ("world_size: two, m: 64, has_bias: true", "world_size must be an integer, found 'two'"),
        ("world_size: -2, m: 64, has_bias: true", "world_size must be at least 1"),
        ("world_size: 0, m: 64, has_bias: true", "world_size must be at least 1"),
    ],
)
def test_cases_of_ones_own_that_are_refused(case: str, text: str) -> None:
    with pytest.raises(CaseError, match=f"--case '{case}': {text}"):
        given_case(case, {"world_size": 8, "m": 64, "has_bias": False})


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def kernel(x): return x\n", "defines no custom_kernel(data)"),
        ("def custom_kernel(x)\n", "submission.py:1: not valid Python"),
        ("x = 'a\0b'\n", "not valid Python"),
    ],
)
def test_submissions_that_cannot_be_one(folder: Path, quick: Quick, source: str, text: str) -> None:
    (folder / "submission.py").write_text(source)
    assert text in quick("test", "problem", code=1)
    (folder / "other.py").write_text(RIGHT)
    assert text in quick("benchmark", "problem", "--submission", "other.py", "--against", "submission.py", code=1)


@pytest.mark.parametrize("file", ["submission.py", "problem/task.yml"])
def test_the_json_file_replaces_no_file_of_another_kind(folder: Path, quick: Quick, file: str) -> None:
    before = (folder / file).read_bytes()
    assert "which it would replace" in quick("test", "problem", "--json", file)
    assert "unknown mode" in quick("tst", "problem", "--json", file)
    assert (folder / file).read_bytes() == before


def test_an_error_of_our_own_is_not_the_submissions_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("POPCORN_FD", raising=False)
    for place in ("fill", "make_plan"):
        with monkeypatch.context() as patch:
            patch.setattr(f"forge.commands.eval.{place}", Mock(side_effect=ZeroDivisionError("oh")))
            assert main(["test", "problem", *DEVICE, "--json", "out.json"]) == 2
        assert "ZeroDivisionError: oh" in capsys.readouterr().err
        assert json.loads((folder / "out.json").read_text())["error"] == "oh"


def test_a_submission_that_only_seems_to_define_the_kernel(folder: Path) -> None:
    done, result = judge(folder, "if False:\n    def custom_kernel(x): ...\n")
    assert statuses(result) == ["error", "not run", "not run"] and done.returncode == 1
    assert "defines no custom_kernel(data)" in result["broken"]["message"]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("tests:", "test:", "unknown key 'test'; did you mean 'tests'?"),
        ("benchmarks:", "timings:", "missing key 'benchmarks'"),
        ("files:", "data:", "missing key 'files'"),
        ("lang: py", "lang: cu", "only Python problems"),
        ("lang: py\n", "", "missing key 'lang'"),
        ("ranking_by: geom", "ranking_by: best", "'ranking_by' must be one of geom, mean, last"),
        ("{n: 4, seed: 1}", "{n: 4.5, seed: 1}", "tests[0]: 'n' must be an integer"),
        ("{n: 4, seed: 1}", "[4, 1]", "tests[0]: expected a mapping"),
        ('source: "@SUBMISSION@"', "source: x.py", "source 'x.py' is not a file"),
        ("source: reference.py", "source: gone.py", "source 'gone.py' is not a file"),
        ("name: reference.py", "name: ../reference.py", "must stay inside the run folder"),
        ("flops: n", "flops: n * q", "the case has no key 'q'"),
        ("flops: n", "flop: n", "unknown key 'flop'"),
        ("lang: py", "lang: py\ntest_timeout: soon", "'test_timeout' must be an integer or a number"),
        ("lang: py", "lang: [py", "not valid YAML"),
    ],
)
def test_task_files_that_are_refused(folder: Path, old: str, new: str, text: str) -> None:
    assert old in TASK
    write_problem(folder / "problem", TASK.replace(old, new, 1))
    if old == "flops: n":  # is evaluated by the command, once the cases are known
        line = refused(folder, "test", "problem", *DEVICE)
    else:
        with pytest.raises(ProblemError) as caught:
            find_problem(folder / "problem")
        line = str(caught.value)
        assert "\n" not in line
    assert "task.yml" in line or "floor" in line
    assert text in line


def test_a_bad_task_file_is_one_line_of_the_command_too(folder: Path) -> None:
    write_problem(folder / "problem", TASK.replace("tests:", "tsts:"))
    assert "did you mean 'tests'?" in refused(folder, "test", "problem")


def test_a_case_that_the_harness_cannot_spell(folder: Path) -> None:
    write_problem(folder / "problem", TASK.replace("{n: 4, seed: 1}", "{n: [1, 2], seed: 1}"))
    assert "invalid case 'n: [1, 2]; seed: 1'" in refused(folder, "test", "problem")
    write_problem(folder / "problem", TASK.replace("{n: 4, seed: 1}", "{n_x: 4, seed: 1}"))
    assert "as harness amd reads them" in refused(folder, "test", "problem", "--harness", "amd")


def test_a_reference_that_does_not_load_is_not_the_submissions_fault(folder: Path) -> None:
    write_problem(folder / "problem", reference="import no_such_module\n" + REFERENCE)
    line = refused(folder, "test", "problem", *DEVICE)
    assert "reference.py does not load" in line and "no_such_module" in line


USES_TRITON = """
import triton
import triton.language as tl

@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

def custom_kernel(x):
    out = x.clone()
    double[(1,)](x, out, len(x), BLOCK=16)
    return out
"""


def test_a_device_that_cannot_be_had_is_not_the_submissions_fault(folder: Path) -> None:
    (folder / "submission.py").write_text(USES_TRITON)
    # The cache is empty: a version of Triton that is not installed would have to be brought first.
    done = run_command(
        "test", "problem", *DEVICE, cwd=folder,
        CDNA_CXX="/no/such/compiler", CDNA_CACHE_DIR=str(folder / "cache"), FORGE_TRITON="installed",
    )  # fmt: skip
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "/no/such/compiler: no such program" in done.stderr
    # The same submission is right where there is a compiler.
    assert run_command("test", "problem", *DEVICE, "--cases", "0", cwd=folder).returncode == 0


def test_a_kernel_that_does_not_compile_names_its_line_and_cause(folder: Path) -> None:
    """In a function that it inlines: Triton's outermost exception says no more than where that is called."""
    inner = "\n@triton.jit\ndef twice(y):\n    return y + absent\n"
    source = USES_TRITON.replace("tl.load(x + i, mask=i < n) * 2", "twice(tl.load(x + i, mask=i < n))")
    (folder / "submission.py").write_text(source.replace("\n@triton.jit", f"{inner}\n@triton.jit", 1))
    done = run_command("test", "problem", *DEVICE, "--cases", "0", cwd=folder)
    cause = "CompilationError: NameError('absent is not defined') in \"return y + absent\""
    assert done.returncode == 1 and f"{cause} (submission.py:16, in custom_kernel)" in done.stdout, done.stdout
    shown = [line.strip().removeprefix("|").strip() for line in done.stdout.splitlines()]
    at = shown.index("def twice(y):")
    assert shown[at + 1 : at + 3] == ["return y + absent", "^"] and "fake_rocm" not in done.stdout, done.stdout


def test_loading_problems_is_fast_and_imports_no_torch() -> None:
    code = (
        "import sys, forge.task.problem as p; p.find_problem('amd-fp8-mm');"
        "assert not {'torch', 'triton', 'rich', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_all_problems_of_the_repository_load() -> None:
    entries = [entry for group in load_sets() for entry in group.problems]
    assert len(entries) == 13
    for entry in entries:
        problem = find_problem(entry.name)
        assert problem.tests and problem.benchmarks and problem.stem == entry.stem
        assert find_problem(entry.stem).name == find_problem(entry.directory).name == entry.name


# ---------------------------------------------------------------- good input


def test_modes_cases_and_the_json_file(folder: Path) -> None:
    done, result = judge(folder, RIGHT, "benchmark", "--cases", "0,2", "--seed", "5")
    assert done.returncode == 0 and statuses(result) == ["pass", "pass"]
    assert [case["index"] for case in result["cases"]] == [0, 2]
    assert [case["spec"] for case in result["cases"]] == ["n: 7; seed: 1", "n: 8; seed: 3"]
    assert result["device"] == {"name": "gfx942", "arch": "gfx942", "emulated": True}
    assert {case["time"] for case in result["cases"]} == {"emulated"}
    assert result["score_us"] is None and all(case["stats_ns"] is None for case in result["cases"])
    assert result["cases"][0]["floor"]["hbm_bytes"] == 56
    assert re.fullmatch(r"\d+\.\d+\.\d+(, commit [0-9a-f]{10}\+?)?", result["fingerprint"]["release"])
    assert {"submission_sha256", "evaluator_sha256", "torch", "triton", "python", "cores"} <= set(result["fingerprint"])


@pytest.mark.parametrize("mode", ["test", "leaderboard"])
def test_a_check_reads_numbers_from_the_gpu(folder: Path, mode: str) -> None:
    """The judge, which imports nothing any more once submissions run, reads them without the device's checks. In one
    mode it is a Python of its own, which has imported nothing beside that."""
    reads = REFERENCE.replace("torch.allclose(out, ref_kernel(x))", "(out - ref_kernel(x)).abs().max().item() < 1e-6")
    problem = write_problem(folder / "problem", reference=reads)
    done, result = judge(folder, RIGHT, mode, "--cases", "0", problem=problem, prepared=mode != "test")
    assert done.returncode == 0 and statuses(result) == ["pass"], done.stdout


def test_the_secret_seed_changes_the_data(folder: Path) -> None:
    source = "def custom_kernel(x):\n    print('sum', x.double().sum().item(), flush=True)\n    raise SystemExit\n"
    words = []
    for options in ([], ["--seed", "5"]):
        done, result = judge(folder, source, "test", "--cases", "0", *options)
        words.append(result["cases"][0]["last_words"])
    assert words[0] != words[1]


def test_smoke_cases_and_their_absence(folder: Path) -> None:
    done, result = judge(folder, RIGHT, "profile", "--cases", "smoke")
    assert [case["spec"] for case in result["cases"]] == ["n: 3; seed: 9"] and done.returncode == 0
    write_problem(folder / "problem", TASK.replace("smoke:\n  - {n: 3, seed: 9}\n", ""))
    assert "states no smoke cases" in refused(folder, "test", "problem", "--cases", "smoke")


def test_leaderboard_mode_stops_at_the_first_failing_case(folder: Path) -> None:
    wrong = "def custom_kernel(x):\n    return x * (3 if len(x) == 5 else 2)\n"
    done, result = judge(folder, wrong, "leaderboard")
    assert statuses(result) == ["pass", "fail", "not run"] and done.returncode == 1


def test_what_the_leaderboard_would_refuse_is_said(folder: Path) -> None:
    done, result = judge(folder, "# up" + "stream\n" + RIGHT, "test", "--cases", "0")
    assert any("submission line 1" in note for note in result["notes"]) and done.returncode == 0


def test_the_json_file_is_json(folder: Path) -> None:
    source = "def custom_kernel(x):\n    return x * float('inf')\n"
    judge(folder, source, "test", "--cases", "0")
    text = (folder / "out.json").read_text()
    assert json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_published_times_are_scored_over_the_same_cases(folder: Path) -> None:
    write_problem(
        folder / "problem",
        TASK + "published:\n  - {by: a, source: s, clock: c, us: [2, null, 8]}\n  - {by: b, us: [1, 2, 3]}\n"
        "  - {by: whole, all_us: 2.5}\n",
    )
    args = eval_parser().parse_args(
        ["benchmark", str(folder / "problem"), "--submission", str(folder / "submission.py"), "--cases", "0,2"]
    )
    plan, _ = make_plan(args)
    cases = [(case.index, case.spec) for case in plan.cases]
    scores = {row.by: us for row, us in published_scores(plan.problem, cases)}
    assert scores == pytest.approx({"a": 4.0, "b": 3**0.5})
    cases.append((1, "n: 5; seed: 2"))
    assert [row.by for row, _ in published_scores(plan.problem, cases)] == ["b"]  # a published nothing for case 1
    every = [(index, spec_of(case)) for index, case in enumerate(plan.problem.benchmarks)]
    assert {row.by: us for row, us in published_scores(plan.problem, every)}["whole"] == 2.5


def test_a_compact_verdict_is_short_and_says_what_to_do_next(tmp_path: Path) -> None:
    """Of equal errors one, with its line of the submission; nothing else is printed."""
    lines = "".join(f"    print({n})\n" for n in range(40))
    (tmp_path / "submission.py").write_text(f"def custom_kernel(x):\n{lines}    return x / nothing  # here\n")
    problem = write_problem(tmp_path / "problem")
    done = run_command("test", problem, "--device", "gfx942", "--no-history", "--compact", cwd=tmp_path)
    said = done.stdout.splitlines()
    assert done.returncode == 1 and len(said) < 30 and not done.stderr
    assert re.fullmatch(r"crashed: 0 of 3 cases passed; problem test on gfx942, \d+\.\d s", said[0])
    assert said[1] == "case 0: n=4 seed=1 (and 2 more alike: 1, 2)"
    assert said[2] == "NameError: name 'nothing' is not defined (submission.py:42, in custom_kernel)"
    assert "submission.py:42: return x / nothing  # here" in said
    assert said[-1] == (
        f"next: eval.py test {problem} --submission submission.py --device gfx942 --case 'n: 4; seed: 1'"
    )
    (tmp_path / "submission.py").write_text(RIGHT)
    done = run_command("test", problem, "--device", "gfx942", "--no-history", "--compact", cwd=tmp_path)
    first, second = done.stdout.splitlines()
    assert done.returncode == 0 and first.startswith("passed: 3 of 3 cases") and second.startswith("next: eval.py")


@pytest.mark.parametrize(
    ("options", "replayed", "noted", "doubted"),
    [
        ([], False, False, False),
        (["--strict"], True, True, False),
        (["--strict", "--no-replay"], False, False, False),
        (["--replay"], True, False, True),
    ],
)
def test_where_no_output_is_made_anew_is_said(options: list[str], replayed: bool, noted: bool, doubted: bool) -> None:
    words = ["test", "amd-all2all", "--device", "gfx942", *options]
    plan, own_eval = make_plan(eval_parser().parse_args(words), b"def custom_kernel(data):\n    return data\n")
    run = new_run(plan, own_eval)
    said = "outputs are not made anew: several ranks read each other's memory"
    assert (plan.replayed, said in run.notes, run.buts == [said]) == (replayed, noted, doubted)
