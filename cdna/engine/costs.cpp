// Costs of instructions: issue cycles by mnemonic, LDS cycles by bank.
#include "costs.h"
#include "scalar_memory.h"

// Cycles that a matrix instruction occupies its SIMD's matrix core (ROCm/amd_matrix_instruction_calculator
// for gfx942; AMD's "Matrix Core Programming on CDNA3 and CDNA4" for gfx950's additions; the rest from the
// card's peaks, which are cycles = FLOPs / (peak / (CUs * 4 SIMDs * clock))).
static u32 matrix_cycles(const char* name, const Inst& in, bool gfx950) {
  bool rows32 = has(name, "_32x32x"), rows4 = has(name, "_4x4x");
  const char* inputs = strrchr(name, 'x');  // from the depth on: "x4f32", "x1_2b_f32", or "xf32"
  bool f32 = has(inputs, "f32") && inputs[1] != 'f';
  if (has(name, "f64")) return rows4 ? 16 : gfx950 ? 64 : 32;
  // Several blocks: the first matrix cores' shapes, at their rate. LLVM spells some of them without the block
  // count.
  bool blocks = has(name, "_2b_") || has(name, "_4b_") || (inputs[1] == '4' && !f32);
  if (rows4) return 8;
  if (blocks || f32) return rows32 ? 64 : 32;
  u32 cycles = rows32 ? 32 : 16;
  if (has(name, "f8f6f4") && (in.cbsz < 2 || in.blgp < 2)) cycles *= 2;  // either operand has 8 bits
  return cycles;
}

// A SIMD has 16 lanes: a wave takes 4 cycles, and 16 on the quarter-rate units (CDNA3 ISA: transcendental
// functions; 32-bit integer products and 64-bit ones likewise in LLVM's SISchedule.td).
static u32 vector_cycles(const char* n) {
  static const char* const QUARTER[] = {"v_exp_",    "v_log_",        "v_rcp_",       "v_rsq_",
                                        "v_sqrt_",   "v_sin_",        "v_cos_",       "v_mul_lo_u32",
                                        "v_mul_hi_", "v_mad_u64_u32", "v_mad_i64_i32"};
  for (const char* q : QUARTER)
    if (starts(n, q)) return 16;
  return 4;
}

Cost instruction_cost(const OpInfo& op, const Inst& in, const Card& card) {
  const char* n = op.name;
  bool scales_alone = starts(n, "v_mfma_ld_scale");
  if (!scales_alone && (starts(n, "v_mfma") || starts(n, "v_smfmac")))
    return {MATRIX_UNIT, matrix_cycles(n, in, !strcmp(card.name, "gfx950"))};
  if (starts(n, "v_")) return {VECTOR_UNIT, vector_cycles(n)};
  if (starts(n, "ds_nop")) return {IDLE, 4};
  if (starts(n, "ds_")) return {LDS_UNIT, 0};
  if (starts(n, "global_") || starts(n, "flat_") || starts(n, "buffer_") || starts(n, "tbuffer_") ||
      starts(n, "scratch_"))
    return {MEMORY_UNIT, 0};
  if (scalar_memory(n) || starts(n, "s_mem")) return {SCALAR_MEMORY_UNIT, 4};
  if (starts(n, "s_waitcnt")) return {WAITS, 4};
  if (starts(n, "s_barrier")) return {BARRIERS, 4};
  if (starts(n, "s_nop")) return {IDLE, 4 * ((u32)in.offset + 1)};
  if (starts(n, "s_endpgm")) return {END_OF_WAVE, 4};
  if (has(n, "branch") || starts(n, "s_setpc") || starts(n, "s_swappc") || starts(n, "s_call")) return {BRANCH_UNIT, 4};
  return {SCALAR_UNIT, 4};
}

// --- LDS banks -------------------------------------------------------------------------------------

// How a wave's lanes are served: in groups, one after the other, each in as many cycles as its fullest bank
// has different dwords. gfx950's groups were measured (HipKittens, analysis of LDS phases); it reads 64 banks
// at once and writes 32. gfx942 has 32 banks, so a group has at most 32 dwords. Its groups are taken to be
// gfx950's where those behave as 32 banks (read_b96), and lanes in order elsewhere.
struct Phases {
  u8 group[WAVE];
  u32 banks;
};

// {0-3, 20-23}, {4-7, 16-19}, {8-11, 28-31}, {12-15, 24-27}, and the same 32 further.
static u8 quad_group(u32 lane) {
  static const u8 OF[8] = {0, 1, 2, 3, 1, 0, 3, 2};
  return OF[lane % 32 / 4] + lane / 32 * 4;
}
// {0-3, 12-15, 20-27}, {4-11, 16-19, 28-31}, and the same 32 further.
static u8 half_group(u32 lane) {
  static const u8 OF[8] = {0, 1, 1, 0, 1, 0, 0, 1};
  return OF[lane % 32 / 4] + lane / 32 * 2;
}

static Phases phases(u32 bytes, bool writes, bool wide) {
  Phases p;
  p.banks = wide ? 64 : 32;
  u32 at_once = p.banks / ((bytes + 3) / 4 == 3 ? 4 : (bytes + 3) / 4);
  for (u32 i = 0; i < WAVE; i++) p.group[i] = bytes < 12 || writes ? i / at_once : wide ? half_group(i) : quad_group(i);
  return p;
}

LdsCycles lds_cycles(const u64* address, u64 lanes, u32 bytes, bool writes, bool atomic, const Card& card) {
  static Phases table[2][2][17];
  static bool known[2][2][17];  // filled twice by two threads at worst, with the same values
  bool wide = (writes || bytes == 12 ? card.lds_write_banks : card.lds_read_banks) == 64;
  Phases& p = table[wide][writes][bytes];
  if (!__atomic_load_n(&known[wide][writes][bytes], __ATOMIC_ACQUIRE)) {
    p = phases(bytes, writes, wide);
    __atomic_store_n(&known[wide][writes][bytes], true, __ATOMIC_RELEASE);
  }
  // Per group and bank the dwords asked for. Lanes that ask for the same dword share it, but for atomics.
  u32 seen[8][64][4];
  u8 count[8][64] = {}, fullest[8] = {};
  u32 dwords = (bytes + 3) / 4;
  for (u64 m = lanes; m; m &= m - 1) {
    int i = __builtin_ctzll(m);
    u32 g = p.group[i], first = (u32)(address[i] >> 2);
    for (u32 d = first; d < first + dwords; d++) {
      u32 bank = d & (p.banks - 1);
      u8& n = count[g][bank];
      bool shared = false;
      for (u32 k = 0; k < n && k < 4 && !atomic; k++) shared |= seen[g][bank][k] == d;
      if (shared) continue;
      if (n < 4) seen[g][bank][n] = d;
      n++;
      if (n > fullest[g]) fullest[g] = n;
    }
  }
  LdsCycles c = {0, 0};
  for (int g = 0; g < 8; g++)
    if (fullest[g]) c.cycles += fullest[g], c.conflicts += fullest[g] - 1u;
  return c;
}
