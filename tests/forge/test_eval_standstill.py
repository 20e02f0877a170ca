"""What gets nowhere on an emulated device is ended before its time, and what works on is not."""

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from forge.device.fake_rocm import kept
from forge.judge import standstill
from forge.judge.processes import Tail
from tests.support.evaltools import RANKS_REFERENCE, RANKS_TASK, REFERENCE, TASK, run_command, write_problem

pytestmark = pytest.mark.long

WORKS = """
import time, torch, triton, triton.language as tl

@triton.jit
def turn(x, out, n):
    total = tl.load(x + tl.arange(0, 64))
    for _ in range(n):
        total = total * 1.0001 + 1
    tl.store(out + tl.arange(0, 64), total)

def custom_kernel(x):
    until, n = time.process_time() + 1.2, x.numel()
    if n == 4:  # one operation after the other
        a = torch.ones(768, 768, device="cuda")
        while time.process_time() < until:
            a = (a @ a).clamp(max=1)
    elif n == 5:  # one launch of one workgroup
        turn[(1,)](torch.ones(64, device="cuda"), torch.empty(64, device="cuda"), 3_000_000)
    else:  # says what it does
        while time.process_time() < until:
            print(".", end="", flush=True)
    return x * 2
"""
# As eval.py, with little patience.
IMPATIENT = """
import sys
from forge.judge import standstill
standstill.BUSY_S, standstill.ASLEEP_S, standstill.LOOK_S = 0.4, 8.0, 0.2
from forge.commands.eval import main
sys.exit(main(sys.argv[1:]))
"""
OF_ITS_OWN_TIME = "no launch, no instruction, no output in 0.4 s of its own processor time in "
STUCK = {
    "def custom_kernel(x):\n    while True:\n        pass\n": OF_ITS_OWN_TIME + r"custom_kernel \(submission.py:[23], ",
    "while True:\n    pass\ndef custom_kernel(x): ...\n": OF_ITS_OWN_TIME + r"import submission \(submission.py:[12], ",
    "import time\ndef custom_kernel(x):\n    time.sleep(1e9)\n": "asleep for 8 s in custom_kernel .submission.py:3, ",
}


@pytest.fixture
def judged(tmp_path: Path) -> Any:
    """The results of a submission, judged by an impatient eval.py."""

    def judge(
        source: str, *options: str, task: str = TASK, reference: str = REFERENCE, own: str = ""
    ) -> dict[str, Any]:
        write_problem(tmp_path / "problem", task, reference)
        for name, text in {"problem/eval.py": own, "submission.py": source, "impatient.py": IMPATIENT}.items():
            (tmp_path / name).write_text(text)
        words = ["test", "problem", "--device", "gfx942", "--json", "out.json", "--calls", "1", *options]
        run_command(*words, cwd=tmp_path, script=tmp_path / "impatient.py")
        found: dict[str, Any] = json.loads((tmp_path / "out.json").read_text())
        return found

    return judge


def test_what_works_on_is_not_ended(judged: Any) -> None:
    found = judged(WORKS)
    assert [case["status"] for case in found["cases"]] == ["pass"] * 3, found["cases"]


LAUNCHES = """
import ctypes, torch
from torch.utils.cpp_extension import load_inline
SOURCE = '''
#include <hip/hip_runtime.h>
__global__ void turn(float* out, int n) {
  float total = out[threadIdx.x];
  for (int i = 0; i < n; i++) total = total * 1.0001f + 1;
  out[threadIdx.x] = total;
}
extern "C" int run(float* out, int n) { turn<<<1, 64>>>(out, n); return hipDeviceSynchronize(); }
'''
library = ctypes.CDLL(load_inline("turns", "", SOURCE, no_implicit_headers=True, is_python_module=False))

def custom_kernel(x):
    library.run(ctypes.c_void_p(torch.zeros(64, device="cuda").data_ptr()), 6_000_000)
    return x * 2
"""


@pytest.mark.usefixtures("hip_compiler")
def test_a_kernel_that_an_extension_launches_works_on(judged: Any) -> None:
    """No frame of Python tells it from a loop of the host's: its turns are counted, in whichever namespaces it runs."""
    (case,) = judged(LAUNCHES, "--cases", "0")["cases"]
    assert case["status"] == "pass", case


@pytest.mark.parametrize("source", STUCK, ids=["in a loop", "at its import", "asleep"])
def test_what_gets_nowhere_is_ended_and_named(source: str, judged: Any) -> None:
    first, second, _ = judged(source)["cases"]
    assert (first["status"], second["status"]) == ("timeout", "not run")
    assert re.search(STUCK[source], first["message"]), first["message"]


def test_a_time_out_that_was_asked_for_is_waited_for(judged: Any) -> None:
    first, *_ = judged(next(iter(STUCK)), "--cases", "0", "--timeout", "3")["cases"]
    assert first["status"] == "timeout" and "no result after 3 s" in first["message"]


def test_the_rank_that_others_wait_for_is_named(judged: Any) -> None:
    source = """
import torch.distributed as dist
def custom_kernel(x):
    stuck = dist.get_rank() == 1
    while stuck:
        pass
    dist.all_reduce(x)
    return x
"""
    first, *_ = judged(source, "--cases", "0", task=RANKS_TASK, reference=RANKS_REFERENCE)["cases"]
    assert first["status"] == "timeout" and first["rank"] == 1, first
    assert re.search(r"own processor time in .*\(submission.py:[56], in custom_kernel\); rank 0 in ", first["message"])


class Waits:
    """A rank whose only thread is in these files."""

    def __init__(self, pid: int | None, folder: Path, *files: str) -> None:
        self.pid, self.tail, self.folder, self.files = pid, Tail(), folder, list(files)
        self.phase = "custom_kernel"

    def stacks(self) -> list[list[str]]:
        return [self.files]


@pytest.mark.parametrize("place, ends", [(kept.__file__, False), ("torch/distributed/distributed_c10d.py", True)])
def test_a_rank_behind_one_that_is_built_for_is_not_ended(
    place: str, ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asleep in the submission, at a lock of its own, until the builder has answered the other."""
    monkeypatch.setattr(standstill, "ASLEEP_S", 0.2)
    monkeypatch.setattr(standstill, "LOOK_S", 0.05)
    submission, found = str(tmp_path / "submission.py"), []
    with subprocess.Popen(["sleep", "60"]) as asleep:
        looks = standstill.Standstill(lambda _: 0)
        ranks: list[standstill.Rank] = [
            Waits(asleep.pid, tmp_path, submission),
            Waits(asleep.pid, tmp_path, place, submission),
        ]
        for _ in range(20):
            time.sleep(0.06)
            found.append(looks.found(ranks))
        asleep.kill()
    assert any(one is not None and one[1] == ranks[:1] for one in found) == ends


# Whoever calls is in the eval.py itself, or in a process of its own; the reference may think for as long as it likes.
OWN = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor

def judged(x, rounds=0):
    from submission import double
    until = time.process_time() + rounds
    while time.process_time() < until:
        pass
    return double(x) == 2 * x

if __name__ == "__main__":
    out = os.fdopen(int(os.environ["POPCORN_FD"]), "w")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for i, line in enumerate(open(sys.argv[2]).read().splitlines()):
            print(f"test.{i}.spec: {line}", file=out, flush=True)
            good = CALL
            print(f"test.{i}.status: {'pass' if good else 'fail'}", file=out, flush=True)
        print("check: pass", file=out, flush=True)
"""
IN_A_POOL, THINKS = "pool.submit(judged, 3).result()", "judged(3, 1.2)"
OWN_TASK = TASK.replace("lang: py", "  - {name: eval.py, source: eval.py}\nlang: py")


@pytest.mark.sampled
@pytest.mark.parametrize("call", ["judged(3)", IN_A_POOL])
@pytest.mark.parametrize("source", STUCK, ids=["in a loop", "at its import", "asleep"])
def test_what_gets_nowhere_in_a_folders_own_eval_is_ended_and_named(source: str, call: str, judged: Any) -> None:
    found = judged(source.replace("custom_kernel", "double"), task=OWN_TASK, own=OWN.replace("CALL", call))
    first, second, _ = found["cases"]
    assert first["status"] == "timeout" and "a case stood still" in second["message"], first
    why = r"no output(, asleep for 8 s| in 0.4 s of its own processor time) in eval.py \(submission.py:[123], in .*; --"
    assert re.search(why, first["message"]), first


@pytest.mark.parametrize("call, launches", [(IN_A_POOL, True), (THINKS, False)])
def test_what_works_on_in_a_folders_own_eval_is_not_ended(call: str, launches: bool, judged: Any) -> None:
    works = WORKS.replace("custom_kernel(x):", f"double(x):\n    value, x = x, torch.zeros({4 + launches})")
    source = works.replace("return x * 2", "return value * 2")
    (case,) = judged(source, "--cases", "0", task=OWN_TASK, own=OWN.replace("CALL", call))["cases"]
    assert case["status"] == "pass", case
