"""Reproducers of miscompilations: how an answer is judged, what ends a process, what tables and warnings say."""

import json
import os
import re
from pathlib import Path

import pytest
import torch

from cdna.triton import known_faults
from cdna.triton.versions import minor_of
from lab.compilers import __main__ as command
from lab.compilers import corpus, run, table

KNOWN = run.load_all()
ROWS = table.read()


def test_each_reproducer_is_one_of_its_own_with_a_source() -> None:
    assert len(KNOWN) >= 60 and {one.language for one in KNOWN.values()} == set(table.LANGUAGES)
    for one in KNOWN.values():
        assert re.search(r"#\d+|found here", one.source) and one.what.endswith("."), one.name
    assert all(key[0] in KNOWN for key in ROWS), "an outcome of a reproducer that is not there"


@pytest.mark.parametrize(
    ("got", "want", "says"),
    [
        ([1.0, 2.0], [1.0, 2.0], ""),
        ([1.0, float("nan")], [1.0, float("nan")], ""),
        ([1.0, 2.0, 4.0], [1.0, 3.0, 5.0], r"element 1: 2.0, right: 3.0 \(2 of 3 wrong\)"),
        ([float("nan")], [0.0], "element 0: nan"),
        ([0.0], [float("nan")], "element 0: 0.0"),
        ([-0.0], [0.0], "element 0: -0.0, right: 0.0"),
        ([float("inf")], [3e38], "element 0: inf"),
        ([1.0], [1.0, 1.0], "1 elements, 2 are right"),
    ],
)
def test_the_first_wrong_element(got: list[float], want: list[float], says: str) -> None:
    said = corpus.Answer(torch.tensor(got), torch.tensor(want)).first_wrong()
    assert re.match(says, said) if says else not said


def test_tolerances_and_integers() -> None:
    near = corpus.Answer(torch.tensor([1.001, 0.0]), torch.tensor([1.0, 1e-4]), rtol=1e-2, atol=1e-3)
    assert not near.first_wrong()
    large = torch.tensor([2**62 + 1])
    assert corpus.Answer(large, large - 1).first_wrong() and not corpus.Answer(large, large).first_wrong()


def _one(run_it: object) -> corpus.Reproducer:
    return corpus.Reproducer("one", "hip", "#1", "It.", run_it, "0")  # type: ignore[arg-type]


def _aborts() -> corpus.Answers:
    os.write(2, b"LLVM ERROR: Cannot select\n")
    os.abort()


def _never_ends() -> corpus.Answers:
    while True:
        pass


def _refuses() -> corpus.Answers:
    raise ValueError("error:\nno such instruction")


def test_a_child_that_fails_is_told_and_ends_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MOST_CPU_S", 1)
    right = torch.tensor([1])
    outcomes = {
        function: run.in_a_child(_one(function), "gfx942")
        for function in (_aborts, _never_ends, _refuses, lambda: corpus.Answer(right, right))
    }
    results = [(one["result"], one["first_wrong"].partition(" (")[0]) for one in outcomes.values()]
    assert results == [
        ("does not compile", "SIGABRT: LLVM ERROR: Cannot select"),
        ("does not end", "within 1 s of a core"),
        ("does not compile", "ValueError: no such instruction"),
        ("right", ""),
    ]


def test_what_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "store_before_a_break"
    row = {"reproducer": name, "compiler": "ziglang-1", "arch": "gfx942", "digest": KNOWN[name].digest}
    options = command.parser().parse_args(["--only", name])
    assert command.missing({}, "ziglang-1", options) == [f"gfx942:{name}", f"gfx950:{name}"]
    assert command.missing({(name, "ziglang-1", "gfx942"): row}, "ziglang-1", options) == [f"gfx950:{name}"]
    stale = {(name, "ziglang-1", "gfx942"): row | {"digest": "another"}}
    assert len(command.missing(stale, "ziglang-1", options)) == 2
    assert command.missing({}, "triton-3.9.0", options) == []  # that one is HIP


@pytest.mark.parametrize(
    ("results", "says"),
    [
        (("right", "right"), "right"),
        (("wrong", "wrong"), "wrong"),
        (("wrong", "right"), "gfx942 wrong"),
        (("right", "does not compile"), "gfx950 does not compile"),
        (("wrong", "does not compile"), "gfx942 wrong; gfx950 does not compile"),
        (("right",), "gfx942 right"),  # the other has not run
        ((), ""),
    ],
)
def test_a_cell_names_archs_where_they_differ(results: tuple[str, str], says: str) -> None:
    rows = {arch: {"result": result} for arch, result in zip(("gfx942", "gfx950"), results)}
    assert table.cell(rows) == says


def test_tables_are_those_of_the_outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {language: (table.RESULTS / f"compilers_{language}.json").read_text() for language in table.LANGUAGES}
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    table.write_results(ROWS, KNOWN)
    for language, text in kept.items():
        made = (tmp_path / f"compilers_{language}.json").read_text()
        assert json.loads(made) == json.loads(text), "python -m lab.compilers"


@pytest.mark.parametrize("fault", known_faults.FAULTS, ids=lambda fault: fault.row)
def test_warnings_are_of_the_versions_that_the_table_has(fault: known_faults.Fault) -> None:
    """A warning's row is wrong with each version that is warned of, on some arch, and right with the others."""
    by_version: dict[tuple[int, int], list[bool]] = {}
    for (name, compiler, _), row in ROWS.items():
        if name == fault.row:
            wrong = row["result"] == "wrong" or bool(row.get("findings"))
            by_version.setdefault(minor_of(compiler.partition("-")[2]), []).append(wrong)
    assert by_version, "run python -m lab.compilers"
    assert {version: any(wrong) for version, wrong in by_version.items()} == {
        version: fault.concerns(version) for version in by_version
    }
