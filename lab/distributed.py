"""The results of the three distributed problems, on this machine's GPUs, in one command.

    python lab/distributed.py -o results
    python lab/distributed.py -o results --steps tests times --variants gemm-rs-hip ag-gemm-hip

Steps, each of every variant: the leaderboard's tests; its benchmarks beside plain PyTorch's best (`times`), and
all2all's beside its reference too; 10,000 calls without a barrier from late ranks; such calls with a rank killed among
them; what the machine itself gives (lab/node_rates.py). With fewer than eight GPUs a rank has what it has at
eight. RESULTS gets each step's log, JSON files, and tables.md, made anew after each step. A step that has passed is not
repeated there, so the same command goes on where it was stopped. Exit code 1 where a step has failed. Emulated ranks,
where there is no GPU: --device gfx942 --ranks 2 --steps tests; the other steps take hours so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from forge.console import number  # noqa: E402
from forge.device.cards import CARDS  # noqa: E402

VARIANTS = ["all2all-hip", "gemm-rs-hip", "gemm-rs-triton", "ag-gemm-hip", "ag-gemm-triton"]
STEPS = ["tests", "times", "reference", "calls", "killed", "rates"]
GENERATED_S, BUILT_S = 60, 300
EMULATED_SLOWDOWN = 10
LEADERBOARD_RANKS = 8


@dataclass
class Step:
    name: str  # of its files in the folder
    limit_s: float  # on a GPU
    command: list[str]


@dataclass
class Plan:
    folder: Path
    device: str
    ranks: int

    def submission(self, variant: str) -> Path:
        return self.folder / f"{variant}.py"

    def evaluation(self, mode: str, variant: str, *options: str) -> list[str]:
        fewer = [] if self.ranks == LEADERBOARD_RANKS else ["--world-size", str(self.ranks)]
        if fewer and mode == "benchmark":
            fewer.append("--keep-local")
        file = ["--submission", str(self.submission(variant)), "--device", self.device]
        return [sys.executable, "eval.py", mode, problem_of(variant), *file, *fewer, *options]

    def on_device(self, *command: str) -> list[str]:
        return [sys.executable, "-m", "forge.device", self.device, "--", sys.executable, *command]

    def json(self, name: str) -> list[str]:
        return ["--json", str(self.folder / f"{name}.json")]

    def steps(self, chosen: list[str], variants: list[str]) -> Iterator[Step]:
        if "rates" in chosen:
            yield Step("rates", 200, self.on_device("lab/node_rates.py", "--ranks", str(self.ranks)))
        for step in ("tests", "times", "reference", "calls", "killed"):
            for variant in variants if step in chosen else []:
                name = f"{step}-{variant}"
                if step == "tests":
                    yield Step(name, 300, self.evaluation("test", variant, *self.json(name)))
                elif step == "times":
                    options = ["--against", "baseline", *self.json(name)]
                    yield Step(name, 300, self.evaluation("benchmark", variant, *options))
                elif step == "reference":
                    if variant == "all2all-hip":  # its reference alone is slow enough to say by how much
                        options = ["--against", "reference", *self.json(name)]
                        yield Step(name, 400, self.evaluation("benchmark", variant, *options))
                else:
                    options = ["--kill", "--calls", "2000"] if step == "killed" else ["--calls", "10000"]
                    words = [problem_of(variant), str(self.submission(variant)), "--ranks", str(self.ranks), *options]
                    yield Step(name, 300, self.on_device("lab/calls_stress.py", *words))


def problem_of(variant: str) -> str:
    return "amd-" + variant.rpartition("-")[0]


# ---------------------------------------------------------------- running


def run(step: Step, plan: Plan) -> str:
    """What went wrong; "" if nothing. Its output goes to a file."""
    limit_s = step.limit_s * (EMULATED_SLOWDOWN if plan.device in CARDS else 1)
    with open(plan.folder / f"{step.name}.log", "w") as log:
        process = subprocess.Popen(step.command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"not done after {limit_s:g} s"
        finally:
            process.terminate()  # where it has not ended: eval.py then ends its workers
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
    return f"exit code {code}" if code else ""


def run_once(step: Step, plan: Plan, variants: list[str]) -> tuple[str, str]:
    """(What went wrong, seconds), as noted where the same submission has passed this step before."""
    texts = [plan.submission(variant).read_text() for variant in variants if step.name.endswith(variant)]
    digest = hashlib.sha256("\0".join([*step.command, *texts]).encode()).hexdigest()
    done, started = plan.folder / f"{step.name}.done", time.monotonic()
    if done.exists():
        known, took_s = done.read_text().split()
        if known == digest:
            return "", took_s
        done.unlink()
    problem = run(step, plan)
    took_s = f"{time.monotonic() - started:.1f}"
    if not problem:
        done.write_text(f"{digest} {took_s}")
    return problem, took_s


def outcome(path: Path) -> str:
    """A log's verdict or ratio; its last line where it has neither."""
    lines = path.read_text(errors="replace").strip().splitlines()
    told = [line for line in lines if line.startswith(("pass: ", "FAIL: ", "baseline / ours"))]
    return (told or lines or [""])[-1]


def prepare(plan: Plan, variants: list[str]) -> list[str]:
    """The submissions, and what their first call compiles, all at a time; which variants that went wrong for."""

    def prepared(variant: str) -> bool:
        name, out = variant.rpartition("-")[2], str(plan.submission(variant))
        command = [
            sys.executable,
            "gen_submission.py",
            problem_of(variant),
            "--variant",
            name,
            "--also",
            "sm_90",
            "-o",
            out,
        ]
        first_call = plan.evaluation("test", variant, "--cases", "0")
        for step in (Step(f"generated-{variant}", GENERATED_S, command), Step(f"built-{variant}", BUILT_S, first_call)):
            problem = run(step, plan)
            if problem:
                print(f"{step.name}: {problem}: {plan.folder / step.name}.log", flush=True)
                return False
        return True

    with ThreadPoolExecutor(len(variants)) as pool:
        return [variant for variant, good in zip(variants, pool.map(prepared, variants)) if not good]


# ---------------------------------------------------------------- tables


def times_table(found: dict[str, Any]) -> list[str]:
    """Of a file of `eval.py benchmark --against`: both on both clocks, and how long a call keeps our host."""
    other = found["against"]
    heads = f"harness us | {other['name']} | x | x of medians | b2b us | {other['name']} | x | host us"
    lines = [f"| case | {heads} |", "|---" * 9 + "|"]
    for ours, theirs, ratio in zip(found["cases"], other["cases"], other["ratios"]):
        host_us = ours["back_to_back"] and ours["back_to_back"]["host_us"]
        values = [harness_us(ours), harness_us(theirs), ratio["harness"], ratio["harness_median"]]
        values += [b2b_us(ours), b2b_us(theirs), ratio["back_to_back"], host_us]
        cells = [number(value, 3) for value in values]
        if error := ratio.get("harness_error"):
            cells[2] += f" ± {number(error, 1)}"
        lines.append(f"| {ours['spec']} | {' | '.join(cells)} |")
    means = [number(other["geometric_means"][key], 3) for key in ("harness", "harness_median", "back_to_back")]
    return [*lines, f"| *geometric mean* | | | {means[0]} | {means[1]} | | | {means[2]} | |"]


def harness_us(case: dict[str, Any]) -> float | None:
    return case["stats_ns"]["mean"] / 1e3 if case["stats_ns"] else None


def b2b_us(case: dict[str, Any]) -> float | None:
    return case["back_to_back"]["us"] if case["back_to_back"] else None


def write_tables(plan: Plan, lines: list[str]) -> None:
    text = [f"{plan.ranks} ranks, device {plan.device}", "", "| step | | s | |", "|---|---|---|---|", *lines]
    for path in sorted([*plan.folder.glob("times-*.json"), *plan.folder.glob("reference-*.json")]):
        found = json.loads(path.read_text())
        made = found["fingerprint"]
        gpus = ", ".join(gpu["name"] for gpu in made.get("gpus", [])[:1])
        text += ["", f"**{path.stem}**: {gpus}, torch {made.get('torch')}, triton {made.get('triton')}, {made['time']}"]
        text += ["", *times_table(found)]
    (plan.folder / "tables.md").write_text("\n".join(text) + "\n")


# ---------------------------------------------------------------- command


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="RESULTS", help="folder, made if need be")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--ranks", type=int, help="default: a rank a GPU, at most 8")
    parser.add_argument("--device", default="auto", help="as in eval.py (default %(default)s)")
    options = parser.parse_args()
    ranks = options.ranks or min(LEADERBOARD_RANKS, gpus_here())
    if ranks < 2:
        parser.error("no two GPUs here: --ranks N --device gfx942 emulates them")
    options.output.mkdir(parents=True, exist_ok=True)
    plan = Plan(options.output.resolve(), options.device, ranks)
    failed = prepare(plan, options.variants)
    lines = []
    for step in plan.steps(options.steps, [variant for variant in options.variants if variant not in failed]):
        problem, took_s = run_once(step, plan, options.variants)
        end = outcome(plan.folder / f"{step.name}.log")
        failed += [step.name] * bool(problem)
        lines.append(f"| {step.name} | {problem or 'pass'} | {took_s} | {end} |")
        print(f"{step.name}: {problem or 'pass'}, {took_s} s: {end}", flush=True)
        write_tables(plan, lines)
    print(f"tables: {plan.folder / 'tables.md'}")
    return 1 if failed else 0


def gpus_here() -> int:
    import torch

    return torch.cuda.device_count()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on where it was stopped")
