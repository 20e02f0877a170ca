"""lab/time_model: rows, launches, statistics, and results that are gone on with."""

from __future__ import annotations

import json
import math
import os
import random
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdna.cards import cards
from lab.time_model import __main__ as command
from lab.time_model import errors, runner
from lab.time_model.compared import compare
from lab.time_model.launches import LAUNCHES, Launch, Memory, PlacedLaunch, launch_of, routing, tile
from lab.time_model.objects import objects, try_object
from lab.time_model.page import statistics_of, write_page
from lab.time_model.ranks import spearman
from lab.time_model.rows import Row, RowError, choose, read, sets
from lab.time_model.sources import TEMPLATES, PackedLaunch, kernel_of, template_rows
from tests.support.compiled_kernels import compiled

ROWS = [row for name, about in sets().items() if "times" not in about for row in read(name)]
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
        assert isinstance(launch, PlacedLaunch | PackedLaunch) == (row.family in {*TEMPLATES, "trace"})
        size = 16 * len(launch.slots)
        if isinstance(launch, PlacedLaunch):
            size = launch.kernarg_bytes
        elif isinstance(launch, PackedLaunch):  # addresses first
            size = sum(8 if isinstance(slot, Memory | None) else 4 for slot in launch.slots)
        assert min(launch.grid) >= 1 and len(launch.kernarg) == size, row
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


MMA = """transpose a, b: 0.05 ms 48.59 us 755.30 GB/s
mma: (1024 1536 7168) (64 128 64) (32 32 16) 1 0 256: 0.16 ms 161.97 us 132.72 GB/s 147.92 TFLOPS
"""


def test_times_in_a_repositorys_own_file_are_rows() -> None:
    (row,) = template_rows("snektron", sets()["snektron"], MMA)
    assert (row.us, row.card, row.family) == (161.97, "MI300X", "fp8_template")
    launch = launch_of(row, cards()["MI300X"])
    assert launch.grid == (1, 16, 12) and launch.block == (256, 1, 1)
    m, n, k, stride = struct.unpack_from("<4i", launch.kernarg, 5 * 8)
    assert (m, n, k, stride) == (1024, 1536, 7168, 7168) and len(launch.kernarg) == 9 * 8
    instantiation = TEMPLATES[row.family].instantiation(row)
    assert "kernel<256, cube{64, 128, 64}, cube{32, 32, 16}, __uint128_t, 1, false, false>" in instantiation
    with pytest.raises(RowError, match="results.txt: no line of it is a time of a kernel"):
        template_rows("snektron", sets()["snektron"], "total: 1.0 ms 1 us")


TRANSPOSE = b"""#include <hip/hip_runtime.h>
#include "../types.h"
namespace transpose_kernel {
template <typename T, int ROWS, int COLUMNS, int TILE, int BLOCK, int VECTOR>
__global__ void transpose_kernel(T* out, const T* in) {
  for (int y = threadIdx.y; y < TILE; y += blockDim.y)
    for (int x = threadIdx.x; x < TILE; x += blockDim.x) {
      const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
      out[column * ROWS + row] = in[row * COLUMNS + column];
    }
}
}
"""


def test_a_source_is_compiled_with_a_rows_arguments() -> None:
    """And its launches come behind each other: none pays a whole launch."""
    shape = {"rows": "64", "columns": "128", "tile": "32", "block": "64", "vector": "4"}
    row = Row("radeonflow", "MI300X", "fp8_transpose", "src/a.cpp", "0" * 40, shape, 3.0, "abc")
    files = (("src/a.cpp", TRANSPOSE), ("types.h", b"typedef unsigned char __FP8_TYPE;"))
    told = runner.model_row(row, files)
    assert "error" not in told, told["error"]
    assert told["counters"]["groups"] == 8
    us = told["parts_us"]["replay"] + told["parts_us"]["write-back"]
    card = cards()["MI300X"]
    assert told["modelled_us"] == pytest.approx(max(card.launch_us, us + card.queued_launch_us), abs=1e-3)


KITTENS = """#include "kittens.cuh"
#include "pyutils/pyutils.cuh"
struct globals {
  gl a, b, c;
  hipStream_t stream;
};
__global__ void micro_tk(const globals g) {
  const size_t at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < g.c.rows * g.c.columns) g.c.data[at] = gridDim.y * g.a.columns + (g.stream == nullptr);
}
PYBIND11_MODULE(tk_kernel, m) {}
"""
KITTENS_HEADER = """#include <hip/hip_runtime.h>
struct gl {
  unsigned short* data;
  size_t batch, depth, rows, columns;
  struct {} nothing;
};
"""


def test_a_kernel_of_hipkittens_takes_a_struct_of_tensors() -> None:
    """Its headers are a folder of the repository; what binds it to Python is left out."""
    shape = {"n": "64", "tile": "32", "threads": "512", "lds": "160000"}
    row = Row("hipkittens", "MI355X", "kittens_gemm", "a/kernel_64.cpp", "0" * 40, shape, 3.0, "abc")
    files = ((row.code, KITTENS.encode()), ("include/kittens.cuh", KITTENS_HEADER.encode()))
    kernel, launch = kernel_of(row, files), launch_of(row, cards()["MI355X"])
    assert (launch.grid, launch.block, launch.lds_bytes) == ((4, 1, 1), (512, 1, 1), 160_000)
    kernel.launch(launch.grid, launch.block, launch.kernarg, launch.lds_bytes)
    out = launch.slots[10]
    assert isinstance(out, Memory) and (out.view("u2")[: 4 * 512] == 65).all() and not out.view("u2")[4 * 512 :].any()
    assert launch_of(replace(row, shape={**shape, "grid_dims": "2"}), cards()["MI355X"]).grid == (2, 2, 1)


def test_all_files_of_a_folder_are_a_rows_headers(tmp_path: Path) -> None:
    (tmp_path / "include/ops").mkdir(parents=True)
    for name in ("a.cpp", "include/kittens.cuh", "include/ops/ops.cuh"):
        (tmp_path / name).write_text(name)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for step in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "m"], ["tag", "v"]):
        subprocess.run([*git, *step], check=True)
    row = Row("hipkittens", "MI355X", "kittens_rotary", "a.cpp", "v:a.cpp", {"n": "1024"}, 3.0, "v")
    content = runner.content_of(row, {"hipkittens": tmp_path})
    assert content == tuple((name, name.encode()) for name in ("a.cpp", "include/kittens.cuh", "include/ops/ops.cuh"))
    with pytest.raises(RowError, match="no other nothing/"):
        runner._files(tmp_path, "other", "nothing/")


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
        "gfx950/fmha_v3_fwd/fwd_hd192_hd128_bf16_causal",  # heads that are no multiple of eight: another order
        "gfx950/fmoe/gelu/fmoe_bf16_blockscaleFp8_g1u1_vs_gelu_32x384",  # persistent, and not by its name
        "gfx950/fmoe/silu/fmoe_bf16_pertokenFp8_g1u1_tkw1_silu_1tg_32x64",  # scales to gfx942's largest fp8
    ],
)
def test_a_code_object_of_aiter_is_right(path: str) -> None:
    wanted = f"hsa/{path}.co"
    told = next(try_object(Path(AITER), name, digest) for name, digest in objects(Path(AITER)) if name == wanted)
    assert told["loaded"] and told["error"] < 5e-3, told


@pytest.mark.skipif(not AITER, reason="CDNA_AITER names no checkout of ROCm/aiter")
@pytest.mark.parametrize(
    ("name", "limit"), [("mla_a8w8_qh16_qseqlen1_gqaratio16", 0.03), ("mla_dec_stage1_bf16_a16w16_subQ16_mqa16", 2e-3)]
)
@pytest.mark.parametrize("split", [1, 4])
def test_mla_decode_of_aiter_is_right_in_splits(name: str, limit: float, split: int) -> None:
    """The fp8 one rounds probabilities to fp8."""
    path = f"hsa/gfx950/mla/{name}.co"
    digest = dict(objects(Path(AITER)))[path]
    shape = {"batch": "2", "heads": "16", "seq": "600", "split": str(split)}
    row = Row("", "MI355X", "mla_decode", path, digest, shape, 0.0, "")
    assert compare(row, runner.blob(Path(AITER), digest)) < limit


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


def test_nine_of_ten_rows_held_out_lie_within_what_the_others_say() -> None:
    """Of times whose errors are drawn alike; those of kernels on one shape are nearly the same."""
    draw = random.Random(0)
    rows = []
    for number in range(2000):
        us, of_shape = 10 ** draw.uniform(0.7, 3), draw.gauss(0, 0.08)
        for code in ("one", "other"):
            off = math.exp(of_shape + draw.gauss(0, 0.01))
            rows.append(
                {"card": "MI355X", "family": "f", "bound": "L2", "code": code, "shape": f"m={number}"}
                | {"part": "calibrate" if number % 3 else "holdout", "model": "m"}
                | {"modelled_us": us, "published_us": us * off}
            )
    for row in rows[:600:2]:
        row["bound"] = "HBM"
    told = errors.tell(rows, write=False)
    (share,) = re.findall(r"of those held out .*\((\d+)%\)", told)
    assert 85 <= int(share) <= 95, told
    fitted = [row for row in rows if row["part"] == "calibrate"]
    spreads = errors.spreads_of(fitted, fitted)
    one_shape = next(line for line in spreads if line.bound == errors.ONE_SHAPE)
    l2 = next(line for line in spreads if line.bound == "L2")
    slow = rows[0] | {"published_us": 3 * rows[0]["published_us"], "code": "slow"}
    assert errors.kept_by_somebody([*rows, slow]) == rows
    assert one_shape.high < 1.04 and 1.1 < l2.high < 1.2 and l2.rows >= errors.LEAST


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


@pytest.mark.parametrize(
    ("lacks", "words", "line"),
    [
        ("numpy", "page --results {results}", "has no module numpy: pip install"),
        ("torch", "objects --aiter {folder}", "has no module torch: pip install"),
        ("matplotlib", "page --results {results} --page {folder}/page.md", "has no module matplotlib: pip install"),
        ("torch", "page --results {results}", ""),
    ],
)
def test_a_python_that_lacks_a_module_says_which(tmp_path: Path, lacks: str, words: str, line: str) -> None:
    results = tmp_path / "results.jsonl"
    results.write_text(json.dumps(result(10.0, 11.0)) + "\n")
    run = "runpy.run_module('lab.time_model', run_name='__main__')"
    start = [sys.executable, "-c", f"import runpy, sys; sys.modules[{lacks!r}] = None; {run}"]
    more = words.format(results=results, folder=tmp_path).split()
    done = subprocess.run([*start, *more], capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2])
    assert line in done.stderr and (done.returncode != 0) == bool(line), done.stderr
    assert len(done.stderr.splitlines()) == bool(line)
