"""lab/time_model/choice.py: which of several published kernels a model takes, and what that costs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lab.time_model import choice, origami
from lab.time_model.rows import Row, RowError, of_problems, problem, read


def result(code: str, published: float, modelled: float, shape: str = "m=64 n=512 k=1024 split=0") -> dict[str, Any]:
    head = {"set": "candidates", "card": "MI355X", "family": "f4gemm", "shape": shape, "counters": {"groups_per_cu": 1}}
    return head | {"code": code, "published_us": published, "modelled_us": modelled, "model": "v"}


def test_the_kernel_that_the_model_takes_is_held_against_the_fastest() -> None:
    fast, slow = result("x_32x128.co", 10.0, 9.0), result("x_64x128.co", 12.0, 8.0)
    other = result("x_32x128.co", 5.0, 5.0, "m=1 n=512 k=1024 split=1")
    (one,) = choice.problems_of([fast, slow, other | {"unrecorded": "half"}, other], None)  # alone, it is no choice
    assert one.by_model == pytest.approx(1.2) and one.by_lot == pytest.approx(1.1)
    head, *cells = choice.table([one])[0]
    assert head == "candidates" and cells[1:8] == ["1", "2", "1.20", "1.100", "0 %", "1.200", "1.200"]
    assert cells[9:] == ["-"] * 4  # the other model was not asked
    assert (
        "x_64x128 split=0 12 us published (8 modelled), best x_32x128 split=0 10 (9 modelled)" in choice.worst([one])[0]
    )
    with pytest.raises(RowError, match="no problem has two kernels"):
        choice.tell([fast], None, False)


def test_a_draw_has_all_kernels_of_a_problem_or_the_same_of_each() -> None:
    rows = read("candidates")
    drawn = of_problems(rows, 5, 1, 30.0)
    names = {(row.family, problem(row.shape_text)) for row in drawn}
    assert len(names) == 5 and max(row.us for row in drawn) <= 30 and len(drawn) >= 10
    assert of_problems(rows, 5, 1, 30.0) == drawn != of_problems(rows, 5, 2, 30.0)
    shapes = [{"m": f"{m}", "n": "8", "k": "8", "block_m": f"{tile}"} for m in (1, 2) for tile in range(9)]
    same = of_problems([Row("s", "MI300X", "f", "c", "", shape, 1.0, "") for shape in shapes], 0, 1, kernels=3)
    assert [row.shape["m"] for row in same] == ["1", "2"] * 3  # each kernel's rows together
    assert len({row.shape["block_m"] for row in same}) == 3


def test_what_origami_is_asked_names_tile_split_and_order() -> None:
    shape = {"m": "64", "n": "512", "k": "1024", "split": "2"}
    asked = origami.question(Row("candidates", "MI355X", "f4gemm", "x_32x128.co", "", shape, 1.0, ""), 1).split()
    assert asked[0] == "gfx950" and asked[1] == "256" and asked[5:10] == ["f4", "bf16", "T", "N", "32"]
    assert asked[10:] == "64 512 1024 32 128 256 0 0 0 1 4".split()
    with pytest.raises(RowError, match="GEMMs alone"):
        origami.question(Row("aiter", "MI355X", "fmoe", "x", "", shape, 1.0, ""), 1)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_a_folder_without_origami_is_named(tmp_path: Path) -> None:
    with pytest.raises(RowError, match="no sources of rocm-origami"):
        origami.build(tmp_path, tmp_path)
