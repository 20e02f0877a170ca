"""Hazards: each rule with one wait state too few and with enough, and instructions to which none applies."""

import pytest

import cdna
from cdna import checks
from cdna.binary.asm import parse
from cdna.binary.compiler_notes import CompilerFault
from cdna.binary.hazards import Hazard, find_hazards, message
from cdna.binary.image import ImageBuilder
from cdna.binary.read_image import read_image
from cdna.cards import get_card
from cdna.engine.library import engine
from tests.support.assembled import program
from tests.support.checked_launch import launch


def hazards_of(body: str, arch: str = "gfx942") -> list[Hazard]:
    text = body.replace("; ", "\n")
    asm = parse(f'.amdgcn_target "amdgcn-amd-amdhsa--{arch}"\n.text\nk:\n{text}\ns_endpgm\n')
    return find_hazards(asm, get_card(arch))


MATRIX = "v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[4:5], v[12:15]"
DGEMM_4X4 = "v_mfma_f64_4x4x4_4b_f64 v[8:9], v[2:3], v[4:5], 0"
DGEMM_16X16 = "v_mfma_f64_16x16x4_f64 v[8:15], v[2:3], v[4:5], 0"
RULES = {  # what the finding says: what comes first; what comes too early behind it; wait states that it needs
    "reads the scalar register written by": {
        "scalar to memory": ("v_readfirstlane_b32 s4, v0", "buffer_load_dword v1, v2, s[8:11], s4 offen", 5),
        "saddr to memory": ("v_readlane_b32 s5, v0, 3", "global_load_dword v1, v2, s[4:5]", 5),
        "scalar to vector": ("v_cmp_eq_u32_e64 s[4:5], v0, v1", "v_cndmask_b32_e64 v2, v3, v4, s[4:5]", 2),
        "carry": ("v_add_co_u32_e32 v0, vcc, v1, v2", "v_addc_co_u32_e32 v3, vcc, v4, v5, vcc", 2),
    },
    "selects its lane by the result of": {
        "lane select": ("v_readfirstlane_b32 s4, v0", "v_readlane_b32 s5, v1, s4", 4),
    },
    "reads vcc written by": {
        "div_fmas": ("v_div_scale_f32 v0, vcc, v1, v2, v1", "v_div_fmas_f32 v3, v4, v5, v6", 4),
    },
    "depends on exec written by": {
        "exec to matrix": ("v_cmpx_gt_u32_e32 vcc, v0, v1", MATRIX, 4),
        "exec to lane": ("v_cmpx_gt_u32_e32 vcc, v0, v1", "v_readlane_b32 s4, v2, 1", 4),
        "exec to dpp": (
            "v_cmpx_gt_u32_e32 vcc, v0, v1",
            "v_mov_b32_dpp v2, v3 row_shr:1 row_mask:0xf bank_mask:0xf",
            5,
        ),
    },
    "reads from other lanes the result of": {
        "register to dpp": (
            "v_mov_b32_e32 v3, v0",
            "v_mov_b32_dpp v2, v3 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
            2,
        ),
    },
    "reads lanes of the result of": {
        "register to readlane": ("v_mov_b32_e32 v1, v0", "v_readfirstlane_b32 s4, v1", 1),
    },
    "reads, as a matrix operand, the result of": {
        "register to matrix": ("v_cvt_pkrtz_f16_f32 v3, v0, v1", MATRIX, 2),
        "register to source C": ("v_mov_b32_e32 v12, 0", MATRIX, 2),
    },
    "reads the transcendental result of": {
        "transcendental": ("v_exp_f32_e32 v1, v0", "v_add_f32_e32 v2, v1, v1", 1),
    },
    "reads the partly written result of": {
        "upper half by op_sel": ("v_mad_u16 v1, v0, v0, v0 op_sel:[0,0,0,1]", "v_mov_b32_e32 v2, v1", 1),
        "fp8 conversion": ("v_cvt_pk_fp8_f32 v1, v0, v0 op_sel:[0,0,1]", "v_lshlrev_b32_e32 v2, 8, v1", 1),
        "fp8 byte": ("v_cvt_sr_fp8_f32 v1, v0, v2 op_sel:[0,0,1,0]", "v_cvt_sr_fp8_f32 v1, v3, v2 op_sel:[0,0,0,1]", 1),
        "sdwa": (
            "v_add_u16_sdwa v1, v0, v0 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD",
            "v_mov_b32_e32 v2, v1",
            1,
        ),
    },
    "reads the result of": {
        "dot product": ("v_dot2_f32_f16 v1, v2, v3, v4", "v_mov_b32_e32 v5, v1", 3),
        "dot product's operand": ("v_dot2_f32_f16 v1, v2, v3, v4", "v_dot2_f32_f16 v5, v1, v3, v4", 3),
        "f64 product read": (DGEMM_4X4, "v_mov_b32_e32 v1, v9", 6),
        "f64 product stored": (DGEMM_4X4, "global_store_dwordx2 v0, v[8:9], s[0:1]", 9),
        "f64 product to LDS": (DGEMM_4X4, "ds_write_b64 v0, v[8:9]", 9),
        "large f64 product stored": (DGEMM_16X16, "global_store_dword v0, v15, s[0:1]", 18),
        "f64 product as operand": (DGEMM_4X4, DGEMM_4X4.replace("v[2:3]", "v[8:9]"), 6),
    },
    "overwrites the result of": {
        "dot product overwritten": ("v_dot2_f32_f16 v1, v2, v3, v4", "v_mov_b32_e32 v1, v0", 3),
        "f64 product overwritten": (DGEMM_4X4, "v_mov_b32_e32 v9, 0", 6),
    },
    "overwrites the data of": {
        "data of a wide store with its offset in a register": (
            "buffer_store_dwordx4 v[4:7], v0, s[8:11], s4 offen",
            "v_pk_mul_f32 v[4:5], v[8:9], v[10:11]",
            1,
        ),
        "data of a wide store with a literal offset": (
            "buffer_store_dwordx3 v[4:6], v0, s[8:11], 0 offen",
            "v_mov_b32_e32 v6, 0",
            2,
        ),
        "data of a formatted store": (
            "buffer_store_format_xyzw v[4:7], v0, s[8:11], m0 idxen",
            "v_mov_b32_e32 v7, 0",
            1,
        ),
        "data of a wide atomic": ("global_atomic_cmpswap_x2 v[2:3], v0, v[4:7], s[0:1] sc0", "v_mov_b32_e32 v7, 0", 2),
        "data of a wide store": ("global_store_dwordx4 v0, v[4:7], s[0:1]", "v_mov_b32_e32 v6, 0", 2),
    },
    "reads m0 written by": {
        "m0 of a global wave sync": ("s_mov_b32 m0, s4", "ds_gws_barrier v0 gds", 1),
        "m0 to LDS": ("s_mov_b32 m0, s4", "global_load_lds_dword v0, s[0:1]", 1),
        "m0 to movrel": ("s_mov_b32 m0, s4", "s_movrels_b32 s5, s6", 1),
    },
    "touches the hardware register set by": {
        "setreg": ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3", "s_getreg_b32 s4, hwreg(HW_REG_MODE)", 2),
    },
    "reads, as source C, the result of": {
        "f64 products that follow": (DGEMM_4X4, "v_mfma_f64_4x4x4_4b_f64 v[20:21], v[2:3], v[4:5], v[8:9]", 4),
        "the shortest product as source C": (
            "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[2:3], v[4:5], 0",
            "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[2:3], v[4:5], v[8:11]",
            2,
        ),
    },
    "reads, as source C, a part of the result of": {
        "part of an f64 product as source C": (
            DGEMM_4X4,
            "v_mfma_f64_16x16x4_f64 v[20:27], v[2:3], v[4:5], v[8:15]",
            4,
        ),
    },
    "multiplies in f64 behind": {
        "f64 multiplication behind an f64 product": (DGEMM_4X4, "v_fma_f64 v[30:31], v[32:33], v[32:33], v[32:33]", 2),
    },
    "overwrites source C of": {
        "source C overwritten": (MATRIX, "v_mov_b32_e32 v13, 0", 3),
    },
}


@pytest.mark.parametrize(("what", "rule"), [(what, rule) for what, rules in RULES.items() for rule in rules])
def test_each_rule(what: str, rule: str) -> None:
    first, later, needed = RULES[what][rule]
    for arch in cdna.ARCHS:
        wait = f"s_nop {needed - 2}; " if needed > 1 else ""
        (hazard,) = hazards_of(f"{first}; {wait}{later}", arch)
        assert (hazard.first, hazard.states, hazard.needed, hazard.what) == (0, needed - 1, needed, what)
        assert hazards_of(f"{first}; s_nop {needed - 1}; {later}", arch) == []


def test_swapped_lanes() -> None:
    swap = "v_permlane32_swap_b32 v1, v2"
    assert [h.needed for h in hazards_of(f"v_mov_b32_e32 v2, v0; {swap}", "gfx950")] == [2]
    assert [h.needed for h in hazards_of(f"v_cmpx_gt_u32_e32 vcc, v0, v3; {swap}", "gfx950")] == [4]


SHORT = "v_mfma_f32_4x4x4_16b_f16 v[8:11], v[2:3], v[4:5], 0"
BY_ARCH = {  # what comes first; what comes too early behind it; wait states on gfx942 and gfx950
    "large f64 product read": (DGEMM_16X16, "v_mov_b32_e32 v1, v15", (11, 19)),
    "large f64 product as operand": (DGEMM_16X16, DGEMM_4X4.replace("v[2:3]", "v[14:15]"), (11, 19)),
    "part of a large f64 product as source C": (
        DGEMM_16X16,
        f"{DGEMM_4X4[:-1].replace('v[8:9]', 'v[20:21]')}v[10:11]",
        (9, 17),
    ),
    "part of a product as source C": (MATRIX, f"{MATRIX[:-8].replace('v[8:11]', 'v[20:23]')}v[10:13]", (5, 6)),
    "part of the shortest product as source C": (SHORT, f"{SHORT[:-1].replace('v[8:11]', 'v[20:23]')}v[10:13]", (3, 4)),
    "part of the shortest product in f64": (SHORT, f"{DGEMM_4X4[:-1].replace('v[8:9]', 'v[20:21]')}v[10:11]", (3, 3)),
}


@pytest.mark.parametrize("what", BY_ARCH)
def test_rules_that_differ_by_arch(what: str) -> None:
    first, later, each = BY_ARCH[what]
    for arch, needed in zip(cdna.ARCHS, each, strict=True):
        (hazard,) = hazards_of(f"{first}; s_nop {needed - 2}; {later}", arch)
        assert (hazard.states, hazard.needed) == (needed - 1, needed)
        assert hazards_of(f"{first}; s_nop {needed - 1}; {later}", arch) == []


def test_two_names_of_one_instruction() -> None:
    """The rules are the instruction's."""
    (hazard,) = hazards_of(f"{DGEMM_4X4}; v_mfma_f64_4x4x4f64 v[20:21], v[2:3], v[4:5], v[8:9]")
    assert (hazard.needed, hazard.doubt) == (4, False)
    assert hazards_of(f"{MATRIX}; v_mfma_f32_16x16x16f16 v[8:11], v[2:3], v[4:5], v[8:11]") == []


OTHER = "v_mfma_f32_16x16x32_f16 v[8:11], v[20:23], v[24:27], v[8:11]"


def test_another_instruction_on_an_accumulator_is_a_doubt() -> None:
    after = MATRIX.replace("v[12:15]", "v[8:11]")
    (doubt,) = hazards_of(f"{OTHER}; {after}", "gfx950")
    assert doubt.doubt
    assert doubt.needed == 6
    assert "LLVM's pull request 218363 (open) asks for 6 (s_nop" in message(doubt, str)
    assert hazards_of(f"{OTHER}; s_nop 5; {after}", "gfx950") == hazards_of(f"{OTHER}; {OTHER}", "gfx950") == []


TWO = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
first:
  s_cbranch_scc1 over
  v_readfirstlane_b32 s4, v0
  buffer_load_dword v1, v2, s[8:11], s4 offen
over:
  s_endpgm
second:
  v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], 0
  s_mov_b32 s0, value
  v_readlane_b32 s5, v0, 3
  s_nop {states}
  global_load_dword v1, v2, s[4:5]
back:
  s_cbranch_scc0 back
  s_endpgm
.set value, 7
.amdhsa_kernel first
  .amdhsa_next_free_vgpr 8
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
.amdhsa_kernel second
  .amdhsa_next_free_vgpr 12
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
"""


def test_an_images_text_is_held_against_its_code() -> None:
    """What is found in a stranger's program is found in what runs."""
    image = ImageBuilder(TWO.format(states=1), engine().ops).build()
    found = [find_hazards(read_image(image, kernel)[0], get_card("gfx942")) for kernel in (0, 1)]
    assert [[(one.index, one.kernel, one.states) for one in of] for of in found] == [
        [(2, "first", 0)],
        [(4, "second", 2)],
    ]
    sources = read_image(image, 1)[1]
    assert len(sources) == 7 and sources[4] == "assembly line 15"
    for told, other in (
        (b"s_nop 1`", b"s_nop 4`"),
        (b"`v_readlane_b32 s5,", b"`v_readlane_b32 s6,"),
        (b"a[0:3], v[2:3]", b"a[0:3], v[6:7]"),
    ):
        assert image.count(told) == 1
        with pytest.raises(ValueError, match="not that of its code"):
            read_image(image.replace(told, other), 1)


def test_a_doubt_is_no_finding() -> None:
    kernel = program(f"{OTHER}\n{MATRIX.replace('v[12:15]', 'v[8:11]')}", "gfx950")
    with checks.use("hazard"), pytest.warns(CompilerFault, match="218363"):
        launch(kernel, [])
    assert cdna.findings() == []


FREE = {
    "scalar written by the scalar unit": "s_mov_b32 s4, 1; buffer_load_dword v1, v2, s[8:11], s4 offen",
    "both write a carry": "v_add_co_u32_e32 v0, vcc, v1, v2; v_add_co_u32_e32 v3, vcc, v4, v5",
    "branch on vcc": "v_cmp_eq_u32_e32 vcc, v0, v1; s_cbranch_vccz next; next:; s_nop 0",
    "one transcendental behind another": "v_exp_f32_e32 v1, v0; v_log_f32_e32 v2, v1",
    "chain of dot products": "v_dot2_f32_f16 v1, v2, v3, v4; v_dot2_f32_f16 v1, v5, v6, v1",
    "products that follow": f"{MATRIX}; {MATRIX.replace('v[12:15]', 'v[8:11]')}",
    "large f64 products that follow": f"{DGEMM_16X16}; {DGEMM_16X16.replace(', 0', ', v[8:15]')}",
    "dot product as matrix operand": "v_dot2_f32_f16 v2, v6, v7, v4; s_nop 2; " + MATRIX,
    "store of two dwords": "global_store_dwordx2 v0, v[4:5], s[0:1]; v_mov_b32_e32 v4, 0",
    "lower half, then upper": "v_cvt_pk_fp8_f32 v1, v0, v0; v_cvt_pk_fp8_f32 v1, v2, v2 op_sel:[0,0,1]",
    "vector result as a plain operand": "v_mov_b32_e32 v1, v0; v_add_u32_e32 v2, v1, v1",
    "m0 that nobody reads": "s_mov_b32 m0, s4; ds_read_b32 v1, v0",
    "another hardware register": "s_setreg_b32 hwreg(HW_REG_MODE), s4; s_getreg_b32 s5, hwreg(HW_REG_HW_ID)",
}


@pytest.mark.parametrize("what", FREE)
def test_what_is_no_hazard(what: str) -> None:
    assert hazards_of(FREE[what]) == []


def test_around_a_loop() -> None:
    """The instruction too early stands before the other in the text."""
    (hazard,) = hazards_of("loop:; v_mov_b32_e32 v2, s4; v_readfirstlane_b32 s4, v0; s_cbranch_scc1 loop; s_nop 0")
    assert (hazard.index, hazard.first, hazard.states) == (0, 1, 1)
