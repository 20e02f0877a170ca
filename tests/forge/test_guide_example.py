"""The complete examples of the guides, done as they stand there in a copy of the repository."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.evaltools import ROOT
from tests.support.limits import ENDS_S

pytestmark = pytest.mark.long

FILE = re.compile(r"`(\S+\.\w+)`:\n\n```(?:python|yaml|cpp|text)\n(.*?)```", re.DOTALL)
DIFF = re.compile(r"```diff\n(.*?)```", re.DOTALL)


def example_of(guide: str) -> str:
    return (ROOT / "docs" / guide).read_text().partition("## A complete example")[2]


def copy_of_the_repository(folder: Path) -> Path:
    copy = folder / "repository"
    half_written = shutil.ignore_patterns("*.pyc.*")  # byte code as such stays valid
    for name in ("forge", "cdna", "docs", "kernels", "lab", "reference", "templates"):
        shutil.copytree(ROOT / name, copy / name, ignore=half_written)
    for name in ("README.md", "task.yml", "eval.py", "gen_submission.py"):
        shutil.copy(ROOT / name, copy / name)
    return copy


def patch(root: Path, diff: str) -> None:
    alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    done = subprocess.run(["git", "apply", "-"], cwd=root, input=diff, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def follow(example: str, folder: Path, most: int = 99) -> list[str]:
    """What the first of its commands print, after its files are written; one that is there gets the text at its end.
    Its change is made behind the commands that stand before it."""
    root = copy_of_the_repository(folder)
    before = example.partition("```diff")[0]
    change = DIFF.findall(example)
    first = len(commands_of(before)) if change else -1
    for name, text in FILE.findall(example):
        (root / name).parent.mkdir(exist_ok=True)
        with (root / name).open("a") as file:
            file.write(text)
    environment = {**os.environ, "PYTHONPATH": str(root), "XDG_DATA_HOME": str(folder / "data")}
    said = []
    for number, command in enumerate(commands_of(example)[:most]):
        if number == first:
            patch(root, change[0])
        words = shlex.split(command.removeprefix("./").removeprefix("python "))
        done = subprocess.run(
            [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True, timeout=ENDS_S
        )
        assert done.returncode == 0, (command, done.stdout + done.stderr)
        said.append(done.stdout + done.stderr)
    return said


def commands_of(example: str) -> list[str]:
    return [line.strip() for line in re.findall(r"^ *(?:\./|python ).*$", example, re.MULTILINE)]


BEGINNING = 2  # commands: the file, and its cases


@pytest.mark.parametrize(
    "most", [BEGINNING, pytest.param(99, marks=pytest.mark.slow(reason="the guide's later commands"))]
)
def test_a_kernel_is_added_as_the_guide_says(tmp_path: Path, most: int) -> None:
    example = example_of("adding-a-kernel.md")
    assert len(FILE.findall(example)) == 2 and len(commands_of(example)) == 6
    said = follow(example, tmp_path, most)
    assert "simple_swiglu" in said[0] and "pass: 2 of 2 cases" in said[1]
    if most == BEGINNING:
        return
    assert "pass: 2 of 2 cases" in said[4]
    assert "rows tried" in said[2] and "modelled" in said[2]
    assert "swiglu-fp8: A is run 1: test" in said[5]


def test_a_problem_is_added_as_the_guide_says(tmp_path: Path) -> None:
    example = example_of("adding-a-problem.md")
    assert len(FILE.findall(example)) == 5
    said = follow(example, tmp_path)
    assert "pass: 1 of 1 case" in said[1]


@pytest.mark.parametrize("guide", ["adding-a-check.md", "adding-an-instruction.md", "changing-the-model.md"])
def test_a_change_of_a_guide_fits_what_is_there(guide: str) -> None:
    (change,) = DIFF.findall(example_of(guide))
    done = subprocess.run(["git", "apply", "--check", "-"], cwd=ROOT, input=change, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_instruction_is_added_as_the_guide_says(tmp_path: Path) -> None:
    example = example_of("adding-an-instruction.md")
    assert len(FILE.findall(example)) == 2 and len(DIFF.findall(example)) == 1
    said = follow(example, tmp_path)
    assert "3 passed" in said[0] and "v_parity_b32" in said[1]


@pytest.mark.slow(reason="it builds the engine")
def test_a_check_is_added_as_the_guide_says(tmp_path: Path) -> None:
    example = example_of("adding-a-check.md")
    fault, twin = follow(example, tmp_path)
    assert example.splitlines()[-1].strip() in fault and "tests/idle.hip:3)" in fault
    assert "idle:" not in twin


@pytest.mark.slow(reason="it builds the engine")
def test_a_constant_is_changed_as_the_guide_says(tmp_path: Path) -> None:
    example = example_of("changing-the-model.md")
    said = follow(example, tmp_path)
    assert re.findall("^    (1 of 1 cases differ; .*)$", example, re.MULTILINE)[0] in said[3]
    page = (tmp_path / "repository/docs/time-model.md").read_text()
    assert re.search(r"^\| `memory_cycles` \|.*\| 912 \| 1,100 \|$", page, re.MULTILINE)
