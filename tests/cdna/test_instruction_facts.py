"""The table of instructions: complete, read with its mistakes named, and true of what the handlers do."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import cdna
from cdna.binary.asm import parse
from cdna.binary.hazards import Hazard, find_hazards, passes
from cdna.cards import get_card
from cdna.commands.coverage import implemented
from cdna.engine.library import engine
from cdna.errors import CdnaError
from cdna.isa import Facts, facts_of, instructions, read_table
from cdna.isa.rows import TABLE, read_rows
from cdna.testing.snippet import run, split64
from lab.instruction_table.rows import write_rows
from tests.support.assembled import program
from tests.support.checked_launch import found

# --- the table -------------------------------------------------------------------------------------------


def test_no_instruction_lacks_its_facts() -> None:
    lib = engine().lib
    assert [lib.cdna_op_name(i) for i in range(lib.cdna_op_count()) if not lib.cdna_op_has_facts(i)] == []
    executed = {name for arch in cdna.ARCHS for name in implemented(arch)}
    assert {name for name, instruction in instructions().items() if instruction.facts} == executed
    with pytest.raises(CdnaError, match="no facts of s_rfe_b64: add its row"):
        facts_of("s_rfe_b64")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("v_nop  gfx906  vector 4 - - - defines - - -", "expected a mnemonic, then archs of gfx942, gfx950"),
        ("v_nop", "expected a mnemonic, then archs of gfx942, gfx950"),
        ("v_nop  gfx942  vector 4 - - - defines -", "v_nop has 9 columns, not 11"),
        ("v_nop  gfx942  ? -", "v_nop has 4 columns, not 5"),
        ("v_nop  gfx942  = v_noop", "no row of 'v_noop'"),
        ("v_nop  gfx942  valu 4 - - - defines - - -", "'valu' is none of scalar, vector"),
        ("v_nop  gfx942  vector 4/4/4 - - - defines - - -", "cycles '4/4/4' are not one figure, or one for each arch"),
        ("v_nop  gfx942  vector 4 l2 load 4 defines - - -", "'l2' is none of none, global"),
        ("v_nop  gfx942  vector 4 lds read 4 defines - - -", "'read' is none of none, load"),
        ("v_nop  gfx942  vector 4 lds load four defines - - -", "invalid literal"),
        ("v_nop  gfx942  vector 4 - - - bits:nand - - -", "'nand' is none of and, or"),
        ("v_nop  gfx942  vector 4 - - - defines scc - -", "'scc' is none of scc_in"),
        ("v_nop  gfx942  vector 4 - - - defines - f32=f33 -", "operand 'f33' is none of D, ?D"),
        ("v_add_f32  gfx942  vector 4 - - - computes - - -", "v_add_f32 stands there twice"),
        ("v_{a,b}_f32  gfx942  ? - vop2:1", "v_{a,b}_f32 has 2 words and 1 opcodes"),
    ],
)
def test_a_wrong_row_is_told_in_one_line(tmp_path: Path, row: str, said: str) -> None:
    file = tmp_path / "table.txt"
    file.write_text(f"# head\nv_add_f32  gfx942  vector  4  -  -  -  computes  -  -  -\n{row}\n")
    with pytest.raises(CdnaError) as error:
        read_table(file)
    assert f"table.txt:3: {said}" in str(error.value) and "\n" not in str(error.value)


def test_rows_are_written_as_they_were_read(tmp_path: Path) -> None:
    file = tmp_path / "table.txt"
    file.write_text(TABLE.read_text())
    write_rows([row for _, row in read_rows(file)], file)
    assert file.read_text() == TABLE.read_text()


def test_two_names_of_one_instruction_are_one_row() -> None:
    """LLVM spells some with the number of blocks and without."""
    for short, long in [
        ("v_mfma_f32_32x32x4f16", "v_mfma_f32_32x32x4_2b_f16"),
        ("v_mfma_f32_16x16x4bf16_1k", "v_mfma_f32_16x16x4_4b_bf16"),
        ("v_mfma_i32_32x32x4i8", "v_mfma_i32_32x32x4_2b_i8"),
        ("v_mfma_f64_16x16x4f64", "v_mfma_f64_16x16x4_f64"),
        ("v_mul_lo_i32", "v_mul_lo_u32"),
    ]:
        assert facts_of(short) is facts_of(long) and instructions()[short].first_name == long
    second = {name: row for name, row in instructions().items() if row.first_name}
    assert len(second) > 20
    for name, row in second.items():
        for arch in row.archs:
            assert engine().ops[arch][name] == engine().ops[arch][row.first_name], name


# --- memory: which bytes an instruction moves --------------------------------------------------------------

SIZE, AT = 96, 32  # bytes of memory; where the one lane accesses it
OUT, DATA, MORE = 16, 32, 40  # first registers: results, data, data of a second element
FORMS = {  # by unit, space and what is done there
    ("memory", "global", "load"): "{out}, v[0:1], off",
    ("memory", "global", "store"): "v[0:1], {data}, off",
    ("memory", "global", "atomic"): "v[0:1], {data}, off",
    ("memory", "flat", "load"): "{out}, v[0:1]",
    ("memory", "flat", "store"): "v[0:1], {data}",
    ("memory", "flat", "atomic"): "v[0:1], {data}",
    ("memory", "scratch", "load"): "{out}, v2, off",
    ("memory", "scratch", "store"): "v2, {data}, off",
    ("memory", "buffer", "load"): "{out}, v2, s[4:7], 0 offen",
    ("memory", "buffer", "store"): "{data}, v2, s[4:7], 0 offen",
    ("memory", "buffer", "atomic"): "{data}, v2, s[4:7], 0 offen",
    ("lds", "lds", "load"): "{out}, v2{offsets}",
    ("lds", "lds", "store"): "v2, {data}{more}{offsets}",
    ("scalar_memory", "global", "load"): "{scalar_out}, s[8:9], 0x0",
    ("scalar_memory", "global", "store"): "{scalar_data}, s[8:9], 0x0",
    ("scalar_memory", "buffer", "load"): "{scalar_out}, s[4:7], 0x20",
    ("scalar_memory", "buffer", "store"): "{scalar_data}, s[4:7], 0x20",
}


def registers(file: str, first: int, size_bytes: int) -> str:
    dwords = max(1, size_bytes // 4)
    return f"{file}{first}" if dwords == 1 else f"{file}[{first}:{first + dwords - 1}]"


def statement(name: str, facts: Facts) -> str:
    """Assembly of a load, a store or an atomic without a result."""
    assert facts.bytes
    two, data = facts.elements == 2, facts.bytes * (2 if "swap" in facts.flags else 1)
    operands = FORMS[facts.unit, facts.space, facts.does].format(
        out=registers("v", OUT, facts.bytes * facts.elements),
        data=registers("v", DATA, data),
        more=f", {registers('v', MORE, data)}" if two else "",
        offsets=" offset0:0 offset1:1" if two else "",
        scalar_out=registers("s", OUT + 8, facts.bytes),
        scalar_data=registers("s", DATA, data),
    )
    return f"{name} {operands}"


def execute(name: str, facts: Facts, before: bytes, data: int) -> tuple[tuple[int, ...], bytes]:
    """Results and memory after one lane's access at AT. data: the byte that the data registers are full of."""
    array: np.ndarray = np.zeros(SIZE + 256, np.uint8)
    skip = -array.ctypes.data % 256
    array[skip : skip + SIZE] = np.frombuffer(before, np.uint8)
    base, word = array.ctypes.data + skip, data * 0x01010101
    (low,), (high,) = split64([base + AT])
    v = {0: [low] * 64, 1: [high] * 64, 2: [AT] * 64}
    v |= {r: [word] * 64 for r in range(DATA, DATA + 16)} | {r: [0] * 64 for r in range(OUT, OUT + 16)}
    s = {4: base & 0xFFFFFFFF, 5: base >> 32, 6: SIZE, 7: 0x27000, 8: low, 9: high}
    s |= dict.fromkeys(range(DATA, DATA + 8), word) | dict.fromkeys(range(OUT + 8, OUT + 16), 0)
    text = statement(name, facts)
    words = [int.from_bytes(before[k : k + 4], "little") for k in range(0, SIZE, 4)]
    if facts.space == "scratch":  # filled before and read after by instructions that other tests look at
        fill = [
            f"v_mov_b32 v60, {word:#x}\nscratch_store_dword off, v60, off offset:{4 * k}"
            for k, word in enumerate(words)
        ]
        read = [f"scratch_load_dword v{64 + k}, off, off offset:{4 * k}" for k in range(len(words))]
        text = "\n".join([*fill, text, *read])
    state = run(min(instructions()[name].archs), text, v, s, exec=1, lds=before, scratch_bytes=SIZE)
    after = array[skip : skip + SIZE].tobytes()
    if facts.space == "scratch":
        after = b"".join(state.v[64 + k][0].to_bytes(4, "little") for k in range(len(words)))
    elif facts.space == "lds":
        after = state.lds
    return (*(state.v[r][0] for r in range(OUT, OUT + 16)), *state.s[OUT + 8 : OUT + 24]), after


def accesses(does: str) -> Iterator[tuple[str, Facts]]:
    """Instructions that move as many bytes as the table says, lane by lane."""
    for name, instruction in instructions().items():
        facts = instruction.facts
        if facts is None or (facts.unit, facts.space, facts.does) not in FORMS or facts.does != does:
            continue
        if facts.bytes and not facts.flags & {"to_lds", "lane_order"} and "_tr_" not in name:
            yield name, facts


def places(facts: Facts) -> set[int]:
    """Bytes of memory that belong to the access."""
    assert facts.bytes is not None
    step = facts.bytes * facts.stride
    return {AT + element * step + k for element in range(facts.elements) for k in range(facts.bytes)}


def test_loads_read_as_many_bytes_as_the_table_says() -> None:
    rng = random.Random(3)
    tried = 0
    for name, facts in accesses("load"):
        if AT + facts.stride * (facts.bytes or 0) >= SIZE:
            continue  # st64: the test of LDS has them
        content = bytearray(rng.randbytes(SIZE))
        results, _ = execute(name, facts, bytes(content), 0)
        others = bytes(x if k in places(facts) else x ^ 0xFF for k, x in enumerate(content))
        assert execute(name, facts, others, 0)[0] == results, f"{name} reads more"
        for k in places(facts):
            content[k] ^= 0xFF
            assert execute(name, facts, bytes(content), 0)[0] != results, f"{name} does not read byte {k - AT}"
            content[k] ^= 0xFF
        tried += 1
    assert tried > 60


def test_stores_write_as_many_bytes_as_the_table_says() -> None:
    tried = 0
    for name, facts in accesses("store"):
        if AT + facts.stride * (facts.bytes or 0) >= SIZE:
            continue
        after = execute(name, facts, bytes(SIZE), 0xA5)[1]
        assert {k for k, x in enumerate(after) if x} == places(facts), name
        tried += 1
    assert tried > 35


def test_atomics_stay_within_the_bytes_that_the_table_says() -> None:
    rng, tried = random.Random(4), 0
    for name, facts in accesses("atomic"):
        changed: set[int] = set()
        for data in (0x01, 0x3C, 0x7F, 0x80, 0xFF):
            before = rng.randbytes(SIZE) if "swap" not in facts.flags else bytes([data]) * SIZE
            after = execute(name, facts, before, data)[1]
            changed |= {k for k in range(SIZE) if after[k] != before[k]}
        assert changed <= places(facts), name
        assert changed or "swap" in facts.flags, name
        tried += 1
    assert tried > 60


# --- typed buffers: the format says how many bytes ---------------------------------------------------------

FORMAT_OF = {1: ("32", 4), 2: ("32_32", 11), 3: ("32_32_32", 13), 4: ("32_32_32_32", 14)}  # by components
UINT = 4


def typed() -> list[str]:
    return [
        name for name, instruction in instructions().items() if instruction.facts and instruction.facts.bytes is None
    ]


def typed_access(name: str, descriptor: int) -> tuple[str, int]:
    """Assembly of the access by every lane, one element behind the other; bytes of an element.

    The descriptor's base is in s[descriptor:descriptor + 1].
    """
    components = len(name.rpartition("_")[2]) if facts_of(name).does == "store" else 4
    form, number = FORMAT_OF[components]
    d = descriptor
    setup = f"s_mov_b32 s{d + 2}, 0x10000\ns_mov_b32 s{d + 3}, {UINT << 12 | number << 15 | 0xFAC:#x}\n"
    setup += f"v_and_b32 v0, 0x3ff, v0\nv_mul_u32_u24 v1, {4 * components}, v0\nv_mov_b32 v8, 0\nv_mov_b32 v9, 0\n"
    setup += "v_mov_b32 v10, 0\nv_mov_b32 v11, 0\n"
    own = f" format:[BUF_DATA_FORMAT_{form},BUF_NUM_FORMAT_UINT]" if name.startswith("tbuffer") else ""
    count = len(name.rpartition("_")[2])
    count = (count + 1) // 2 if "_d16_" in name else count
    data = registers("v", 8, 4 * count)
    return f"{setup}{name} {data}, v1, s[{d}:{d + 3}], 0{own} offen\ns_waitcnt vmcnt(0)\n", 4 * components


def test_there_are_34_typed_buffer_instructions() -> None:
    assert len(typed()) == 34


def test_counters_count_what_typed_buffer_instructions_move() -> None:
    memory = torch.zeros(4096, dtype=torch.int32)
    address = memory.data_ptr() + -memory.data_ptr() % 128
    start = "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n"
    for name in typed():
        text, size = typed_access(name, descriptor=4)
        kernel = program(start + text).kernels["k"]
        with cdna.counting():
            counters = kernel.launch((1, 1, 1), (64, 1, 1), address.to_bytes(8, "little")).counters
        assert counters is not None
        (counted,) = (i for i in counters.instructions if i.mnemonic == name)
        assert (counted.bytes, counted.lines) == (64 * size, size // 2), name


def test_checks_look_at_all_that_typed_buffer_instructions_access() -> None:
    """The last lane's element begins inside and ends outside."""
    start = "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\n"
    for name in typed():
        text, size = typed_access(name, descriptor=4)
        whole = torch.zeros(64 * size // 4 + 4, dtype=torch.int32)
        finding = found(program(start + text), [("x", whole[: 64 * size // 4].view(torch.int8)[:-1])], kinds="bounds")
        verb = "writes" if facts_of(name).does == "store" else "reads"
        assert finding.kind == "bounds" and f"{verb} {size} bytes" in finding.message, name
        assert finding.lane == 63 and "0 bytes past the end of `x`" in finding.message, name


# --- scalar instructions: SCC -------------------------------------------------------------------------------


def scalar_operand(slot: tuple[str, str], number: int) -> str:
    kind, width = slot
    if kind == "I" or width == "k16":
        return "3"
    first = 4 + 4 * number
    return f"s[{first}:{first + 1}]" if width[1:] == "64" else f"s{first}"


def test_scalar_instructions_read_and_write_scc_as_the_table_says() -> None:
    rng, tried = random.Random(1), 0
    interesting = [0, 1, 3, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF]
    for name, (_, signature) in engine().ops["gfx942"].items():
        facts = facts_of(name.partition(" ")[0])
        slots = signature.slots
        if facts.unit != "scalar" or name == "s_trap" or any(slot[0] in "XHWLM" for slot in slots):
            continue
        text = f"{name} {', '.join(scalar_operand(slot, k) for k, slot in enumerate(slots))}"
        writes = reads = False
        for _ in range(40):
            values = [rng.choice([*interesting, rng.getrandbits(32)]) for _ in range(20)]
            if rng.random() < 0.3:
                values = values[:2] * 10
            s = {4 + k: x for k, x in enumerate(values)} | {124: 0}
            one, other = (run("gfx942", text, s=s, scc=scc) for scc in (0, 1))
            writes |= (one.scc, other.scc) != (0, 1)
            reads |= one.s != other.s
        assert (writes, reads) == ("scc_out" in facts.flags, "scc_in" in facts.flags), name
        tried += 1
    assert tried > 130


# --- matrix instructions -------------------------------------------------------------------------------------


def hazards_of(body: str) -> list[Hazard]:
    asm = parse(f'.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n.text\nk:\n{body}\ns_endpgm\n')
    return find_hazards(asm, get_card("gfx942"))


def test_passes_come_from_the_table() -> None:
    for arch in cdna.ARCHS:
        card = get_card(arch)
        assert passes("v_mfma_f32_16x16x4f16", "", card) == 8  # four blocks, which this name does not say
        assert passes("v_mfma_f64_16x16x4_f64", "", card) == (8 if arch == "gfx942" else 16)
        assert passes("v_add_f32", "", card) == 0


@pytest.mark.parametrize(
    ("matrix", "needed"),
    [
        ("v_mfma_f32_16x16x8_xf32 v[8:11], v[2:3], v[4:5], 0", 7),  # through the usual path, unlike f32
        ("v_mfma_f32_16x16x4_f32 v[8:11], v2, v4, 0", 10),
        ("v_mfma_f32_16x16x4f16 v[8:23], v[2:3], v[4:5], 0", 11),
    ],
)
def test_wait_states_behind_a_matrix_instruction(matrix: str, needed: int) -> None:
    text = (
        f'.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n.text\nk:\n{matrix}\ns_nop 0\nv_add_f32 v30, v8, v8\ns_endpgm\n'
    )
    (hazard,) = find_hazards(parse(text), get_card("gfx942"))
    assert hazard.needed == needed


@pytest.mark.parametrize(
    ("later", "what"),
    [
        ("global_atomic_add v8, v1, s[0:1]", "reads the result of"),  # v8 is its address, and nothing is written
        ("global_atomic_add v8, v1, v2, s[0:1] sc0", ""),  # a memory instruction's write waits by itself
        ("ds_add_u32 v8, v1", "reads the result of"),
        ("buffer_atomic_add v8, v1, s[4:7], 0 offen", "reads the result of"),
        ("v_mov_b32 v8, v1", "overwrites the result of"),
    ],
)
def test_what_an_instruction_writes_comes_from_its_signature(later: str, what: str) -> None:
    hazards = hazards_of(f"v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[4:5], 0\n{later}")
    assert [hazard.what for hazard in hazards] == [what] * bool(what)
