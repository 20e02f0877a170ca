"""Emulated time, and the order in which workgroups and waves run."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

import cdna
from cdna.engine import abi
from cdna.errors import CdnaError
from cdna.memory.peers import _turns_of, turns_of
from tests.support.hip_programs import PROGRAMS, preload, run, run_built
from tests.support.limits import ENDS_S

ORDERS = PROGRAMS / "order.hip"


def test_clocks() -> None:
    began = time.monotonic()
    times = set()
    for _ in range(2):
        done = run_built(PROGRAMS / "clocks.hip", "0.3", CDNA_THREADS="1")
        assert done.returncode == 0, done.stdout + done.stderr
        times.add(done.stdout)
    assert len(times) == 1  # on one thread, to the cycle
    assert time.monotonic() - began < ENDS_S / 2  # waits of 0.3 s of the device's take a second or two of the host's


def test_checks_change_no_time() -> None:
    outputs = [
        run_built(PROGRAMS / "clocks.hip", "0.001", CDNA_THREADS="1", CDNA_CHECKS=checks) for checks in ("none", "all")
    ]
    assert outputs[0].returncode == outputs[1].returncode == 0, outputs[1].stdout + outputs[1].stderr
    assert outputs[0].stdout == outputs[1].stdout != ""


def test_a_thread_that_is_held_up_moves_no_clock(tmp_path: Path) -> None:
    late = preload("late_clock.c", tmp_path)
    done = run_built(PROGRAMS / "polls.hip", "0.25", CDNA_THREADS="4", LD_PRELOAD=str(late))
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(done.stdout) < 1  # and not the 10^11 s that a step back is as an unsigned number


def test_a_stranger_in_a_lost_peers_place_slows_no_clock() -> None:
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(root), str(root / "tests")])
    variables = {**os.environ, "PYTHONPATH": path, "CDNA_THREADS": "1", "CDNA_PEERS": "ours"}
    command = [sys.executable, str(root / "tests/support/peer_places.py")]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=ENDS_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(done.stdout) < 6  # 1.1 s, and not 12


@triton.jit
def _long(out, n):
    total = tl.load(out + tl.arange(0, 64))
    for _ in range(n):
        total = total * 2.0
    tl.store(out + tl.arange(0, 64), total)


def test_turns_are_seen_from_outside_while_a_kernel_works() -> None:
    me, out = [os.getpid()], torch.ones(64)

    def launch(n: int) -> None:
        with cdna.device("gfx942"):
            _long[(1,)](out, n, num_warps=1)

    launch(1)
    before, again = turns_of(me), turns_of(me)
    assert before == again
    thread = threading.Thread(target=launch, args=(20_000_000,))
    thread.start()
    seen = {before}
    while thread.is_alive():
        seen.add(turns_of(me))
        thread.join(0.01)
    assert len(seen) > 10  # one workgroup, one wave


@pytest.mark.parametrize("ended, turns", [(256, 0), (1, 0), (0, None)])
def test_places_of_processes_that_have_ended_are_free(ended: int, turns: int | None, tmp_path: Path) -> None:
    process = tmp_path / "5"
    (process / "root/dev/shm").mkdir(parents=True)
    (process / "root/dev/shm").chmod(0o1777)
    (process / "status").write_text("NSpid:\t5\n")
    for owner in range(1000 + ended, 1256):
        (process / "root/proc" / str(owner)).mkdir(parents=True)
    beat = abi.record("Beat")
    page = b"".join(beat.pack(0, 7, 0, owner, *[0] * 9) for owner in range(1000, 1256))
    (process / "root/dev/shm/cdna-peers-0").write_bytes(page)
    assert _turns_of(process) == turns


@pytest.mark.parametrize("kernel, by_luck", [("0", False), ("1", True), ("2", True)])
def test_a_seed_finds_what_depends_on_the_order(kernel: str, by_luck: bool) -> None:
    results = [run_built(ORDERS, kernel, CDNA_THREADS="1", CDNA_ORDER_SEED=str(seed)).returncode for seed in range(4)]
    assert results[0] == 0  # the card's order
    assert (1 in results[1:]) == by_luck and set(results) <= {0, 1}


def test_a_wrong_seed_is_told() -> None:
    done = run(ORDERS, "--", "0", CDNA_ORDER_SEED="first")
    assert done.returncode == 2 and "CDNA_ORDER_SEED=first: a whole number" in done.stderr
    with pytest.raises(CdnaError, match="order_seed=-1"), cdna.device("gfx942", order_seed=-1):
        pass


@triton.jit
def _append(out, count):
    at = tl.atomic_add(count, 1)
    tl.store(out + at, tl.program_id(0))


def _order(seed: int | None) -> list[int]:
    out, count = torch.full((1000,), -1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with cdna.device("gfx942", order_seed=seed):
        _append[(1000,)](out, count, num_warps=1)
    return out.tolist()


def test_workgroups_start_in_the_cards_order_or_a_drawn_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "1")
    monkeypatch.delenv("CDNA_ORDER_SEED", raising=False)
    in_order = list(range(1000))
    assert _order(None) == in_order
    drawn = [_order(7), _order(7)]
    assert drawn[0] != drawn[1]  # each launch has its own
    for order in drawn:
        assert sorted(order) == in_order != order
    monkeypatch.setenv("CDNA_ORDER_SEED", "8")
    assert sorted(_order(None)) == in_order != _order(None)
    assert _order(0) == in_order


@triton.jit
def _wait_for_the_first(flag, out):
    if tl.program_id(0) == 0:
        tl.atomic_xchg(flag, 1, sem="release")
    else:
        while tl.atomic_add(flag, 0, sem="acquire") == 0:
            pass
    tl.store(out + tl.program_id(0), 1)


@pytest.mark.parametrize("seed", [1, 2])
def test_what_waits_for_a_lower_workgroup_ends_in_any_order(seed: int) -> None:
    flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(200, dtype=torch.int32)
    with cdna.device("gfx942", order_seed=seed):
        _wait_for_the_first[(200,)](flag, out, num_warps=1)
    assert out.sum() == 200
