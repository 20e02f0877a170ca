"""`cdna check`: waits on every path, what it cannot decide, and the files it reads and writes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cdna.__main__ import main
from cdna.binary.all_paths import KernelPaths, look_at
from cdna.binary.asm import parse
from tests.support.hip_programs import ROOT

HEAD = '.amdgcn_target "amdgcn-amd-amdhsa--{}"\n.text\n.file 1 "/src" "k.s"\n'
TAIL = "\n.section .rodata\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 64\n.end_amdhsa_kernel\n"
TAIL += ".amdgpu_metadata\namdhsa.kernels: [{.symbol: k.kd, .max_flat_workgroup_size: 256}]\n.end_amdgpu_metadata\n"
LOAD = "global_load_dword v1, v0, s[4:5]; "
MORE = "global_load_dword v2, v0, s[4:5] offset:4; "
WAITS = "s_waitcnt vmcnt(0) lgkmcnt(0); "
USE = "v_add_u32_e32 v3, v1, v1; "
READ = "ds_read_b32 v1, v0; "
SMEM = "s_load_dword s6, s[4:5], 0x0; "
BRANCH = "s_cbranch_scc1 other; "


def text_of(body: str, arch: str = "gfx942") -> str:
    """A kernel `k`; `body ;; function` where it calls one, `f`."""
    kernel, _, function = body.partition(";; ")
    called = f"s_endpgm\n.type f,@function\nf:\n{function}" if function else "s_endpgm"
    lines = [f".loc 1 {n}\n{line.strip()}" for n, line in enumerate(f"{kernel.strip('; ')}; {called}".split("; "), 1)]
    return HEAD.format(arch) + "k:\n" + "\n".join(lines).replace("s_endpgm\n", "s_endpgm\n") + TAIL


def kernel_of(body: str, arch: str = "gfx942", **options: int) -> KernelPaths:
    (kernel,) = look_at(parse(text_of(body, arch)), **options)
    return kernel


CALL = (
    "s_getpc_b64 s[8:9]; s_add_u32 s8, s8, f@rel32@lo+4; s_addc_u32 s9, s9, f@rel32@hi+12; "
    "s_swappc_b64 s[30:31], s[8:9]; "
)
LOOP = f"{LOAD}loop: {MORE}s_waitcnt vmcnt({{}}); {USE}{LOAD}s_cbranch_scc1 loop"
NAMED = {  # what is wrong: the text of the instruction, the wait that is needed
    "read": (f"{LOAD}{USE}", "v_add_u32_e32 v3", "vmcnt(0)"),
    "overwritten": (f"{LOAD}v_mov_b32_e32 v1, 0", "v_mov_b32_e32 v1", "vmcnt(0)"),
    "waits for too few": (f"{LOAD}{MORE}s_waitcnt vmcnt(2); {USE}", "v_add_u32_e32 v3", "vmcnt(1)"),
    "a store counts": (f"{LOAD}global_store_dword v0, v4, s[4:5]; s_waitcnt vmcnt(2); {USE}", "v_add_u32", "vmcnt(1)"),
    "on one of two paths": (f"{LOAD}{BRANCH}s_waitcnt vmcnt(0); other:; {USE}", "v_add_u32_e32 v3", "vmcnt(0)"),
    "in the next round": (LOOP.format(2), "v_add_u32_e32 v3", "vmcnt(1)"),
    "the fewest of two paths": (f"{LOAD}{BRANCH}{MORE}other:; s_waitcnt vmcnt(1); {USE}", "v_add_u32", "vmcnt(0)"),
    "LDS": (f"{READ}ds_read_b32 v2, v0; s_waitcnt lgkmcnt(2); {USE}", "v_add_u32_e32 v3", "lgkmcnt(1)"),
    "scalar loads in any order": (
        f"{SMEM}s_load_dword s7, s[4:5], 0x4; s_waitcnt lgkmcnt(1); s_mov_b32 s8, s6", "s_mov_b32 s8", "lgkmcnt(0)",
    ),
    "a scalar load may be the one that came": (
        f"{READ}{SMEM}s_waitcnt lgkmcnt(1); {USE}", "v_add_u32_e32 v3", "lgkmcnt(0)",
    ),
    "an atomic returns": (
        f"buffer_atomic_add v1, v0, s[4:7], 0 offen sc0; {USE}", "v_add_u32_e32 v3", "vmcnt(0)",
    ),
    "to accumulation registers": (
        "global_load_dword a1, v0, s[4:5]; v_accvgpr_read_b32 v3, a1", "v_accvgpr_read_b32", "vmcnt(0)",
    ),
    "what the global wave sync takes": (
        "ds_gws_init v1 offset:0 gds; s_waitcnt lgkmcnt(0); v_mov_b32_e32 v1, 0", "v_mov_b32_e32 v1", "expcnt(0)",
    ),
    "caches emptied before the flag has come": (
        "global_load_dword v1, v0, s[4:5] sc1; s_waitcnt vmcnt(1); buffer_inv sc1", "buffer_inv sc1", "vmcnt(0)",
    ),
    "in a function": (f"{LOAD}{CALL};; {USE}s_setpc_b64 s[30:31]", "v_add_u32_e32 v3", "vmcnt(0)"),
    "behind a function": (f"{CALL}{USE};; {LOAD}s_setpc_b64 s[30:31]", "v_add_u32_e32 v3", "vmcnt(0)"),
}  # fmt: skip
DOUBT = f"flat_load_dword v1, v[4:5]; s_waitcnt vmcnt(0); {USE}"
PROVEN = {
    "a flat load that another follows": f"flat_load_dword v1, v[4:5]; scratch_load_dword v1, off, off; {WAITS}",
    "waited for": f"{LOAD}s_waitcnt vmcnt(0); {USE}",
    "one behind it": f"{LOAD}{MORE}s_waitcnt vmcnt(1); {USE}",
    "both paths": f"{LOAD}{BRANCH}{MORE}s_waitcnt vmcnt(1); s_branch end; other:; s_waitcnt vmcnt(0); end:; {USE}",
    "a loop": LOOP.format(1),
    "loads of one kind come in order": f"{LOAD}{LOAD}s_waitcnt vmcnt(0); {USE}",
    "never more than the counter holds": f"{LOAD}{MORE * 63}{USE}",
    "an LDS load older than a scalar one": f"{READ}{SMEM}ds_read_b32 v2, v0; s_waitcnt lgkmcnt(1); {USE}",
    "an atomic that returns nothing": "buffer_atomic_add v1, v0, s[4:7], 0 offen; v_mov_b32_e32 v2, v1",
    "released and acquired": (
        "buffer_wbl2 sc1; global_atomic_add v2, v0, v1, s[4:5] sc0; s_waitcnt vmcnt(0); buffer_inv sc1"
    ),
    "another load's registers": f"{LOAD}v_mov_b32_e32 v2, 0",
    "a function waits": f"{LOAD}{CALL}{USE};; s_waitcnt vmcnt(0); s_setpc_b64 s[30:31]",
    "the trap handler does not come back": f"{LOAD}{BRANCH}s_waitcnt vmcnt(0); {USE}s_endpgm; other:; s_trap 2; {USE}",
}
UNDECIDED = {
    "an indirect branch": f"{LOAD}s_waitcnt vmcnt(0); s_setpc_b64 s[4:5]",
    "an indirect call": f"{LOAD}s_waitcnt vmcnt(0); s_swappc_b64 s[30:31], s[4:5]; {USE}",
    "an instruction that is not known": "s_rfe_b64 s[4:5]",
    "a branch to what is no known instruction": "s_branch elsewhere",
    "a function that calls itself, or too many calls in calls": f"{CALL};; {CALL}s_setpc_b64 s[30:31]",
    "registers named by an index while a load is under way": (
        f"{LOAD}s_set_gpr_idx_on s6, gpr_idx(SRC0); v_mov_b32_e32 v3, v4; s_set_gpr_idx_off; s_waitcnt vmcnt(0)"
    ),
}


@pytest.mark.parametrize("what", NAMED)
def test_a_use_before_the_wait_is_named(what: str) -> None:
    body, instruction, wait = NAMED[what]
    (finding,) = kernel_of(body).findings
    assert finding.kind == "wait" and finding.instruction.startswith(instruction)
    assert f"needs s_waitcnt {wait}" in finding.message and finding.certainty == "all inputs"


@pytest.mark.parametrize("what", PROVEN)
def test_enough_waits_are_proven(what: str) -> None:
    kernel = kernel_of(PROVEN[what])
    assert (kernel.verdict, kernel.findings, kernel.undecided) == ("proven", [], {})


@pytest.mark.parametrize("why", UNDECIDED)
def test_what_cannot_be_decided_is_said(why: str) -> None:
    kernel = kernel_of(UNDECIDED[why])
    assert kernel.verdict == "undecided" and kernel.undecided.keys() == {why} and not kernel.findings
    assert "/src/k.s:" in kernel.undecided[why][0]


def test_a_flat_load_may_go_to_lds() -> None:
    (finding,) = kernel_of(DOUBT).findings
    assert "lgkmcnt(0), if it may go to LDS" in finding.message and finding.certainty == "undecided"
    assert kernel_of(DOUBT.replace("vmcnt(0)", "lgkmcnt(0)")).findings[0].certainty == "all inputs"


@pytest.mark.parametrize(("code", "why"), [("k:", "a kernel without code"), ("k: s_branch end\nend:", "a branch to")])
def test_code_that_ends_before_its_end_is_undecided(code: str, why: str) -> None:
    (kernel,) = look_at(parse(HEAD.format("gfx942") + code + TAIL))
    assert kernel.verdict == "undecided" and next(iter(kernel.undecided)).startswith(why)


def test_a_limit_of_steps_is_said() -> None:
    kernel = kernel_of(f"{LOAD}loop: {MORE}s_cbranch_scc1 loop", steps=3)
    assert kernel.verdict == "undecided" and "too large" in next(iter(kernel.undecided))


def test_the_path_is_told_by_its_source_lines() -> None:
    (finding,) = kernel_of(f"{LOAD}{BRANCH}s_waitcnt vmcnt(0); other:; {USE}").findings
    assert finding.source == "/src/k.s:5" and finding.path == ("/src/k.s:2 to /src/k.s:5",)
    assert "on the path /src/k.s:2 to /src/k.s:5" in str(finding)


# Wide stores whose data is overwritten too soon: behind a masked branch (llvm-project issue 202333), and of a buffer
# with its offset in a register (197267). A scalar instruction and a load to LDS that reads m0 at once.
HAZARDS = {
    "a dropped s_nop behind a masked store": (
        "s_and_saveexec_b64 s[34:35], vcc; s_cbranch_execz other; global_store_dwordx4 v26, v[34:37], s[20:21]; "
        "other:; s_or_b64 exec, exec, s[34:35]; {}v_pk_mul_f32 v[34:35], v[2:3], v[4:5]"
    ),
    "a buffer store with an offset in a register": (
        "buffer_store_dwordx4 v[34:37], v1, s[8:11], s4 offen; {}v_mov_b32_e32 v35, 0"
    ),
    "m0": "s_mov_b32 m0, s4; {}buffer_load_dword v1, s[8:11], 0 offen lds",
    "behind a call": f"v_readfirstlane_b32 s4, v0; {CALL};; {{}}buffer_load_dword v1, v2, s[8:11], s4 offen; "
    "s_setpc_b64 s[30:31]",
}


@pytest.mark.parametrize("what", HAZARDS)
def test_hazards_on_every_path(what: str) -> None:
    (finding,) = kernel_of(HAZARDS[what].format(""), "gfx950").findings
    assert finding.kind == "hazard" and finding.consequence
    assert kernel_of(HAZARDS[what].format("s_nop 0; "), "gfx950").verdict == "proven"


# Four waves. Two buffers of 4 KiB, a part of which each wave fills by a load that goes straight there, 16 bytes a lane;
# or one of 1 KiB, into which each work-item stores a dword.
FILL = (
    "v_lshrrev_b32_e32 v1, 6, v0; v_lshlrev_b32_e32 v2, 4, v0; v_readfirstlane_b32 s6, v1; s_lshl_b32 s6, s6, 10; "
    "s_mov_b32 m0, s6; s_nop 0; buffer_load_dwordx4 v2, s[8:11], 0 offen lds; s_add_u32 m0, s6, 0x1000; s_nop 0; "
    "buffer_load_dwordx4 v2, s[8:11], 0 offen lds; "
)
STORE = "v_lshlrev_b32_e32 v2, 2, v0; ds_write_b32 v2, v1; "
OWN, FIRST, SECOND = ("ds_read_b128 v[4:7], v2", "ds_read_b128 v[4:7], v3", "ds_read_b128 v[4:7], v3 offset:4096")
OTHERS = "v_xor_b32_e32 v3, 0x400, v2; "  # of the next wave
TOGETHER = (
    "s_mov_b32 m0, s12; s_nop 0; buffer_load_dwordx4 v2, s[8:11], 0 offen lds; "
    "buffer_load_dwordx4 v2, s[8:11], 0 offen offset:64 lds; s_waitcnt vmcnt({}); s_barrier; ds_read_b128 v[4:7], v9"
)
EARLY = {  # what is wrong: what is said, of how much certainty
    "straight to LDS, the second buffer": (
        f"{FILL}s_waitcnt vmcnt(1); s_barrier; {OWN} offset:4096", "needs s_waitcnt vmcnt(0)", "all inputs",
    ),
    "straight to LDS, by another wave": (
        f"{FILL}{OTHERS}s_waitcnt vmcnt(1); s_barrier; {SECOND}", "behind a barrier before which nothing", "all inputs",
    ),
    "waited for behind the barrier": (
        f"{FILL}{OTHERS}s_barrier; s_waitcnt vmcnt(0); {SECOND}", "behind a barrier before which nothing", "all inputs",
    ),
    "a store": (
        f"{STORE}v_xor_b32_e32 v3, 0x100, v2; s_barrier; ds_read_b32 v4, v3", "needs s_waitcnt lgkmcnt(0) there",
        "all inputs",
    ),
    "a store to nobody knows where": (
        f"{STORE}s_barrier; ds_read_b32 v4, v9", "if both touch the same words", "undecided",
    ),
    "one of two loads issued together": (
        TOGETHER.format(1), "needs s_waitcnt vmcnt(0) there, if both touch the same words", "undecided",
    ),
    "a store by some lanes": (
        f"s_and_saveexec_b64 s[4:5], vcc; {STORE}s_or_b64 exec, exec, s[4:5]; s_barrier; ds_read_b32 v4, v0",
        "if both touch the same words", "undecided",
    ),
    "a store that some waves execute": (
        f"s_cbranch_scc1 other; {STORE}other:; s_barrier; v_xor_b32_e32 v3, 0x400, v0; ds_read_b32 v4, v0",
        "if both touch the same words", "undecided",
    ),
    "no barrier": (
        f"{STORE}v_xor_b32_e32 v3, 0x100, v2; s_waitcnt lgkmcnt(0); ds_read_b32 v4, v3", "without a barrier",
        "all inputs",
    ),
}  # fmt: skip
IN_TIME = {
    "the first buffer": f"{FILL}{OTHERS}s_waitcnt vmcnt(1); s_barrier; {FIRST}",
    "both buffers": f"{FILL}{OTHERS}s_waitcnt vmcnt(0); s_barrier; {FIRST}; {SECOND}",
    "both of two loads issued together": TOGETHER.format(0),
    "neither of two loads issued together": TOGETHER.format(2),
    "its own": f"{STORE}ds_read_b32 v4, v2",
    "its wave's": f"{STORE}v_xor_b32_e32 v3, 0x80, v2; ds_read_b32 v4, v3",
    "a store waited for": f"{STORE}v_xor_b32_e32 v3, 0x100, v2; s_waitcnt lgkmcnt(0); s_barrier; ds_read_b32 v4, v3",
    "elsewhere": f"{STORE}s_barrier; ds_read_b32 v4, v2 offset:1024",
    "an address that only some lanes have": (
        "v_lshlrev_b32_e32 v2, 2, v0; v_mov_b32_e32 v3, v2; s_and_saveexec_b64 s[4:5], vcc; "
        "v_xor_b32_e32 v2, 0x100, v2; s_or_b64 exec, exec, s[4:5]; ds_write_b32 v2, v1; ds_read_b32 v4, v3"
    ),
    "another address in each round": (
        f"{STORE}s_waitcnt lgkmcnt(0); loop:; v_add_u32_e32 v2, 0x100, v2; ds_read_b32 v4, v2; s_cbranch_scc1 loop"
    ),
}


@pytest.mark.parametrize("what", EARLY)
def test_lds_is_read_too_early(what: str) -> None:
    body, says, certainty = EARLY[what]
    (finding,) = kernel_of(body, "gfx950").findings
    assert says in finding.message and finding.certainty == certainty
    assert finding.kind == ("race" if what == "no barrier" else "wait")


@pytest.mark.parametrize("what", IN_TIME)
def test_lds_is_read_in_time(what: str) -> None:
    assert kernel_of(IN_TIME[what], "gfx950").findings == []


FIRST = "v_mfma_f32_16x16x16_f16 v[8:11], v[0:1], v[2:3], 0; "
AGAIN = "v_mfma_f32_16x16x16_f16 v[12:15], v[0:1], v[4:5], 0; "
PACKED = "v_pk_mul_f32 v[16:17], v[18:19], v[20:21]; "


@pytest.mark.parametrize(
    ("body", "arch", "noted"),
    [
        (FIRST + AGAIN + PACKED, "gfx950", True),
        (FIRST + "v_mov_b32_e32 v30, 0; " + AGAIN + "s_waitcnt lgkmcnt(0); " + PACKED, "gfx950", True),
        (FIRST + AGAIN.replace("v[0:1]", "v[4:5]").replace("], v[4:5], 0", "], v[2:3], 0") + PACKED, "gfx950", True),
        ("loop: " + FIRST + PACKED + BRANCH.replace("other", "loop"), "gfx950", True),  # the next round's is the second
        (FIRST + AGAIN + PACKED, "gfx942", False),
        (FIRST + "v_mov_b32_e32 v0, 0; s_nop 4; " + AGAIN + PACKED, "gfx950", False),
        (FIRST + AGAIN.replace("v[0:1]", "v[2:3]") + PACKED, "gfx950", False),  # no operand at its old place
        (FIRST + AGAIN + "s_nop 8; " + PACKED, "gfx950", False),
        (FIRST + PACKED, "gfx950", False),
        (FIRST + AGAIN + "v_mul_f32_e32 v16, v18, v20; ", "gfx950", False),
    ],
)
def test_operands_that_a_matrix_instruction_re_uses(body: str, arch: str, noted: bool) -> None:
    kernel = kernel_of(body, arch)
    assert ("unconfirmed" in kernel.note and "v_pk_mul_f32" in kernel.note) is noted
    assert kernel.verdict == "proven"


def test_files_and_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, open_ = (tmp_path / f"{name}.s" for name in ("good", "bad", "open"))
    good.write_text(text_of(PROVEN["a loop"]))
    bad.write_text(text_of(NAMED["on one of two paths"][0]))
    open_.write_text(text_of(UNDECIDED["an indirect branch"]))
    assert main(["check", str(good)]) == 0
    assert main(["check", str(good), str(open_)]) == 3
    files = ["--json", str(tmp_path / "a.json"), "--sarif", str(tmp_path / "a.sarif")]
    assert main(["check", str(good), str(bad), str(open_), *files]) == 1
    assert "3 kernels: 1 proven, 1 named, 1 undecided" in capsys.readouterr().out
    kernels = json.loads((tmp_path / "a.json").read_text())["kernels"]
    assert [kernel["verdict"] for kernel in kernels] == ["proven", "named", "undecided"]
    (run,) = json.loads((tmp_path / "a.sarif").read_text())["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "wait" and result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 5}
    steps = [step["location"]["physicalLocation"] for step in result["codeFlows"][0]["threadFlows"][0]["locations"]]
    assert [step["region"]["startLine"] for step in steps] == [1, 2, 5, 5]
    assert run["invocations"][0]["toolExecutionNotifications"]


@pytest.mark.parametrize("content", [b"", b"\x7fELF truncated", b"no code object"])
def test_what_is_no_code_object_is_bad_input(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.co"
    file.write_bytes(content)
    assert main(["check", str(file)]) == 2
    assert str(file) in capsys.readouterr().err


def test_a_scripts_launches_are_compiled_and_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, triton, triton.language as tl\n@triton.jit\ndef add(x, n: tl.constexpr):\n"
        "    at = tl.arange(0, n)\n    tl.store(x + at, tl.load(x + at) + 1)\n"
        "x = torch.zeros(64)\nadd[(1,)](x, 64)\nassert x[0] == 1\n"
    )
    assert main(["check", str(script)]) == 3
    said = capsys.readouterr()
    assert "add on gfx942: proven" in said.out and "not looked at" in said.err and "AssertionError" in said.err


def test_an_editor_and_a_commit_hook_take_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "all-paths.md").read_text()
    (task,) = json.loads(page.partition("```json\n")[2].partition("```")[0])["tasks"]
    what, where = (re.compile(part["regexp"]) for part in task["problemMatcher"]["pattern"])
    (bad := tmp_path / "bad.s").write_text(text_of(LOAD + USE))
    assert main(["check", str(bad)]) == 1
    lines = capsys.readouterr().out.splitlines()
    (first,) = (number for number, line in enumerate(lines) if what.match(line))
    said, at = what.match(lines[first]), where.match(lines[first + 1])
    assert said and at and (said[1], at[1], at[2]) == ("wait", "/src/k.s", "2") and "v1 is read before" in said[2]
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (good := tmp_path / "good.s").write_text(text_of(LOAD + WAITS + USE))
    (undecided := tmp_path / "undecided.s").write_text(text_of("s_setpc_b64 s[2:3]"))
    for file, refused in ((bad, True), (good, False), (undecided, False)):
        assert re.search(hook["files"], file.name)
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(f"{hook['entry']} {file}", shell=True, cwd=ROOT, env=environment, capture_output=True)
        assert (done.returncode != 0) == refused, done
