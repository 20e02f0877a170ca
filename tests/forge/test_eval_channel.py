"""The private channel and the floors: what must pass and what must not."""

import os
import struct
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import to_builtins

from forge.device import report
from forge.device.base import Fingerprint
from forge.device.cards import peaks_of
from forge.judge import messages
from forge.judge.channel import ChannelTampered, FrameReader, open_channel, send_command, worker_end
from forge.judge.messages import Called, Judged, Malformed, Phase, decoder, encoder
from forge.judge.output import Container, Output, Tensor, Value
from forge.judge.processes import Tail, describe_exit
from forge.judge.results import Accuracy, Status, Worst
from forge.task.problem import Floors
from forge.task.score import FloorError, evaluate_floor, work_of
from forge.tune import messages as tune


def ends():
    ours, theirs, key = open_channel()
    send, receive = worker_end(theirs.detach(), messages.COMMANDS)
    return ours, FrameReader(key, messages.EVENTS), send, receive


TENSOR = Tensor("float32", (2,), (1,), "cpu", 0)
KERNEL = report.KernelReport(
    1, 2, {"vector": 2}, (4, 1, 1), work=report.KernelWork(2.5, lines=(report.HotLine("a.py:1", 2, {}, 0),))
)
TIMES = report.ModelledTimes(report.ModelledTime(2.0, "HBM", {"HBM": 2.0}), report.ModelledTime(1.0, "L2"))
REPORT = report.DeviceReport({"k": KERNEL}, TIMES, findings=(report.Finding("race", text="race in LDS"),))
ACCURACY = Accuracy(0.5, "float64", Worst("output", (1, 0), float("inf"), 2.0), dtypes=("output is float16",))
MESSAGES = [
    messages.Call(b"layout", "same"),
    Judged(Status.FAIL, "differs", "trace", accuracy=ACCURACY, changed=("data[0]",), officially=True),
    Called(output=Output((Container("list", 2), Value(1), TENSOR), ((0, 4096),)), device_report=REPORT),
    messages.Setup("/folder", "gfx942", "gfx942", "amd", None, False),
    messages.BeginCase(2, 1, 29500),
    messages.FetchOutput(True),
    messages.CallBackToBack(b"layout"),
    messages.MakeInput(1, {"m": 1, "word": "x", "flag": True}, 7),
    messages.HandOver(1),
    messages.JudgeOutput(1, Output(), 0, True, False, True),
    messages.LookAgain(Output(unfit="no tensor"), 0),
    messages.CaseBegun(),
    messages.Fetched(),
    messages.InputMade(),
    messages.HandedOver(layout=b"layout"),
    messages.Looked(changed=True),
    messages.EndCase(),
    messages.Pid(7),
    Phase("custom_kernel"),
    messages.TaskBroken("x"),
    messages.DeviceBroken("x"),
    messages.Ready(fingerprint=Fingerprint(torch="2.9")),
    messages.CalledBackToBack(rounds_us=(1.0, 2.0), replaced=("time.monotonic",)),
    messages.CaseEnded(),
    tune.BeginTuning({"m": 1}, 3, 29500, 0.02),
    tune.RunRow("(1, 'x')", {"BLOCK": 64}),
    tune.CheckRow(),
    tune.TimeRow(None),
    tune.TuningBegun(),
    tune.RowRun(asked=("(1, 'x')",), row={"BLOCK": 64}),
    tune.RowChecked(wrong="differs"),
    tune.RowTimed(b2b_us=1.5),
]
KINDS: tuple[type, ...] = (*messages.COMMANDS, *messages.EVENTS, *messages.REFEREE_COMMANDS, *messages.REFEREE_EVENTS)
KINDS += (*tune.COMMANDS, *tune.ANSWERS)


def test_messages_arrive_whole_and_in_order():
    ours, reader, send, receive = ends()
    send(Phase("one"))
    sent = Called(message="x" * 1000, ns=float("inf"))
    send(sent)
    data = ours.recv(1 << 16)
    first = reader.feed(data[:50])
    rest = reader.feed(data[50:])
    assert first + rest == [Phase("one"), sent] and not reader.incomplete
    send_command(ours, MESSAGES[0])
    assert receive() == MESSAGES[0]
    ours.close()
    assert receive() is None


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_comes_back_as_it_was(message: Any) -> None:
    assert decoder(KINDS)(encoder()(message)) == message


def test_none_is_left_out() -> None:
    assert {type(message) for message in MESSAGES} == set(KINDS)


GOOD = to_builtins(MESSAGES[1])


def called(**fields: Any) -> dict[str, Any]:
    return {"type": "Called", **fields}


def reported(**parts: Any) -> dict[str, Any]:
    return called(device_report=parts)


def changed(**fields: Any) -> dict[str, Any]:
    return GOOD | fields


REFUSED: list[Any] = [
    None, "Judged", ["Judged", {}], {"type": "Nothing"}, {"type": "Status"}, {"status": "pass"},
    to_builtins(messages.MakeInput(0, {}, 1)),  # a command, from a worker
    changed(more=1), changed(status="passed"), changed(status=["pass"]), changed(message=None), changed(lost=1),
    changed(check_s="1"), changed(check_s=True), changed(replaced="torch.allclose"), changed(replaced=[1]),
    changed(accuracy={"rel_l2": "small"}), changed(accuracy={"worst": {"where": "output"}}), changed(officially=1),
    called(output=[]), called(output={"tree": {}}), called(output={"parts": [{"is": "Module"}]}),
    called(torch_work={"flops": "9"}), called(torch_work=[]), called(written={"now": "9"}), called(device_report=[]),
    called(fingerprint={}), reported(kernels={"k": {"launches": -1}}), reported(kernels={"k": {"launches": 1.5}}),
    reported(kernels={"k": {"by_unit": {"vector": "9"}}}), reported(kernels={"k": {"profile": {"cold": 7}}}),
    reported(kernels={"k": {"profile": {"hot": ["line"]}}}), reported(kernels={"k": {"work": []}}),
    reported(timelines={"k": {"page": "p", "events": [{"ph": "X"}]}}), reported(kernels={1: {}}),
    reported(modelled={"cold": {"us": 1.0, "bound": "compute"}}),
    reported(modelled={"cold": {"us": "1", "bound": ""}, "warm": {"us": 1, "bound": ""}}), reported(findings=[{}]),
    reported(autotuned="abc"), reported(torch=[{"place": "", "name": "mm", "kind": "magic"}]),
]  # fmt: skip


@pytest.mark.parametrize("data", REFUSED, ids=repr)
def test_whatever_is_no_message_is_refused(data: Any) -> None:
    with pytest.raises(Malformed):
        decoder(messages.EVENTS + (Judged,))(msgspec.msgpack.encode(data))


def test_what_nobody_knows_of_a_report_is_dropped() -> None:
    """No key stands for a rank, and none is looked for by how it begins."""
    data = reported(**{"rank 0": {"launches": 1}, "kernels": {"k": {"launches": 1, "more": [None]}}})
    told = decoder(messages.EVENTS)(msgspec.msgpack.encode(data))
    assert told.device_report == report.DeviceReport({"k": report.KernelReport(1)})


@pytest.mark.parametrize("head", [b"\xdd", b"\xdf", b"\xc6"], ids=["an array", "a map", "bytes"])
def test_a_frame_that_claims_more_than_it_has_costs_nothing(head: bytes) -> None:
    data = msgspec.msgpack.encode(called(host=None)).removesuffix(b"\xc0") + head + b"\xff" * 4
    started = time.process_time()
    with pytest.raises(Malformed):
        decoder(messages.EVENTS)(data)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("value", [b"\x91" * 10**6 + b"\xc0", b"\xa1\xff"], ids=["nests", "no UTF-8"])
@pytest.mark.parametrize("field", ["output", "host", "nothing", "message"])
def test_what_cannot_be_read_is_refused(field: str, value: bytes) -> None:
    with pytest.raises(Malformed):
        decoder(messages.EVENTS)(msgspec.msgpack.encode(called(**{field: None})).removesuffix(b"\xc0") + value)


def test_what_no_message_could_hold_is_replaced() -> None:
    sent = Called(message="\ud800 \u00fc", output=Output((Value("\udfff"), Value(10**30))))
    told = decoder(messages.EVENTS)(encoder()(sent))
    assert (told.message, told.output) == ("? \u00fc", Output((Value("?"), Value(hex(10**30)))))


def forged(reader: FrameReader, data: Any) -> bytes:
    """A frame that bears the worker's signature, as code that found the key would make it."""
    payload = data if isinstance(data, bytes) else msgspec.msgpack.encode(data)
    return struct.pack(">I", len(payload)) + reader._sign(reader._number, payload) + payload


@pytest.mark.parametrize("data", [called(status="passed"), b"no message", b"", 7], ids=repr)
def test_a_signed_frame_without_a_message_is_tampering(data: Any) -> None:
    reader = ends()[1]
    with pytest.raises(ChannelTampered, match="a frame that is no message"):
        reader.feed(forged(reader, data))


@pytest.mark.parametrize("forgery", ["text", "replay", "changed", "huge"])
def test_anything_else_is_tampering(forgery):
    ours, reader, send, receive = ends()
    send(Called(Status.FAIL))
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
        send(Called())
        os._exit(1)  # not reached
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    send(Called(Status.FAIL))
    assert reader.feed(ours.recv(1 << 16)) == [Called(Status.FAIL)]


def test_the_tail_keeps_the_end_and_drops_stacks():
    tail = Tail()
    tail.add(b"x" * 10_000_000 + b"\nlast\x1b[31m words\n")
    tail.add(b"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n")
    tail.add(b'  File "/run/submission.py", line 3 in custom_kernel\n')
    assert tail.lines()[-1] == "last words" and len(tail.data) < 200_000
    assert tail.total_bytes > 10_000_000
    assert tail.stack_place(Path("/run")) == "submission.py:3, in custom_kernel"
    assert tail.stack_place(Path("/other")) == ""


# What Python 3.13 and 3.14 print for a signal that faulthandler answers.
STACKS = b"""first
Current thread 0x00007f (most recent call first):
  File "/run1/submission.py", line 3 in custom_kernel

second
Current thread 0x00007f [python] (most recent call first):
  File "/run1/submission.py", line 3 in custom_kernel
  <no Python frame>

Current thread's C stack trace (most recent call first):
  Binary file "/lib/libc.so.6", at +0x3c050 [0x7f]
  <truncated rest of calls>

third
"""


def test_no_stack_is_among_last_words() -> None:
    tail = Tail()
    tail.add(STACKS)
    assert tail.last_words() == ["first", "second", "third"]
    assert tail.stack_place(Path("/run1")) == "submission.py:3, in custom_kernel"


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
    ["q", "m +", "m / 0", "__import__('os')", "m.real", "[m]", "9 ** 9 ** 9", "m if n else 0", "word", "min()", "'a'"],
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
