"""benchmarks/time_model: rows, launches, statistics, and results that are gone on with."""

from __future__ import annotations

import json
import math
import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.time_model import __main__ as command
from benchmarks.time_model import runner
from benchmarks.time_model.launches import LAUNCHES, Launch, Memory, launch_of, routing, tile
from benchmarks.time_model.objects import objects, try_object
from benchmarks.time_model.page import spearman, statistics_of, write_page
from benchmarks.time_model.rows import Row, RowError, choose, read, sets
from cdna.cards import cards
from tests.support.compiled_kernels import compiled

ROWS = [row for name in sets() for row in read(name)]
SHAPE = {"m": "64", "n": "512", "k": "1024", "split": "2"}
ROW = Row("aiter", "MI308X", "i8gemm", "hsa/gfx942/i8gemm/x_32x128.co", "0" * 40, SHAPE, 10.0, "abc")


def result(published: float, modelled: float, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "card": "MI355X",
        "family": "f4gemm",
        "part": "calibrate",
        "set": "aiter",
        "model": "v",
        "bound": "L2",
    }
    told |= {"code": "a.co", "shape": "m=1", "published_us": published, "modelled_us": modelled}
    return told | {"key": str(published)} | more


def test_every_row_has_a_card_a_launch_and_a_part() -> None:
    assert len(ROWS) > 1000 and {row.family for row in ROWS} < set(LAUNCHES)
    for row in {(row.family, row.code): row for row in ROWS}.values():
        launch = launch_of(row, cards()[row.card])
        assert min(launch.grid) >= 1 and len(launch.kernarg) == 16 * len(launch.slots), row
    share = sum(row.part == "holdout" for row in ROWS) / len(ROWS)
    assert 0.28 < share < 0.38


def test_the_part_of_a_row_does_not_depend_on_its_time() -> None:
    assert {replace(ROW, us=us, source=source).part for us in (1.0, 9.0) for source in "ab"} == {ROW.part}
    assert replace(ROW, us=1.0).key != ROW.key


def test_a_draw_is_the_same_for_the_same_seed() -> None:
    first, again, other = (choose(ROWS, n=20, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert {row.part for row in choose(ROWS, part="holdout")} == {"holdout"}
    with pytest.raises(RowError, match="no family 'gemm': there are bf16gemm, "):
        choose(ROWS, ["gemm"])


def test_a_split_of_k_widens_the_grid_and_clears_the_output() -> None:
    launch = launch_of(ROW, cards()["MI308X"])
    assert launch.grid == (512 // 128 * 2, 2, 1) and launch.cleared_bytes == 2 * 64 * 512
    assert tile(ROW) == (32, 128)


def test_routing_gives_each_token_its_experts() -> None:
    tokens, experts, topk, block = 40, 8, 2, 16
    made = routing(tokens, experts, topk, block)
    ids = made.ids.view("i4") & 0xFFFFFF
    used = [int(one) for one in ids if one < tokens]
    assert sorted(used) == sorted(list(range(tokens)) * topk)
    assert made.blocks <= (tokens * topk + experts * (block - 1)) // block


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"family": "conv"}, "no launch recipe for family 'conv'"),
        ({"shape": {"m": "1"}}, "has no number 'n'"),
        ({"code": "nothing.co"}, "its name has no tile"),
    ],
)
def test_a_row_that_cannot_be_launched_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(RowError, match=said):
        launch_of(replace(ROW, **change), cards()["MI308X"])


class _Exp(Launch):
    """Of a kernel that Triton compiled: two addresses and a number, without AITER's slots."""

    @property
    def kernarg(self) -> bytes:
        x, y, n = self.slots
        assert isinstance(x, Memory) and isinstance(y, Memory)
        return struct.pack("<QQi", x.address, y.address, n).ljust(40, b"\0")


def test_a_row_is_modelled(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = _Exp((4, 1, 1), [Memory(4096), Memory(4096), 1000], cleared_bytes=1 << 20)
    monkeypatch.setitem(LAUNCHES, "exp", lambda row, card: launch)
    told = runner.model_row(replace(ROW, family="exp", card="MI300X"), compiled("exp", "gfx942")[0])
    assert "error" not in told and told["counters"]["groups"] == 4 and told["counters"]["hbm_read_bytes"] == 4096
    assert told["modelled_us"] > told["fill_us"] > cards()["MI300X"].launch_us
    out = launch.slots[1]
    assert isinstance(out, Memory) and (out.view("f4")[:1000] == 1).all()


AITER = os.environ.get("CDNA_AITER", "")


@pytest.mark.skipif(not AITER, reason="CDNA_AITER names no checkout of ROCm/aiter")
@pytest.mark.parametrize(
    "path",
    [
        "gfx942/bf16gemm/bf16gemm_fp32bf16_tn_64x64_splitk_clean",
        "gfx942/fmha_v3_fwd/MI300/fwd_hd128_bf16_causal_rtne",
        "gfx942/fmoe/silu/fmoe_bf16_pertokenFp8_g1u1_vs_silu_1tg_ps_32x256",
        "gfx942/fmoe_2stages/fmoe_stage1_bf16_pertokenFp8_g1u1_32x128_3tg_pf3",
        "gfx942/fp8gemm_blockscale/fp8gemm_bf16_blockscale_BpreShuffle_64x128",
        "gfx942/i8gemm/I8gemm_bf16_perTokenI8_BpreShuffle_112x256",
        "gfx942/mla/mla_dec_stage1_bf16_a16w16_subQ16_mqa16",
        "gfx942/topksoftmax/topksoftmax_4x128x6",
        "gfx950/f4gemm/f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128",
        "gfx950/fmha_v3_fwd/fwd_hd192_hd128_bf16",
    ],
)
def test_a_code_object_of_aiter_is_right(path: str) -> None:
    wanted = f"hsa/{path}.co"
    told = next(try_object(Path(AITER), name, digest) for name, digest in objects(Path(AITER)) if name == wanted)
    assert told["loaded"] and told["error"] < 5e-3, told


def test_an_error_is_a_result() -> None:
    told = runner.model_row(ROW, b"no ELF")
    assert "not an ELF file" in told["error"] and "modelled_us" not in told


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    rows = [replace(ROW, us=us) for us in (1.0, 2.0, 3.0)]
    first = runner.write((runner.model_row(row, b"") for row in rows), file)
    next(first), next(first)
    del first
    with file.open("a") as lines:
        lines.write('{"key": "unfin')
    assert runner.still_to_do(rows, file) == rows[2:]
    list(runner.write((runner.model_row(row, b"") for row in rows[2:]), file))
    assert runner.still_to_do(rows, file) == [] and len(runner.read_results(file)) == 3
    old = json.loads(file.read_text().splitlines()[0]) | {"model": "another version"}
    file.write_text(json.dumps(old) + "\n")
    assert runner.still_to_do(rows, file) == rows


def test_statistics_against_numbers_made_by_hand() -> None:
    results = [result(10, 8), result(20, 10), result(40, 44), result(80, 60), result(90, 0, error="no")]
    (one, whole) = statistics_of(results)
    assert (one.card, one.family, len(one.results), one.failed) == ("MI355X", "f4gemm", 4, 1)
    assert one.median_ratio == pytest.approx((0.75 + 0.8) / 2)
    assert one.error == pytest.approx((0.2 + 0.5 + 0.1 + 0.25) / 4)
    assert one.within == 0.75 and one.rank_correlation == 1.0
    assert whole.card == "all"


def test_rank_correlation_with_ties() -> None:
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9486833)
    assert spearman([1, 2, 3], [3, 2, 1]) == -1.0
    assert math.isnan(spearman([1, 2], [1, 2])) and math.isnan(spearman([1, 1, 1], [1, 2, 3]))


def test_the_page_names_the_rows_furthest_off(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results = [result(10 + n, 8 + n, code=f"{n}.co") for n in range(20)] + [result(50, 500, code="worst.co")]
    write_page([*results, result(60, 0, error="LaunchError: no")], tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    table = text.split("The rows furthest off:")[1].split("##")[0]
    assert table.count(".co") == 10 and table.strip().splitlines()[2].startswith("| worst.co")
    assert "| f4gemm | 1 | LaunchError: no |" in text
    assert (tmp_path / "page" / "MI355X_f4gemm.png").stat().st_size > 1000


def test_the_command_says_what_it_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["run"]) == 2
    assert "say where a checkout or bare clone of ROCm/aiter lies" in capsys.readouterr().err
    empty = ["--results", str(tmp_path / "r.jsonl")]
    assert command.main(["run", "--aiter", str(tmp_path), "--rows", "1", "--workers", "0", *empty]) == 2
    assert "no blob" in capsys.readouterr().err
    assert command.main(["page", *empty]) == 2
    assert "no results" in capsys.readouterr().err
