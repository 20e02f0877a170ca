"""Which Triton compiles: what the runner has, one of the package index, the installed one; and what may fail."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forge.device import DeviceError, triton_versions
from forge.judge.compilers import reason
from forge.task.problem import ROOT, ProblemError, find_problem, load_sets
from forge.task.runners import TOOLS, load_runners, runner_of

WHEEL = "Wheel-Version: 1.0\nTag: {tag}-{tag}-manylinux_2_28_x86_64\n"


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A package index that answers as `says` states, and a cache of its own."""
    state: dict[str, Any] = {"says": "", "calls": 0, "tag": triton_versions._python_tag(), "amd": True}

    def pip(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        state["calls"] += 1
        target = Path(next(word for word in command if word.startswith("--target=")).partition("=")[2])
        if state["says"]:
            return subprocess.CompletedProcess(command, 1, None, state["says"])
        (version,) = [word.partition("==")[2] for word in command if word.startswith("triton==")]
        info = target / f"triton-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "WHEEL").write_text(WHEEL.format(tag=state["tag"]))
        if state["amd"]:
            (target / "triton/backends/amd").mkdir(parents=True)
            (target / "triton/backends/amd/compiler.py").write_text("")
        return subprocess.CompletedProcess(command, 0, None, "")

    monkeypatch.setenv("CDNA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(triton_versions.subprocess, "run", pip)
    monkeypatch.setattr(triton_versions, "installed_version", lambda: "3.7.1")
    return state


def test_a_version_is_brought_once(index: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    folder = triton_versions.folder_of("3.5.0", "as amd-fp8-mm's leaderboard has")
    assert folder is not None and folder.name.startswith(f"3.5.0-{index['tag']}-")
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "bringing Triton 3.5.0, as amd-fp8-mm's leaderboard has, from the" in said
    assert triton_versions.folder_of("3.5") == folder and index["calls"] == 1
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("version", ["installed", "3.7.1"])
def test_the_installed_one_needs_no_index(index: dict[str, Any], version: str) -> None:
    assert triton_versions.folder_of(version) is None and index["calls"] == 0


@pytest.mark.parametrize(
    ("version", "says", "message"),
    [
        ("nightly", "", r"FORGE_TRITON is 'nightly': say a version such as 3\.6\.0, or installed"),
        ("3.3.1", "", r"Triton 3\.3\.1 is too old for the emulated device: take one of 3\.4 to 3\.9"),
        (
            "3.5.7",
            "ERROR: Could not find a version that satisfies the requirement triton==3.5.7 (from versions: 3.4.0, 3.5.1)",  # noqa: E501
            r"the package index has none for Python .* \(it has 3\.4\.0, 3\.5\.1\): choose another version",
        ),
        (
            "3.5.0",
            "ERROR: Could not find a version that satisfies the requirement triton==3.5.0 (from versions: none)",
            "no package index answers, .*: connect once",
        ),
        ("3.5.0", "/usr/bin/python3: No module named pip", "has no pip: `.* -m ensurepip`"),
        ("3.5.0", "ERROR: Could not install packages: No space left", "pip: Could not install packages: No space left"),
    ],
)
def test_one_line_says_why_it_cannot_be_brought(index: dict[str, Any], version: str, says: str, message: str) -> None:
    index["says"] = says
    with pytest.raises(DeviceError, match=message) as caught:
        triton_versions.folder_of(version)
    assert "\n" not in str(caught.value)
    if says:
        assert "take the installed one with --triton installed (3.7.1)" in str(caught.value)
        assert not list(Path(os.environ["CDNA_CACHE_DIR"], "triton").glob("3.*"))


def test_a_cache_of_another_python(index: dict[str, Any]) -> None:
    index["tag"] = "cp39"
    with pytest.raises(DeviceError, match=r"is of another Python \(cp39-.*\), this is cp3.*: delete it"):
        triton_versions.folder_of("3.5.0")


def test_a_version_without_amd_backend(index: dict[str, Any]) -> None:
    index["amd"] = False
    with pytest.raises(DeviceError, match="has no AMD backend: choose another version"):
        triton_versions.folder_of("3.5.0")


def test_one_version_gives_way_to_another(index: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    for version in ("3.5.0", "3.5.1"):
        triton_versions.take(version)
        folder = str(triton_versions.folder_of(version))
        assert sys.path[0] == folder
        assert os.environ["PYTHONPATH"].split(os.pathsep) == [folder, "/somewhere"]
    triton_versions.take("installed")
    assert folder not in sys.path and os.environ["PYTHONPATH"] == "/somewhere"


def test_what_is_taken_where_nobody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(triton_versions.VARIABLE, raising=False)
    assert triton_versions.wanted(None, True, "3.6.0", b"import triton") == "3.6.0"
    assert triton_versions.wanted(None, True, "3.6.0", b"// HIP alone") == "installed"
    assert triton_versions.wanted(None, False, "3.6.0", b"import triton") == "installed"  # a GPU
    assert triton_versions.wanted("3.7.1", True, "3.6.0", b"") == "3.7.1"
    monkeypatch.setenv(triton_versions.VARIABLE, "installed")
    assert triton_versions.wanted(None, True, "3.6.0", b"import triton") == "installed"


def test_a_leaderboard_is_the_reason_only_where_nobody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = find_problem("amd-fp8-mm")
    monkeypatch.delenv(triton_versions.VARIABLE, raising=False)
    assert reason(None, problem) == "as amd-fp8-mm's leaderboard has" and reason("3.5.1", problem) == ""
    monkeypatch.setenv(triton_versions.VARIABLE, "3.5.1")
    assert reason(None, problem) == ""


def test_every_set_states_its_runner() -> None:
    for group in load_sets():
        for entry in group.problems:
            assert runner_of(entry.name).tools["triton"].version == "3.6.0"
    for runner in load_runners():
        assert set(runner.tools) == set(TOOLS) and all(tool.source for tool in runner.tools.values())


def test_a_runner_that_is_not_described(tmp_path: Path) -> None:
    text = (ROOT / "task.yml").read_text().replace("runner: kernelbot-2026", "runner: kernelbot-2027", 1)
    (tmp_path / "task.yml").write_text(text)
    with pytest.raises(ProblemError, match="'runner' is 'kernelbot-2027', and `runners` has kernelbot-2026, "):
        runner_of("amd-fp8-mm", tmp_path)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)


def test_the_commands_say_what_is_wrong_in_one_line(tmp_path: Path) -> None:
    submission = tmp_path / "submission.py"
    submission.write_text("import triton\ndef custom_kernel(data): ...\n")
    for command in (
        ("eval.py", "test", "amd-fp8-mm", "--submission", str(submission), "--device", "gfx942"),
        ("gen_submission.py", "amd-fp8-mm", "--check-file", str(submission)),
        ("-m", "forge.tune", "amd-gemm-rs", "--variant", "triton", "--device", "gfx942"),
    ):
        done = run(*command, "--triton", "3.3.1")
        assert done.returncode == 2, done.stderr
        (line,) = done.stderr.splitlines()
        assert "Triton 3.3.1 is too old for the emulated device" in line


def test_versions_side_by_side_and_in_the_json(tmp_path: Path) -> None:
    problem = "residual-rmsnorm-fp8"  # of few kernels: each is compiled twice
    here = triton_versions.installed_version()
    runners = runner_of(problem).tools["triton"].version
    output = tmp_path / "submission.py"
    triton = ["--variant", "triton", "--check", "--triton", f"{runners},installed"]
    done = run("gen_submission.py", problem, "-o", str(output), *triton)
    assert done.returncode == 0, done.stderr
    assert f"by Triton {runners} and Triton {here}; from the compiler's output" in done.stdout or here == runners
    assert "differs in" in done.stdout and "kernels differ from the first version" in done.stdout
    assert "modelled, not measured" in done.stdout

    result = tmp_path / "result.json"
    command = ["eval.py", "test", problem, "--submission", str(output), "--device", "gfx942", "--cases", "0"]
    done = run(*command, "--triton", "installed", "--json", str(result))
    assert done.returncode == 0, done.stderr
    assert f"compiled with Triton {here} (the leaderboard: {runners})" in done.stdout or here == runners
    compilers = json.loads(result.read_text())["fingerprint"]["compilers"]
    assert compilers["triton"] == here and compilers["leaderboard"]["triton"] == runners
