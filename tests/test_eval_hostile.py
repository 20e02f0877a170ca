"""Submissions that crash, hang, flood, lie or destroy: each gets its own verdict, and the other cases keep theirs.

All are right except for the case with n == 5, the second, unless they say otherwise.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.evaltools import RIGHT, judge, statuses

# name: (source, status of the second case, what its message says)
SECOND_CASE = {
    "control": (RIGHT, "pass", ""),
    "wrong": (
        "def custom_kernel(x):\n    y = x * 2\n    if len(x) == 5: y[3] = 7\n    return y\n",
        "fail",
        "values differ",
    ),
    "wrong dtype and shape": (
        "def custom_kernel(x):\n    return (x * 2).double()[:4] if len(x) == 5 else x * 2\n",
        "fail",
        "check_implementation raised",
    ),
    "segfault": (
        "import ctypes\ndef custom_kernel(x):\n    if len(x) == 5: ctypes.string_at(0)\n    return x * 2\n",
        "crash",
        "SIGSEGV (segmentation fault) in custom_kernel (submission.py:3",
    ),
    "abort": (
        "import os\ndef custom_kernel(x):\n    if len(x) == 5: os.abort()\n    return x * 2\n",
        "crash",
        "SIGABRT (abort) in custom_kernel (submission.py:3",
    ),
    "os._exit": (
        "import os\ndef custom_kernel(x):\n    if len(x) == 5: print('last words', flush=True); os._exit(0)\n"
        "    return x * 2\n",
        "crash",
        "ended itself with exit code 0 in custom_kernel",
    ),
    "sys.exit": (
        "import sys\ndef custom_kernel(x):\n    if len(x) == 5: sys.exit(0)\n    return x * 2\n",
        "error",
        "sys.exit(0) (submission.py:3, in custom_kernel)",
    ),
    "exception": (
        "def custom_kernel(x):\n    if len(x) == 5: raise ValueError('no\\nmore')\n    return x * 2\n",
        "error",
        "ValueError: no (submission.py:2, in custom_kernel)",
    ),
    "infinite loop": (
        "def custom_kernel(x):\n    while len(x) == 5: pass\n    return x * 2\n",
        "timeout",
        "no result after 2 s in custom_kernel (submission.py:2",
    ),
    "fakes results": (
        "import os\ndef custom_kernel(x):\n    if len(x) != 5: return x * 2\n"
        "    for fd in os.listdir('/proc/self/fd'):\n"
        "        try: os.write(int(fd), b'test.1.status: pass\\ncheck: pass\\n' * 9)\n"
        "        except OSError: pass\n"
        "    return x * 0\n",
        "tampered",
        "wrote to the evaluator",
    ),
    "closes everything": (
        "import os, time\ndef custom_kernel(x):\n    if len(x) == 5: os.closerange(0, 256); time.sleep(60)\n"
        "    return x * 2\n",
        "tampered",
        "result channel was closed",
    ),
    "replaces the check": (
        "import reference\ndef custom_kernel(x):\n"
        "    if len(x) == 5: reference.ref_kernel = lambda x: x * 0; return x * 0\n"
        "    return x * 2\n",
        "tampered",
        "replaced reference.ref_kernel",
    ),
    "deletes its folder": (
        "import os, shutil\ndef custom_kernel(x):\n"
        "    if len(x) == 5: shutil.rmtree(os.path.dirname(os.path.abspath(__file__)))\n    return x * 2\n",
        "tampered",
        "submission.py is gone",
    ),
    "floods stdout": (
        "import sys\ndef custom_kernel(x):\n"
        "    for i in range(100 if len(x) == 5 else 0): sys.stdout.write('x' * 999_999 + '\\n')\n"
        "    return x * 2\n",
        "pass",
        "",
    ),
    "forks and returns twice": (
        "import os\ndef custom_kernel(x):\n    if len(x) == 5: os.fork()\n    return x * 2\n",
        "pass",
        "",
    ),
    "stale build lock": (
        "import os\nfrom torch.utils.cpp_extension import _get_build_directory\n"
        "from torch.utils.file_baton import FileBaton\n"
        "def custom_kernel(x):\n"
        "    baton = FileBaton(os.path.join(_get_build_directory('k', False), 'lock'))\n"
        "    if not baton.try_acquire(): baton.wait()\n"
        "    if len(x) == 5: os.kill(os.getpid(), 9)\n"
        "    baton.release()\n    return x * 2\n",
        "crash",
        "SIGKILL",
    ),
}


@pytest.mark.parametrize("name", SECOND_CASE)
def test_a_hostile_case_ends_alone(tmp_path: Path, name: str) -> None:
    source, status, text = SECOND_CASE[name]
    done, result = judge(tmp_path, source, "test", "--timeout", "2" if status == "timeout" else "30")
    assert statuses(result) == ["pass", status, "pass"], done.stdout
    assert text in result["cases"][1]["message"]
    assert done.returncode == (0 if status == "pass" else 1)
    assert result["verdict"] == ("pass" if status == "pass" else "fail")


def test_what_a_person_sees_of_a_wrong_element(tmp_path: Path) -> None:
    done, result = judge(tmp_path, SECOND_CASE["wrong"][0])
    worst = result["cases"][1]["accuracy"]["worst"]
    assert (worst["index"], worst["got"]) == ([3], 7.0)
    assert f"worst: output at (3,): got 7, wanted {worst['wanted']:.8g}" in done.stdout
    assert "emulated" in done.stdout and " us" not in done.stdout


def test_last_words_are_shown_and_no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    done, result = judge(tmp_path, SECOND_CASE["os._exit"][0])
    assert result["cases"][1]["last_words"] == ["last words"]
    assert "| last words" in done.stdout
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "status", "text"),
    [
        ("raise RuntimeError('boom')\ndef custom_kernel(x): ...\n", "error", "RuntimeError: boom (submission.py:1"),
        ("import os; os._exit(0)\ndef custom_kernel(x): ...\n", "crash", "exit code 0 in import submission"),
        ("while True: pass\ndef custom_kernel(x): ...\n", "timeout", "no result after 1 s in import submission"),
        ("import no_such_module\ndef custom_kernel(x): ...\n", "error", "No module named 'no_such_module'"),
    ],
)
def test_a_submission_that_does_not_load(tmp_path: Path, source: str, status: str, text: str) -> None:
    done, result = judge(tmp_path, source, "test", "--timeout", "1" if status == "timeout" else "30")
    assert statuses(result) == [status, "not run", "not run"]
    assert text in result["broken"]["message"] and text in done.stdout
    assert done.returncode == 1


def test_a_submission_that_always_hangs_is_not_given_every_case(tmp_path: Path) -> None:
    done, result = judge(tmp_path, "def custom_kernel(x):\n    while True: pass\n", "test", "--timeout", "1")
    assert statuses(result) == ["timeout", "timeout", "not run"]


FORKER = """
import os, time
def custom_kernel(x):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            os.fork()
            open({marks!r} + str(os.getpid()), "w").close()
            time.sleep(600)
    return x * 2
"""


def test_no_process_survives(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    done, result = judge(tmp_path, FORKER.format(marks=f"{marks}/"), "test", "--cases", "0")
    assert statuses(result) == ["pass"]
    pids = [int(p.name) for p in marks.iterdir()]
    assert pids, "the submission started nothing: this test would prove nothing"
    deadline = time.monotonic() + 3
    while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if _alive(pid)]


def _alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_the_submission_cannot_import_the_evaluators_repository(tmp_path: Path) -> None:
    done, result = judge(tmp_path, "import kernels.common\n" + RIGHT, "test", "--cases", "0")
    assert statuses(result) == ["error"]
    assert "No module named 'kernels'" in result["cases"][0]["message"]
