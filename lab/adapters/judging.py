"""What the adapters share: a warm judge in a thread of its own, and a reward of both modes (docs/reward.md)."""

from __future__ import annotations

import re
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import forge  # noqa: E402 - from this checkout
from forge.task.problem import description_of, find_problem  # noqa: E402

FENCED = re.compile(r"```(?:python|py)?\s*\n(.*?)```", re.DOTALL)


def source_in(reply: str) -> str:
    """The last block of code of a reply; all of it where there is none."""
    blocks = FENCED.findall(reply)
    return blocks[-1] if blocks else reply


def prompt_of(problem: str) -> str:
    one = find_problem(problem)
    return (
        f"Write a submission for {one.name} on {' '.join(one.gpus)}: one Python file that defines custom_kernel(data) "
        f"and launches Triton kernels.\n\n{description_of(one)}\nAnswer with the file in one ```python block."
    )


class Judging:
    """Context manager. For any number of threads: each submission waits for the ones before."""

    def __init__(self, problem: str, device: str = "auto", cases: str = "all", baseline: str = "reference") -> None:
        self.thread = ThreadPoolExecutor(1)
        self.judge = forge.Judge(2, problem=problem, device=device, cases=cases, baseline=baseline)

    def __enter__(self) -> Judging:
        return self

    def __exit__(self, *exc: object) -> None:
        self.thread.submit(self.judge.__exit__, None, None, None).result()
        self.thread.shutdown()

    def submit(self, source: str) -> Future[dict[str, forge.Verdict]]:
        """Its verdicts, by mode."""
        return self.thread.submit(self._verdicts, source)

    def _verdicts(self, source: str) -> dict[str, forge.Verdict]:
        asked = [{"id": mode, "source": source, "mode": mode} for mode in ("test", "benchmark")]
        return {verdict.id: verdict for verdict in self.judge.judge_all(asked)}


def reward_of(verdicts: dict[str, forge.Verdict]) -> float:
    """The lesser of both modes. MachineError: nothing is said of the submission, so nothing may be learnt from it."""
    for verdict in verdicts.values():
        if verdict.status == "machine_error" or verdict.blame == "request":
            raise forge.MachineError(verdict.message)
    return min(verdict.total_reward for verdict in verdicts.values())


def feedback(verdicts: dict[str, forge.Verdict]) -> str:
    return "\n".join(f"{mode}: {one.status}" + f": {one.message}" * bool(one.message) for mode, one in verdicts.items())
