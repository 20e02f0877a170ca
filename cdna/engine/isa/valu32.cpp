// Lane-wise 32-bit integer and logic instructions, and those that read or write a mask of carries.
#include "cores.h"

// clang-format off
CORE(mov, a)
CORE(not_, ~a) CORE(and_, a & b) CORE(or_, a | b) CORE(xor_, a ^ b) CORE(xnor, ~(a ^ b))
CORE(and_or, (a & b) | c) CORE(or3, a | b | c) CORE(xad, (a ^ b) + c) CORE(bfi, (a & b) | (~a & c))
CORE(lshlrev, b << (a & 31)) CORE(lshrrev, b >> (a & 31)) CORE(ashrrev, (i32)b >> (a & 31))
CORE(lshl_add, (a << (b & 31)) + c) CORE(add_lshl, (a + b) << (c & 31)) CORE(lshl_or, (a << (b & 31)) | c)

CORE(add, a + b) CORE(sub, a - b) CORE(subrev, b - a) CORE(add3, a + b + c)
CORE(add_u32_clamp, clamp_u32((u64)a + b)) CORE(sub_u32_clamp, a > b ? a - b : 0)
CORE(subrev_u32_clamp, b > a ? b - a : 0)
CORE(add_i32_clamp, clamp_i32((i64)(i32)a + (i32)b)) CORE(sub_i32_clamp, clamp_i32((i64)(i32)a - (i32)b))
CORE(mul_lo, a * b) CORE(mul_hi_u32, (u64)a * b >> 32) CORE(mul_hi_i32, (u64)((i64)(i32)a * (i32)b) >> 32)

static inline i64 i24(u32 x) { return (i32)(x << 8) >> 8; }
static inline u64 u24(u32 x) { return x & 0xffffff; }
CORE(mul_i24, i24(a) * i24(b)) CORE(mul_hi_i24, (u64)(i24(a) * i24(b)) >> 32) CORE(mul_u24, u24(a) * u24(b))
CORE(mul_hi_u24, u24(a) * u24(b) >> 32)
CORE(mad_i24, i24(a) * i24(b) + (i32)c) CORE(mad_i24_clamp, clamp_i32(i24(a) * i24(b) + (i32)c))
CORE(mad_u24, u24(a) * u24(b) + c) CORE(mad_u24_clamp, clamp_u32(u24(a) * u24(b) + c))
CORE(mad_u32_u16, (u32)(u16)a * (u16)b + c) CORE(mad_u32_u16_clamp, clamp_u32((u64)(u16)a * (u16)b + c))
CORE(mad_i32_i16, (i32)(i16)a * (i16)b + c) CORE(mad_i32_i16_clamp, clamp_i32((i64)(i16)a * (i16)b + (i32)c))

CORE_I32(min_i32, a < b ? a : b) CORE_I32(max_i32, a > b ? a : b) CORE(min_u32, a < b ? a : b)
CORE(max_u32, a > b ? a : b)
CORE_I32(min3_i32, least(least(a, b), c)) CORE_I32(max3_i32, most(most(a, b), c))
CORE_I32(med3_i32, middle(a, b, c))
CORE(min3_u32, least(least(a, b), c)) CORE(max3_u32, most(most(a, b), c))
CORE(med3_u32, middle(a, b, c))

CORE(bfe_u32, (a >> (b & 31)) & ((1u << (c & 31)) - 1))
// A field that reaches past bit 31 is filled with the value's sign, as the arithmetic shift leaves it.
static inline u32 signed_field(u32 a, u32 offset, u32 width) {
  u32 top = (u32)((i32)a >> offset), up = (32 - width) & 31;
  return width ? (u32)((i32)(top << up) >> up) : 0;
}
CORE(bfe_i32, signed_field(a, b & 31, c & 31))
CORE(bfm, ((1u << (a & 31)) - 1) << (b & 31)) CORE(bfrev, __builtin_bitreverse32(a))
CORE(bcnt, (u32)__builtin_popcount(a) + b)
CORE(ffbh_u32, a ? (u32)__builtin_clz(a | 1) : ~0u)
CORE(ffbl, a ? (u32)__builtin_ctz(a | 0x80000000u) : ~0u)
static inline u32 sign_run(u32 a) {
  u32 x = a ^ (u32)((i32)a >> 31);
  return x ? (u32)__builtin_clz(x | 1) : ~0u;
}
CORE(ffbh_i32, sign_run(a))
CORE(alignbit, (u32)(((u64)a << 32 | b) >> (c & 31)))
CORE(alignbyte, (u32)(((u64)a << 32 | b) >> 8 * (c & 3)))
CORE(mbcnt_lo, b + (u32)__builtin_popcount(a & (i < 32 ? (1u << (i & 31)) - 1 : ~0u)))
CORE(mbcnt_hi, b + (u32)__builtin_popcount(a & (i < 32 ? 0 : (1u << (i & 31)) - 1)))
CORE(prng, a << 1 ^ (a >> 31 ? 197 : 0))

// Selector of v_perm_b32: 0-7 a byte of {a, b}, 8-11 a sign, 12 zero, above 0xff.
static inline u32 perm_byte(u64 data, u32 select) {
  u32 sign_byte = (select & 3) * 2 + 1;
  u32 picked = data >> 8 * (select & 7) & 0xff, sign = (data >> (8 * sign_byte + 7) & 1) ? 0xff : 0;
  return select < 8 ? picked : select < 12 ? sign : select == 12 ? 0 : 0xff;
}
static inline u32 perm_word(u64 data, u32 c) {
  u32 low = perm_byte(data, c & 0xff) | perm_byte(data, c >> 8 & 0xff) << 8;
  return low | perm_byte(data, c >> 16 & 0xff) << 16 | perm_byte(data, c >> 24) << 24;
}
CORE(perm, perm_word((u64)a << 32 | b, c))
// clang-format on

// --- bytes: sums of absolute differences, averages ---

static inline u32 diff(u32 x, u32 y) { return x > y ? x - y : y - x; }
static inline u32 byte(u32 x, int k) { return x >> 8 * k & 0xff; }
static inline u32 sum_abs_diff(u32 a, u32 b) {
  u32 sum = 0;
  for (int k = 0; k < 4; k++) sum += diff(byte(a, k), byte(b, k));
  return sum;
}
static inline u32 masked_sum(u32 a, u32 b) {
  u32 sum = 0;  // a reference byte of 0 masks its term
  for (int k = 0; k < 4; k++) sum += byte(b, k) ? diff(byte(a, k), byte(b, k)) : 0;
  return sum;
}
static inline u32 sad16(u32 a, u32 b) { return diff((u16)a, (u16)b) + diff(a >> 16, b >> 16); }
// clang-format off
CORE(sad_u8, sum_abs_diff(a, b) + c) CORE(sad_u8_clamp, clamp_u32((u64)sum_abs_diff(a, b) + c))
CORE(sad_hi_u8, (sum_abs_diff(a, b) << 16) + c)
CORE(sad_hi_u8_clamp, clamp_u32(((u64)sum_abs_diff(a, b) << 16) + c))
CORE(sad_u16, sad16(a, b) + c) CORE(sad_u16_clamp, clamp_u32((u64)sad16(a, b) + c))
CORE(sad_u32, diff(a, b) + c) CORE(sad_u32_clamp, clamp_u32((u64)diff(a, b) + c))
CORE(msad_u8, masked_sum(a, b) + c) CORE(msad_u8_clamp, clamp_u32((u64)masked_sum(a, b) + c))
static inline u32 average(u32 a, u32 b, u32 c, int k) {
  return ((byte(a, k) + byte(b, k) + (c >> 8 * k & 1)) >> 1) << 8 * k;
}
CORE(lerp_u8, average(a, b, c, 0) | average(a, b, c, 1) | average(a, b, c, 2) | average(a, b, c, 3))
// clang-format on

// Four sums over a sliding window of S0's bytes, each added to a field of S2.
template <u32 SUM(u32, u32), bool CLAMPED>
static void qsad_pk(u32* d, const u32* pa, const u32* pb, const u32* pc) {
  for (int i = 0; i < WAVE; i++) {
    u64 window = pair(pa, i), old = pair(pc, i), r = 0;
    for (int k = 0; k < 4; k++) {
      u32 x = SUM((u32)(window >> 8 * k), pb[i]) + (u32)(old >> 16 * k & 0xffff);
      r |= (u64)(u16)(CLAMPED ? clamp_u16(x) : x) << 16 * k;
    }
    set_pair(d, i, r);
  }
}
template <bool CLAMPED> static void mqsad_u32(u32* d, const u32* pa, const u32* pb, const u32* pc) {
  for (int i = 0; i < WAVE; i++) {
    u64 window = pair(pa, i);
    u32 reference = pb[i], r[4];
    for (int k = 0; k < 4; k++) {
      u64 x = (u64)masked_sum((u32)(window >> 8 * k), reference) + pc[k * WAVE + i];
      r[k] = CLAMPED ? clamp_u32(x) : (u32)x;
    }
    for (int k = 0; k < 4; k++) d[k * WAVE + i] = r[k];
  }
}

// --- masks ---

static void cndmask(Wave& w, const Inst& in) {
  alignas(64) u32 ta[WAVE], tb[WAVE], t[WAVE];
  const u32* a = modified_source(w, in, 0, ta);
  const u32* b = modified_source(w, in, 1, tb);
  u64 mask = scalar64(w, in.src[2]);
  if (!(in.flags & SLOW) && w.exec() == ~0ull) {
    select_lanes(w.vreg(in.dst[0].reg), a, b, mask);
    return;
  }
  select_lanes(t, a, b, mask);
  write_result(w, in, t);
}

enum Carry { ADD, SUB, SUBREV };
// D = S0 +- S1 (+- carry in); D1 = carry or borrow of each active lane.
template <Carry OP, bool CLAMPED = false> static void carry(Wave& w, const Inst& in) {
  alignas(64) u32 ta[WAVE], tb[WAVE], t[WAVE], out[WAVE], ci[WAVE];
  const u32* a = modified_source(w, in, 0, ta);
  const u32* b = modified_source(w, in, 1, tb);
  spread_mask(ci, in.src[2].kind == NONE ? 0 : scalar64(w, in.src[2]));
  LANES {
    u64 x = OP == SUBREV ? b[i] : a[i], y = (u64)(OP == SUBREV ? a[i] : b[i]) + ci[i];
    out[i] = OP == ADD ? (x + y) >> 32 != 0 : y > x;
    t[i] = OP == ADD ? (u32)(x + y) : (u32)(x - y);
    if (CLAMPED) t[i] = out[i] ? (OP == ADD ? ~0u : 0u) : t[i];
  }
  write_result(w, in, t);
  w.set_s64(in.dst[1].reg, gather_mask(out) & w.exec());
}

template <bool SIGNED, bool CLAMPED> static void mad_64_32(Wave& w, const Inst& in) {
  alignas(64) u32 ta[WAVE], tb[WAVE], tc[2 * WAVE], t[2 * WAVE], out[WAVE];
  const u32* a = modified_source(w, in, 0, ta);
  const u32* b = modified_source(w, in, 1, tb);
  const u32* c = modified_source(w, in, 2, tc);
  LANES {
    u64 x = SIGNED ? (u64)((i64)(i32)a[i] * (i32)b[i]) : (u64)a[i] * b[i], y = pair(c, i), r = x + y;
    bool wrapped = SIGNED ? (~(x ^ y) & (x ^ r)) >> 63 : r < x;
    // The 65th bit of the sum: the carry, or for the signed form the sign of the exact result.
    out[i] = SIGNED ? wrapped != (r >> 63 != 0) : wrapped;
    if (CLAMPED && wrapped) r = !SIGNED ? ~0ull : y >> 63 ? 1ull << 63 : ~0ull >> 1;
    set_pair(t, i, r);
  }
  write_result(w, in, t);
  w.set_s64(in.dst[1].reg, gather_mask(out) & w.exec());
}

static void nop(Wave&, const Inst&) {}

#define CARRY_OUT(NAME, ...) {NAME, __VA_ARGS__}
#define CARRY_IN_OUT(NAME, ...) {NAME, __VA_ARGS__}
// clang-format off
static const OpInfo OPS[] = {
  {"v_nop", nop}, LANE("v_mov_b32", mov), LANE("v_accvgpr_read_b32", mov), LANE("v_accvgpr_write_b32", mov),
  LANE("v_accvgpr_mov_b32", mov), LANE("v_not_b32", not_), LANE("v_and_b32", and_), LANE("v_or_b32", or_),
  LANE("v_xor_b32", xor_), LANE("v_xnor_b32", xnor), LANE("v_and_or_b32", and_or), LANE("v_or3_b32", or3),
  LANE("v_xad_u32", xad), LANE("v_bfi_b32", bfi), LANE("v_lshlrev_b32", lshlrev), LANE("v_lshrrev_b32", lshrrev),
  LANE("v_ashrrev_i32", ashrrev), LANE("v_lshl_add_u32", lshl_add), LANE("v_add_lshl_u32", add_lshl),
  LANE("v_lshl_or_b32", lshl_or), LANE("v_add_u32", add), LANE("v_sub_u32", sub), LANE("v_subrev_u32", subrev),
  LANE("v_add_i32", add), LANE("v_sub_i32", sub), LANE("v_add_u32 clamp", add_u32_clamp),
  LANE("v_sub_u32 clamp", sub_u32_clamp), LANE("v_subrev_u32 clamp", subrev_u32_clamp),
  LANE("v_add_i32 clamp", add_i32_clamp), LANE("v_sub_i32 clamp", sub_i32_clamp), LANE("v_add3_u32", add3),
  LANE("v_mul_lo_u32", mul_lo), LANE("v_mul_hi_u32", mul_hi_u32),
  LANE("v_mul_hi_i32", mul_hi_i32), LANE("v_mul_i32_i24", mul_i24), LANE("v_mul_hi_i32_i24", mul_hi_i24),
  LANE("v_mul_u32_u24", mul_u24), LANE("v_mul_hi_u32_u24", mul_hi_u24), LANE("v_mad_i32_i24", mad_i24),
  LANE("v_mad_u32_u24", mad_u24), LANE("v_mad_i32_i24 clamp", mad_i24_clamp),
  LANE("v_mad_u32_u24 clamp", mad_u24_clamp), LANE("v_mad_u32_u16", mad_u32_u16),
  LANE("v_mad_u32_u16 clamp", mad_u32_u16_clamp), LANE("v_mad_i32_i16", mad_i32_i16),
  LANE("v_mad_i32_i16 clamp", mad_i32_i16_clamp), LANE("v_min_i32", min_i32), LANE("v_max_i32", max_i32),
  LANE("v_min_u32", min_u32), LANE("v_max_u32", max_u32), LANE("v_min3_i32", min3_i32), LANE("v_max3_i32", max3_i32),
  LANE("v_med3_i32", med3_i32), LANE("v_min3_u32", min3_u32), LANE("v_max3_u32", max3_u32),
  LANE("v_med3_u32", med3_u32), LANE("v_bfe_u32", bfe_u32), LANE("v_bfe_i32", bfe_i32), LANE("v_bfm_b32", bfm),
  LANE("v_bfrev_b32", bfrev), LANE("v_bcnt_u32_b32", bcnt), LANE("v_ffbh_u32", ffbh_u32), LANE("v_ffbl_b32", ffbl),
  LANE("v_ffbh_i32", ffbh_i32), LANE("v_alignbit_b32", alignbit), LANE("v_alignbyte_b32", alignbyte),
  LANE("v_perm_b32", perm), LANE("v_mbcnt_lo_u32_b32", mbcnt_lo), LANE("v_mbcnt_hi_u32_b32", mbcnt_hi),
  LANE("v_prng_b32", prng), LANE("v_sad_u8", sad_u8), LANE("v_sad_hi_u8", sad_hi_u8), LANE("v_sad_u16", sad_u16),
  LANE("v_sad_u32", sad_u32), LANE("v_msad_u8", msad_u8), LANE("v_sad_u8 clamp", sad_u8_clamp),
  LANE("v_sad_hi_u8 clamp", sad_hi_u8_clamp), LANE("v_sad_u16 clamp", sad_u16_clamp),
  LANE("v_sad_u32 clamp", sad_u32_clamp), LANE("v_msad_u8 clamp", msad_u8_clamp), LANE("v_lerp_u8", lerp_u8),
  LANE("v_qsad_pk_u16_u8", qsad_pk<sum_abs_diff, false>), LANE("v_qsad_pk_u16_u8 clamp", qsad_pk<sum_abs_diff, true>),
  LANE("v_mqsad_pk_u16_u8", qsad_pk<masked_sum, false>), LANE("v_mqsad_pk_u16_u8 clamp", qsad_pk<masked_sum, true>),
  LANE("v_mqsad_u32_u8", mqsad_u32<false>), LANE("v_mqsad_u32_u8 clamp", mqsad_u32<true>), {"v_cndmask_b32", cndmask},
  CARRY_OUT("v_add_co_u32", carry<ADD>), CARRY_OUT("v_sub_co_u32", carry<SUB>),
  CARRY_OUT("v_subrev_co_u32", carry<SUBREV>), CARRY_IN_OUT("v_addc_co_u32", carry<ADD>),
  CARRY_IN_OUT("v_subb_co_u32", carry<SUB>), CARRY_IN_OUT("v_subbrev_co_u32", carry<SUBREV>),
  CARRY_OUT("v_add_co_u32 clamp", carry<ADD, true>), CARRY_OUT("v_sub_co_u32 clamp", carry<SUB, true>),
  CARRY_OUT("v_subrev_co_u32 clamp", carry<SUBREV, true>), CARRY_IN_OUT("v_addc_co_u32 clamp", carry<ADD, true>),
  CARRY_IN_OUT("v_subb_co_u32 clamp", carry<SUB, true>), CARRY_IN_OUT("v_subbrev_co_u32 clamp", carry<SUBREV, true>),
  {"v_mad_u64_u32", mad_64_32<false, false>}, {"v_mad_i64_i32", mad_64_32<true, false>},
  {"v_mad_u64_u32 clamp", mad_64_32<false, true>}, {"v_mad_i64_i32 clamp", mad_64_32<true, true>},
};
// clang-format on
TABLE(VALU32_OPS);
