"""The action for GitHub's workflows: its steps, run here as a runner would, but for what installs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from tests.support.evaltools import RIGHT, ROOT, write_problem
from tests.support.limits import ENDS_S

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def plus_one(x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(x + at, tl.load(x + at) + 1)
"""
TEST = f"""{KERNEL}
def test_right():
    x = torch.zeros(64, device="cuda")
    plus_one[(1,)](x, 64)
    assert x.sum() == 64

def test_past_the_end():
    plus_one[(1,)](torch.zeros(32, device="cuda"), 64)
"""


def step(folder: Path, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    (one,) = (one for one in ACTION["runs"]["steps"] if one["id"] == name)
    values = {key: said["default"] for key, said in ACTION["inputs"].items()} | inputs

    def filled(value: str) -> str:
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: values[match[1]], value)

    environment = {key: filled(value) for key, value in one.get("env", {}).items()}
    environment |= {"GITHUB_ACTION_PATH": str(ROOT), "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "GITHUB_WORKSPACE": str(folder)}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", one["run"]]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=ENDS_S
    )


def test_no_input_stands_in_a_script() -> None:
    """Its text would be the runner's command."""
    assert not [one["id"] for one in ACTION["runs"]["steps"] if "${{" in one["run"]]


def test_a_projects_tests(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    done = step(tmp_path, "tests", tests="test_it.py -k 'right or past'")
    assert done.returncode and "::error file=test_it.py" in done.stdout and "1 passed" in done.stdout, done.stdout
    assert "bounds" in (tmp_path / "emulated/results.xml").read_text()


def test_a_submission(tmp_path: Path) -> None:
    write_problem(tmp_path / "problem")
    (tmp_path / "wrong.py").write_text(RIGHT.replace("x * 2", "x * 3") + KERNEL)
    done = step(tmp_path, "judge", submission="wrong.py", problem="problem")
    assert done.returncode == 1 and "::error file=wrong.py::wrong: " in done.stdout, done.stdout + done.stderr
    assert json.loads((tmp_path / "emulated/verdict.jsonl").read_text())["status"] == "wrong"
    assert (tmp_path / "summary.md").read_text().startswith("**wrong**: wrong.py on an emulated gfx942. ")
