"""A folder whose eval.py no row describes: it judges, and its cases tell all that a known problem's tell."""

import json
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from forge.judge.referee import reference_in
from forge.task.problem import find_problem
from tests.support.evaltools import RIGHT, ROOT, TASK, judge, run_command, statuses, write_problem

pytestmark = pytest.mark.long

WITH_EVAL = TASK.replace("lang: py", "  - {name: eval.py, source: eval.py}\nlang: py")

LOGS = """
import os, sys, time
out = os.fdopen(int(os.environ["POPCORN_FD"]), "w")
lines = open(sys.argv[2]).read().splitlines()
all_good = True
for i, line in enumerate(lines):
    args = dict((k.strip(), int(v)) for k, v in (part.split(":") for part in line.split(";")))
    SPEC
    good, message = judged(args)
    all_good = all_good and good
    print(f"test.{i}.spec: {line}", file=out, flush=True)
    print(f"test.{i}.status: {'pass' if good else 'fail'}", file=out, flush=True)
    print(f"test.{i}.error: own words {message}", file=out, flush=True)
print("check:", "pass" if all_good else "fail", file=out, flush=True)
sys.exit(0 if all_good else 112)
"""
FIRST = LOGS.replace("SPEC", 'print(f"test.{i}.spec: {line}", file=out, flush=True)')
AFTERWARDS = LOGS.replace("SPEC", "pass")  # the case is named once it is over

USUAL = """
from reference import check_implementation, generate_input
from submission import custom_kernel
def judged(args):
    return check_implementation(generate_input(**args), custom_kernel(generate_input(**args)))
"""

# Two functions of other names.
TWO_REFERENCE = """
import torch
def make(n, seed):
    torch.manual_seed(seed)
    return torch.randn(n, device="cuda")
def reference_double(x):
    return x * 2
"""
TWO = """
def judged(args):
    import submission
    from reference import make, reference_double
    x = make(**args)
    y = submission.double(x)
    good = (y == reference_double(x)).all() and (submission.halve(y) == x).all()
    return bool(good), "" if good else "values differ"
"""
IN_A_POOL = f"""
import multiprocessing
{TWO.replace("judged", "compare")}
if __name__ == "__main__":
    pool = multiprocessing.get_context("spawn").Pool(1)
    def judged(args):
        return pool.apply(compare, (args,))
"""

SCALE = """\
import torch, triton
import triton.language as tl

@triton.jit
def scale(x, y, by, n, ABOVE: tl.constexpr):
    at = tl.program_id(0) * 4 + tl.arange(0, 4)
    value = tl.load(x + at, mask=at < n + ABOVE) * by
    tl.store(y + at, value, mask=at < n)

def scaled(x, by):
    y = torch.empty_like(x)
    scale[(len(x) // 4 + 1,)](x, y, by, len(x), ABOVE=0)
    return y
"""
# Of zeros: what nobody has written may or may not be told as well.
KERNEL = SCALE.replace("empty", "zeros") + "\ndef custom_kernel(x):\n    return scaled(x, 2.0)\n"
PAIR = SCALE + "\ndef double(x):\n    return scaled(x, 2.0)\n\ndef halve(x):\n    return scaled(x, 0.5)\n"
BEHIND = ("ABOVE=0", "ABOVE=1")  # reads an element behind the last
# Of element 0, by all workgroups.
RACES_IN_6 = ("tl.store(y", "tl.store(y, tl.load(y) + 0.0, mask=n == 6)\n    tl.store(y")


def usual(folder: Path, log: str = FIRST) -> Path:
    problem = write_problem(folder / "own", WITH_EVAL)
    (problem / "eval.py").write_text(USUAL + log)
    return problem


def other(folder: Path, text: str = TWO + FIRST) -> Path:
    problem = write_problem(folder / "own", WITH_EVAL, TWO_REFERENCE)
    (problem / "eval.py").write_text(text)
    return problem


def findings(result: dict[str, Any]) -> list[list[str]]:
    """Their kinds, of each case."""
    return [sorted({one["kind"] for one in case["report"].get("findings", [])}) for case in result["cases"]]


def counted(case: dict[str, Any], counter: str) -> int:
    """Of all kernels of a case without ranks."""
    return sum(kernel[counter] for kernel in case["report"].get("kernels", {}).values())


# ---------------------------------------------------------------- with the usual functions


def test_a_folders_own_eval_judges(tmp_path: Path) -> None:
    kernel = "import ctypes; return ctypes.string_at(0) if len(x) == 5 else x * len(x) / 2"
    done, result = judge(tmp_path, f"def custom_kernel(x):\n    {kernel}\n", problem=usual(tmp_path))
    assert statuses(result) == ["pass", "crash", "fail"] and done.returncode == 1, done.stdout
    for case, text in zip(result["cases"], ("own words", "died", "values differ"), strict=True):
        assert text in case["message"]
    assert any("own eval.py" in note for note in result["notes"])


CASE_7 = "  - {n: 7, seed: 4}\nbenchmarks:"
EXPECTED = [("pass", []), ("pass", ["bounds"]), ("pass", ["race"]), ("fail", ["unwritten"])]  # of each case


def test_a_case_tells_what_the_same_problem_tells_without_an_eval(tmp_path: Path) -> None:
    source = KERNEL.replace("ABOVE=0", "ABOVE=int(len(x) == 5)").replace(*RACES_IN_6)
    source = source.replace("return scaled", "return torch.empty_like(x) if len(x) == 7 else scaled")
    options, problem = ("test", "--strict"), usual(tmp_path)
    (problem / "task.yml").write_text(WITH_EVAL.replace("benchmarks:", CASE_7))
    known, theirs = judge(
        tmp_path, source, *options, problem=write_problem(tmp_path / "problem", TASK.replace("benchmarks:", CASE_7))
    )
    own, ours = judge(tmp_path, source, *options, problem=problem)
    assert list(zip(statuses(ours), findings(ours))) == EXPECTED, own.stdout
    assert (own.returncode, ours["verdict"]) == (known.returncode, theirs["verdict"])
    assert ours.keys() == theirs.keys() and ours["fingerprint"].keys() == theirs["fingerprint"].keys()
    assert findings(theirs) == findings(ours)
    for case, same in zip(ours["cases"], theirs["cases"], strict=True):
        assert case.keys() == same.keys()
        for key in ("status", "calls", "buts", "remarks", "floor"):  # which call of three is looked at is drawn
            assert re.sub(r"call \d", "a call", str(case[key])) == re.sub(r"call \d", "a call", str(same[key])), key
        assert counted(case, "wave_instructions") == counted(same, "wave_instructions")
        assert len(case["seeds"]) == len(same["seeds"]) and (case["accuracy"] is None) == (same["accuracy"] is None)


def test_each_of_the_two_may_fail_a_case(tmp_path: Path) -> None:
    problem, source = usual(tmp_path), "kept = []\ndef custom_kernel(x):\n    kept.append(x * 2)\n    return kept[0]\n"
    done, result = judge(tmp_path, source, "test", "--cases", "0", problem=problem)
    (case,) = result["cases"]
    assert done.returncode == 1 and "other data" in case["message"] and case["official"] is True, done.stdout
    stricter = (problem / "eval.py").read_text().replace("return check", "return False, 'too slow'\n    return check")
    (problem / "eval.py").write_text(stricter)
    done, result = judge(tmp_path, RIGHT, "test", "--cases", "0", problem=problem)
    (case,) = result["cases"]
    assert done.returncode == 1 and case["message"] == "the folder's own eval.py: own words too slow", done.stdout
    assert (case["status"], case["official"], case["calls"]) == ("fail", False, 3)


def test_an_emulated_benchmark_models_times_and_has_the_eval_judge_in_test_mode(tmp_path: Path) -> None:
    problem = usual(tmp_path)
    (problem / "eval.py").write_text("import sys\nassert sys.argv[1] == 'test'\n" + (problem / "eval.py").read_text())
    done, result = judge(tmp_path, KERNEL, "benchmark", problem=problem)
    assert done.returncode == 0 and all(case["report"]["modelled"]["cold"]["us"] > 0 for case in result["cases"])


# ---------------------------------------------------------------- with functions of other names


# By a program of its own.
CHILD = f"""
import subprocess, sys
def judged(args):
    text = {TWO!r} + "print(judged(eval(sys.argv[1]))[0])"
    done = subprocess.run([sys.executable, "-c", "import sys" + text, str(args)], capture_output=True, text=True)
    return done.stdout.split() == ["True"], done.stderr
"""
POOLED = IN_A_POOL + "".join(f"    {line}\n" for line in FIRST.splitlines())


@pytest.mark.parametrize("text", [POOLED, TWO + AFTERWARDS, CHILD + FIRST], ids=["pool", "afterwards", "python -c"])
def test_calls_of_any_function_are_told(tmp_path: Path, text: str) -> None:
    problem = other(tmp_path, text)
    done, result = judge(tmp_path, PAIR, "test", "--strict", problem=problem)
    assert done.returncode == 0 and statuses(result) == ["pass"] * 3, done.stdout
    for case in result["cases"]:
        assert case["calls"] == 2 and counted(case, "launches") == 2, case
    assert {"torch", "triton", "card", "model"} <= result["fingerprint"].keys()


# Its threads: one that multiplies and asks the reference all the while, and others that call, two at a time.
BESIDE = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
import torch
from reference import make, reference_double
import submission
def watches(x, ended):
    while not ended.wait(0.001):
        threading.Thread(target=lambda: reference_double(x) + (x.reshape(-1, 1) @ x.reshape(1, -1)).sum()).start()
def judged(args):
    x, ended = make(**args), threading.Event()
    watch = threading.Thread(target=watches, args=(x, ended))
    watch.start()
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(function, x) for function in (submission.double, submission.halve)]
        good = (asked[0].result() == reference_double(x)).all() and (asked[1].result() * 2 == x).all()
    ended.set()
    watch.join()
    return bool(good), "" if good else "values differ"
"""
ASKS = """
from concurrent.futures import ThreadPoolExecutor
from reference import reference_double
POOL = ThreadPoolExecutor(1)
def double(x):
    return POOL.submit(reference_double, x).result()
def halve(x):
    return x / 2
"""


def test_what_an_evals_other_threads_do_is_not_the_submissions(tmp_path: Path) -> None:
    problem = other(tmp_path, BESIDE + FIRST)
    source = PAIR.replace("def double(x):", "import time\ndef double(x):\n    time.sleep(0.2)")
    done, result = judge(tmp_path, source, "test", "--strict", problem=problem)
    assert done.returncode == 0 and statuses(result) == ["pass"] * 3, done.stdout
    for case in result["cases"]:
        assert (case["calls"], counted(case, "launches"), case["torch_work"].get("flops", 0)) == (2, 2, 0), case
    done, result = judge(tmp_path, ASKS, "test", "--strict", "--cases", "0", problem=problem)
    assert done.returncode == 3, done.stdout  # but a thread that it starts itself is
    assert result["cases"][0]["buts"] == ["custom_kernel calls the problem's own ref_kernel"]


def test_what_is_wrong_in_any_function_is_found(tmp_path: Path) -> None:
    problem = other(tmp_path)
    source = PAIR.replace("scaled(x, 0.5)", "scaled(x, 0.5 if len(x) != 5 else 0.6)")
    source = source.replace(*BEHIND).replace(*RACES_IN_6)
    done, result = judge(tmp_path, source, "test", problem=problem)
    assert statuses(result) == ["pass", "fail", "pass"] and done.returncode == 1, done.stdout
    assert findings(result) == [["bounds"], ["bounds"], ["bounds", "race"]], done.stdout
    assert judge(tmp_path, source, "test", "--strict", "--cases", "0", problem=problem)[0].returncode == 3
    done, result = judge(tmp_path, source, "test", "--strict", "--cases", "0", "--checks", "none", problem=problem)
    assert done.returncode == 0 and findings(result) == [[]]


def test_one_case_that_ends_the_eval_costs_no_other(tmp_path: Path) -> None:
    problem = other(tmp_path)
    began = time.monotonic()
    judge(tmp_path, PAIR, "test", problem=problem)
    limit_s = 1.5 * (time.monotonic() - began)
    ends = "    if len(x) == 10: import ctypes; ctypes.string_at(0)\n    while len(x) == 8: pass\n"
    source = PAIR.replace("def halve(x):\n", "def halve(x):\n" + ends.replace("10", "4").replace("8", "5"))
    done, result = judge(tmp_path, source, "test", "--timeout", str(limit_s), problem=problem)
    assert statuses(result) == ["crash", "timeout", "pass"], done.stdout
    assert "submission.py:" in result["cases"][1]["message"] and "in halve" in result["cases"][1]["message"]


TAKES = """
import os, time, torch
def double(x):
    if len(x) == 5 and os.fork() == 0:
        os.setsid()
        taken = bytearray(os.urandom(1 << 20) * 1200)
        time.sleep(600)
    if len(x) == 5:
        time.sleep(60)
    return x * 2
def halve(x):
    return x / 2
"""
BOUNDED = """
import sys
sys.path.insert(0, ROOT)
from forge.commands import own_evaluator
own_evaluator.free_memory = lambda: 1600 << 20
from forge.commands.eval import main
sys.exit(main(sys.argv[1:]))
"""


def test_what_takes_too_much_memory_below_a_folders_own_eval_is_ended(tmp_path: Path) -> None:
    (tmp_path / "submission.py").write_text(TAKES)
    (tmp_path / "bounded.py").write_text(BOUNDED.replace("ROOT", repr(str(ROOT))))
    words = ("test", other(tmp_path), "--device", "gfx942", "--json", "out.json", "--no-history", "--timeout", "50")
    done = run_command(*words, cwd=tmp_path, script=tmp_path / "bounded.py")
    cases = json.loads((tmp_path / "out.json").read_text())["cases"]
    assert done.returncode == 1 and [one["status"] for one in cases] == ["pass", "crash", "pass"], done.stdout
    assert cases[1]["message"].startswith("it took more than 1.17 GiB of memory in eval.py"), cases[1]
    assert cases[1]["fault"] == "memory"


def test_times_of_all_functions_add_up(tmp_path: Path) -> None:
    problem = other(tmp_path)
    _, both = judge(tmp_path, PAIR, "benchmark", "--cases", "0", problem=problem)
    _, one = judge(
        tmp_path,
        PAIR.replace("scaled(x, 0.5)", "x.new_tensor((x.cpu() / 2).tolist())"),
        "benchmark",
        "--cases",
        "0",
        problem=problem,
    )
    report, alone = both["cases"][0]["report"], one["cases"][0]["report"]
    launch_us = alone["modelled"]["cold"].get("kernels_us", alone["modelled"]["cold"]["us"])
    assert report["modelled"]["cold"]["us"] == pytest.approx(2 * launch_us)
    assert report["kernels"].keys() == {"scale", "scale in halve"} and alone["kernels"].keys() == {"scale"}


def test_what_is_to_be_doubted_is_said(tmp_path: Path) -> None:
    problem = other(tmp_path)
    source = f"""
from reference import reference_double
def double(x):
    if len(x) == 4: return reference_double(x)
    if len(x) == 5: open({str(problem / "reference.py")!r}, 'a').write('#')
    open('reference.py', 'a').write('#')
    return x * 2
def halve(x):
    return x / 2
"""
    done, result = judge(tmp_path, source, "test", "--strict", problem=problem)
    taken, outside, changed = result["cases"]
    assert statuses(result) == ["pass", "error", "tampered"], done.stdout
    assert taken["buts"] == ["custom_kernel calls the problem's own ref_kernel"]
    assert "Permission denied" in "".join(outside["last_words"]) and "reference.py was changed" in changed["message"]
    (problem / "eval.py").write_text("def judged(args):\n    return True, ''\n" + FIRST)
    done, result = judge(tmp_path, PAIR, "test", "--strict", "--cases", "0", problem=problem)
    assert done.returncode == 3 and "calls were not seen" in result["cases"][0]["buts"][0], done.stdout


# ---------------------------------------------------------------- an owner's folder of a problem that is here as well

BY_TORCH = """
import torch
def custom_kernel(data):
    a, b, scale_a, scale_b, c = data
    rows = scale_a.repeat_interleave(128, dim=1)[:, : a.shape[1]]
    columns = scale_b.repeat_interleave(128, dim=0)[: len(b)].repeat_interleave(128, dim=1)[:, : b.shape[1]]
    return c.copy_((a.float() * rows) @ (b.float() * columns).T)
"""


def owners(place: Path, name: str, stem: str, without: tuple[str, ...] = ()) -> Path:
    """Laid out as GPU MODE's repository, with neither what we alone state of it nor functions of ours."""
    folder, known = place / "set" / stem, ROOT / "reference" / stem
    stated = yaml.safe_load((known / "task.yml").read_text())
    for key in ("floors", "precision", "published", "sampled", "smoke", "spread"):
        stated.pop(key, None)
    write_problem(folder, yaml.safe_dump(stated), (known / "reference.py").read_text())
    for word in without:
        (folder / "reference.py").write_text((folder / "reference.py").read_text().replace(f"def {word}(", "def none("))
    shutil.copy(known / "task.py", folder)
    shutil.copy(ROOT / "reference" / "utils.py", folder.parent)
    entry = {"name": name, "directory": f"set/{stem}", "gpus": ["MI300"]}
    (place / "set.yaml").write_text(yaml.safe_dump({"problems": [entry]}))
    return folder


def test_a_problem_by_its_name_and_by_its_folder_has_one_verdict(tmp_path: Path) -> None:
    folder = owners(tmp_path, "amd-fp8-mm", "fp8_mm")
    ends = []
    for problem in (Path("amd-fp8-mm"), folder):
        done, result = judge(tmp_path, BY_TORCH, "test", "--strict", "--cases", "0", problem=problem)
        (case,) = result["cases"]
        ends.append((done.returncode, result["verdict"], case["buts"], case["floor"], case["share"]))
    assert ends[0] == ends[1] and ends[0][:2] == (3, "pass, but")


def test_what_is_stated_of_another_problem_of_that_name_is_not_taken(tmp_path: Path) -> None:
    folder = owners(tmp_path, "amd-fp8-mm", "swiglu_fp8")  # other keys in its cases
    assert find_problem(folder).floors is None and find_problem(folder).known_as is None
    assert find_problem(owners(tmp_path, "amd-mixed-mla", "mixed_mla")).precision.probe_rel_l2 is not None


def test_what_our_reference_alone_has_is_beside_theirs(tmp_path: Path) -> None:
    folder = owners(tmp_path, "amd-mixture-of-experts", "moe", without=("settle",))
    known = find_problem(folder).known_as
    before = {name: sys.modules.get(name) for name in ("reference", "task", "utils")}
    assert known is not None and callable(reference_in(str(known)).settle)
    assert {name: sys.modules.get(name) for name in before} == before


CHILD = """
import multiprocessing, os, subprocess, sys

def child():
    scaled(torch.ones(9, device="cuda"), 2.0)

def forked():
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == 0
    else:
        child()
        os._exit(0)

def spawned():
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0

def started():
    subprocess.run([sys.executable, __file__], check=True)

def custom_kernel(x):
    {}()
    return x * 2

double = custom_kernel

def halve(x):
    return x / 2

if __name__ == "__main__":
    child()
"""


@pytest.mark.parametrize(("way", "own"), [("forked", False), ("spawned", False), ("started", True)])
def test_what_a_child_process_launches_is_looked_at(tmp_path: Path, way: str, own: bool) -> None:
    """own: by a folder's own evaluator."""
    problem = other(tmp_path) if own else write_problem(tmp_path / "problem")
    done, result = judge(tmp_path, SCALE.replace(*BEHIND) + CHILD.format(way), "test", problem=problem)
    assert statuses(result) == ["pass"] * 3 and findings(result) == [["bounds"]] * 3, done.stdout


@pytest.mark.parametrize("own", [False, True])
def test_what_is_launched_at_import_is_looked_at(tmp_path: Path, own: bool) -> None:
    problem = other(tmp_path) if own else write_problem(tmp_path / "problem")
    source = SCALE.replace(*BEHIND) + CHILD.replace("{}()", "pass") + "\nchild()\n"
    done, result = judge(tmp_path, source, "test", problem=problem)
    assert statuses(result) == ["pass"] * 3 and findings(result) == [["bounds"], [], []], done.stdout


def test_a_case_that_was_counted_before_is_made_anew(tmp_path: Path) -> None:
    """A sample, without floors, of a larger case: its programs are told in the first call after it, as in each case."""
    problem = write_problem(tmp_path / "problem", re.sub("floors:.*", "", TASK))
    done, result = judge(tmp_path, KERNEL, "benchmark", "--strict", problem=problem)
    assert done.returncode == 0 and [case["buts"] for case in result["cases"]] == [[]] * 3, done.stdout
