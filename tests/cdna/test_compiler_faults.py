"""Kernels that compilers are known to get wrong are warned of; what they refuse is refused with its reason."""

import re
import warnings

import pytest
import torch
from triton import knobs

import cdna
from cdna.binary import compiler_notes
from cdna.binary.compiler_notes import CompilerFault
from cdna.hip.compile import runner_clang
from cdna.hip.compile.compilers import Compiler
from cdna.triton import known_faults
from lab.compilers import loops, matrix, memory, reductions
from lab.compilers.corpus import first_wrong
from tests.support import language_kernels
from tests.support.triton_at_hand import AT_HAND


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning is given once a process."""
    monkeypatch.setattr(compiler_notes, "_kept", compiler_notes._Kept())


@pytest.mark.parametrize("arch", cdna.ARCHS)
def test_atomic_max_of_signed_integers(arch: str) -> None:
    with cdna.device(arch), pytest.warns(CompilerFault, match="extreme on gfx.*compare lanes .* as unsigned"):
        assert first_wrong(memory.extremes(torch.int32)), (
            "Triton has mended it: say so in known_faults.py and docs/compilers.md"
        )
    (note,) = compiler_notes.take()
    assert (note.subject, note.arch) == ("extreme", arch)
    assert compiler_notes.take() == []


def test_of_floats_it_is_right() -> None:
    with warnings.catch_warnings(), cdna.device("gfx942"):
        warnings.simplefilter("error", CompilerFault)
        assert not first_wrong(memory.extremes(torch.float32))


@pytest.mark.skipif(AT_HAND >= (3, 9), reason="came right with Triton 3.9")
def test_asynchronous_copies_of_a_persistent_loop() -> None:
    with cdna.device("gfx942", checks="all", raises=False), pytest.warns(CompilerFault, match="persistent on gfx942"):
        assert first_wrong(loops.persistent_loop_with_asynchronous_copies())
    assert "race" in {finding.kind for finding in cdna.findings()}  # and at times a read past the tensor


def test_no_word_of_a_persistent_loop_with_synchronous_copies() -> None:
    with warnings.catch_warnings(), cdna.device("gfx942", checks="all"):
        warnings.simplefilter("error", CompilerFault)
        assert not first_wrong(loops.persistent())
    language_kernels.persistent.device_caches.clear()


@pytest.mark.skipif(not (3, 6) <= AT_HAND < (3, 9), reason="compiles before Triton 3.6 and from 3.9 on")
def test_an_exchange_by_a_buffer_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    with cdna.device("gfx942"):
        with pytest.raises(RuntimeError, match="translate .*no buffer instruction for tl.atomic_xchg.*ATOMICS=0"):
            memory.atomic_exchange()
        with knobs.amd.scope():
            knobs.amd.use_buffer_atomics = False
            assert not first_wrong(memory.atomic_exchange())


@pytest.mark.skipif(AT_HAND < (3, 5), reason="Triton 3.4 lets no halves of the waves take turns in it")
def test_a_change_of_layout_between_halves_that_take_turns() -> None:
    with cdna.device("gfx942", checks="all", raises=False):
        with pytest.warns(CompilerFault, match="attention on gfx942: .*change a layout through LDS"):
            assert first_wrong(loops.attention_of_halves_in_turns())
        assert "race" in {finding.kind for finding in cdna.findings()}
    with warnings.catch_warnings(), cdna.device("gfx942", checks="all"), knobs.amd.scope():
        warnings.simplefilter("error", CompilerFault)
        knobs.amd.use_block_pingpong = False
        language_kernels.attention.device_caches.clear()
        assert not first_wrong(loops.attention_of_halves_in_turns())
    language_kernels.attention.device_caches.clear()


@pytest.mark.skipif(AT_HAND >= (3, 9), reason="came right with Triton 3.9")
def test_reads_that_pass_a_barrier_between_halves_that_take_turns() -> None:
    with cdna.device("gfx942", checks="all", raises=False):
        with pytest.warns(CompilerFault, match="persistent on gfx942: .*that the other still reads"):
            assert not first_wrong(loops.product_of_halves_in_turns())
    assert {finding.kind for finding in cdna.findings()} == {"wait"}


@pytest.mark.skipif(AT_HAND[:2] == (3, 8), reason="Triton 3.8 does not fuse it")
def test_copies_of_a_sum_of_products() -> None:
    """Triton rounds them differently: a race of lanes, with a result that is right within rounding."""
    for fusion, kinds in ((True, {"race"}), (False, set())):
        with cdna.device("gfx942", checks="all", raises=False):
            assert not first_wrong(reductions.sums_of_products(fusion))
        assert {finding.kind for finding in cdna.findings()} == kinds


@pytest.mark.skipif(AT_HAND >= (3, 9), reason="came right with Triton 3.9")
def test_a_loop_that_polls_by_a_volatile_load() -> None:
    with cdna.device("gfx942"), pytest.warns(CompilerFault, match="wait_for .*may read once"):
        assert first_wrong(memory.polls_anew(by_cv=False))


def test_no_word_of_one_that_goes_past_caches() -> None:
    with warnings.catch_warnings(), cdna.device("gfx942"):
        warnings.simplefilter("error", CompilerFault)
        assert not first_wrong(memory.polls_anew(by_cv=True))


COPY = "%1 = ttg.async_copy_global_to_local %0"
NESTED = f"scf.for %i = %a to %b {{\n scf.for %j = %a to %b {{\n {COPY}\n }}\n %s\n}}"


@pytest.mark.parametrize(
    ("ttgir", "found"),
    [
        (NESTED, True),
        (NESTED.replace("%s", "gpu.barrier"), False),
        (NESTED.replace("%s", "ttg.barrier local"), False),
        (f"scf.for %i = %a to %b {{\n {COPY}\n}}", False),
        (f"scf.for %i = %a to %b {{\n}}\nscf.for %i = %a to %b {{\n {COPY}\n}}", False),
    ],
)
def test_which_loops_may_race(ttgir: str, found: bool) -> None:
    assert bool(known_faults.notes_on(ttgir, "", (3, 6))) is found
    assert not known_faults.notes_on(ttgir, "", (3, 9))


def test_which_versions_pass_a_barrier_reading() -> None:
    ttgir, assembly = "amdg.cond_barrier\nrocdl.s.barrier", "ds_read_b64 v[0:1], v2\ns_barrier\ns_waitcnt lgkmcnt(0)"
    (text,) = known_faults.texts_in(known_faults.notes_on(ttgir, assembly, (3, 8)))
    assert "passes a barrier before its reads have ended" in text
    assert not known_faults.notes_on(ttgir, assembly.replace("s_barrier\n", ""), (3, 8))
    assert not known_faults.notes_on(ttgir, assembly, (3, 9))


def _conversion(arch: str, source: str, result: str) -> str:
    return (
        f'module attributes {{ttg.target = "hip:{arch}"}} {{\n'
        f"%2 = tt.fp_to_fp %1 : tensor<16x4x{source}, #blocked> -> tensor<16x4x{result}, #blocked> loc(#loc8)\n}}"
    )


@pytest.mark.parametrize(
    ("arch", "source", "result", "row"),
    [
        ("gfx942", "f16", "f8E4M3FN", "f16_to_e4m3fn"),
        ("gfx950", "f16", "f8E4M3FN", ""),
        ("gfx942", "f16", "f8E4M3FNUZ", ""),
        ("gfx942", "bf16", "f8E4M3FN", ""),
        ("gfx942", "f8E5M2", "bf16", "e5m2_to_bf16"),
        ("gfx942", "f8E4M3FN", "f16", ""),
        ("gfx950", "f8E5M2FNUZ", "bf16", "e5m2fnuz_to_bf16"),
        ("gfx950", "f8E4M3FNUZ", "f32", "e4m3fnuz_to_f16"),
        ("gfx942", "f8E4M3FNUZ", "f32", ""),
    ],
)
def test_conversions_that_come_out_wrong(arch: str, source: str, result: str, row: str) -> None:
    notes = known_faults.notes_on(_conversion(arch, source, result), "", (3, 7))
    assert (f"[{row}]" in notes) if row else not notes


def test_int8_that_is_added_in_fp32() -> None:
    with cdna.device("gfx942"), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CompilerFault)
        wrong = first_wrong(matrix.int8_product_in_steps_of_two())
        assert not first_wrong(matrix.int8_product_in_steps_of_four())
    assert bool(wrong) is (AT_HAND < (3, 8)), "say so in known_faults.py"
    assert [str(one.message).split(": ")[2][:8] for one in told] == ["tl.dot o"] * bool(wrong)


def test_fp8_of_the_second_arch_of_a_process() -> None:
    (text,) = known_faults.texts_in(known_faults.notes_on("tensor<f8E4M3FNUZ>", "", (3, 6), "gfx942"))
    assert "as for gfx942" in text
    assert not known_faults.notes_on("tensor<f16>", "", (3, 6), "gfx942")


def test_what_only_a_newer_clang_takes() -> None:
    source = "__builtin_amdgcn_load_to_lds(a, b, 4, 0, 0); __builtin_amdgcn_s_barrier();"
    assert runner_clang.names_newer(source, ["-O3", "-floop-interchange"]) == [
        "__builtin_amdgcn_load_to_lds",
        "-floop-interchange",
    ]
    assert runner_clang.names_newer("#if __has_builtin(__builtin_amdgcn_load_to_lds)\n" + source, []) == []


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.17.0, clang 22.1.8", "clang 22, newer than ROCm 7.1's clang 20: .* 32 builtins and 33 options"),
        ("20.0.0", "clang 20, as ROCm 7.1's clang 20 is"),
        ("19.1.7", "clang 19, older than .* may refuse what the leaderboard takes"),
    ],
)
def test_how_a_compiler_differs_from_the_leaderboards(version: str, said: str) -> None:
    compiler = Compiler("clang", ("clang++",), ("clang++",), version, (), (), "libstdc++", "", "clang")
    assert re.match(said, runner_clang.difference(compiler))
