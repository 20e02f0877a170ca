"""cdna installs alone: its own pyproject.toml names every package that it has, and nothing of it imports forge."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cdna

HERE = Path(cdna.__file__).parent


def test_the_wheel_has_every_package() -> None:
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))
    there = {".".join(("cdna", *init.parent.relative_to(HERE).parts)) for init in HERE.rglob("__init__.py")}
    assert set(project["tool"]["setuptools"]["packages"]) == there


def test_the_wheels_share_no_file() -> None:
    """Or removing one would break the other."""
    above = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    assert above["tool"]["setuptools"]["packages"]["find"]["include"] == ["forge*"]
    assert "cdna" in above["project"]["dependencies"]


@pytest.mark.slow(reason="builds two wheels and makes an environment")
def test_cdna_stays_whole_where_forge_is_removed(tmp_path: Path) -> None:
    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    tree = tmp_path / "tree"
    shutil.copytree(HERE.parent, tree, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "wheels", str(tree / "cdna"), str(tree))
    run(sys.executable, "-m", "venv", "--without-pip", "new")
    python = str(tmp_path / "new/bin/python")
    wheels = map(str, (tmp_path / "wheels").glob("*.whl"))
    run(*pip, "--python", python, "install", "-q", "--no-deps", "--no-index", *wheels)
    assert "forge" in run(python, "-c", "import forge, cdna.cards; print(forge.__name__)")
    run(*pip, "--python", python, "uninstall", "-q", "-y", "cdna-forge")
    assert "gfx942" in run(
        python, "-c", "from cdna.engine.abi import layout; from cdna.cards import ARCHS; layout(); print(ARCHS)"
    )
