"""One command for all, its completion, and the exit codes that the guide lists."""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import forge.__main__ as one
from cdna.hip.host_libraries import runtime_library
from forge import console
from forge.commands import protocol
from forge.commands.completion import PARSERS, SHELLS, options_of
from tests.support.evaltools import RIGHT, ROOT, write_problem
from tests.support.hip_programs import PROGRAMS, run


def test_forge_is_the_two_scripts_and_the_rest(tmp_path: Path) -> None:
    write_problem(tmp_path / "problem")
    (tmp_path / "submission.py").write_text(RIGHT)
    words = [sys.executable, "-m", "forge", "eval", "test", "problem", "--device", "gfx942", "--cases", "0"]
    alone = {"PYTHONPATH": str(ROOT), "HOME": os.environ["HOME"]}  # where the emulated device is built
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=alone)
    assert done.returncode == 0 and "pass: 1 of 1 cases" in done.stdout, done.stderr


@pytest.mark.parametrize("words", [["generate", "--list"], ["history"], ["eval", "history"], ["--help"]])
def test_commands_that_pass(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert one.main(words) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["judges"], ["completion"], ["completion", "cmd"], ["eval", "tst"], ["tune"]])
def test_what_is_no_command_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert one.main(words) == console.EXIT_BAD_INPUT
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1 and not said.out


@pytest.mark.parametrize("command", [name for name in one.COMMANDS if name != "completion"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        one.main([command, "--help"])
    assert end.value.code == 0
    assert "examples:" in capsys.readouterr().out


def test_every_command_is_in_the_usage() -> None:
    assert set(re.findall(r"^  forge (\w+)", one.USAGE.partition("examples:")[0], re.MULTILINE)) == set(one.COMMANDS)


# ---------------------------------------------------------------- which Python


@pytest.mark.parametrize("script", ["eval.py", "gen_submission.py", "-m forge", "-m forge.tune"])
def test_a_python_that_lacks_packages_goes_on_in_the_checkouts_own(script: str, tmp_path: Path) -> None:
    inside = ("__init__.py", "__main__.py", "interpreter.py", "console.py", "tune/__init__.py", "tune/__main__.py")
    for file in ["eval.py", "gen_submission.py", *(f"forge/{name}" for name in inside)]:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    words = [sys.executable, "-S", *script.split(), "history"]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})

    done = run()
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "lacks elftools, jinja2, " in done.stderr and f"`make demo` in {tmp_path} makes a .venv" in done.stderr
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    (tmp_path / ".venv" / "bin" / "python").chmod(0o755)
    done = run()
    assert (done.returncode, done.stdout) == (7, " ".join(words[1:]) + "\n"), done.stderr


# ---------------------------------------------------------------- completion


@functools.cache
def bash_script() -> str:
    command = [sys.executable, "-m", "forge", "completion", "bash"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def completed(line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    ask = f"{bash_script()}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _forge\n"
    ask += """printf '%s\\n' "${COMPREPLY[@]}"\n"""
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_options_problems_and_devices() -> None:
    assert completed("forge hist") == ["history"]
    assert completed("forge eval --no-h") == ["--no-history"]
    assert completed("forge eval test amd-fp8") == ["amd-fp8-mm"]
    assert completed("forge eval test --device gfx9") == ["gfx942", "gfx950"]
    assert completed("forge tune --sche") in ([], ["--scheduler"])


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert one.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for parser in PARSERS.values():
        assert all(option in text for option in options_of(parser()))
    if found := shutil.which(shell):
        (tmp_path / "script").write_text(text)
        assert subprocess.run([found, "-n", str(tmp_path / "script")]).returncode == 0


# ---------------------------------------------------------------- exit codes


def test_the_guide_lists_every_exit_code() -> None:
    text = (ROOT / "docs" / "exit-codes.md").read_text()
    listed = {name: int(code) for code, name in re.findall(r"^\| (\d+) \| `(EXIT_\w+)` \|", text, re.MULTILINE)}
    ours = {
        name: value
        for module in (console, protocol)
        for name, value in vars(module).items()
        if name.startswith("EXIT_")
    }
    assert listed == ours


# ---------------------------------------------------------------- cdna run --checks


@pytest.mark.usefixtures("hip_compiler")
def test_cdna_run_takes_checks() -> None:
    runtime_library()
    planted = PROGRAMS / "planted.hip"
    found = run("--checks", "race", planted, "--", "lds_race")
    assert found.returncode == 1 and "race: " in found.stderr
    assert run("--checks", "wait", planted, "--", "lds_race").stderr == ""
    assert run("--checks", "race", planted, "--", "lds_race", "unheeded").returncode == 1
    assert run("--checks", "wait", planted, "--", "lds_race", "unheeded").returncode == 0
    goes_on = run("--checks", "report:race", planted, "--", "lds_race", "unheeded")
    assert goes_on.returncode == 0 and goes_on.stdout == "hipSuccess\n" and "race: " in goes_on.stderr
    refused = run("--checks", "speed", planted, "--", "out_of_bounds")
    assert refused.returncode == 2 and "no check is called speed" in refused.stderr
