"""A run, whichever door it came through: a plan in, the results document out."""

from pathlib import Path

from forge.commands import own_evaluator
from forge.commands.caveats import not_replayed, notes_for
from forge.commands.texts import finding_texts
from forge.console import EXIT_BAD_INPUT, EXIT_BUT, EXIT_FAIL, EXIT_PASS
from forge.judge.evaluate import Listener, evaluate
from forge.judge.fork_server import ForkServers
from forge.judge.plan import EvalPlan
from forge.judge.results import Run
from forge.judge.worker_pool import TaskError
from forge.task.problem import own_entry


def new_run(plan: EvalPlan, own_eval: Path | None) -> Run:
    """own_eval: an eval.py of the folder's own that must judge."""
    official = own_eval is not None
    doubt = not_replayed(plan, official) if plan.replay_asked else ""
    return Run(
        plan.mode, [], timed=not plan.device.emulated, notes=notes_for(plan, official), buts=[doubt] if doubt else []
    )


def fill(
    run: Run, plan: EvalPlan, own_eval: Path | None, listener: Listener, servers: ForkServers | None = None
) -> None:
    """Case by case, so that a run that is ended early still has what it found. servers: that go on after it."""
    if own_eval is not None:
        own_evaluator.evaluate(plan, own_eval, run, listener)
    else:
        evaluate(plan, run, listener, servers)


def with_hint(error: TaskError, plan: EvalPlan) -> TaskError:
    """Some owners' references need libraries that only the leaderboard's machines have; ours need none."""
    ours = own_entry(plan.problem)
    if ours is None or ours.directory == plan.problem.directory:
        return error
    return TaskError(f"{error}; this repository's own {ours.name}, named without a path, needs only torch")


def exit_code_of(run: Run, passed: bool, doubted: bool, strict: bool, trust: bool) -> int:
    """passed, doubted: of all that was judged with it."""
    if run.unjudged:
        return EXIT_BUT
    if not passed:
        return EXIT_BAD_INPUT if run.complete and run.not_judged else EXIT_FAIL
    found = any(finding_texts(case.device_report) for case in run.cases)
    return EXIT_BUT if strict and (doubted or found or (run.unconfined and not trust)) else EXIT_PASS
