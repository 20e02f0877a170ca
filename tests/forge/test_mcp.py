"""The tools for agents, through the official SDK's own client: short answers, and where to look next."""

import asyncio
import importlib.util
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from forge.bulk.judge import Judge
from forge.bulk.verdict import BadRequest
from forge.serve.agent_tools import NAMES, Tools
from lab.verdicts import PROBLEM
from tests.support.evaltools import ROOT, names_itself, processes_named

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="needs mcp (pip install 'cdna-forge[mcp]')"),
]
NAME = f"mcp{os.getpid()}"
HEAD = (PROBLEM.parent / "kernel.py").read_text()
RIGHT = HEAD + "custom_kernel = product\n"
WRONG = HEAD + "custom_kernel = wrong\n"
ASKS = f"""\
{names_itself(NAME)}
import os
def custom_kernel(data):
    raise ValueError("parent " + str(os.getppid()))
"""
TWICE = HEAD + "def custom_kernel(data):\n    product(data)\n    return product(data)\n"
ON_ITS_DEVICE = f"""\
{HEAD}
def custom_kernel(data):
    with torch.cuda.device(data[0].device):
        a = torch.empty((2, 256), device=data[0].device)
        return product((a, a, a[0]))
"""
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "problems": ("list_problems", {}),
    "new": ("new_submission", {"problem": "amd-fp8-mm", "language": "triton"}),
    "right": ("test", {"submission": RIGHT}),
    "again": ("test", {"submission": "right.py"}),
    "wrong": ("test", {"submission": WRONG}),
    "asks": ("test", {"submission": ASKS}),
    "no Python": ("test", {"submission": "def custom_kernel(data:\n"}),
    "outside": ("test", {"submission": "/etc/passwd"}),
    "folder": ("test", {"submission": RIGHT, "problem": str(PROBLEM.parent)}),
    "benchmark": ("benchmark", {"submission": "right.py"}),
    "profile": ("profile", {"submission": RIGHT}),
    "advise": ("advise", {"submission": RIGHT}),
    "compare": ("compare", {"a": "right.py", "b": TWICE}),
    "check": ("check", {"submission": ON_ITS_DEVICE, "problem": "amd-fp8-mm"}),
    "finding": ("explain_finding", {"finding": "a race: two waves"}),
    "unknown": ("explain_finding", {"finding": "nothing of that name"}),
}


async def converse(folder: Path) -> tuple[list[str], dict[str, tuple[bool, str]]]:
    from mcp import Client, StdioServerParameters, stdio_client

    words = ["-m", "forge", "mcp", "--problem", str(PROBLEM), "--device", "gfx942", "--trust"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = StdioServerParameters(command=sys.executable, args=words, cwd=folder, env=environment)
    answers = {}
    async with Client(stdio_client(server)) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        for name, (tool, arguments) in CALLS.items():
            answer = await client.call_tool(tool, arguments)
            answers[name] = bool(answer.is_error), "\n".join(str(getattr(part, "text", "")) for part in answer.content)
    return tools, answers


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, tuple[bool, str]]]:
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "right.py").write_text(RIGHT)
    return asyncio.run(converse(folder))


def test_each_tool_is_there_and_answers_shortly(conversation: tuple[list[str], dict[str, tuple[bool, str]]]) -> None:
    tools, answers = conversation
    assert tools == list(NAMES)
    for name, (failed, text) in answers.items():
        assert failed == (name in ("outside", "folder")), text
        assert name == "new" or len(text.splitlines()) < 60, name
        assert failed or text.splitlines()[-1].startswith("next: "), text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("problems", "amd-fp8-mm "),
        ("new", "def custom_kernel(data):"),
        ("right", "passed: 1 of 1 cases passed"),
        ("again", "passed: 1 of 1 cases passed"),
        ("wrong", "wrong: 0 of 1 cases passed"),
        ("no Python", "invalid: submission.py:1: not valid Python"),
        ("outside", "'/etc/passwd' is no submission"),
        ("folder", "unknown problem"),
        ("benchmark", "us modelled"),
        ("profile", "submission.py:12"),
        ("advise", "us less without"),
        ("compare", "B / A"),
        ("check", "_product "),
        ("finding", "race: two waves touch the same bytes of LDS"),
        ("unknown", "there are: bounds, wait, race"),
    ],
)
def test_what_is_answered(conversation: tuple[list[str], dict[str, tuple[bool, str]]], name: str, said: str) -> None:
    assert said in conversation[1][name][1]


@pytest.mark.slow(reason="compiles an extension, of which nothing is kept")
def test_hip_is_checked_and_nothing_of_it_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    tools = Tools(Judge(device="gfx942"), "amd-fp8-mm")
    said = tools.check(tools.new_submission(language="hip").split("---\n")[1])
    assert "exit code 0" in said and "copy_kernel threads=256" in said and not list(tmp_path.iterdir())


def test_a_submission_runs_elsewhere_and_nothing_is_left(
    conversation: tuple[list[str], dict[str, tuple[bool, str]]],
) -> None:
    text = conversation[1]["asks"][1]
    assert "crashed: " in text and "ValueError: parent" in text
    deadline = time.monotonic() + 30
    while processes_named(NAME):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_what_is_too_large_is_not_kept() -> None:
    tools = Tools(Judge())
    with pytest.raises(BadRequest, match="17 MB: a submission has at most 16"):
        tools.test("#" * (17 << 20) + "\n", "amd-fp8-mm")
    assert not tools.sources
