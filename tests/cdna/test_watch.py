"""Watches, traces and the prompt: what waves hold at a place, in assembly, HIP and Triton."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import cdna
from cdna.launch.program import Program
from tests.support.assembled import program
from tests.support.checked_launch import buffer, launch
from tests.support.hip_programs import PROGRAMS, ROOT
from tests.support.limits import ENDS_S

# out[item] = 3 * item + workgroup, in a loop of three rounds; lane-wise in v2 and scalar in s4.
LOOP = """
s_load_dwordx2 s[6:7], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_mov_b32_e32 v2, s2
s_mov_b32 s4, 0
round:
v_add_u32_e32 v2, v2, v0
s_add_u32 s4, s4, 1
s_cmp_lt_u32 s4, 3
s_cbranch_scc1 round
v_cvt_f32_u32_e32 v3, v2
s_nop 1
v_mfma_f32_4x4x1_16b_f32 a[0:3], v3, v3, 0
s_waitcnt lgkmcnt(0)
global_store_dword v1, v2, s[6:7]
"""
DEBUG = [sys.executable, "-m", "cdna", "debug"]


@pytest.fixture(scope="module")
def loop() -> Program:
    return program(LOOP)


def run(loop: Program, groups: int = 2, block: int = 128) -> None:
    out = buffer(block)
    launch(loop, [("out", out)], groups, block)
    assert (out == 3 * torch.arange(block) + groups - 1).all()


def test_registers_of_chosen_waves(loop: Program) -> None:
    seen = []
    with cdna.watch("k+8", workgroup=1, wave=1, action=lambda stop: seen.append((stop["v2:u32"], stop["s4"]))) as watch:
        run(loop)
    assert watch.hits == 1
    assert seen == [([3 * item + 1 for item in range(64, 128)], 3)]
    run(loop)
    assert watch.hits == 1, "removed with its block"


def test_sums_between_two_products() -> None:
    """Which are done together where nobody looks."""
    product = "v_mfma_f32_16x16x16_bf16 v[4:7], v[2:3], v[2:3], v[4:7]"
    ones = "v_mov_b32_e32 v{}, 0x3f803f80"
    zeros = "\n".join(f"v_mov_b32_e32 v{r}, 0" for r in range(4, 8))
    twice = program(f"{ones.format(2)}\n{ones.format(3)}\n{zeros}\ns_nop 1\n{product}\n{product}\ns_nop 7\n")
    seen: list[float] = []
    with cdna.watch("k+8", action=lambda stop: seen.append(stop["v4:f32"][0])):
        launch(twice, [("out", buffer(64))], 1, 64)
    with cdna.watch("k+9", action=lambda stop: seen.append(stop["v4:f32"][0])):
        launch(twice, [("out", buffer(64))], 1, 64)
    assert seen == [16.0, 32.0]


def test_workgroup_by_its_three_ids(loop: Program) -> None:
    stops: list[tuple[int, ...]] = []
    with cdna.watch("k", workgroup=(1, 0, 0), action=lambda stop: stops.append((*stop.workgroup, stop.wave))):
        run(loop, groups=3)
    assert stops == [(1, 0, 0, 0), (1, 0, 0, 1)]


@pytest.mark.parametrize(
    "condition, lanes, hits",
    [
        ("s4 == 2", None, 1),
        ("v2:i32 > 125", None, 2),
        ("v2:i32 > 189", None, 0),
        ("v2:i32 > 2", [1], 1),
        ("scc != 7", None, 3),
    ],
)
def test_condition(loop: Program, condition: str, lanes: list[int] | None, hits: int) -> None:
    """In the loop, which wave 0 comes to three times; lane n has n, 2n and 3n in v2."""
    with cdna.watch("k+5", wave=0, lanes=lanes, condition=condition, out=io.StringIO()) as watch:
        run(loop, groups=1)
    assert watch.hits == hits


def test_values_and_results_as_they_are_printed(loop: Program) -> None:
    out = io.StringIO()
    with cdna.watch("k+11", workgroup=0, wave=0, lanes=[1, 2], values=["v3:f32", "a1:f32", "s[4:5]:i32"], out=out):
        with cdna.watch("k+10", workgroup=0, wave=0, lanes=2, out=out):
            data = buffer(64)
            launch(loop, [("out", data)])
    text = out.getvalue()
    assert "k, workgroup (0, 0, 0), wave 0, lanes 1,2\n  v3:f32 = 3 6\n" in text
    assert "v_mfma_f32_4x4x1_16b_f32 a[0:3], v3, v3, 0  ; a0:f32 = 0, a1:f32 = 18, a2:f32 = 36, a3:f32 = 54\n" in text


def test_a_function_that_raises_ends_the_launch(loop: Program) -> None:
    def action(stop: cdna.Stop) -> None:
        raise ValueError(f"wave {stop.wave}")

    with cdna.watch("k+5", action=action) as watch, pytest.raises(ValueError, match="^wave 0$"):
        run(loop)
    assert watch.hits == 1
    run(loop)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"where": "kernel.py:x"}, "'kernel.py:x': a place is FILE:LINE, KERNEL or KERNEL+N"),
        ({"lanes": 64}, "lanes: 64: a wave has lanes 0 to 63"),
        ({"values": "v3:f31"}, "'v3:f31' is no value: v3, "),
        ({"values": "v3:f64"}, "'v3:f64': f64 takes two registers, as in v[2:3]:f64"),
        ({"condition": "v3 ~ 4"}, "'v3 ~ 4' is no condition: VALUE == NUMBER"),
        ({"condition": "v3 == x"}, "'v3 == x': 'x' is no number"),
    ],
)
def test_what_is_not_understood(arguments: dict, message: str) -> None:
    with pytest.raises(cdna.CdnaError) as caught:
        cdna.watch(**{"where": "k", **arguments})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "value, message",
    [
        ("v77", "v77: the kernel has"),
        ("lds[0]", "lds[0]: the workgroup has 0"),
        ("n", "n: not one of the kernel's arg"),
    ],
)
def test_what_a_kernel_does_not_have(loop: Program, value: str, message: str) -> None:
    with cdna.watch("k", values=value, out=io.StringIO()), pytest.raises(cdna.CdnaError) as caught:
        run(loop)
    assert str(caught.value).startswith(message)


def test_a_line_without_code_is_told(loop: Program, capsys: pytest.CaptureFixture[str]) -> None:
    with cdna.watch("nowhere.py:3"):
        run(loop)
    assert capsys.readouterr().err == "cdna: watch nowhere.py:3: no code there in k; nor elsewhere in that file\n"


def test_a_trace_has_every_instruction_of_one_wave(loop: Program, tmp_path: Path) -> None:
    with cdna.trace(tmp_path / "t.txt", workgroup=1, wave=1) as trace:
        run(loop)
    lines = (tmp_path / "t.txt").read_text().splitlines()
    code = [line for line in lines if line.startswith("  ")]
    assert lines[0] == "k, workgroup 1, wave 1"
    assert len(code) == trace.instructions == 4 + 3 * 4 + 6
    assert code[4] == "      4 v_add_u32_e32 v2, v2, v0  ; v2:u32 = 65"
    assert code[-1] == "     13 s_endpgm"


def test_with_checks_and_counters(loop: Program) -> None:
    cdna.stats(), cdna.findings()  # not those of tests before
    with cdna.checks.use("all"), cdna.counting(), cdna.watch("k", out=io.StringIO()) as watch:
        run(loop, groups=1)
    (record,) = cdna.stats()
    assert watch.hits == 2 and record.counters is not None and record.by_unit["memory"] == 2
    assert cdna.findings() == []


def debug(commands: str, *words: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [*DEBUG, *map(str, words)],
        cwd=cwd,
        input=commands,
        capture_output=True,
        text=True,
        timeout=ENDS_S,
        env={**os.environ, **path},
    )


def block_of(page: str, what: str) -> str:
    found = re.search(rf"<!-- {what} -->\n```\w*\n(.*?)```", page, re.DOTALL)
    assert found, what
    return found[1]


def in_order(wanted: str, told: str) -> None:
    """Each line of the one stands in the other, in this order."""
    number = re.compile(r"^ +\d+ ", re.MULTILINE)  # of an instruction: compilers differ
    lines = iter(number.sub("  ", told).splitlines())
    for line in number.sub("  ", wanted).splitlines():
        assert line in lines, f"{line!r} is missing, or not in its place, in:\n{told}"


def test_the_guide_shows_what_is_printed(tmp_path: Path) -> None:
    """Triton's own example: the watch, the prompt."""
    page = (ROOT / "docs" / "debugging.md").read_text()
    (tmp_path / "scale.py").write_text(block_of(page, "example: scale.py"))
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    watched = subprocess.run(
        [sys.executable, "scale.py", "watch"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=ENDS_S,
        env={**os.environ, **path},
    )
    assert watched.returncode == 0, watched.stderr
    in_order(block_of(page, "output: watch"), watched.stdout.replace(f"{tmp_path}/", ""))
    told = debug(block_of(page, "commands"), "scale.py", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    in_order(block_of(page, "output: debug"), told.stdout.replace(f"{tmp_path}/", ""))


@pytest.mark.usefixtures("hip_compiler")
def test_prompt_and_trace_of_a_hip_program(tmp_path: Path) -> None:
    saxpy = PROGRAMS / "saxpy.hip"
    told = debug(
        "break saxpy if s2 == 3\nbreak saxpy.hip:900\nonly 3 2\nrun\np arg0:f32 arg3:i32\nfoo\nstep 2\n\nlist 1\nc\n",
        saxpy,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("break 1, ") == 1 and "saxpy, workgroup (3, 0, 0), wave 2\n" in told.stdout
    in_order(
        "  arg0:f32 = 3\n  arg3:i32 = 10007\ncdna: 'foo' is no command: help lists them\n(cdna) step 2", told.stdout
    )
    assert re.search(r"break saxpy.hip:900: no code there in saxpy; lines of that file with code: 4, 5", told.stderr)
    traced = debug("", "--trace-wave", "0:0", "--trace-file", tmp_path / "t", saxpy)
    assert traced.returncode == 0 and traced.stdout == "", traced.stderr
    assert (tmp_path / "t").read_text().startswith(f"saxpy, workgroup 0, wave 0\n{saxpy}:")


def test_prompt_of_what_is_not_there() -> None:
    told = debug("", "nothing.py")
    assert told.returncode == 2 and told.stderr == "cdna: nothing.py: No such file or directory\n"
    assert (
        debug("", "--trace-wave", "0", PROGRAMS / "saxpy.hip").stderr == "cdna: --trace-wave 0: GROUP:WAVE, as in 0:1\n"
    )
