"""Cases of several ranks: the first failing rank's own message, the others ended, the next case unharmed."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from forge.device.fake_rocm import launch
from forge.judge import fork_server
from forge.judge.rank_order import RankOrder
from tests.support.evaltools import RANKS_REFERENCE, RANKS_TASK, judge, statuses, write_problem

HEAD = """
import os, time
import torch.distributed as dist
def total(x):
    y = x.clone()
    dist.all_reduce(y)
    return y
def custom_kernel(x):
    n, rank = len(x), dist.get_rank()
"""

# length of the input: (what the kernel does, status, rank that is named, its message); even ones are right
KINDS = {
    5: ("y = total(x); y[2] += rank; return y", "fail", 1, "sums differ"),
    7: ("if rank == 1: raise ValueError('rank one is unhappy')", "error", 1, "ValueError: rank one is unhappy"),
    9: ("if rank == 0: os.abort()", "crash", 0, "SIGABRT"),
    11: ("if rank == 1: time.sleep(600)", "timeout", None, "no result after 10 s in custom_kernel (submission.py:"),
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ranks")
    cases = "".join(f"  - {{world_size: 2, n: {n}, seed: 1, flag: true}}\n" for n in range(4, 13))
    old = RANKS_TASK[RANKS_TASK.index("tests:") + 7 : RANKS_TASK.index("benchmarks:")]
    problem = write_problem(folder / "problem", RANKS_TASK.replace(old, cases), RANKS_REFERENCE)
    source = HEAD + "".join(f"    if n == {n}:\n        {body}\n" for n, (body, *_) in KINDS.items())
    return judge(folder, source + "    return total(x)\n", "test", "--timeout", "10", problem=problem)[1]


@pytest.mark.parametrize("n", KINDS)
def test_a_failing_rank_is_named_and_the_next_case_unharmed(judged: dict[str, Any], n: int) -> None:
    _, status, rank, text = KINDS[n]
    case, after = judged["cases"][n - 4 : n - 2]
    assert (case["status"], after["status"]) == (status, "pass"), (case, after)
    assert text in case["message"]
    assert rank is None or case["rank"] == rank
    if status == "fail":
        assert case["accuracy"]["rank"] == 1 and case["accuracy"]["worst"]["index"] == [2]
    if status == "timeout":  # where each of the two is
        assert case["rank"] == 0 and "; rank 1 in custom_kernel (submission.py:" in case["message"]


def test_false_is_true_on_the_leaderboard_and_false_when_asked(tmp_path: Path) -> None:
    problem = write_problem(tmp_path / "problem", RANKS_TASK, RANKS_REFERENCE)
    source = "import torch.distributed as dist\n" + (
        "def custom_kernel(x):\n    y = x.clone(); dist.all_reduce(y)\n"
        "    if dist.get_rank() == 0: print('mean', x.mean().item(), flush=True); raise SystemExit\n"
        "    return y\n"
    )
    means = {}
    for option in ("--no-accuracy", "--honest-bools"):
        done, result = judge(tmp_path, source, "test", "--cases", "1", option, problem=problem)
        means[option] = float(result["cases"][0]["last_words"][0].split()[1])
        assert any("flag: False reaches" in note for note in result["notes"]) is (option == "--no-accuracy")
    assert means["--no-accuracy"] == pytest.approx(means["--honest-bools"] + 1.0, abs=1e-5)


# Notes which process had which rank, and keeps the first rank of its process as if it were the GPU's.
KEEPS = """
import os
import torch.distributed as dist
kept = []
def custom_kernel(x):
    told = [None, None]
    dist.all_gather_object(told, f"{os.getpid()} {dist.get_rank()}")
    print(*told, flush=True)
    kept.append(dist.get_rank())
    y = x.clone()
    dist.all_reduce(y)
    return y if kept[0] == dist.get_rank() else y + 1
"""


@pytest.mark.parametrize("fixed", [False, True])
def test_a_process_gets_another_rank_in_each_case(tmp_path: Path, fixed: bool) -> None:
    """So that what it keeps for a GPU from case to case goes wrong here as on the leaderboard."""
    problem = write_problem(tmp_path / "problem", RANKS_TASK, RANKS_REFERENCE)
    options = ["--fixed-ranks"] * fixed
    _, result = judge(tmp_path, KEEPS, "test", *options, problem=problem)
    told = [case["last_words"][-1].split() for case in result["cases"]]
    first, second, third = (dict(zip(words[::2], words[1::2], strict=True)) for words in told)
    assert set(first.values()) == {"0", "1"} and set(first) == set(second)  # in the same two processes
    assert first == third and (first == second) is fixed
    assert statuses(result) == ["pass", "pass" if fixed else "fail", "pass"]
    order = [case["processes"] for case in result["cases"]]
    assert sorted(order[0]) == [0, 1] and order[0] == order[2] and (order[0] == order[1]) is fixed
    assert any("--fixed-ranks" in note for note in result["notes"]) is fixed


def test_the_order_of_ranks_follows_from_the_seed() -> None:
    def orders(seed: int | None, count: int = 20) -> list[list[int]]:
        drawn = RankOrder(8, seed)
        return [drawn.next(8) for _ in range(count)]

    assert orders(None) == orders(None) == orders(0) != orders(7)
    for before, after in zip(orders(7), orders(7)[1:]):
        assert sorted(after) == list(range(8)) and all(a != b for a, b in zip(before, after))
    assert [RankOrder(1, 3).next(1) for _ in range(2)] == [[0], [0]]
    some = RankOrder(4, 3)
    for _ in range(20):
        assert len(set(some.next(2))) == 2 and some.next(1)[0] in range(4)
    assert RankOrder(4, 3, fixed=True).next(3) == [0, 1, 2]


@pytest.mark.parametrize("is_rank", [True, False])
def test_what_the_referees_of_all_ranks_import_is_imported_once(is_rank: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is one alone it does so itself, while the submission is imported."""
    imported = Mock()
    for place, name in ((fork_server, "_print_to"), (launch, "share_among_forks")):
        monkeypatch.setattr(place, name, Mock())
    monkeypatch.setattr(fork_server, "import_ahead", imported)
    monkeypatch.setattr("forge.device.resolve", Mock())
    order = fork_server.Order("gfx942", "gfx942", fork_server.SUBMISSIONS, "", is_rank, None, {}, ahead=False)
    assert fork_server._warm_up(order, 2) is None
    assert [call.args for call in imported.call_args_list] == [(fork_server.SOON,)] * is_rank
