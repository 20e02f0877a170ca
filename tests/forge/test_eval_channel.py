"""The private channel and the floors: what must pass and what must not."""

from __future__ import annotations

import os

import pytest

from forge.device.cards import peaks_of
from forge.judge.channel import ChannelTampered, FrameReader, open_channel, send_command, worker_end
from forge.judge.processes import Tail, describe_exit
from forge.task.problem import Floors
from forge.task.score import FloorError, evaluate_floor, work_of


def ends():
    ours, theirs, key = open_channel()
    send, receive = worker_end(theirs.detach())
    return ours, FrameReader(key), send, receive


def test_messages_arrive_whole_and_in_order():
    ours, reader, send, receive = ends()
    send({"event": "phase", "phase": "one"})
    send({"event": "result", "value": [1, 2.5, None, "x" * 1000]})
    data = ours.recv(1 << 16)
    first = reader.feed(data[:50])
    rest = reader.feed(data[50:])
    assert [m["event"] for m in first + rest] == ["phase", "result"] and not reader.incomplete
    send_command(ours, {"command": "run", "args": {"m": 1}})
    assert receive() == {"command": "run", "args": {"m": 1}}
    ours.close()
    assert receive() is None


@pytest.mark.parametrize("forgery", ["text", "replay", "changed", "huge"])
def test_anything_else_is_tampering(forgery):
    ours, reader, send, receive = ends()
    send({"event": "result", "status": "fail"})
    genuine = ours.recv(1 << 16)
    if forgery == "text":
        data = b"check: pass\n" * 20
    elif forgery == "replay":
        reader.feed(genuine)
        data = genuine
    elif forgery == "changed":
        data = genuine.replace(b"fail", b"pass")
        assert data != genuine
    else:
        data = b"\xff" * 64
    with pytest.raises(ChannelTampered):
        reader.feed(data)


def test_a_forked_copy_of_the_worker_ends_when_it_reports():
    ours, reader, send, receive = ends()
    pid = os.fork()
    if pid == 0:
        send({"event": "result", "status": "pass"})
        os._exit(1)  # not reached
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    send({"event": "result", "status": "fail"})
    assert [m["status"] for m in reader.feed(ours.recv(1 << 16))] == ["fail"]


def test_the_tail_keeps_the_end_and_drops_stacks():
    tail = Tail()
    tail.add(b"x" * 10_000_000 + b"\nlast\x1b[31m words\n")
    tail.add(b"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n")
    tail.add(b'  File "/run/submission.py", line 3 in custom_kernel\n')
    assert tail.lines()[-1] == "last words" and len(tail.data) < 200_000
    assert tail.total_bytes > 10_000_000
    from pathlib import Path

    assert tail.stack_place(Path("/run")) == "submission.py:3, in custom_kernel"
    assert tail.stack_place(Path("/other")) == ""


def test_exit_descriptions():
    assert describe_exit(3) == "the process ended itself with exit code 3"
    assert "SIGSEGV (segmentation fault)" in describe_exit(-11)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * m * n", 48),
        ("-(-m // 5)", 1),
        ("min(m, n) + max(1, 2) + ceil(n / 4)", 8),
        ("2 ** m % 7", 2),
        ("has_bias * n", 6),
        ("1000 * (m == 4)", 1000),
        ("m * 1.5e0", 6),
    ],
)
def test_floors_are_arithmetic(expression, value):
    assert evaluate_floor(expression, {"m": 4, "n": 6, "has_bias": "True"}) == value


@pytest.mark.parametrize(
    "expression",
    [
        "q",
        "m +",
        "m / 0",
        "__import__('os')",
        "m.real",
        "[m]",
        "9 ** 9 ** 9",
        "m if n else 0",
        "word",
        "min()",
        "'a'",
    ],
)
def test_floors_are_nothing_else(expression):
    with pytest.raises(FloorError):
        evaluate_floor(expression, {"m": 4, "n": 6, "word": "abc"})


def test_speed_of_light_is_the_slowest_of_three():
    case, card = {"m": 1024, "n": 1536, "k": 7168}, peaks_of("gfx942")
    gemm = Floors("2 * m * n * k", "fp8", "m * k + n * k + 2 * m * n")
    work = work_of(gemm, case, card)
    assert work is not None and work.light_us == pytest.approx(8.62, abs=0.01) and work.bound == "compute"
    copy = work_of(Floors(None, "none", "5300 * m"), {"m": 1000}, card)
    assert copy is not None and copy.light_us == pytest.approx(1.0) and copy.bound == "memory"
    link = work_of(Floors(None, "none", "1", "448 * m"), {"m": 1000}, card)
    assert link is not None and link.light_us == pytest.approx(1.0) and link.bound == "link"
    unknown = work_of(gemm, case, peaks_of("sm_70"))
    assert unknown is not None and unknown.light_us is None and unknown.flops == 2 * 1024 * 1536 * 7168
    assert work_of(None, case, card) is None
