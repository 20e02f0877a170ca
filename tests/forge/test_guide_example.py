"""The complete example of docs/adding-a-kernel.md, done as it stands there in a copy of the repository."""

from __future__ import annotations

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

GUIDE = (ROOT / "docs" / "adding-a-kernel.md").read_text().partition("## A complete example")[2]


def copy_of_the_repository(folder: Path) -> Path:
    copy = folder / "repository"
    half_written = shutil.ignore_patterns("*.pyc.*")  # byte code as such stays valid
    for name in ("forge", "cdna", "kernels", "reference", "templates"):
        shutil.copytree(ROOT / name, copy / name, ignore=half_written)
    for name in ("task.yml", "eval.py", "gen_submission.py"):
        shutil.copy(ROOT / name, copy / name)
    return copy


BEGINNING = 2  # commands: the file, and its cases


@pytest.mark.parametrize(
    "most", [BEGINNING, pytest.param(99, marks=pytest.mark.slow(reason="the guide's later commands"))]
)
def test_the_guides_example_does_what_it_says(tmp_path: Path, most: int) -> None:
    root = copy_of_the_repository(tmp_path)
    files = re.findall(r"`(kernels/\S+\.py)`:\n\n```python\n(.*?)```", GUIDE, re.DOTALL)
    assert len(files) == 2
    for name, text in files:
        (root / name).write_text(text)
    commands = re.findall(r"^(?:\./|python ).*$", GUIDE, re.MULTILINE)
    assert len(commands) == 6
    environment = {**os.environ, "PYTHONPATH": str(root), "XDG_DATA_HOME": str(tmp_path / "data")}
    said = []
    for command in commands[:most]:
        words = shlex.split(command.removeprefix("./").removeprefix("python "))
        done = subprocess.run(
            [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True, timeout=ENDS_S
        )
        assert done.returncode == 0, (command, done.stdout + done.stderr)
        said.append(done.stdout)
    assert "simple_swiglu" in said[0] and "pass: 2 of 2 cases" in said[1]
    if most == BEGINNING:
        return
    assert "pass: 2 of 2 cases" in said[4]
    assert "rows tried" in said[2] and "modelled" in said[2]
    assert "swiglu-fp8: A is run 1: test" in said[5]
