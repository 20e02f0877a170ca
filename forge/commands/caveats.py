"""What a user should know before reading a result: quirks reproduced, deviations made, refusals to expect."""

import functools
import subprocess

from forge.commands.handover import header_note
from forge.generate import kernelguard
from forge.generate.submission import refusals
from forge.judge.plan import EvalPlan
from forge.task.cases import false_words
from forge.task.harness import GIB
from forge.task.problem import ROOT, Problem

# How every run differs from the official evaluators. docs/harness.md explains each.
ALWAYS = "time-outs count for each case, lost workers are replaced, ranks get a free port"

remarks_on = functools.lru_cache(maxsize=32)(kernelguard.remarks)  # takes longer than a small kernel


def edited_files(problem: Problem) -> list[str]:
    """Those of the repository's own files for this problem that differ from its last commit."""
    own = [file.source for file in problem.files if file.source and file.source.is_relative_to(ROOT)]
    known = tuple((str(path.relative_to(ROOT)), path.stat().st_mtime_ns) for path in own if path.exists())
    return _edited_of(known) if known and (ROOT / ".git").exists() else []


@functools.cache
def _edited_of(files: tuple[tuple[str, int], ...]) -> list[str]:
    """Of files, each with when it was written."""
    command = ["git", "-C", str(ROOT), "diff", "--name-only", "HEAD", "--", *(name for name, _ in files)]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.split()
    except (OSError, subprocess.SubprocessError):  # no git here
        return []


def not_replayed(plan: EvalPlan, official_eval: bool) -> str:
    """Why no output is made anew, where that is asked for."""
    whys = {
        "the folder's own eval.py judges": official_eval,
        "a GPU tells of no launch": not plan.device.emulated,
        "several ranks read each other's memory": plan.grouped,
    }
    why = next((text for text, holds in whys.items() if holds), "")
    return f"outputs are not made anew: {why}" if why and plan.replayed else ""


def notes_for(plan: EvalPlan, official_eval: bool) -> list[str]:
    notes = [
        *header_note(plan),
        *[plan.moved] * bool(plan.moved),
        *refusals(plan.submission),
        *remarks_on(plan.submission),
    ]
    if plan.not_official:
        notes.append(f"not the leaderboard's cases: {plan.not_official}")
    harness, problem = plan.harness, plan.problem
    if official_eval:
        notes.append("the folder's own eval.py is one we do not know: it judges, as it is (docs/harness.md)")
    elif problem.harness is None and problem.directory != ROOT / "reference" / problem.stem:
        source = problem.source_of("eval.py")
        if source is None or not source.is_file():
            notes.append(f"the folder has no eval.py: judged by the default harness, {harness.name}")
    if edited := edited_files(problem):
        notes.append(f"judged with {', '.join(edited)} as edited here, not as committed")
    words = false_words(plan.cases)
    if words:
        notes.append(
            f"{', '.join(words)}: False reaches generate_input as the word 'False', which is true, as on the "
            "leaderboard (--honest-bools undoes it)"
        )
    if plan.mode == "leaderboard" and harness.leaderboard_cases == "last":
        notes.append(f"harness {harness.name} times only the last case in leaderboard mode")
    if plan.seed is not None and not harness.mixes_seed:
        notes.append(f"harness {harness.name} does not mix the secret seed into the cases")
    if not plan.device.emulated and harness.l2_flush_bytes > GIB and plan.device.arch != problem.arch:
        size = harness.l2_flush_bytes / GIB
        notes.append(f"deviates: a GPU that cannot hold the {size:g} GiB cache flush gets one of half its free memory")
    if plan.device.emulated and plan.mode in ("benchmark", "leaderboard"):
        notes.append("an emulated device: cases run for their correctness")
    if not plan.judged:
        notes.append("nothing is judged (--no-judge): modelled times of whatever it computes")
    if plan.calls == 1 and not official_eval:
        notes.append("one call a case (--calls 1): what is wrong from the second call on does not show")
    if problem.arch is not None and not plan.device.emulated and plan.device.arch != problem.arch:
        notes.append(f"{problem.name} is judged on {problem.arch}; times and fractions here are {plan.device.arch}'s")
    if plan.fixed_ranks and plan.grouped:
        notes.append("easier than the leaderboard: rank i stays in process i (--fixed-ranks)")
    if (text := not_replayed(plan, official_eval)) and not plan.replay_asked:
        notes.append(text)
    if not official_eval:
        notes.append(f"deviates: {ALWAYS} (docs/harness.md)")
    return notes
