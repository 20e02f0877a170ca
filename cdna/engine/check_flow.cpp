// Which instructions hand on that a value is undefined, see check_values.cpp; by name.
#include "check.h"
#include "names.h"

template <int N> static bool one_of(const char* n, const char* const (&list)[N]) {
  for (const char* each : list)
    if (starts(n, each)) return true;
  return false;
}

// A result of these is undefined in a lane where one source is; not so of products by zero, masks, extremes.
static const char* const COMPUTE[] = {
    "v_add_f",        "v_sub_f",        "v_subrev_f",    "v_mul_f",         "v_fma_f",    "v_fmac_f",
    "v_mac_f",        "v_mad_f",        "v_exp_f",       "v_log_f",         "v_rcp_f",    "v_rsq_f",
    "v_sqrt_f",       "v_cvt_f",        "v_cvt_i32",     "v_cvt_u32",       "v_add_u32",  "v_add_co_u32",
    "v_sub_u32",      "v_sub_co_u32",   "v_subrev_u32",  "v_subrev_co_u32", "v_add3_u32", "v_lshlrev_b32",
    "v_lshl_add_u32", "v_add_lshl_u32", "v_ashrrev_i32", "v_lshrrev_b32",
};
static const char* const CARRY[] = {"v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32"};
// Integers whose low half does not depend on the high halves: compilers leave those of extended ones undefined.
static const char* const LOW_FIRST[] = {"v_lshlrev_b64", "v_lshl_add_u64"};
static const char* const MOVE[] = {"v_mov_b32", "v_mov_b64", "v_accvgpr_",
                                   "s_mov_b32", "s_mov_b64", "v_readfirstlane_b32"};
static const char* const SCALAR_COMPUTE[] = {
    "s_add_u32", "s_add_i32", "s_addc_u32", "s_sub_u32", "s_sub_i32", "s_subb_u32", "s_lshl_b32", "s_cmp_",
};
static const char* const BITS[] = {"s_and_", "s_andn1_", "s_andn2_", "s_or_",  "s_orn1_", "s_orn2_",
                                   "s_xor_", "s_not_b",  "s_nand_",  "s_nor_", "s_xnor_"};
static const char* const LEAVE_SCC[] = {"s_nop", "s_sleep", "s_set", "s_movk"};

static u8 bits_of(const char* n) {
  u8 op = has(n, "xor") || has(n, "xnor") || has(n, "not") ? BITS_XOR : has(n, "or") ? BITS_OR : BITS_AND;
  if (has(n, "n1_")) op |= BITS_NOT_A;
  if (has(n, "n2_")) op |= BITS_NOT_B;
  if (starts(n, "s_n") || has(n, "xnor")) op |= BITS_NOT_RESULT;
  if (has(n, "saveexec") || has(n, "wrexec")) op |= BITS_TO_EXEC;
  return op;
}

void classify_flow(Access& x, const Inst& in, const char* n) {
  x.writes_scc = x.kind == PLAIN && starts(n, "s_") && !one_of(n, LEAVE_SCC);
  x.reads_scc = starts(n, "s_addc_") || starts(n, "s_subb_");
  x.all_lanes = starts(n, "v_writelane") || starts(n, "v_mfma") || starts(n, "v_smfmac");
  x.accumulates = starts(n, "v_fmac_") || starts(n, "v_mac_");
  x.flow = FLOW_DEFINES;
  if ((x.kind == VM_LOAD || x.kind == VM_STORE) && (x.space == SPACE_SCRATCH || x.space == SPACE_FLAT) && !x.to_lds)
    x.flow = has(n, "_d16") ? FLOW_DEFINES : FLOW_SCRATCH;
  else if (starts(n, "s_cbranch_scc")) x.flow = FLOW_BRANCH_SCC;
  else if (starts(n, "s_cbranch_vcc")) x.flow = FLOW_BRANCH_VCC;
  else if (x.kind != PLAIN || in.flags & (DPP | SDWA) || has(n, " indexed")) return;
  else if (starts(n, "v_mfma") && !starts(n, "v_mfma_ld")) x.flow = FLOW_MULTIPLIES;
  else if (starts(n, "v_cmpx_")) x.flow = FLOW_COMPARES_TO_EXEC;
  else if (starts(n, "v_cmp_") && !has(n, "_f_") && !has(n, "_t_") && !has(n, "_tru_")) x.flow = FLOW_COMPARES;
  else if (starts(n, "v_cndmask_b32")) x.flow = FLOW_SELECTS;
  else if (starts(n, "s_cselect_")) x.flow = FLOW_SCALAR_SELECTS;
  else if (one_of(n, CARRY)) x.flow = FLOW_CARRIES;
  else if (one_of(n, LOW_FIRST)) x.flow = FLOW_LOW_FIRST;
  else if (starts(n, "s_lshl_b64")) x.flow = FLOW_SCALAR_LOW_FIRST;
  else if (one_of(n, MOVE)) x.flow = FLOW_MOVES;
  else if (one_of(n, COMPUTE)) x.flow = FLOW_COMPUTES;
  else if (one_of(n, SCALAR_COMPUTE)) x.flow = FLOW_SCALAR;
  else if (one_of(n, BITS)) x.flow = FLOW_BITS, x.bits = bits_of(n);
  if (x.flow == FLOW_DEFINES || x.flow == FLOW_SCRATCH) return;
  for (u32 k = 0; k < x.n; k++)
    if (!(x.touch[k].flags & WRITES)) x.touch[k].flags |= SOURCE;
}
