"""From a problem to a first file, and from a pass to the leaderboard."""

import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forge.commands import generate, handover
from forge.commands.caveats import notes_for
from forge.commands.planning import eval_parser, make_plan
from forge.device.base import Fingerprint
from forge.generate.pysource import GenerationError
from forge.generate.skeleton import LANGUAGES, skeleton
from forge.generate.submission import directives, refusals
from forge.judge.plan import EvalPlan
from forge.task.leaderboards import leaderboard_beside, leaderboard_of, other_arch
from forge.task.problem import ProblemError, description_of, find_problem, load_sets
from tests.support.evaltools import RIGHT, ROOT, TASK, run_command, write_problem
from tests.support.limits import ENDS_S

PROBLEMS = [entry.name for group in load_sets() for entry in group.problems]
HEADER = "#!POPCORN leaderboard amd-fp8-mm\n#!POPCORN gpu MI300\n"


def plan_of(folder: Path, text: str, problem: str | None = "amd-fp8-mm") -> EvalPlan:
    (folder / "submission.py").write_text(text)
    words = ["test", *([problem] if problem else []), "--submission", str(folder / "submission.py")]
    return make_plan(eval_parser().parse_args([*words, "--device", "gfx942", "--triton", "installed"]))[0]


# ---------------------------------------------------------------- a first file


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_problem_has_a_first_file(problem: str, language: str) -> None:
    found = find_problem(problem)
    text = skeleton(found, language, found.arch or "", found.gpus, description_of(found))
    compile(text, "submission.py", "exec")
    assert refusals(text.encode()) == [] and directives(text.encode()).leaderboard == problem
    assert description_of(found).split("\n")[0] in text


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        ("residual-rmsnorm-fp8", ()),
        ("amd-gemm-rs", ("--arch", "gfx950")),
        ("skinny-gemm-fp8", ("--variant", "hip")),
        pytest.param("amd-ag-gemm", ("--variant", "hip"), marks=pytest.mark.slow(reason="a HIP build on two ranks")),
    ],
)
def test_the_first_file_passes(
    tmp_path: Path, request: pytest.FixtureRequest, problem: str, options: tuple[str, ...]
) -> None:
    if "hip" in options:
        request.getfixturevalue("hip_compiler")
    words = [sys.executable, str(ROOT / "gen_submission.py"), "--new", problem, *options]
    made = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    program, *command = next(line for line in made.stdout.splitlines() if "eval.py test" in line).split()
    assert (tmp_path / program).is_file()  # wherever the user stands
    done = run_command(*command, cwd=tmp_path, timeout=ENDS_S)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.findall(r"emulated +(\d+) ", done.stdout)
    assert len(counts) == 2 and all(int(count) >= 1 for count in counts)  # its kernel was launched


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text("mine")
    assert generate.main(["--new", "amd-fp8-mm", "-o", str(path)]) == 2 and path.read_text() == "mine"
    assert "is there already; name another file with -o" in capsys.readouterr().err


def test_the_next_steps_lead_to_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    assert generate.main(["--new", "amd-fp8-mm", "-o", str(path)]) == 0
    said = capsys.readouterr().out
    assert [line.split("eval.py ")[1].split()[0] for line in said.splitlines() if "eval.py " in line] == [
        "test", "benchmark", "profile",
    ]  # fmt: skip
    assert f"profile amd-fp8-mm --submission {path} --cases 0 --device gfx942" in said and "--cases smoke" in said
    write_problem(tmp_path / "problem", TASK.replace("smoke:\n  - {n: 3, seed: 9}\n", ""))
    path.unlink()
    assert generate.main(["--new", str(tmp_path / "problem"), "--arch", "gfx942", "-o", str(path)]) == 0
    assert "--cases smoke" not in capsys.readouterr().out


def test_archs_that_a_problem_does_not_allow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--new", "amd-fp8-mm", "--arch", "gfx950", "-o", str(tmp_path / "x.py")]) == 2
    assert "--arch gfx950: task.yml allows gfx942" in capsys.readouterr().err
    assert other_arch(find_problem("amd-all2all"), "gfx950") == ("MI355Xx8",)
    assert other_arch(find_problem("amd-mla-decode"), "gfx942") == ("MI300",)
    with pytest.raises(ProblemError, match="allows gfx942 and gfx950"):
        other_arch(find_problem("amd-all2all"), "gfx90a")


def test_a_language_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--new", "amd-fp8-mm", "--variant", "cuda", "-o", str(tmp_path / "x.py")]) == 2
    assert capsys.readouterr().err == "gen_submission.py: --new --variant cuda: triton or hip\n"


def test_an_owners_folder_gets_one_too(tmp_path: Path) -> None:
    write_problem(tmp_path / "problem")
    problem = find_problem(tmp_path / "problem")
    text = skeleton(problem, "triton", "gfx942", ("MI300",), description_of(problem))
    assert "return x * 2" in text and "generate_input" not in text
    (tmp_path / "problem" / "reference.py").write_text("def generate_input(): ...\n")
    with pytest.raises(GenerationError, match="defines no ref_kernel"):
        skeleton(problem, "triton", "gfx942", ("MI300",), "")


# ---------------------------------------------------------------- the leaderboard


def test_whether_a_leaderboard_is_open() -> None:
    board = leaderboard_of("amd-gemm-rs")
    assert board is not None and board.deadline == datetime(2025, 10, 15, 7, tzinfo=UTC)
    before, after = datetime(2025, 10, 15, 6, 59, tzinfo=UTC), datetime(2025, 10, 15, 7, 1, tzinfo=UTC)
    assert board.is_open(before) and not board.is_open(after)
    assert board.state(before).startswith("open until 2025-10-15 07:00 UTC (gpu-mode/reference-kernels")
    assert board.state(after).startswith("closed since 2025-10-15 07:00 UTC") and "kernelbot #393" in board.state(after)
    assert leaderboard_of("swiglu-fp8") is None and leaderboard_of("grayscale") is None


def test_every_leaderboard_says_where_its_deadline_is_from() -> None:
    boards = [leaderboard_of(name) for name in PROBLEMS]
    assert sum(board is not None for board in boards) == 10
    assert all(board.source.startswith("gpu-mode/") for board in boards if board)


def test_next_steps_after_a_pass(tmp_path: Path) -> None:
    fingerprint = Fingerprint(torch="2.13.0+cpu", python="3.13.1")
    plan = plan_of(tmp_path, HEADER + "import triton\n" + RIGHT)
    lines = handover.next_steps(plan, Path("my file.py"), fingerprint)
    assert lines[0].startswith("leaderboard amd-fp8-mm: closed since 2025-09-02")
    command = "popcorn-cli submit 'my file.py' --leaderboard amd-fp8-mm --gpu MI300 --mode leaderboard --no-tui"
    assert lines[1].startswith(f"to submit: {command} --output there.txt; then eval.py import there.txt")
    assert "torch 2.10.0+rocm7.1 (here 2.13.0+cpu)" in lines[2] and "Python 3.12 (here 3.13.1)" in lines[2]
    same = Fingerprint(torch="2.10.1", python="3.11.2")
    assert not any("torch" in text or "Python" in text for text in handover.differences(plan, same))
    ours = replace(plan, problem=find_problem("swiglu-fp8"))
    assert handover.next_steps(ours, Path("x.py"), Fingerprint()) == [
        "swiglu-fp8 is no leaderboard: there is nowhere to submit it"
    ]
    write_problem(tmp_path / "problem")
    theirs = replace(plan, problem=find_problem(tmp_path / "problem"))
    assert "whether it is open is not known here" in handover.next_steps(theirs, Path("x.py"), Fingerprint())[0]


SET = """\
deadline: "2026-02-14"
problems:
  - {directory: toys/twice, name: toy-twice, deadline: "2025-11-29 6:59", gpus: GPUS}
"""


@pytest.mark.parametrize(
    ("gpus", "header", "says"),
    [
        ("[B200, MI355X, MI300]", "", "--leaderboard toy-twice --gpu MI300 "),  # judged as gfx942
        ("[B200, MI355X, MI300]", "#!POPCORN gpu MI355X\n", "--leaderboard toy-twice --gpu MI355X "),
        ("[B200]", "#!POPCORN gpu MI300\n", "header names MI300, and leaderboard toy-twice is judged on B200"),
        ("[B200]", "", "--leaderboard toy-twice --gpu B200 "),
    ],
)
def test_an_owners_set_file_tells_the_leaderboard(gpus: str, header: str, says: str, tmp_path: Path) -> None:
    write_problem(tmp_path / "toys" / "twice")
    (tmp_path / "toys.yaml").write_text(SET.replace("GPUS", gpus))
    plan = plan_of(tmp_path, header + "import triton\n" + RIGHT, str(tmp_path / "toys" / "twice"))
    lines = handover.next_steps(plan, Path("x.py"), Fingerprint(torch="2.13.0"))
    assert says in " ".join(lines), lines
    if "--gpu" in says:
        assert lines[0] == f"leaderboard toy-twice: closed since 2025-11-29 06:59 UTC ({tmp_path / 'toys.yaml'})"
    assert any("rocm" in line for line in lines) == ("MI300" in gpus)
    (tmp_path / "toys.yaml").write_text(SET.replace('deadline: "2025-11-29 6:59", ', "").replace("GPUS", gpus))
    board = leaderboard_beside(find_problem(tmp_path / "toys" / "twice"))
    assert board is not None and board.deadline == datetime(2026, 2, 14, tzinfo=UTC)


def test_the_header_names_the_problem(tmp_path: Path) -> None:
    assert plan_of(tmp_path, HEADER + RIGHT, problem=None).problem.name == "amd-fp8-mm"
    assert not [note for note in notes_for(plan_of(tmp_path, HEADER + RIGHT), False) if "header" in note]
    other = plan_of(tmp_path, HEADER + RIGHT, "amd-mla-decode")
    assert "header names amd-fp8-mm, and it is judged as amd-mla-decode" in notes_for(other, False)[0]


def test_directives_as_popcorn_reads_them() -> None:
    found = directives(b"//!POPCORN leaderboard one\n#!POPCORN leaderboard two\n#!popcorn gpus MI300 MI355X\nx = 1\n")
    assert (found.leaderboard, found.gpus) == ("two", ("MI300", "MI355X"))
    assert directives(b"x = '#!POPCORN leaderboard one'\n").leaderboard is None


def test_a_pass_tells_how_to_go_on(tmp_path: Path) -> None:
    write_problem(tmp_path / "problem")
    (tmp_path / "submission.py").write_text(RIGHT)
    done = run_command("test", tmp_path / "problem", "--device", "gfx942", cwd=tmp_path)
    assert done.returncode == 0 and "to submit: popcorn-cli submit submission.py --leaderboard problem" in done.stdout
    (tmp_path / "submission.py").write_text(RIGHT.replace("* 2", "* 3"))
    done = run_command("test", tmp_path / "problem", "--device", "gfx942", cwd=tmp_path)
    assert done.returncode == 1 and "to submit" not in done.stdout
