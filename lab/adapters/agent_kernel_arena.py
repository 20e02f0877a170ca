"""A task of AgentKernelArena (by the keys of 0.2.0): a folder whose commands judge submission.py here.

    python lab/adapters/agent_kernel_arena.py new FOLDER PROBLEM [DEVICE]     # config.yaml and a file to begin from

The commands in it are `compile`, `correctness` and `performance` of this file: exit code 0 is a pass, and the last
prints a line of JSON. Modelled times are marked so: they are none that a card has measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402

import forge  # noqa: E402 - from this checkout
from forge.task.problem import find_problem  # noqa: E402

CODE, TIMEOUT_S = "submission.py", 3600


def new(folder: Path, problem: str, device: str) -> int:
    one = find_problem(problem)
    folder.mkdir(parents=True, exist_ok=True)
    called = f"{sys.executable} {Path(__file__).resolve()}"
    commands = {
        f"{step}_command": [f"{called} {step} {one.directory} {device}"]
        for step in ("compile", "correctness", "performance")
    }
    config = {
        "source_file_path": [CODE],
        "target_kernel_functions": ["custom_kernel"],
        **commands,
        "platform_support": {"required_arch": [one.arch]},
        "timeout": TIMEOUT_S,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    words = ["--new", one.name, "--variant", "triton", "-o", str(folder / CODE)]
    return subprocess.run([sys.executable, str(ROOT / "gen_submission.py"), *words]).returncode


def judged(mode: str, problem: str, device: str) -> forge.Verdict:
    cases = os.environ.get("CASES", "all")
    verdict = forge.judge(Path(CODE), problem=problem, device=device, mode=mode, cases=cases)
    print(f"{mode}: {verdict.status}" + f": {verdict.message}" * bool(verdict.message), file=sys.stderr)
    return verdict


def performance(problem: str, device: str) -> int:
    verdict = judged("benchmark", problem, device)
    report = verdict.report
    times = report.times_us if report is not None else {}
    said = {"kind": report.kind if report else "none", "status": verdict.status, "times_us": times}
    print(json.dumps(said))
    return 0 if times and verdict.status in ("passed", "doubtful") else 1


def main(step: str, *words: str) -> int:
    if step == "new":
        return new(Path(words[0]), words[1], words[2] if len(words) > 2 else "auto")
    problem, device = words
    if step == "compile":
        command = [sys.executable, str(ROOT / "gen_submission.py"), problem, "--check-file", CODE]
        return subprocess.run(command).returncode
    return performance(problem, device) if step == "performance" else int(not judged("test", problem, device).passed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
