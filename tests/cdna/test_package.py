"""cdna installs alone: its own pyproject.toml names every package that it has, and nothing of it imports forge."""

from __future__ import annotations

import tomllib
from pathlib import Path

import cdna

HERE = Path(cdna.__file__).parent


def test_the_wheel_has_every_package() -> None:
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))
    there = {".".join(("cdna", *init.parent.relative_to(HERE).parts)) for init in HERE.rglob("__init__.py")}
    assert set(project["tool"]["setuptools"]["packages"]) == there


def test_both_projects_ask_for_the_same() -> None:
    own = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    checkout = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert set(own) <= set(checkout)
