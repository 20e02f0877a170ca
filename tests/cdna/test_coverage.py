"""The lists behind `python -m cdna coverage`: recording, consistency with the engine, and what the command prints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cdna.__main__ import main
from cdna.cards import ARCHS
from cdna.commands.coverage import coverage, implemented
from cdna.errors import KernelFault
from cdna.hip.compile.compilers import package_dir
from cdna.isa import instructions
from cdna.testing.snippet import run
from lab.instruction_table.probe import known

# Instructions that both archs have, that CDNA4 added, and that other families of AMD's GPUs have instead.
ON_BOTH = ["v_add_f32", "v_mfma_f32_16x16x32_fp8_fp8", "ds_bpermute_b32", "s_bitreplicate_b64_b32", "buffer_wbl2"]
ON_GFX950 = ["v_permlane32_swap_b32", "ds_read_b64_tr_b16", "v_mfma_scale_f32_16x16x128_f8f6f4", "v_prng_b32"]
ON_NEITHER = ["image_load", "v_interp_p1_f32", "v_dual_add_f32", "v_wmma_f32_16x16x16_f16", "s_wait_loadcnt"]


def test_the_list_tells_archs_apart() -> None:
    listed = {name: instruction.archs for name, instruction in instructions().items()}
    assert all(listed.get(name) == frozenset(ARCHS) for name in ON_BOTH)
    assert all(listed.get(name) == frozenset({"gfx950"}) for name in ON_GFX950)
    assert not any(name in listed for name in ON_NEITHER)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_assembler_knows_what_is_listed(arch: str) -> None:
    """`python -m lab.instruction_table.probe --check` also looks for names that are not listed, which takes longer."""
    package = package_dir("ziglang")
    if package is None:
        pytest.skip("needs ziglang")
    listed = instructions()
    names = sorted(listed)
    only_with_suffix = {f"{name}_e32" for name in names} | {f"{name}_dpp" for name in names}
    found = known(package / "zig", arch, names + sorted(only_with_suffix))
    found = {name if name in listed else name.rpartition("_")[0] for name in found}
    assert found == {name for name, instruction in listed.items() if arch in instruction.archs}


def test_what_is_listed_as_tested_exists() -> None:
    for name, instruction in instructions().items():
        for arch in instruction.tested:
            assert name in implemented(arch), f"{name} is listed as tested on {arch}, where the engine lacks it"
            assert arch in instruction.archs, f"{name} is listed as tested on {arch}, which does not have it"


def test_snippets_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "executed.txt"
    monkeypatch.setenv("CDNA_COVERAGE_FILE", str(file))
    run("gfx942", "v_add_u32_e32 v2, v0, v1", v={0: range(64), 1: [5] * 64})
    run("gfx950", "s_mov_b32 s4, 1\nv_mov_b32_dpp v1, v0 row_shl:1\ns_mov_b32 s5, 1")
    with pytest.raises(KernelFault):
        run("gfx942", "s_trap 2")  # what faults has not been tested by its results
    assert file.read_text() == "gfx942 v_add_u32\ngfx950 s_mov_b32 v_mov_b32\n"


@pytest.mark.parametrize("arch", ARCHS)
def test_every_instruction_is_in_one_list(arch: str) -> None:
    result = coverage(arch)
    names = [*result.tested, *result.untested, *result.missing]
    assert sorted(names) == sorted(name for name, instruction in instructions().items() if arch in instruction.archs)
    assert "v_add_f32" in result.tested
    assert "s_rfe_b64" in result.missing
    for name in result.missing:
        assert name not in implemented(arch)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "coverage.json"
    assert main(["coverage", "--missing", "--json", str(file)]) == 0
    printed, written = capsys.readouterr().out, json.loads(file.read_text())
    assert list(written) == list(ARCHS)
    for arch in ARCHS:
        lists = [written[arch][key] for key in ("tested", "untested", "missing")]
        assert f"{arch}: {sum(map(len, lists))} instructions, {len(lists[0]) + len(lists[1])} implemented" in printed
    assert "s_rfe_b64" in printed and "v_add_f32" not in printed.split()
    assert main(["coverage", "--arch", "gfx942"]) == 0
    printed = capsys.readouterr().out
    assert "v_add_f32" in printed.split() and "gfx950" not in printed


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "--json", str(tmp_path / "no" / "such.json")]) == 2
    assert "such.json: No such file or directory" in capsys.readouterr().err


def test_a_reader_that_has_had_enough() -> None:
    """`cdna coverage | head -1`: no traceback, of any command."""
    command = [sys.executable, "-m", "cdna", "coverage"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141
