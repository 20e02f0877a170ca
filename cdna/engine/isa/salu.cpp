// Scalar arithmetic, logic and compares.
#include "core.h"

static inline u32 a32(Wave& w, const Inst& in) { return scalar32(w, in.src[0]); }
static inline u32 b32(Wave& w, const Inst& in) { return scalar32(w, in.src[1]); }
static inline u64 a64(Wave& w, const Inst& in) { return scalar64(w, in.src[0]); }
static inline u64 b64(Wave& w, const Inst& in) { return scalar64(w, in.src[1]); }
static inline void out32(Wave& w, const Inst& in, u32 x) { w.s[in.dst[0].reg] = x; }
static inline void out64(Wave& w, const Inst& in, u64 x) { w.set_s64(in.dst[0].reg, x); }

// One function for each operation: its result r, of OUT bits, of the operands a and b, of A and B bits, and then SCC.
#define HANDLER(NAME, OUT, A, B, EXPR, THEN)     \
  static void NAME(Wave& w, const Inst& in) {    \
    [[maybe_unused]] const u##A a = a##A(w, in); \
    [[maybe_unused]] const u##B b = b##B(w, in); \
    const u##OUT r = EXPR;                       \
    out##OUT(w, in, r);                          \
    THEN;                                        \
  }
#define OP32(NAME, EXPR) HANDLER(NAME, 32, 32, 32, EXPR, )
#define OP64(NAME, EXPR) HANDLER(NAME, 64, 64, 64, EXPR, )
#define SETS_SCC(NAME, OUT, A, B, EXPR) HANDLER(NAME, OUT, A, B, EXPR, w.scc = r != 0)
#define OP32_SCC(NAME, EXPR) SETS_SCC(NAME, 32, 32, 32, EXPR)
#define OP64_SCC(NAME, EXPR) SETS_SCC(NAME, 64, 64, 64, EXPR)
#define COMPARE(NAME, TYPE, EXPR)                    \
  static void NAME(Wave& w, const Inst& in) {        \
    TYPE a = (TYPE)a32(w, in), b = (TYPE)b32(w, in); \
    w.scc = EXPR;                                    \
  }

// clang-format off
OP32(mov32, a) OP64(mov64, a)
    // clang-format on
    static void cmov32(Wave& w, const Inst& in) {
  if (w.scc) out32(w, in, a32(w, in));
}
static void cmov64(Wave& w, const Inst& in) {
  if (w.scc) out64(w, in, a64(w, in));
}
static void cselect32(Wave& w, const Inst& in) { out32(w, in, w.scc ? a32(w, in) : b32(w, in)); }
static void cselect64(Wave& w, const Inst& in) { out64(w, in, w.scc ? a64(w, in) : b64(w, in)); }

// clang-format off
HANDLER(add_u32, 32, 32, 32, a + b, w.scc = r < a)
HANDLER(addc_u32, 32, 32, 32, a + b + w.scc, w.scc = ((u64)a + b + w.scc) >> 32)
HANDLER(sub_u32, 32, 32, 32, a - b, w.scc = a < b)
HANDLER(subb_u32, 32, 32, 32, a - b - w.scc, w.scc = (u64)a < (u64)b + w.scc)
HANDLER(add_i32, 32, 32, 32, a + b, w.scc = ((r ^ a) & (r ^ b)) >> 31)
HANDLER(sub_i32, 32, 32, 32, a - b, w.scc = ((a ^ b) & (a ^ r)) >> 31)
// clang-format on

// Register numbers relative to M0.
template <int DWORDS> static bool in_file(Wave& w, u32 reg) {
  if (reg + DWORDS <= 104) return true;
  fault(w, "s_movrel reaches s%u; the last scalar register is s103", reg);
  return false;
}
template <int DWORDS> static void movrels(Wave& w, const Inst& in) {
  u32 from = in.src[0].reg + w.s[M0];
  if (in_file<DWORDS>(w, from)) memmove(&w.s[in.dst[0].reg], &w.s[from], DWORDS * 4);
}
template <int DWORDS> static void movreld(Wave& w, const Inst& in) {
  u32 to = in.dst[0].reg + w.s[M0];
  u64 x = DWORDS == 2 ? a64(w, in) : a32(w, in);
  if (in_file<DWORDS>(w, to)) memcpy(&w.s[to], &x, DWORDS * 4);
}
static void addk(Wave& w, const Inst& in) {
  i32 r;
  w.scc = __builtin_add_overflow((i32)w.s[in.dst[0].reg], (i32)a32(w, in), &r);
  out32(w, in, r);
}
static void mulk(Wave& w, const Inst& in) { out32(w, in, w.s[in.dst[0].reg] * a32(w, in)); }
template <bool MIN, bool SIGNED> static void minmax(Wave& w, const Inst& in) {
  u32 a = a32(w, in), b = b32(w, in);
  bool less = SIGNED ? (i32)a < (i32)b : a < b;
  w.scc = MIN ? less : !less;  // equal operands: min leaves 0, max 1
  out32(w, in, w.scc ? a : b);
}
// clang-format off
OP32(mul_i32, a * b)
OP32(mul_hi_u32, (u64)a * b >> 32)
OP32(mul_hi_i32, (u32)((i64)(i32)a * (i32)b >> 32))
template <int SHIFT> HANDLER(lshl_add, 32, 32, 32, (a << SHIFT) + b, w.scc = (((u64)a << SHIFT) + b) >> 32 != 0)

OP32_SCC(and32, a & b) OP32_SCC(or32, a | b) OP32_SCC(xor32, a ^ b) OP32_SCC(andn2_32, a & ~b)
OP32_SCC(orn2_32, a | ~b)
OP32_SCC(nand32, ~(a & b)) OP32_SCC(nor32, ~(a | b)) OP32_SCC(xnor32, ~(a ^ b)) OP32_SCC(not32, ~a)
OP64_SCC(and64, a & b) OP64_SCC(or64, a | b) OP64_SCC(xor64, a ^ b) OP64_SCC(andn2_64, a & ~b)
OP64_SCC(orn2_64, a | ~b)
OP64_SCC(nand64, ~(a & b)) OP64_SCC(nor64, ~(a | b)) OP64_SCC(xnor64, ~(a ^ b)) OP64_SCC(not64, ~a)
OP32_SCC(lshl32, a << (b & 31)) OP32_SCC(lshr32, a >> (b & 31)) OP32_SCC(ashr32, (u32)((i32)a >> (b & 31)))
SETS_SCC(lshl64, 64, 64, 32, a << (b & 63)) SETS_SCC(lshr64, 64, 64, 32, a >> (b & 63))
SETS_SCC(ashr64, 64, 64, 32, (u64)((i64)a >> (b & 63)))
OP32(bfm32, ((1u << (a & 31)) - 1) << (b & 31))
OP64(bfm64, ((1ull << (a & 63)) - 1) << (b & 63))
    // clang-format on
    static u64 field(u64 x, u32 b, int bits, bool sign) {
  u32 offset = b & (bits - 1), width = b >> 16 & 0x7f;
  if (width == 0) return 0;
  if (offset + width > (u32)bits) width = bits - offset;
  u64 r = x >> offset & (width >= 64 ? ~0ull : (1ull << width) - 1);
  return sign && width < 64 && (r >> (width - 1) & 1) ? r | ~0ull << width : r;
}
static u32 leading(u64 x, int bits) { return x ? __builtin_clzll(x) - (64 - bits) : ~0u; }
static u32 trailing(u64 x) { return x ? __builtin_ctzll(x) : ~0u; }

// clang-format off
SETS_SCC(bfe_u32, 32, 32, 32, field(a, b, 32, false)) SETS_SCC(bfe_i32, 32, 32, 32, field(a, b, 32, true))
SETS_SCC(bfe_u64, 64, 64, 32, field(a, b, 64, false)) SETS_SCC(bfe_i64, 64, 64, 32, field(a, b, 64, true))
OP32(brev32, __builtin_bitreverse32(a)) OP64(brev64, __builtin_bitreverse64(a))
OP32_SCC(bcnt1_32, __builtin_popcount(a)) OP32_SCC(bcnt0_32, 32 - __builtin_popcount(a))
SETS_SCC(bcnt1_64, 32, 64, 32, __builtin_popcountll(a)) SETS_SCC(bcnt0_64, 32, 64, 32, 64 - __builtin_popcountll(a))
OP32(ff1_32, trailing(a)) OP32(ff0_32, trailing((u32)~a))
HANDLER(ff1_64, 32, 64, 32, trailing(a), ) HANDLER(ff0_64, 32, 64, 32, trailing(~a), )
OP32(flbit32, leading(a, 32)) OP32(flbit_i32, leading((i32)a < 0 ? (u32)~a : a, 32))
HANDLER(flbit64, 32, 64, 32, leading(a, 64), ) HANDLER(flbit_i64, 32, 64, 32, leading((i64)a < 0 ? ~a : a, 64), )
OP32(sext8, (u32)(i32)(i8)a) OP32(sext16, (u32)(i32)(i16)a)
OP32_SCC(abs32, (i32)a < 0 ? 0u - a : a) OP32_SCC(absdiff, (i32)(a - b) < 0 ? b - a : a - b)
    // clang-format on
    static void bitset0_32(Wave& w, const Inst& in) {
  w.s[in.dst[0].reg] &= ~(1u << (a32(w, in) & 31));
}
static void bitset1_32(Wave& w, const Inst& in) { w.s[in.dst[0].reg] |= 1u << (a32(w, in) & 31); }
static void bitset0_64(Wave& w, const Inst& in) { out64(w, in, w.s64(in.dst[0].reg) & ~(1ull << (a32(w, in) & 63))); }
static void bitset1_64(Wave& w, const Inst& in) { out64(w, in, w.s64(in.dst[0].reg) | 1ull << (a32(w, in) & 63)); }
static void bitcmp0_32(Wave& w, const Inst& in) { w.scc = !(a32(w, in) >> (b32(w, in) & 31) & 1); }
static void bitcmp1_32(Wave& w, const Inst& in) { w.scc = a32(w, in) >> (b32(w, in) & 31) & 1; }
static void bitcmp0_64(Wave& w, const Inst& in) { w.scc = !(a64(w, in) >> (b32(w, in) & 63) & 1); }
static void bitcmp1_64(Wave& w, const Inst& in) { w.scc = a64(w, in) >> (b32(w, in) & 63) & 1; }
static u64 quad_any(u64 x) {
  u64 r = 0;
  for (int i = 0; i < 16; i++)
    if (x >> 4 * i & 15) r |= 1ull << i;
  return r;
}
static u64 whole_quad(u64 x) {
  u64 r = 0;
  for (int i = 0; i < 16; i++)
    if (x >> 4 * i & 15) r |= 15ull << 4 * i;
  return r;
}
// clang-format off
OP64_SCC(quadmask64, quad_any(a)) OP64_SCC(wqm64, whole_quad(a)) OP32_SCC(quadmask32, (u32)quad_any(a))
OP32_SCC(wqm32, (u32)whole_quad(a))
static void bitreplicate(Wave& w, const Inst& in) {
  u32 a = a32(w, in);
  u64 r = 0;
  for (int i = 0; i < 32; i++) if (a >> i & 1) r |= 3ull << 2 * i;
  out64(w, in, r);
}
OP32(pack_ll, (a & 0xffff) | b << 16) OP32(pack_lh, (a & 0xffff) | (b & 0xffff0000))
OP32(pack_hh, a >> 16 | (b & 0xffff0000))

// exec = f(S, exec), and D what it was, or is; SCC = exec != 0
#define OF_EXEC(NAME, SAVED, EXPR) \
  static void NAME(Wave& w, const Inst& in) { \
    u64 a = a64(w, in), e = w.exec(), r = EXPR; \
    out64(w, in, SAVED); \
    w.set_exec(r); \
    w.scc = r != 0; }
#define SAVEEXEC(NAME, EXPR) OF_EXEC(NAME, e, EXPR)
SAVEEXEC(saveexec_and, a & e) SAVEEXEC(saveexec_or, a | e) SAVEEXEC(saveexec_xor, a ^ e)
SAVEEXEC(saveexec_andn1, ~a & e)
SAVEEXEC(saveexec_andn2, a & ~e) SAVEEXEC(saveexec_orn1, ~a | e) SAVEEXEC(saveexec_orn2, a | ~e)
SAVEEXEC(saveexec_nand, ~(a & e))
SAVEEXEC(saveexec_nor, ~(a | e)) SAVEEXEC(saveexec_xnor, ~(a ^ e))
OF_EXEC(wrexec_andn1, r, ~a & e) OF_EXEC(wrexec_andn2, r, a & ~e)

COMPARE(cmp_eq, u32, a == b) COMPARE(cmp_ne, u32, a != b)
COMPARE(cmp_gt_i, i32, a > b) COMPARE(cmp_ge_i, i32, a >= b) COMPARE(cmp_lt_i, i32, a < b)
COMPARE(cmp_le_i, i32, a <= b)
COMPARE(cmp_gt_u, u32, a > b) COMPARE(cmp_ge_u, u32, a >= b) COMPARE(cmp_lt_u, u32, a < b)
COMPARE(cmp_le_u, u32, a <= b)
static void cmp_eq64(Wave& w, const Inst& in) { w.scc = a64(w, in) == b64(w, in); }
static void cmp_ne64(Wave& w, const Inst& in) { w.scc = a64(w, in) != b64(w, in); }

static const OpInfo OPS[] = {
  {"s_mov_b32", mov32}, {"s_mov_b64", mov64}, {"s_movk_i32", mov32}, {"s_cmov_b32", cmov32}, {"s_cmov_b64", cmov64},
  {"s_cmovk_i32", cmov32}, {"s_cselect_b32", cselect32}, {"s_cselect_b64", cselect64}, {"s_add_u32", add_u32},
  {"s_addc_u32", addc_u32}, {"s_sub_u32", sub_u32}, {"s_subb_u32", subb_u32}, {"s_add_i32", add_i32},
  {"s_sub_i32", sub_i32}, {"s_addk_i32", addk}, {"s_mulk_i32", mulk}, {"s_min_i32", minmax<true, true>},
  {"s_min_u32", minmax<true, false>}, {"s_max_i32", minmax<false, true>}, {"s_max_u32", minmax<false, false>},
  {"s_mul_i32", mul_i32}, {"s_mul_hi_u32", mul_hi_u32}, {"s_mul_hi_i32", mul_hi_i32}, {"s_lshl1_add_u32", lshl_add<1>},
  {"s_lshl2_add_u32", lshl_add<2>}, {"s_lshl3_add_u32", lshl_add<3>}, {"s_lshl4_add_u32", lshl_add<4>},
  {"s_and_b32", and32}, {"s_or_b32", or32}, {"s_xor_b32", xor32}, {"s_andn2_b32", andn2_32}, {"s_orn2_b32", orn2_32},
  {"s_nand_b32", nand32}, {"s_nor_b32", nor32}, {"s_xnor_b32", xnor32}, {"s_not_b32", not32}, {"s_and_b64", and64},
  {"s_or_b64", or64}, {"s_xor_b64", xor64}, {"s_andn2_b64", andn2_64}, {"s_orn2_b64", orn2_64}, {"s_nand_b64", nand64},
  {"s_nor_b64", nor64}, {"s_xnor_b64", xnor64}, {"s_not_b64", not64}, {"s_lshl_b32", lshl32}, {"s_lshr_b32", lshr32},
  {"s_ashr_i32", ashr32}, {"s_lshl_b64", lshl64}, {"s_lshr_b64", lshr64}, {"s_ashr_i64", ashr64}, {"s_bfm_b32", bfm32},
  {"s_bfm_b64", bfm64}, {"s_bfe_u32", bfe_u32}, {"s_bfe_i32", bfe_i32}, {"s_bfe_u64", bfe_u64}, {"s_bfe_i64", bfe_i64},
  {"s_brev_b32", brev32}, {"s_brev_b64", brev64}, {"s_bcnt0_i32_b32", bcnt0_32}, {"s_bcnt1_i32_b32", bcnt1_32},
  {"s_bcnt0_i32_b64", bcnt0_64}, {"s_bcnt1_i32_b64", bcnt1_64}, {"s_ff0_i32_b32", ff0_32}, {"s_ff1_i32_b32", ff1_32},
  {"s_ff0_i32_b64", ff0_64}, {"s_ff1_i32_b64", ff1_64}, {"s_flbit_i32_b32", flbit32}, {"s_flbit_i32_b64", flbit64},
  {"s_flbit_i32", flbit_i32}, {"s_flbit_i32_i64", flbit_i64}, {"s_sext_i32_i8", sext8}, {"s_sext_i32_i16", sext16},
  {"s_abs_i32", abs32}, {"s_absdiff_i32", absdiff}, {"s_bitset0_b32", bitset0_32}, {"s_bitset1_b32", bitset1_32},
  {"s_bitset0_b64", bitset0_64}, {"s_bitset1_b64", bitset1_64}, {"s_bitcmp0_b32", bitcmp0_32},
  {"s_bitcmp1_b32", bitcmp1_32}, {"s_bitcmp0_b64", bitcmp0_64}, {"s_bitcmp1_b64", bitcmp1_64},
  {"s_movrels_b32", movrels<1>}, {"s_movrels_b64", movrels<2>}, {"s_movreld_b32", movreld<1>},
  {"s_movreld_b64", movreld<2>}, {"s_quadmask_b32", quadmask32}, {"s_quadmask_b64", quadmask64}, {"s_wqm_b32", wqm32},
  {"s_wqm_b64", wqm64}, {"s_bitreplicate_b64_b32", bitreplicate}, {"s_pack_ll_b32_b16", pack_ll},
  {"s_pack_lh_b32_b16", pack_lh}, {"s_pack_hh_b32_b16", pack_hh}, {"s_and_saveexec_b64", saveexec_and},
  {"s_or_saveexec_b64", saveexec_or}, {"s_xor_saveexec_b64", saveexec_xor}, {"s_andn1_saveexec_b64", saveexec_andn1},
  {"s_andn2_saveexec_b64", saveexec_andn2}, {"s_orn1_saveexec_b64", saveexec_orn1},
  {"s_orn2_saveexec_b64", saveexec_orn2}, {"s_nand_saveexec_b64", saveexec_nand}, {"s_nor_saveexec_b64", saveexec_nor},
  {"s_xnor_saveexec_b64", saveexec_xnor}, {"s_andn1_wrexec_b64", wrexec_andn1}, {"s_andn2_wrexec_b64", wrexec_andn2},
  {"s_cmp_eq_i32", cmp_eq}, {"s_cmp_lg_i32", cmp_ne}, {"s_cmp_gt_i32", cmp_gt_i}, {"s_cmp_ge_i32", cmp_ge_i},
  {"s_cmp_lt_i32", cmp_lt_i}, {"s_cmp_le_i32", cmp_le_i}, {"s_cmp_eq_u32", cmp_eq}, {"s_cmp_lg_u32", cmp_ne},
  {"s_cmp_gt_u32", cmp_gt_u}, {"s_cmp_ge_u32", cmp_ge_u}, {"s_cmp_lt_u32", cmp_lt_u}, {"s_cmp_le_u32", cmp_le_u},
  {"s_cmpk_eq_i32", cmp_eq}, {"s_cmpk_lg_i32", cmp_ne}, {"s_cmpk_gt_i32", cmp_gt_i}, {"s_cmpk_ge_i32", cmp_ge_i},
  {"s_cmpk_lt_i32", cmp_lt_i}, {"s_cmpk_le_i32", cmp_le_i}, {"s_cmpk_eq_u32", cmp_eq}, {"s_cmpk_lg_u32", cmp_ne},
  {"s_cmpk_gt_u32", cmp_gt_u}, {"s_cmpk_ge_u32", cmp_ge_u}, {"s_cmpk_lt_u32", cmp_lt_u}, {"s_cmpk_le_u32", cmp_le_u},
  {"s_cmp_eq_u64", cmp_eq64}, {"s_cmp_lg_u64", cmp_ne64},
};
// clang-format on
extern const OpTable SALU_OPS = {OPS, sizeof OPS / sizeof *OPS};
