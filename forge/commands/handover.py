"""After a pass: how to hand the file in, whether its leaderboard takes it, and what differs on the machine there."""

import shlex
from pathlib import Path

from forge.console import UsageError
from forge.device.base import Fingerprint
from forge.generate.submission import check_submission, directives
from forge.judge.compilers import made_by
from forge.judge.plan import EvalPlan
from forge.task.leaderboards import leaderboard_beside, leaderboard_of
from forge.task.problem import ARCH_OF_GPU, own_entries, own_entry

OUTPUT = "there.txt"


def named_by(content: bytes, path: Path) -> str:
    """The problem that a submission's header names, for a command that names none."""
    name = directives(check_submission(content, path)).leaderboard
    if name is None:
        raise UsageError(f"which PROBLEM? {path} has no line '#!POPCORN leaderboard ...' that says it")
    if name not in (known := [entry.name for entry in own_entries()]):  # nor a folder, whose reference.py would run
        raise UsageError(f"{path}: its header names leaderboard {name!r}, which is none of {', '.join(known)}")
    return name


def header_note(plan: EvalPlan) -> list[str]:
    """A header that names another leaderboard than the one it is judged for."""
    named = directives(plan.submission).leaderboard
    if named in (None, plan.problem.name) or own_entry(plan.problem) is None:
        return []
    return [
        f"warning: the submission's header names {named}, and it is judged as {plan.problem.name}: popcorn-cli would "
        f"submit it to {named}"
    ]


def next_steps(plan: EvalPlan, path: Path, fingerprint: Fingerprint) -> list[str]:
    """Lines for people, after a pass."""
    problem = plan.problem
    ours, board = own_entry(problem), leaderboard_of(problem.name) or leaderboard_beside(problem)
    if ours is not None and board is None:
        return [f"{problem.name} is no leaderboard: there is nowhere to submit it"]
    named = directives(plan.submission).gpus
    if named and problem.gpus and not set(named) & set(problem.gpus):
        there = f"leaderboard {problem.name} is judged on {' '.join(problem.gpus)}"
        return [f"nothing to submit: the submission's header names {' '.join(named)}, and {there}"]
    command = f"popcorn-cli submit {shlex.quote(str(path))} --leaderboard {problem.name}"
    command += "".join(f" --gpu {gpu}" for gpu in _gpus(plan, named)[:1])
    command += f" --mode leaderboard --no-tui --output {OUTPUT}"
    state = board.state() if board else "whether it is open is not known here: https://www.gpumode.com says"
    lines = [
        f"leaderboard {problem.name}: {state}",
        f"to submit: {command}; then eval.py import {OUTPUT} --submission {shlex.quote(str(path))}",
    ]
    if differs := differences(plan, fingerprint):
        lines.append(f"the runner there: {'; '.join(differs)}")
    return lines


def _gpus(plan: EvalPlan, named: tuple[str, ...]) -> list[str]:
    """The leaderboard's, that which the file is for first: which its header names, or which it was judged as."""
    gpus = plan.problem.gpus or named
    judged = [gpu for gpu in gpus if ARCH_OF_GPU.get(gpu.partition("x")[0]) == plan.device.arch]
    return list(dict.fromkeys([*(gpu for gpu in named if gpu in gpus), *judged, *gpus]))


def differences(plan: EvalPlan, fingerprint: Fingerprint) -> list[str]:
    """What the leaderboard's image has otherwise than this machine, where that may matter to a submission."""
    made = made_by(plan.problem, plan.device, plan.submission)
    if not made.leaderboard or plan.problem.gpus and plan.problem.arch is None:  # no AMD card is there
        return []
    there, torch, triton, python = made.leaderboard, fingerprint.torch, made.triton, fingerprint.python
    found = []
    if there["torch"] and torch and _release(torch)[:2] != _release(there["torch"])[:2]:
        found.append(f"torch {there['torch']} (here {torch}): operations and their results may differ")
    if triton and there["triton"] and triton != there["triton"]:
        found.append(f"Triton {there['triton']} (here {triton}): it compiles other code")
    if there["python"] and _release(python)[:2] > _release(there["python"])[:2]:
        found.append(f"Python {there['python']} (here {python}): what is newer fails there")
    if made.hip:
        found.append(f"HIP by {there['hip']} (here {made.hip}): registers and spills may differ")
    elif b"cpp_extension" in plan.submission and there["rocm"] and fingerprint.hip:
        if _release(fingerprint.hip)[:2] != _release(there["rocm"])[:2]:
            found.append(f"ROCm {there['rocm']} (here {fingerprint.hip}): HIP sources are compiled by another compiler")
    return found


def _release(version: str) -> tuple[int, ...]:
    """2.10.0+rocm7.1 -> (2, 10, 0)."""
    parts = version.partition("+")[0].split(".")
    return tuple(int(part) for part in parts if part.isdecimal())
