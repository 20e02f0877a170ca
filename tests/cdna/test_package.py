"""cdna installs alone: its own pyproject.toml names every package that it has, and nothing of it imports forge."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cdna
from cdna.version import number

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


def test_both_packages_have_one_number_and_say_it() -> None:
    for file, of in ((HERE / "pyproject.toml", "VERSION"), (HERE.parent / "pyproject.toml", "cdna/VERSION")):
        project = tomllib.loads(file.read_text(encoding="utf-8"))
        assert project["project"]["dynamic"] == ["version"]
        assert project["tool"]["setuptools"]["dynamic"]["version"] == {"file": of}
    for package in ("cdna", "forge"):
        done = subprocess.run([sys.executable, "-m", package, "--version"], capture_output=True, text=True, timeout=300)
        told = rf"{package} {re.escape(number())}(, commit [0-9a-f]{{10}}\+?)?, model [0-9a-f]{{12}}\n"
        assert done.returncode == 0 and re.fullmatch(told, done.stdout), done


@pytest.mark.slow(reason="builds two engines, twice")
def test_a_release_has_the_same_bytes_wherever_it_is_made(tmp_path: Path) -> None:
    for name in ("first", "second"):
        words = [sys.executable, "-m", "lab.wheels", "-o", str(tmp_path / name)]
        done = subprocess.run(words, cwd=HERE.parent, capture_output=True, text=True)
        assert done.returncode == 0 and "tried: cdna " in done.stdout, done.stdout + done.stderr
    first, second = (
        {one.name: one.read_bytes() for one in (tmp_path / name).iterdir()} for name in ("first", "second")
    )
    assert len(first) == 4 and first == second


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
