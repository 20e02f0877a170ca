"""The leaderboard's own filter over our files: its verdict in words, and that every variant passes it."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forge.commands import generate as gen_submission
from forge.generate import kernelguard
from forge.generate.render import generate, variants_of
from forge.task.problem import load_sets

FINE = "import torch\n\n\ndef custom_kernel(data):\n    x, y = data\n    return torch.add(x, y)\n"
THREAD = (
    "import threading\n\n\ndef custom_kernel(data):\n    threading.Thread(target=print).start()\n    return data + 1\n"
)
INSTALLS = 'import os\n\nos.system("pip install aiter")\n\n\ndef custom_kernel(data):\n    return data + 1\n'
CLOCK = "import time\n\ntime.time = lambda: 0\n\n\ndef custom_kernel(data):\n    return data + 1\n"
VARIANTS = [(entry, name) for group in load_sets() for entry in group.problems for name in variants_of(entry)]

needs_it = pytest.mark.skipif(not kernelguard.installed(), reason="needs kernelguard (pip install kernelguard)")


@needs_it
def test_a_file_that_passes() -> None:
    found = kernelguard.verdict(FINE)
    assert (found.classification, found.filtered, found.matches, found.lines()) == ("valid", False, (), [])
    assert kernelguard.remarks(FINE.encode()) == []


@needs_it
def test_files_that_do_not() -> None:
    (said,) = kernelguard.verdict(THREAD).lines()
    assert said.startswith("KernelGuard: low_confidence, the leaderboard takes the file: line 5: thread injection, sev")
    (said,) = kernelguard.remarks(CLOCK.encode())
    start = (
        "KernelGuard filters this file, so the leaderboard refuses it; change line 3: timer monkeypatch, severity crit"
    )
    assert said.startswith(start), said
    assert kernelguard.verdict(INSTALLS).filtered


@needs_it
@pytest.mark.parametrize(("entry", "variant"), VARIANTS, ids=lambda value: getattr(value, "name", value))
def test_every_variant_is_valid(entry: Any, variant: str) -> None:
    assert kernelguard.verdict(generate(entry, variant).text).classification == "valid"


@pytest.mark.parametrize("filtered", [False, True])
def test_check_prints_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], filtered: bool) -> None:
    found = {"matched_patterns": [], "classification": "valid", "should_filter": False}
    if filtered:
        match = {"pattern": "TIMER_MONKEYPATCH", "severity": "critical", "evidence": "patched: time.time"}
        found = {"matched_patterns": [match], "classification": "hacked", "should_filter": True}
    monkeypatch.setattr(kernelguard, "installed", lambda: True)
    monkeypatch.setitem(sys.modules, "kernelguard", SimpleNamespace(analyze_code=lambda text: found))
    assert gen_submission.guard(CLOCK, sys.stdout) == int(filtered)
    refused = (
        "KernelGuard filters this file, so the leaderboard refuses it; change line 3: timer monkeypatch, severity "
        "critical: patched: time.time\n"
    )
    assert capsys.readouterr().out == (refused if filtered else "KernelGuard: valid\n")


def test_where_it_is_not_installed_or_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails(text: str) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(kernelguard, "installed", lambda: True)
    monkeypatch.setitem(sys.modules, "kernelguard", SimpleNamespace(analyze_code=fails))
    (said,) = kernelguard.remarks(b"x = 1\n")
    assert said == "KernelGuard ended with RecursionError (too deep): what it makes of this file is not known"
    monkeypatch.setattr(kernelguard, "installed", lambda: False)
    assert kernelguard.remarks(CLOCK.encode()) == []
    assert gen_submission.guard(CLOCK, sys.stdout) == 0
    assert "is not installed: pip install kernelguard" in capsys.readouterr().out
