"""Calls with other data where a reference says how to make it of the first, and which of its rows stand alone."""

import json
from pathlib import Path

import pytest

from tests.support.evaltools import EVAL, judge, run_command, statuses, write_problem

ROWS = 40
# What lies in `rest` is of no use, and so large that an input is not simply drawn anew: 256 MiB.
REFERENCE = f"""
import time
import torch
def generate_input(n, seed):
    return torch.full(({ROWS}, n), float(seed % 7 + 1), device="cuda"), torch.zeros(1 << 26, device="cuda")
def redraw(data):
    data[0].copy_(data[0] + torch.arange(1, {ROWS + 1}, device="cuda")[:, None] * 100)
    return data
def part(data, output, choose):
    rows = choose(len(output), "rows").to(output.device)
    return (data[0][rows], None), output[rows]
def ref_kernel(data):
    time.sleep({{}} * (len(data[0]) == {ROWS}))
    return data[0] * 2
def check_implementation(data, out):
    good = out.shape == data[0].shape and torch.equal(out, ref_kernel(data))
    return good, "" if good else "values differ"
"""
KERNEL = """
import torch
calls = 0
def custom_kernel(data):
    global calls
    calls += 1
    x = data[0]
    out = x * 2
    {}
    return out
"""


def run(folder: Path, change: str, seconds: float = 1.2) -> tuple[str, str, str]:
    """Its status, its message, and what was judged of later calls."""
    problem = write_problem(folder / "problem", reference=REFERENCE.format(seconds))
    done, result = judge(folder, KERNEL.format(change), "test", "--cases", "0", problem=problem)
    case = result["cases"][0]
    return case["status"], case["message"] + done.stdout, case["later_part"]


def test_later_data_is_made_of_the_first_and_judged_by_a_part(tmp_path: Path) -> None:
    expected = f"assert calls == 1 or x[0, 0] > 100 and x[{ROWS - 1}, 0] > 100 * {ROWS}"
    status, said, part = run(tmp_path, expected)
    assert status == "pass" and "judged of later calls: 8 of 40 rows, drawn after each" in said, said
    rows = [int(row) for row in part.removeprefix("8 of 40 rows: ").split(", ")]
    assert len(set(rows)) == 8 and set(rows) <= set(range(ROWS))


def test_what_is_wrong_in_every_row_of_a_later_call_fails(tmp_path: Path) -> None:
    status, said, part = run(tmp_path, "if calls > 1: out[:, 0] += 1")
    assert status == "fail" and "values differ" in said and part in said


def test_the_first_call_is_judged_whole(tmp_path: Path) -> None:
    assert run(tmp_path, "if calls == 1: out[17, 3] += 1")[::2] == ("fail", "")


def test_a_later_output_that_has_no_parts_is_judged_whole(tmp_path: Path) -> None:
    status, said, part = run(tmp_path, "if calls > 1: out = out[:5]")
    assert status == "fail" and not part, said


def test_what_is_soon_judged_is_judged_whole(tmp_path: Path) -> None:
    status, said, part = run(tmp_path, "if calls > 1: out[7] += 1", seconds=0)
    assert status == "fail" and "values differ" in said and part == ""


SOON = """
import sys
sys.path.insert(0, {root!r})
from forge.judge import referee
referee.PART_FROM_S = 0.0
from forge.commands.eval import main
sys.exit(main(sys.argv[1:]))
"""
RANKS = """
import torch
import torch.distributed as dist
calls = 0
def custom_kernel(data):
    global calls
    calls += 1
    a, weight, bias = data
    partial = a @ weight.T if bias is None else a @ weight.T + bias
    out = partial.new_empty((len(partial) // dist.get_world_size(), partial.shape[1]))
    dist.reduce_scatter_tensor(out, partial)
    if calls > 1 and dist.get_rank() == 1:
        out += {}
    return out
"""


@pytest.mark.parametrize(("more", "status"), [(0, "pass"), (1, "fail")])
def test_ranks_judge_the_same_rows_of_later_calls(more: int, status: str, tmp_path: Path) -> None:
    (tmp_path / "soon.py").write_text(SOON.format(root=str(EVAL.parent)))
    (tmp_path / "submission.py").write_text(RANKS.format(more))
    case = "world_size: 2, m: 64, n: 32, k: 64, has_bias: false, seed: 3"
    words = ["test", "amd-gemm-rs", "--device", "gfx942", "--case", case, "--json", "out.json", "--no-history"]
    done = run_command(*words, cwd=tmp_path, script=tmp_path / "soon.py")
    told = json.loads((tmp_path / "out.json").read_text())
    assert statuses(told) == [status], done.stdout
    assert told["cases"][0]["later_part"].startswith("8 of 32 rows of each rank: ")
