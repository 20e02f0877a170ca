"""Tuning tables made anew by the time model, at tiny sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from forge.generate.pysource import GenerationError
from forge.generate.tuning import NewRow, Table, read_table
from forge.task.problem import find_problem
from forge.tune.trial import Outcome
from forge.tune.trials_log import TrialsLog
from lab.tuning_tables import __main__ as tables
from lab.tuning_tables import header, modelled
from lab.tuning_tables.modelled import Child, Sweep, sweep
from tests.support.evaltools import ROOT

CASE = {"m": 64, "n": 128, "k": 256, "seed": 1}
KEY = (64, 128, 256)
ROW = {
    "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128, "GROUP_M": 4, "SPLIT_K": 14,
    "MFMA": 32, "num_warps": 4, "num_stages": 2, "WAVES": 0, "VEC": 16, "KPACK": 1, "TURN": 0,
}  # fmt: skip
SPILLS = {**ROW, "BLOCK_M": 128, "BLOCK_N": 128, "SPLIT_K": 1, "num_warps": 1}


class Here:
    """A cluster of this process."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def workers(self) -> int:
        return 1

    def results(
        self, function: Any, jobs: Sequence[Sweep], deadline: float | None
    ) -> Iterator[tuple[Sweep, list[Outcome]]]:
        for job in jobs:
            self.rows += job.rows
            yield job, function(job)


@pytest.fixture(autouse=True)
def no_child_left() -> Iterator[None]:
    yield
    if Child.current is not None:
        Child.current.end()


@pytest.mark.long
def test_a_table_is_made_anew_and_a_spilling_row_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (whole,) = tables.tables_of(find_problem("amd-fp8-mm"), "triton", "installed", ROOT)
    file = tmp_path / whole.path
    file.parent.mkdir(parents=True)
    other = f"    (1, 2, 3): {ROW},  # stays\n"
    file.write_text(f"DEFAULT = {ROW}\nTUNING = {{\n    {KEY}: {ROW},\n{other}}}\n")
    text = whole.text.replace("TUNING = {\n", f"TUNING = {{\n    {KEY}: {ROW},\n", 1)
    table = dataclasses.replace(
        whole,
        problem=dataclasses.replace(whole.problem, benchmarks=(CASE,), tests=()),
        text=text,
        table=Table(ROW, {KEY: ROW, (1, 2, 3): SPILLS}, {"SPLIT_K": [1, 14]}),
    )
    log, where = TrialsLog(tmp_path / "journal.jsonl", table.setting), Here()
    tables.search([table], {table.path: log}, where, None)  # type: ignore[arg-type]
    tables.finish(table, log, tmp_path, write=True)
    said = capsys.readouterr().out
    assert "spills: fp8_mm_kernel: " in said
    made = read_table(tmp_path, table.path)
    assert made.rows == {KEY: {**ROW, "SPLIT_K": 1}, (1, 2, 3): ROW}
    (line,) = [line for line in file.read_text().splitlines() if "modelled, not measured" in line]
    assert "triton " in line and "emulated gfx942" in line and " us, before " in line
    assert other in file.read_text()

    again = Here()
    log = TrialsLog(tmp_path / "journal.jsonl", table.setting)
    tables.search([table], {table.path: log}, again, None)  # type: ignore[arg-type]
    assert where.rows and not again.rows


def test_what_other_cases_have_found_is_tried_first() -> None:
    rows = [{"SPLIT_K": split_k} for split_k in (1, 2, 4, 8)]
    table = Table(rows[0], {1: rows[0], 2: rows[1], 3: rows[1]}, {"SPLIT_K": [1, 2, 4, 8]})
    assert tables.candidates(table, rows[0], [rows[3], rows[0]]) == [rows[3], rows[1], rows[2]]
    assert tables.candidates(table, rows[0], None) == [rows[1], rows[2]]


def test_what_was_not_drawn_is_not_quantised_but_its_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def quantise(x: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        rows.append(len(x))
        return (factor * x).half(), x[..., ::2].byte(), x.new_ones(1)

    rows: list[int] = []
    x = torch.ones(6, 3, 4)
    for drawn in (73, 72):
        monkeypatch.setattr(modelled, "DRAWN_ELEMENTS", drawn)
        parts = modelled.quantising_a_row(quantise)(x, factor=2)
        assert [(part.shape, part.dtype) for part in parts] == [
            ((6, 3, 4), torch.half), ((6, 3, 2), torch.uint8), ((1,), torch.float)
        ]  # fmt: skip
    assert rows == [6, 1]


@pytest.mark.long
def test_a_router_runs_whole() -> None:
    """What it computes spreads the tokens over all experts; zeros would choose the first four of any number."""
    (table,) = tables.tables_of(find_problem("amd-mixture-of-experts"), "triton", "installed", ROOT)
    case = {"dhidden": 256, "dexpert": 512, "nsharedexperts": 1, "nexpertspertoken": 4}
    case |= {"bs": 1, "seqlen": 32, "seed": 1}
    us = {}
    for experts in (4, 32):
        few = {**case, "nroutedexperts": experts}
        (done,) = sweep(Sweep(table.problem.name, table.text, table.triton, "cold", few, None, ({},), 900))
        assert done.status == "pass", done.message
        us[experts] = done.us["modelled"]
    assert us[32] > 1.15 * us[4], us


def test_rows_of_a_header() -> None:
    path = "kernels/fp8_mm/hip_gfx942_tuning.h"
    text = (ROOT / path).read_text()
    table = header.read_table(text, path)
    row = table.rows[1024, 1536, 7168]
    assert row.keys() == table.default.keys() == table.space.keys() == {"tile", "split_k", "group_rows"}
    assert all(row[name] in choices for row in table.rows.values() for name, choices in table.space.items())
    changed = header.with_rows(text, path, [NewRow((1024, 1536, 7168), {**row, "split_k": 2}, "1 us")])
    assert header.read_table(changed, path).rows == {**table.rows, (1024, 1536, 7168): {**row, "split_k": 2}}
    assert len([1 for old, new in zip(text.splitlines(), changed.splitlines()) if old != new]) == 1
    with pytest.raises(GenerationError, match="no columns marked"):
        header.read_table(text.replace("// tune", "//"), path)


@pytest.mark.parametrize(
    "words, said",
    [
        (["amd-fp8-mm", "--variant", "cuda"], "amd-fp8-mm: no variant cuda with a table"),
        (["amd-fp8-mm", "--jobs", "0"], "--jobs is at least 1"),
        (["amd-nothing"], "amd-nothing"),
        (["amd-fp8-mm", "--variant", "triton", "--triton", "nightly"], "is 'nightly': say a version such as 3.6.0"),
        (["amd-fp8-mm", "--minutes", "0", "--journal", "/nowhere/j.jsonl"], "no trial of amd-fp8-mm"),
    ],
)
def test_what_cannot_be_done_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tables.main(words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
