"""Rows of a tuning table, tried in a worker: each is set in the submission's TUNING, checked, and only then timed.

The submission need not know of this. TUNING is exchanged for a dict that notes which key is looked up, and a row is
put there under that key. A submission that keeps anything made from a row (a compiled kernel, a plan) must notice that
TUNING holds another object for its key: `TUNING.get(key) is not plan.row`.
"""

import math
import statistics
from typing import Any

import torch

from forge.judge import compare, measure
from forge.judge.ranks import Ranks
from forge.judge.results import us_of
from forge.task.problem import Case
from forge.task.watched_table import WatchedTable
from forge.tune.search import Row

HARNESS_RUNS = 15
GIVE_UP = 1.5  # a row whose first round takes this many times the best one's is not timed further
# Of what a row may be off, beside the official check, whose tolerance some problems make so wide that zeros pass: what
# task.yml allows an honest kernel (formats with few bits), twice the reference's own relative L2 error, or
# two steps of the output's type, whichever is most; and at no element more than four times that of the largest one.
REFERENCE_ERRORS, L2_STEPS, WORST_TIMES = 2.0, 2.0, 4.0


class Bench:
    """One case in one rank: its data and reference, kept from row to row."""

    def __init__(self, task: measure.Task, ranks: Ranks, module: Any, args: Case, rel_l2: float | None) -> None:
        self.task, self.ranks, self.module = task, ranks, module
        self.output: Any = None
        self.args = ranks.args_of(args)
        self.rows = dict(module.TUNING)
        if task.ref_kernel is None:
            raise AttributeError("reference.py has no ref_kernel, with which a row is compared")
        self.data = task.data(self.args)
        task.phase("reference")
        plain, self.wanted, self.kind = compare.best_reference(
            task.ref_kernel, lambda: task.data(self.args), slow_s=math.inf
        )
        error = compare.accuracy_of(plain, self.wanted, self.kind).rel_l2 or 0.0
        step = max((torch.finfo(t.dtype).eps for _, t in compare.tensors_of(plain) if t.is_floating_point()), default=0)
        self.l2_bound = max(rel_l2 or 0.0, REFERENCE_ERRORS * error, L2_STEPS * step)
        largest = [t.double().abs().nan_to_num(0, 0, 0).max().item() for _, t in compare.tensors_of(self.wanted)]
        self.worst_bound = WORST_TIMES * self.l2_bound * max(largest, default=0.0)

    # Three steps: the evaluator lets no rank begin one before all have ended the former. What one rank cannot do the
    # others do not wait for, in a collective or a kernel. Each returns fields of its answer (forge.tune.messages).

    def run_row(self, key: Any, row: Row | None) -> dict[str, Any]:
        """Sets the row (None: the submission as it is) and calls it once. Raises what a row that does not work raises:
        one that does not compile, or asks for more LDS than there is."""
        table = WatchedTable(self.rows)
        if row is not None:
            table[key] = dict(row)
        self.module.TUNING = table
        self.output = self.task.kernel(self.copy())
        tells = row is None and hasattr(self.module, "tuning_row")
        return {
            "asked": tuple(repr(asked) for asked in dict.fromkeys(table.asked)),
            "row": self.module.tuning_row(self.data) if tells else None,
        }

    def check_row(self) -> dict[str, Any]:
        return {"wrong": self.verdict(self.output)}

    def time_row(self, best_us: float | None) -> dict[str, Any]:
        """Back to back, the slowest rank's, and, unless that is hopeless, on the harness's clock, the median."""
        task, ranks = self.task, self.ranks
        data = self.copy()
        task.phase("back to back")
        rounds = measure.Rounds()

        def hopeless() -> bool:
            return best_us is not None and ranks.largest(min(rounds.us)) > GIVE_UP * best_us

        calls, output = measure.back_to_back_rounds(task, ranks, data, rounds, hopeless)
        wrong = self.verdict(output)
        if wrong:
            wrong = f"after {calls} calls in a row: {wrong}"
        times = {"wrong": wrong, "b2b_us": ranks.largest(statistics.median(rounds.us))}
        if hopeless():
            return times
        task.phase("harness clock")
        flush = measure.flush_function(task.harness)
        durations_ns = [measure.timed_call(task, ranks, data, flush)[1] for _ in range(HARNESS_RUNS)]
        return {**times, "harness_us": us_of(statistics.median(durations_ns))}

    def verdict(self, output: Any) -> str:
        """What is wrong with an output; empty if nothing."""
        good, message = self.task.judge(self.data, output)
        if not good:
            return message or "the official check says no"
        accuracy = compare.accuracy_of(output, self.wanted, self.kind)
        if accuracy.rel_l2 is None:
            return accuracy.problem
        if not accuracy.rel_l2 <= self.l2_bound:
            text = f"relative L2 error {accuracy.rel_l2:.3g}, allowed {self.l2_bound:.3g}"
            return f"{text} (the official check passes it)"
        worst = accuracy.worst
        if worst is not None and not abs(worst.got - worst.wanted) <= self.worst_bound:
            return (
                f"{worst.where} at {worst.index}: got {worst.got:.6g}, wanted {worst.wanted:.6g}, "
                f"allowed {self.worst_bound:.3g} off (the official check passes it)"
            )
        return ""

    def copy(self) -> Any:
        return self.ranks.copy(self.data, "deep" if self.task.harness.copy == "deep" else "tensors")
