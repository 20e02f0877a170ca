"""This repository's problems as a taskset of verifiers (written for 0.4.0): a reply is a submission.

import verifiers.v1 as vf
from lab.adapters.verifiers_taskset import KernelConfig, KernelTaskset

taskset = KernelTaskset(KernelConfig(id="kernels", problems=["amd-fp8-mm"], device="gfx942", cases="smoke"))
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable

import verifiers.v1 as vf

from lab.adapters.judging import Judging, feedback, prompt_of, reward_of, source_in


@functools.cache
def judging(problem: str, device: str, cases: str) -> Judging:
    return Judging(problem, device, cases)


class KernelData(vf.TaskData):
    problem: str
    device: str
    cases: str


class KernelTask(vf.Task[KernelData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def kernel(self, trace: vf.Trace) -> float:
        """The recommended sum. A machine's error is the task's: such a rollout has no reward."""
        one = judging(self.data.problem, self.data.device, self.data.cases)
        verdicts = await asyncio.wrap_future(one.submit(source_in(trace.last_reply)))
        trace.info["feedback"] = feedback(verdicts)
        return reward_of(verdicts)


class KernelConfig(vf.TasksetConfig):
    problems: list[str] = ["amd-fp8-mm"]
    device: str = "auto"
    cases: str = "all"


class KernelTaskset(vf.Taskset[KernelTask, KernelConfig]):
    def load(self) -> Iterable[KernelTask]:
        for problem in self.config.problems:
            named = {"problem": problem, "device": self.config.device, "cases": self.config.cases}
            yield KernelTask(KernelData(name=problem, prompt=prompt_of(problem), **named), self.config.task)
