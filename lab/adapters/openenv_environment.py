"""A problem of this repository as an OpenEnv environment (tried with openenv 0.10.0): a step is a submission.

uvicorn --factory lab.adapters.openenv_environment:app      # its problem and device: $PROBLEM, $DEVICE, $CASES
"""

from __future__ import annotations

import functools
import os
from typing import Any

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from lab.adapters.judging import Judging, feedback, prompt_of, reward_of, source_in


class Submission(Action):
    source: str


class Told(Observation):
    text: str = ""  # the problem, and then what became of a submission
    statuses: dict[str, str] = {}  # by mode


class KernelEnvironment(Environment[Submission, Told, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True  # each submission is judged apart from all others

    def __init__(self, judging: Judging, problem: str) -> None:
        super().__init__()
        self.judging, self.problem = judging, problem
        self.now = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Told:
        self.now = State(episode_id=episode_id, step_count=0)
        return Told(text=prompt_of(self.problem), reward=None, done=False)

    def step(self, action: Submission, timeout_s: float | None = None, **kwargs: Any) -> Told:
        """A machine's error is raised: it is no step of the agent's."""
        verdicts = self.judging.submit(source_in(action.source)).result(timeout_s)
        reward = reward_of(verdicts)
        self.now.step_count += 1
        statuses: dict[str, str] = {mode: verdict.status for mode, verdict in verdicts.items()}
        return Told(text=feedback(verdicts), statuses=statuses, reward=reward, done=False)

    @property
    def state(self) -> State:
        return self.now


def app() -> Any:
    problem = os.environ.get("PROBLEM", "amd-fp8-mm")
    judging = Judging(problem, os.environ.get("DEVICE", "auto"), os.environ.get("CASES", "all"))
    return create_fastapi_app(functools.partial(KernelEnvironment, judging, problem), Submission, Told)
