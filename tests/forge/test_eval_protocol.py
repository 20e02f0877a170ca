"""The official evaluators' protocol: keys on POPCORN_FD, exit codes, quirks."""

import base64
import contextlib
import os
from pathlib import Path

import pytest

from forge.commands.eval import main
from forge.device import triton_versions
from tests.support.evaltools import REFERENCE, RIGHT
from tests.support.limits import ENDS_S
from tests.support.prepared import AS_HERE, run_evaluator

pytestmark = pytest.mark.long

WRONG = "def custom_kernel(x):\n    return x * (3 if len(x) == 5 else 2)\n"
CASES = "n: 4; seed: 1\nn: 5; seed: 2\nn: 6; seed: 3\n"


def speak(
    folder: Path, mode: str, *args: str, submission: str = RIGHT, cases: str = CASES
) -> tuple[int, list[tuple[str, str]], str]:
    """(exit code, keys in order, stderr)."""
    (folder / "submission.py").write_text(submission)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "cases.txt").write_text(cases)
    reader, writer = os.pipe()
    environment = {**os.environ, "POPCORN_FD": str(writer), "OMP_NUM_THREADS": "1"}
    words = [mode, *(args or ("cases.txt", "--device", "gfx942"))]
    done = run_evaluator(
        *words, folder=folder, environment=environment, arch="gfx942", checks="", timeout=ENDS_S,
        triton=triton_versions.wanted(None, True, AS_HERE, submission.encode()), writes_to=[writer],
    )  # fmt: skip
    os.close(writer)
    with os.fdopen(reader) as stream:
        lines = [line.partition(": ") for line in stream.read().splitlines()]
    return done.returncode, [(key, value) for key, _, value in lines], done.stderr


def test_a_passing_test_run(tmp_path: Path) -> None:
    code, keys, _ = speak(tmp_path, "test")
    assert code == 0
    assert keys == [
        ("test-count", "3"),
        ("test.0.spec", "n: 4; seed: 1"),
        ("test.0.status", "pass"),
        ("test.1.spec", "n: 5; seed: 2"),
        ("test.1.status", "pass"),
        ("test.2.spec", "n: 6; seed: 3"),
        ("test.2.status", "pass"),
        ("check", "pass"),
    ]


@pytest.mark.parametrize(("mode", "code"), [("benchmark", 112), ("leaderboard", 0)])
def test_a_failing_run_and_the_quirk_of_leaderboard_mode(tmp_path: Path, mode: str, code: int) -> None:
    got, keys, _ = speak(tmp_path, mode, submission=WRONG)
    assert got == code
    assert dict(keys)["benchmark.1.status"] == "fail"
    assert dict(keys)["benchmark.1.error"] == "values differ"
    assert keys[-1] == ("check", "fail")
    assert ("benchmark.2.spec" in dict(keys)) is (mode != "leaderboard")


def test_a_case_may_fail_crash_and_speak_in_lines_and_the_rest_is_run(tmp_path: Path) -> None:
    source = (
        "import os\ndef custom_kernel(x):\n    if len(x) == 6: os.abort()\n"
        "    if len(x) == 7: raise ValueError('a\\ncheck: pass')\n    return x * (3 if len(x) == 5 else 2)\n"
    )
    code, keys, _ = speak(tmp_path, "test", submission=source, cases=CASES + "n: 7; seed: 4\nn: 8; seed: 5\n")
    told = dict(keys)
    assert [told[f"test.{case}.status"] for case in range(5)] == ["pass", "fail", "fail", "fail", "pass"]
    assert told["test.1.error"] == "values differ" and "SIGABRT" in told["test.2.error"]
    assert code == 112 and [value for key, value in keys if key == "check"] == ["fail"]


def test_profile_reports_are_base64_with_their_own_alphabet(tmp_path: Path) -> None:
    code, keys, _ = speak(tmp_path, "profile")
    assert code == 0 and keys[0] == ("benchmark-count", "3") and keys[-1] == ("check", "pass")
    base64.b64decode(dict(keys).get("benchmark.0.report", ""), b"+*")


def test_the_harness_with_one_leaderboard_case_logs_as_it_does(tmp_path: Path) -> None:
    args = ("cases.txt", "--device", "gfx942", "--harness", "amd_mla_decode")
    code, keys, _ = speak(tmp_path, "leaderboard", *args)
    assert code == 0
    assert keys[:2] == [("benchmark-count", "1"), ("benchmark.0.spec", "n: 6; seed: 3")]
    code, keys, _ = speak(tmp_path, "leaderboard", *args, submission="def custom_kernel(x):\n    return x\n")
    assert (code, keys) == (0, [("test-count", "1"), ("test.0.status", "fail"), ("test.0.error", "values differ")])


@pytest.mark.parametrize(
    ("args", "fd", "code", "text"),
    [
        (("cases.txt",), "", 111, "POPCORN_FD"),
        (("cases.txt",), "77", 111, "POPCORN_FD"),
        ((), "ok", 2, "expected MODE CASESFILE"),
        (("missing.txt",), "ok", 113, "could not read missing.txt"),
        (("bad.txt",), "ok", 113, "invalid case 'n = 4'"),
        (("empty.txt",), "ok", 113, "holds no case"),
        (("cases.txt", "--device", "gfx1"), "ok", 2, "unknown device"),
        (("cases.txt", "--harness", "nope"), "ok", 2, "unknown harness"),
    ],
)
def test_exit_codes_of_bad_input(
    args: tuple[str, ...], fd: str, code: int, text: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """In this process, for nothing is evaluated."""
    files = {
        "submission.py": RIGHT,
        "reference.py": REFERENCE,
        "cases.txt": CASES,
        "bad.txt": "n = 4\n",
        "empty.txt": "",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    reader, writer = os.pipe()
    monkeypatch.setenv("POPCORN_FD", str(writer) if fd == "ok" else fd)
    assert main(["test", *args]) == code
    said = capsys.readouterr().err
    assert text in said and len(said.splitlines()) == 1
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def test_an_unknown_mode(tmp_path: Path) -> None:
    code, keys, stderr = speak(tmp_path, "tests")
    assert (code, keys) == (2, []) and "unknown mode" in stderr
