"""Where a case's processor time goes: for each process of a run, the phases that it was in.

    python lab/case_cost.py amd-moe-mxfp4 [--mode benchmark] [--cases 0,3] [--variant triton] [OPTIONS OF eval.py]

Processor seconds (user and system) of the evaluator, the submission's workers, their referees, and all others (fork
server, compilers), as /proc tells them five times a second. The last lines have each run's sum, its wall time
and the load average: on a busy machine the wall says little. --json FILE appends the numbers as a line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from forge.commands.planning import eval_parser, make_plan  # noqa: E402
from forge.generate.render import generate  # noqa: E402
from forge.judge.evaluate import Judge  # noqa: E402
from forge.judge.process_tree import adopt_orphans, descendants  # noqa: E402
from forge.judge.results import CaseResult, Run  # noqa: E402
from forge.task.cases import CaseSpec, case_text  # noqa: E402
from forge.task.problem import find_problem  # noqa: E402

EVERY_S = 0.2
TICKS = os.sysconf("SC_CLK_TCK")


class Silent:
    def case_started(self, case: CaseSpec, position: int, count: int) -> None: ...

    def case_progress(self, phase: str, seconds: float) -> None: ...

    def case_forecast(self, text: str) -> None: ...

    def case_finished(self, result: CaseResult) -> None: ...


def seconds_of(pid: int) -> float:
    """Processor time of a process that lives; what its ended children took is not in it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


class Sampler(threading.Thread):
    """Adds what each process takes to the phase that it is in."""

    def __init__(self, judge: Judge) -> None:
        super().__init__(daemon=True)
        self.judge = judge
        self.known: dict[int, float] = {}  # by pid
        self.spent: dict[str, float] = {}
        self.ends = threading.Event()

    def run(self) -> None:
        while not self.ends.wait(EVERY_S):
            self.look()

    def look(self) -> None:
        named: dict[int, str] = {}
        for name, pool in (("worker", self.judge.pool), ("referee", self.judge.referees)):
            named |= {worker.pid: f"{name}: {worker.phase}" for worker in list(pool.workers) if worker.pid}
        for pid in descendants(os.getpid()):
            now = seconds_of(pid)
            name, before = named.get(pid, "other: fork server, compilers"), self.known.get(pid, 0.0)
            self.spent[name] = self.spent.get(name, 0.0) + max(0.0, now - before)
            self.known[pid] = max(now, before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem")
    parser.add_argument("--mode", default="benchmark")
    parser.add_argument("--cases", default="all")
    parser.add_argument("--variant", default="triton")
    parser.add_argument("--submission", type=Path)
    parser.add_argument("--json", type=Path)
    known, options = parser.parse_known_args()
    problem = find_problem(known.problem)
    text = known.submission.read_bytes() if known.submission else generate(problem, known.variant).text.encode()
    adopt_orphans()
    with tempfile.NamedTemporaryFile(suffix=".py") as file:
        words = [f"--submission={file.name}", f"--device={problem.arch}", f"--cases={known.cases}", *options]
        plan, _ = make_plan(eval_parser().parse_args([*words, "--", known.mode, known.problem]), text)
    run, rows = Run(plan.mode, [], timed=False), list[dict[str, Any]]()
    began = time.monotonic()
    with Judge(plan, run, Silent()) as judge:
        sampler = Sampler(judge)
        sampler.start()
        for position, case in enumerate(judge.cases):
            before, started = dict(sampler.spent), time.monotonic()
            result = judge.step(position)
            sampler.look()
            spent = {name: seconds - before.get(name, 0.0) for name, seconds in sampler.spent.items()}
            wall = time.monotonic() - started
            rows.append({"case": case.spec, "status": result.status.value, "wall_s": wall, "cpu_s": spent})
            most = sorted(spent.items(), key=lambda one: -one[1])
            said = "; ".join(f"{name} {seconds:.1f}" for name, seconds in most if seconds >= 0.1)
            print(f"{case.index} {case_text(case.spec)}: {result.status.value} {result.message}", flush=True)
            print(f"    {sum(spent.values()):.1f} s CPU, {wall:.1f} s wall: {said}", flush=True)
        sampler.ends.set()
        run.complete = True
    own = time.process_time()
    total = own + sum(sampler.spent.values())
    wall, load = time.monotonic() - began, os.getloadavg()[0]
    print(f"{known.problem}: {total:.1f} s CPU ({own:.1f} of the evaluator), {wall:.1f} s wall, load {load:.1f}")
    if known.json is not None:
        row = {"problem": known.problem, "options": options, "cpu_s": total, "wall_s": wall, "load": load}
        with known.json.open("a") as out:
            out.write(json.dumps({**row, "cases": rows}) + "\n")
    return 0 if run.passed else 1


if __name__ == "__main__":
    sys.exit(main())
