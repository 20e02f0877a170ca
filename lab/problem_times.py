"""What all benchmark cases of a problem take to model and judge: the first time, the second, and bare (--no-judge).

    python lab/problem_times.py [PROBLEM ...] [--cases 0,3] [--limit 2] [-o results/problem_times.json]

The first run finds no kept inputs and outcomes, the second those of the first; bare is a first run too. Compiled
kernels are there already. A row has wall and processor seconds and the load average: on a busy machine the wall says
little, and on a quiet one of N cores it is at least a part in N of the processor seconds. A run that takes longer than
--limit times what is aimed at ends there, and its row says how many cases it had. Rows are added to the file; a
problem's old ones go.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from forge.generate.render import generate, variants_of  # noqa: E402 - from this checkout
from forge.history.document import read_result  # noqa: E402
from forge.judge.process_tree import adopt_orphans, descendants  # noqa: E402
from forge.task.problem import Problem, find_problem, own_entries  # noqa: E402
from lab.case_cost import EVERY_S, seconds_of  # noqa: E402

RUNS: dict[str, list[str]] = {"first": [], "second": [], "bare": ["--no-judge"]}
AIMS_S = {"first": 300, "second": 120, "bare": 60}  # on two cores

HEAD = {
    "title": "What a problem's benchmark cases take to model and judge",
    "kind": "measured",
    "machine": f"{len(os.sched_getaffinity(0))} cores; the load, of the whole machine, says who else uses them",
    "versions": {},
    "command": "python lab/problem_times.py",
    "columns": ["problem", *(f"{kind}: {what}" for kind in RUNS for what in ("cases", "wall s", "CPU s", "load"))],
    "rows": [],
}


def row_of(problem: Problem, rows: dict[str, dict[str, Any]]) -> list[str]:
    cells = [problem.name]
    for one in rows.values():
        judged = sum(status in ("pass", "sampled", "unjudged") for status in one["cases"])
        cells += [f"{judged} of {len(problem.benchmarks)}", *(str(one[what]) for what in ("wall_s", "cpu_s", "load"))]
    return cells


def timed(words: list[str], caches: Path, limit_s: float) -> dict[str, Any]:
    started, spent = time.monotonic(), dict[int, float]()  # by process: forked ones are waited for by nobody
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "out.json")
        command = [sys.executable, "-m", "forge", "eval", *words, "--no-history", "--json", str(result)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(caches)}
        run = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        asked_to_end = False
        while run.poll() is None:
            for pid in descendants(os.getpid()):
                spent[pid] = max(spent.get(pid, 0.0), seconds_of(pid))
            if not asked_to_end and time.monotonic() - started > limit_s:
                run.send_signal(signal.SIGTERM)
                asked_to_end = True
            time.sleep(EVERY_S)
        wall_s, cases = time.monotonic() - started, read_result(result).cases if result.is_file() else ()
    statuses, load = [case.status.value for case in cases], os.getloadavg()[0]
    return {
        "wall_s": round(wall_s, 1), "cpu_s": round(sum(spent.values()), 1), "load": round(load, 1), "cases": statuses,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", metavar="PROBLEM")
    parser.add_argument("--cases", default="all")
    parser.add_argument("--limit", type=float, default=2.0, metavar="N", help="aims a run (default: %(default)g)")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "lab" / "results" / "problem_times.json")
    args = parser.parse_args()
    adopt_orphans()
    for name in args.problems or [entry.name for entry in own_entries()]:
        problem, rows = find_problem(name), dict[str, Any]()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "submission.py")
            path.write_text(generate(problem, "triton" if "triton" in variants_of(problem) else "hip").text)
            words = ["benchmark", name, "--submission", str(path), "--device", str(problem.arch)]
            for kind, more in RUNS.items():
                caches = Path(folder, "bare" if more else "judged")
                rows[kind] = timed([*words, "--cases", args.cases, *more], caches, args.limit * AIMS_S[kind])
                print(name, kind, rows[kind], flush=True)
        told = json.loads(args.output.read_text()) if args.output.is_file() else dict(HEAD)
        told["rows"] = sorted([*(row for row in told["rows"] if row[0] != name), row_of(problem, rows)])
        told["versions"] = {one: version(one) for one in ("torch", "triton")}
        args.output.write_text(json.dumps(told, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
