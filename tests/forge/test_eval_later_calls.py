"""Calls with other data where a reference says how to make it of the first, and which of its rows stand alone."""

import json
from pathlib import Path

from tests.support.evaltools import EVAL, TASK, judge, run_command, statuses, write_problem

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
    time.sleep(1.2 * (len(data[0]) == {ROWS} and data[0].shape[1] < 8))
    return data[0] * 2
def check_implementation(data, out):
    good = out.shape == data[0].shape and torch.equal(out, ref_kernel(data))
    return good, "" if good else "values differ"
"""
# By the number of columns, which each case has another of.
KERNEL = f"""
import collections, torch
CALLS = collections.Counter()
def custom_kernel(data):
    x = data[0]
    n, out = x.shape[1], x * 2
    CALLS[n] += 1
    later = CALLS[n] > 1
    assert not later or x[0, 0] > 100 and x[{ROWS - 1}, 0] > 100 * {ROWS}
    if n == 5 and later: out[:, 0] += 1
    if n == 6 and not later: out[17, 3] += 1
    if n == 7 and later: out = out[:5]
    if n == 8 and later: out[7] += 1
    return out
"""


def test_later_data_is_made_of_the_first_and_judged_by_a_part(tmp_path: Path) -> None:
    """Unless the output has no parts, or it is soon judged whole: so is the first call."""
    task = TASK.replace("benchmarks:", "  - {n: 7, seed: 4}\n  - {n: 8, seed: 5}\nbenchmarks:")
    problem = write_problem(tmp_path / "problem", task, REFERENCE)
    done, result = judge(tmp_path, KERNEL, "test", problem=problem)
    right, wrong_in_all, wrong_at_first, without_parts, soon_judged = result["cases"]
    assert statuses(result) == ["pass"] + ["fail"] * 4, done.stdout
    assert "judged of later calls: 8 of 40 rows, drawn after each" in done.stdout
    rows = [int(row) for row in right["later_part"].removeprefix("8 of 40 rows: ").split(", ")]
    assert len(set(rows)) == 8 and set(rows) <= set(range(ROWS))
    assert "values differ" in wrong_in_all["message"] and wrong_in_all["later_part"] in done.stdout
    assert [one["later_part"] for one in (wrong_at_first, without_parts, soon_judged)] == [""] * 3
    assert "values differ" in soon_judged["message"]


SOON = """
import sys
sys.path.insert(0, {root!r})
from forge.judge import referee
referee.PART_FROM_S = 0.0
from forge.commands.eval import main
sys.exit(main(sys.argv[1:]))
"""
RANKS = """
import collections, torch
import torch.distributed as dist
CALLS = collections.Counter()
def custom_kernel(data):
    a, weight, bias = data
    CALLS[a.shape] += 1
    partial = a @ weight.T if bias is None else a @ weight.T + bias
    out = partial.new_empty((len(partial) // dist.get_world_size(), partial.shape[1]))
    dist.reduce_scatter_tensor(out, partial)
    if len(a) == 128 and CALLS[a.shape] > 1 and dist.get_rank() == 1:
        out += 1
    return out
"""


def test_ranks_judge_the_same_rows_of_later_calls(tmp_path: Path) -> None:
    (tmp_path / "soon.py").write_text(SOON.format(root=str(EVAL.parent)))
    (tmp_path / "submission.py").write_text(RANKS)
    words = ["test", "amd-gemm-rs", "--device", "gfx942", "--json", "out.json", "--no-history"]
    for m in (64, 128):
        words += ["--case", f"world_size: 2, m: {m}, n: 32, k: 64, has_bias: false, seed: 3"]
    done = run_command(*words, cwd=tmp_path, script=tmp_path / "soon.py")
    told = json.loads((tmp_path / "out.json").read_text())
    assert statuses(told) == ["pass", "fail"], done.stdout
    for case, rows in zip(told["cases"], (32, 64), strict=True):
        assert case["later_part"].startswith(f"8 of {rows} rows of each rank: ")
