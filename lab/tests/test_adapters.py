"""The adapters, each through the package that it is for, where that is installed."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import forge
from lab.adapters import judging
from lab.verdicts import PROBLEM

pytestmark = pytest.mark.long
ADAPTERS = Path(judging.__file__).parent
HEAD = (PROBLEM.parent / "kernel.py").read_text()
RIGHT = HEAD + "custom_kernel = product\n"
REPLY = f"First this:\n```python\nx = 1\n```\nand now\n```python\n{RIGHT}```\n"


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"needs {package}")


@pytest.fixture(scope="module")
def one() -> Iterator[judging.Judging]:
    with judging.Judging(str(PROBLEM), "gfx942") as one:
        one.judge.options.append("--trust")
        yield one


def test_each_adapter_is_short() -> None:
    assert all(len(path.read_text().splitlines()) <= 100 for path in ADAPTERS.glob("*.py"))


def test_a_reply_is_judged_in_both_modes(one: judging.Judging) -> None:
    verdicts = one.submit(judging.source_in(REPLY)).result()
    assert {verdict.status for verdict in verdicts.values()} == {"passed"} and judging.reward_of(verdicts) == 1
    wrong = one.submit(HEAD + "custom_kernel = wrong\n").result()
    assert judging.reward_of(wrong) < 0.2 and "test: wrong: values differ" in judging.feedback(wrong)
    with pytest.raises(forge.MachineError):
        judging.reward_of({"test": forge.Verdict(id="1", status="machine_error", blame="machine")})


@needs("verifiers")
def test_a_taskset_of_verifiers(one: judging.Judging, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.adapters import verifiers_taskset as adapter

    monkeypatch.setattr(adapter, "judging", lambda *asked: one)
    taskset = adapter.KernelTaskset(adapter.KernelConfig(id="kernels", problems=["amd-fp8-mm"]))
    (task,) = taskset
    assert "custom_kernel" in str(task.data.prompt) and task.data.problem == "amd-fp8-mm"
    trace: Any = SimpleNamespace(
        last_reply=REPLY, info={}, metrics={}, rewards={},
        record_reward=lambda name, value, weight: trace.rewards.update({name: value * weight}),
    )  # fmt: skip
    asyncio.run(task.score(trace))
    assert trace.rewards == {"kernel": 1.0} and trace.info["feedback"] == "test: passed\nbenchmark: passed"


@needs("openenv")
def test_an_environment_of_openenv(one: judging.Judging) -> None:
    from lab.adapters import openenv_environment as adapter

    environment = adapter.KernelEnvironment(one, "amd-fp8-mm")
    assert "custom_kernel" in environment.reset(episode_id="e").text
    told = environment.step(adapter.Submission(source=RIGHT))
    assert (told.reward, told.statuses, environment.state.step_count) == (
        1,
        {"test": "passed", "benchmark": "passed"},
        1,
    )
    routes = {
        route.path for route in adapter.create_fastapi_app(lambda: environment, adapter.Submission, adapter.Told).routes
    }
    assert {"/reset", "/step", "/state"} <= routes


def test_a_task_of_agent_kernel_arena(tmp_path: Path) -> None:
    command = [sys.executable, str(ADAPTERS / "agent_kernel_arena.py")]
    assert subprocess.run([*command, "new", str(tmp_path), "amd-fp8-mm", "gfx942"]).returncode == 0
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert (
        config["platform_support"] == {"required_arch": ["gfx942"]}
        and "custom_kernel" in (tmp_path / config["source_file_path"][0]).read_text()
    )
    assert config["correctness_command"][0].split()[:2] == command
    (tmp_path / "submission.py").write_text(RIGHT)
    done = subprocess.run(
        [*command, "performance", str(PROBLEM), "gfx942"], cwd=tmp_path, capture_output=True, text=True
    )
    said = json.loads(done.stdout)
    assert (done.returncode, said["kind"], len(said["times_us"])) == (0, "modelled", 1)
    (tmp_path / "submission.py").write_text(HEAD + "custom_kernel = wrong\n")
    assert subprocess.run([*command, "correctness", str(PROBLEM), "gfx942"], cwd=tmp_path).returncode == 1
