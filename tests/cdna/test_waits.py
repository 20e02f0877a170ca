"""Every wait names its place: deadlocks, loops without an end, more workgroups than the card holds, and time-outs."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import cdna
from cdna import checks
from cdna.observe import records
from tests.support.assembled import program
from tests.support.checked_launch import Plain, buffer, clean, found, launch, memory
from tests.support.hip_programs import ROOT
from tests.support.limits import ENDS_S

# Workgroups wait until as many as the first argument says have come.
MEET = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_mov_b32_e32 v1, 0
v_mov_b32_e32 v2, 1
s_waitcnt lgkmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v0
s_and_saveexec_b64 s[8:9], vcc
global_atomic_add v1, v2, s[4:5] sc1
s_waitcnt vmcnt(0)
wait:
s_sleep 2
global_load_dword v3, v1, s[4:5] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s6, v3
s_cmp_lt_u32 s6, {}
s_cbranch_scc1 wait
s_mov_b64 exec, s[8:9]
"""


def meets(count: int, groups: int, monkeypatch: pytest.MonkeyPatch, threads: str = "1") -> None:
    monkeypatch.setenv("CDNA_THREADS", threads)
    launch(program(MEET.format(count), lds_bytes=65536), [("n", buffer(1))], groups)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_all_that_the_card_holds_may_wait_for_each_other(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """304: one on each compute unit of an MI300X, by its LDS."""
    meets(304, 304, monkeypatch, threads)
    with checks.use("deadlock"):
        meets(304, 304, monkeypatch, threads)


def test_more_than_the_card_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    with checks.use("deadlock"), pytest.raises(cdna.CheckError) as caught:
        meets(305, 305, monkeypatch)
    message = caught.value.finding.message
    assert "the card has room for 304 workgroups of this kernel at once" in message
    assert "wait for some of the 1 that cannot start" in message
    assert "workgroup 0 wave 0 and 303 more polls 0x" in message and "byte 0 of `n` (i32[1])" in message
    with checks.use("deadlock"):
        meets(304, 400, monkeypatch)  # the later ones start when the first have ended


def test_a_deadlock_says_who_waits_where() -> None:
    """Wave 0 polls a word that nobody writes, wave 1 waits for it at a barrier."""
    text = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_readfirstlane_b32 s6, v0
v_mov_b32_e32 v1, 0
s_waitcnt lgkmcnt(0)
s_cmp_lg_u32 s6, 0
s_cbranch_scc1 meet
poll:
global_load_dword v2, v1, s[4:5] sc0 sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s7, v2
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 poll
meet:
s_barrier
"""
    finding = found(program(text), [("flag", buffer(1))], block=128, kinds="deadlock")
    assert finding.instruction.startswith("global_load_dword v2") or finding.instruction == "s_barrier"
    assert "workgroup 0 wave 0 polls 0x" in finding.message
    assert "workgroup 0 wave 1 wait at a barrier for 1 of the workgroup's waves, at `s_barrier" in finding.message
    assert "executed 1 times" in finding.message


def test_of_waves_at_one_line_the_one_that_polls_is_told() -> None:
    """Wave 0 goes round with no lane on, and reads nothing; which of them comes first is chance in a real program."""
    text = """
.file 1 "/src" "wait.hip"
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_mov_b32_e32 v1, 0
v_mov_b32_e32 v2, 0
v_cmp_lt_u32_e32 vcc, 63, v0
s_mov_b64 exec, vcc
s_waitcnt lgkmcnt(0)
.loc 1 7 0
poll:
global_load_dword v2, v1, s[4:5] sc0 sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s7, v2
s_cmp_eq_u32 s7, 0
s_cbranch_scc1 poll
"""
    finding = found(program(text), [("flag", buffer(1))], block=128, kinds="deadlock")
    assert "workgroup 0 wave 1 and 1 more polls 0x" in finding.message, finding.message
    assert "byte 0 of `flag` (i32[1])" in finding.message


@pytest.mark.parametrize("body", ["", "v_add_u32_e32 v1, 1, v1\ns_add_u32 s4, s4, 1\n"])
def test_endless_loop_without_an_access(body: str) -> None:
    text = f"v_mov_b32_e32 v1, 0\ns_mov_b32 s4, 0\nround:\n{body}s_branch round"
    finding = found(program(text), [], kinds="deadlock")
    if body:
        assert finding.message.startswith("an endless loop:") and "and no way out" in finding.message
    assert finding.instruction in ("s_branch round", "v_add_u32_e32 v1, 1, v1", "s_add_u32 s4, s4, 1")


def test_a_long_loop_ends() -> None:
    clean(program("s_mov_b32 s4, 0\nround:\ns_add_u32 s4, s4, 1\ns_cmp_lt_u32 s4, 3000000\ns_cbranch_scc1 round"), [])


def test_waits_of_a_launch_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a watchdog reads, without any check."""
    monkeypatch.setenv("CDNA_THREADS", "2")
    n = buffer(1)
    tensors: Plain = [("n", n)]
    p = program(MEET.format(4))
    assert cdna.waits() == "" and memory(tensors)
    runs = threading.Thread(target=launch, args=(p, tensors, 3))
    runs.start()
    deadline = time.monotonic() + ENDS_S
    while "0 of 3 workgroups have ended" not in cdna.waits() or n.item() < 3:
        assert time.monotonic() < deadline, cdna.waits()
        time.sleep(0.05)
    told = cdna.waits()
    n += 1
    runs.join()
    assert told.startswith("k on gfx942: 0 of 3 workgroups have ended\n  workgroup ")
    assert "assembly line" in told and "executed " in told
    assert cdna.waits() == ""


def test_thousands_of_waves_that_wait_leave_the_core_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "1")
    p = program(
        "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_mov_b32_e32 v1, 0\ns_waitcnt lgkmcnt(0)\n"
        "round:\ns_sleep 1\nglobal_load_dword v2, v1, s[4:5] sc0 sc1\ns_waitcnt vmcnt(0)\n"
        "v_readfirstlane_b32 s6, v2\ns_cmp_eq_u32 s6, 0\ns_cbranch_scc1 round"
    )
    flag = buffer(64)
    flag.zero_()

    def run() -> None:
        with checks.use("race"):
            launch(p, [("flag", flag)], 304, block=512)

    runs = threading.Thread(target=run)
    runs.start()
    time.sleep(1)
    began = time.process_time()
    time.sleep(2)
    used_s = time.process_time() - began
    flag[0] = 1
    runs.join()
    assert used_s < 0.6, used_s


@pytest.mark.parametrize(
    ("access", "polls"),
    [
        ("global_store_dword v1, v0, s[4:5]", False),
        (
            "v_and_b32_e32 v3, 0xffc, v1\nglobal_load_dword v2, v3, s[4:5]\ns_waitcnt vmcnt(0)\n"
            "v_add_u32_e32 v1, 4, v1",
            False,
        ),
        ("global_load_dword v2, v1, s[4:5]\ns_waitcnt vmcnt(0)", True),
    ],
)
def test_who_only_works_in_a_loop_polls_nothing(access: str, polls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "1")
    text = "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n"
    p = program(text + f"round:\n{access}\ns_branch round")

    def run() -> None:
        with checks.use("race"), contextlib.suppress(cdna.CdnaError):
            launch(p, [("x", buffer(64 << 10))], 1)

    runs = threading.Thread(target=run)
    runs.start()
    deadline = time.monotonic() + ENDS_S
    wanted = " polls 0x" if polls else " run, at `global_"
    while wanted not in (told := cdna.waits()) and time.monotonic() < deadline:
        time.sleep(0.05)
    records.cancel()
    runs.join()
    assert wanted in told and (" polls " in told) is polls, told


IN_A_ROW = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_mov_b32_e32 v1, 0
v_mov_b32_e32 v2, 1
s_sub_i32 s7, 63, s2
s_waitcnt lgkmcnt(0)
v_cmp_eq_u32_e32 vcc, 0, v0
s_and_saveexec_b64 s[8:9], vcc
wait:
global_load_dword v3, v1, s[4:5] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s6, v3
s_cmp_lg_u32 s6, s7
s_cbranch_scc1 wait
global_atomic_add v1, v2, s[4:5] sc1
"""


@pytest.mark.parametrize("kinds", ["none", "all"])
def test_who_polls_without_a_sleep_gives_its_turn_up(kinds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workgroups that wait for each other in a row, each for the next one: a scan that looks back took minutes."""
    monkeypatch.setenv("CDNA_THREADS", "1")
    records.take_records("tests")
    with checks.use(kinds):
        launch(program(IN_A_ROW), [("n", buffer(1))], 64)
    assert cdna.findings() == []
    (record,) = records.take_records("tests")
    assert record.wave_instructions < 20_000_000  # it was thousands of millions


def test_who_works_waits_for_no_room_on_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_THREADS", "1")
    text = "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_mov_b32_e32 v1, 0\ns_waitcnt lgkmcnt(0)\ns_sleep 1\n"
    p = program(text + "round:\nglobal_store_dword v1, v1, s[4:5]\ns_branch round", lds_bytes=65536)

    def run() -> None:
        with contextlib.suppress(cdna.CdnaError):
            launch(p, [("x", buffer(1))], 400)

    runs = threading.Thread(target=run)
    runs.start()
    deadline = time.monotonic() + ENDS_S
    while not ("302 more run" in (told := cdna.waits()) and "global_store" in told) and time.monotonic() < deadline:
        time.sleep(0.05)
    records.cancel()
    runs.join()
    assert "302 more run" in told and "cannot start" not in told, told


SCRIPT = f"""
import threading, time
import cdna, torch
from tests.support.checked_launch import launch
from tests.support.assembled import program
def tell():
    while "have ended\\n  workgroup 0 wave 0 run, at `" not in cdna.waits():
        time.sleep(0.05)
    print("runs", flush=True)
threading.Thread(target=tell, daemon=True).start()
launch(program({MEET.format(2)!r}), [("n", torch.zeros(1, dtype=torch.int32))])
"""


ABORTED = pytest.param(signal.SIGABRT, marks=pytest.mark.slow(reason="another signal of those that one function takes"))


@pytest.mark.parametrize("number", [signal.SIGTERM, ABORTED])
def test_a_process_that_is_stopped_says_where_it_waited(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "runs\n"
    process.send_signal(number)
    _, told = process.communicate(timeout=ENDS_S)
    assert process.returncode == -number
    assert "k on gfx942: 0 of 1 workgroups have ended\n  workgroup 0 wave 0 run, at `" in told
    assert torch.version.hip is None


INTERRUPTED = f"""
import signal, sys, threading, time
import cdna
from tests.support.assembled import program
from tests.support.checked_launch import buffer, launch

def interrupt():
    while not cdna.waits():
        time.sleep(0.01)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

kernel = {MEET.format(2)!r}  # which never ends
if "noted" in sys.argv:
    signal.signal(signal.SIGINT, lambda *_: print("noted"))
    kernel = "s_mov_b32 s9, 20000000; s_load_dwordx2 s[4:5], s[0:1], 0x0; v_mov_b32_e32 v1, 0; s_waitcnt lgkmcnt(0)"
    kernel += "; loop: global_load_dword v3, v1, s[4:5]; s_waitcnt vmcnt(0)"
    kernel += "; s_sub_u32 s9, s9, 1; s_cmp_lg_u32 s9, 0; s_cbranch_scc1 loop"
if "again" in sys.argv:  # as asyncio.run does, after a launch
    launch(program("s_nop 0"), [])
    signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
launch(program(kernel.replace("; ", chr(10))), [("n", buffer(1))])
print("done")
"""


@pytest.mark.parametrize(
    ("words", "ends"),
    [((), (-signal.SIGINT, "")), (("again",), (-signal.SIGINT, "")), (("noted",), (0, "noted\ndone\n"))],
)
def test_ctrl_c_ends_a_launch_unless_the_program_only_makes_a_note_of_it(words: tuple[str, ...], ends: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *words], cwd=ROOT, text=True, capture_output=True, timeout=ENDS_S
    )
    assert (done.returncode, done.stdout) == ends, done.stderr


def test_ctrl_c_ends_a_profile(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    command = [sys.executable, "-m", "cdna", "profile", str(script)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=ENDS_S)
    assert done.returncode == 130 and done.stderr.endswith("cdna: interrupted\n"), done.stderr
