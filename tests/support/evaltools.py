"""A tiny problem that doubles a vector, and the two commands as a person would call them."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from forge.device import triton_versions
from forge.task.cases import spec_of
from forge.task.problem import find_problem
from tests.support.limits import ENDS_S
from tests.support.prepared import AS_HERE, PreparedPopen, imports_of, run_evaluator

ROOT = Path(__file__).resolve().parents[2]
EVAL = ROOT / "eval.py"

TASK = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
ranking_by: geom
tests:
  - {n: 4, seed: 1}
  - {n: 5, seed: 2}
  - {n: 6, seed: 3}
benchmarks:
  - {n: 7, seed: 1}
  - {n: 5, seed: 2}
  - {n: 8, seed: 3}
smoke:
  - {n: 3, seed: 9}
floors: {flops: n, hbm_bytes: 8 * n}
"""

REFERENCE = """\
import torch

def generate_input(n, seed):
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    return torch.randn(n, device="cuda", generator=generator)

def ref_kernel(x):
    return x * 2

def check_implementation(x, out):
    good = torch.allclose(out, ref_kernel(x))
    return good, "" if good else "values differ"
"""

RANKS_TASK = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
multi_gpu: true
tests:
  - {world_size: 2, n: 4, seed: 1, flag: true}
  - {world_size: 2, n: 5, seed: 2, flag: false}
  - {world_size: 2, n: 6, seed: 3, flag: true}
benchmarks:
  - {world_size: 2, n: 4, seed: 1, flag: true}
"""

RANKS_REFERENCE = """\
import torch
import torch.distributed as dist

def generate_input(rank, world_size, n, seed, flag):
    generator = torch.Generator(device=f"cuda:{rank}")
    generator.manual_seed(seed + rank)
    offset = 1.0 if flag else 0.0
    return torch.randn(n, device=f"cuda:{rank}", generator=generator) + offset

def ref_kernel(x):
    total = x.clone()
    dist.all_reduce(total)
    return total

def check_implementation(x, out):
    good = torch.allclose(out, ref_kernel(x))
    return good, "" if good else "sums differ"
"""

# A submission's line by which processes_named knows its process, and those that it forks from then on.
NAMES_ITSELF = "__import__('ctypes').CDLL(None).prctl(15, NAME, 0, 0, 0)  # PR_SET_NAME"

RIGHT = "def custom_kernel(x):\n    return x * 2\n"


def write_problem(folder: Path, task: str = TASK, reference: str = REFERENCE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.yml").write_text(task)
    (folder / "reference.py").write_text(reference)
    return folder


def names_itself(name: str) -> str:
    return NAMES_ITSELF.replace("NAME", repr(name.encode()))


def processes_named(name: str) -> list[int]:
    """The living processes of this machine that have given themselves a name, of at most 15 characters."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            own, _, state = path.read_text(errors="replace").partition("(")[2].rpartition(") ")
            if own == name and not state.startswith("Z"):
                found.append(int(path.parent.name))
    return found


def generate(problem: str, variant: str, folder: Path, *options: str) -> Path:
    """The folder's submission.py, by gen_submission.py."""
    path = folder / "submission.py"
    words = (str(ROOT / "gen_submission.py"), problem, "--variant", variant, "-o", str(path), *options)
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode == 0, done.stderr
    return path


def option(words: list[str], name: str) -> str:
    """What follows an option; "" where it is not given."""
    return words[words.index(name) + 1] if name in words else ""


def environment_of_commands(**more: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("POPCORN_")} | more | {"OMP_NUM_THREADS": "1"}


def start(*words: str | Path, checks: str = "all", **options: Any) -> PreparedPopen:
    """`python words`, which starts eval.py's workers, as a process of this test's; options: as of subprocess.Popen."""
    environment = environment_of_commands(**options.pop("env", {}))
    return PreparedPopen(words, checks=checks, env=environment, text=True, **options)


@contextlib.contextmanager
def prepared_slots() -> Iterator[None]:
    """Inside, what a forge.Judge of this process starts comes from one that has imported torch."""
    from forge.bulk import slots

    def popen(words: Sequence[str], **options: Any) -> PreparedPopen:
        return start(*words[1:], **options)

    same = {name: getattr(subprocess, name) for name in ("DEVNULL", "TimeoutExpired")}
    with patch.object(slots, "subprocess", SimpleNamespace(Popen=popen, **same)):
        yield


def run_command(
    *args: str | Path, cwd: Path, timeout: float = ENDS_S, prepared: bool = True, script: Path = EVAL, **env: str
) -> subprocess.CompletedProcess[str]:
    """eval.py with these arguments, as a person would call it. prepared: where that makes no difference, its workers
    come from a process that has imported torch already. script: in eval.py's place."""
    environment = environment_of_commands(**env)
    words = [*map(str, args)]
    checks = option(words, "--checks") or ("all" if words[0] == "test" else "")
    if prepared and "--device" in words and checks in ("all", "") and not any(name.startswith("CDNA_") for name in env):
        arch, submission = option(words, "--device"), cwd / (option(words, "--submission") or "submission.py")
        source = submission.read_bytes() if submission.is_file() else b""
        return run_evaluator(
            *words, folder=cwd, environment=environment, arch=arch, checks=checks, timeout=timeout,
            triton=triton_versions.wanted(option(words, "--triton"), True, AS_HERE, source),
            imports=imports_of(submission) if source else [], script=str(script),
        )  # fmt: skip
    return subprocess.run(
        [sys.executable, str(script), *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout
    )


def judge(
    folder: Path, submission: str, mode: str = "test", *options: str, problem: Path | None = None, prepared: bool = True
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """A submission's source, judged on an emulated device: (the command's end, its JSON)."""
    problem = problem or write_problem(folder / "problem")
    (folder / "submission.py").write_text(submission)
    options = ("--device", "gfx942", "--json", "out.json", *options)
    done = run_command(mode, problem, *options, cwd=folder, prepared=prepared)
    assert "Traceback" not in done.stderr, done.stderr
    return done, json.loads((folder / "out.json").read_text())


def checks_find_nothing(problem: str, submission: Path, case: int, arch: str = "gfx942") -> None:
    """In one of the small cases, on an emulated device. Findings change no verdict, but are printed."""
    options = ["--device", arch, "--case", spec_of(find_problem(problem).smoke[case]), "--checks", "all"]
    done = run_command("test", problem, "--submission", submission, *options, cwd=ROOT, timeout=ENDS_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "check: " not in done.stdout and "findings" not in done.stdout, done.stdout


def statuses(result: dict[str, Any]) -> list[str]:
    return [case["status"] for case in result["cases"]]
