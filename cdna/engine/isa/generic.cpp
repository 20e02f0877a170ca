// Generic lane-wise execution: operand modifiers, DPP, SDWA, clamp, output modifiers and the exec mask,
// in one place for all vector instructions.
#include "core.h"
#ifdef __AVX512F__
#ifdef __AVX512F__
#include <immintrin.h>
#endif
#endif

// Source lane of each lane under a DPP control, or -1 where the pattern leaves the row or is undefined.
// Controls: AMD CDNA3 ISA, section "DPP".
static int dpp_lane(u32 ctrl, int lane) {
  int row = lane & ~15, in_row = lane & 15;
  if (ctrl < 0x100) return (lane & ~3) | (ctrl >> 2 * (lane & 3) & 3);                // quad_perm
  if (ctrl <= 0x10f) return in_row + (ctrl & 15) > 15 ? -1 : lane + (ctrl & 15);      // row_shl
  if (ctrl <= 0x11f) return in_row - (int)(ctrl & 15) < 0 ? -1 : lane - (ctrl & 15);  // row_shr
  if (ctrl <= 0x12f) return row | ((in_row - (ctrl & 15)) & 15);                      // row_ror
  switch (ctrl) {
    case 0x130: return lane == 63 ? -1 : lane + 1;      // wave_shl
    case 0x134: return (lane + 1) & 63;                 // wave_rol
    case 0x138: return lane == 0 ? -1 : lane - 1;       // wave_shr
    case 0x13c: return (lane - 1) & 63;                 // wave_ror
    case 0x140: return row | (15 - in_row);             // row_mirror
    case 0x141: return (lane & ~7) | (7 - (lane & 7));  // row_half_mirror
    case 0x142: return lane < 16 ? -1 : row - 1;        // row_bcast:15
    case 0x143: return lane < 32 ? -1 : 31;             // row_bcast:31
  }
  if (ctrl >= 0x150 && ctrl <= 0x15f) return row | (ctrl & 15);  // row_newbcast
  return -1;
}

// dpp_lane of all lanes, computed on the first use of a control. Threads may compute the same entry at once.
struct DppMap {
  alignas(64) i32 from[WAVE];  // 0 where there is no source lane
  u64 valid;
  bool within_rows;  // of 16 lanes
};
static const DppMap& dpp_map(u32 ctrl) {
  static DppMap maps[0x160];
  static u8 ready[0x160];
  if (!__atomic_load_n(&ready[ctrl], __ATOMIC_ACQUIRE)) {
    u64 valid = 0;
    bool within_rows = true;
    for (int i = 0; i < WAVE; i++) {
      int from = dpp_lane(ctrl, i);
      maps[ctrl].from[i] = from < 0 ? 0 : from;
      valid |= (u64)(from >= 0) << i;
      within_rows = within_rows && (from < 0 || from / 16 == i / 16);
    }
    maps[ctrl].valid = valid;
    maps[ctrl].within_rows = within_rows;
    __atomic_store_n(&ready[ctrl], 1, __ATOMIC_RELEASE);
  }
  return maps[ctrl];
}

// Lanes whose source lane exists and is on in exec: one that is off counts as out of bounds too.
static u64 dpp_readable(const DppMap& map, u64 exec) {
  if (exec == ~0ull) return map.valid;
  u64 readable = 0;
  for (int i = 0; i < WAVE; i++) readable |= (exec >> map.from[i] & 1) << i;
  return readable & map.valid;
}

u64 write_mask(const Wave& w, const Inst& in) {
  u64 mask = w.exec();
  if (!(in.flags & DPP)) return mask;
  u64 banks = 0x1111111111111111ull * in.bank_mask, lanes = ~0ull;  // bit 4*row + bank ...
  for (int q = 0; q < 16 && (in.row_mask & in.bank_mask) != 15; q++)
    if (!(in.row_mask >> (q >> 2) & 1) || !(banks >> q & 1)) lanes &= ~(15ull << 4 * q);  // ... is four lanes
  if (!(in.bound_ctrl & BOUND_ZERO)) lanes &= dpp_readable(dpp_map(in.dpp_ctrl), mask);
  return mask & lanes;
}

// Each of these takes lanes from `p`, which may be `x`, and leaves them in `x`.
static void apply_dpp(const Wave& w, const Inst& in, const u32* p, u32* x, int dwords) {
  const DppMap& map = dpp_map(in.dpp_ctrl);
  const u64 readable = dpp_readable(map, w.exec());
  for (int k = 0; k < dwords; k++, x += WAVE, p += WAVE) {
#ifdef __AVX512F__
    if (map.within_rows) {  // of an index the instruction sees the lowest four bits
      for (int q = 0; q < WAVE; q += 16)
        _mm512_storeu_si512(x + q, _mm512_maskz_permutexvar_epi32((u16)(readable >> q), _mm512_load_si512(map.from + q),
                                                                  _mm512_loadu_si512(p + q)));
      continue;
    }
#endif
    alignas(64) u32 old[WAVE], zero[WAVE] = {};
    memcpy(old, p, sizeof old);
    for (int i = 0; i < WAVE; i++) x[i] = old[map.from[i]];
    select_lanes(x, zero, x, readable);
  }
}

static void apply_sdwa(const u32* p, u32* x, u32 sel, bool sign) {
  const u32 shift = sel < 4 ? 8 * sel : 16 * (sel - 4), width = sel < 4 ? 8 : 16, up = 32 - width;
  if (sign) LANES x[i] = (u32)((i32)(p[i] >> shift << up) >> up);
  else LANES x[i] = p[i] >> shift << up >> up;
}

static void apply_neg_abs(const u32* p, u32* x, u8 mods, int dwords, int float_width) {
  const u32 sign = float_width == 16 ? 0x8000u : 0x80000000u;
  const u32 keep = mods & ABS ? ~sign : ~0u, flip = mods & NEG ? sign : 0;
  const int top = float_width == 64 ? 1 : 0;  // the dword with the sign
  for (int k = 0; k < dwords; k++)
    if (k != top && p != x) memcpy(x + k * WAVE, p + k * WAVE, WAVE * 4);
  LANES x[top * WAVE + i] = (p[top * WAVE + i] & keep) ^ flip;
}

// Packed operands: each half of the result picks its half of the source (op_sel, op_sel_hi), then negates. Returns where
// they are then.
static const u32* apply_packed_select(const Inst& in, int k, const u32* p, u32* x, int dwords) {
  const bool lo_high = in.op_sel >> k & 1, hi_high = in.op_sel_hi >> k & 1;
  const u32 neg_lo = in.neg_lo >> k & 1 ? 0x80000000u : 0, neg_hi = in.neg_hi >> k & 1 ? 0x80000000u : 0;
  if (!lo_high && hi_high && !(neg_lo | neg_hi)) return p;
  if (dwords == 2) {  // packed f32
    const u32 *low = p + lo_high * WAVE, *high = p + hi_high * WAVE;
    LANES {
      u32 a = low[i], b = high[i];
      x[i] = a ^ neg_lo;
      x[WAVE + i] = b ^ neg_hi;
    }
    return x;
  }
  const u32 lo_shift = lo_high ? 16 : 0, hi_shift = hi_high ? 16 : 0;
  LANES {
    u32 lo = p[i] >> lo_shift & 0xffff, hi = p[i] >> hi_shift & 0xffff;
    x[i] = (lo ^ neg_lo >> 16) | (hi ^ neg_hi >> 16) << 16;
  }
  return x;
}

const u32* apply_modifiers(Wave& w, const Inst& in, int k, u32* tmp) {
  const Operand& o = in.src[k];
  const int dwords = in.src_dwords[k];
  const u32* p = lanes(w, o, tmp, dwords);
  if (!(in.flags & (DPP | SDWA | OPSEL | PACKED_SEL)) && !o.mods) return p;
  if ((in.flags & DPP) && k == 0) {
    apply_dpp(w, in, p, tmp, dwords);
    p = tmp;
  }
  const u32 sel = !(in.flags & SDWA) || k > 1 ? 6 : k == 0 ? in.src0_sel : in.src1_sel;
  if (sel != 6) {
    if (p != tmp && dwords > 1) memcpy(tmp, p, (size_t)dwords * WAVE * 4);
    apply_sdwa(p, tmp, sel, o.mods & SEXT);
    p = tmp;
  }
  if ((in.flags & OPSEL) && (in.op_sel >> k & 1)) {
    if (p != tmp && dwords > 1) memcpy(tmp, p, (size_t)dwords * WAVE * 4);
    LANES tmp[i] = p[i] >> 16;
    p = tmp;
  }
  u8 mods = o.mods & (NEG | ABS);
  int width = in.src_float[k] ? in.src_float[k] : 32;
  if (in.flags & PACKED_SEL) {
    if (in.src_float[k] & 1) return apply_packed_select(in, k, p, tmp, dwords);
    // A plain operand among packed ones: neg_lo negates it, neg_hi is its abs.
    mods = (in.neg_lo >> k & 1 ? NEG : 0) | (in.neg_hi >> k & 1 ? ABS : 0);
    width = 32;
  }
  if (!mods) return p;
  apply_neg_abs(p, tmp, mods, dwords, width);
  return tmp;
}

// Output modifiers do nothing where MODE keeps denormals of the result's type or is IEEE's; where they do, no denormal and
// no negative zero is left (CDNA3 ISA, "Output Modifiers").
static bool scales(const Wave& w, const Inst& in) {
  const u32 keeps = in.float_type == 32 ? MODE_F32_OUT_DENORMALS : MODE_WIDE_OUT_DENORMALS;
  return in.omod && !(w.mode & (keeps | MODE_IEEE));
}
template <class T> static T scaled(T x, u32 omod, T least_normal) {
  auto kept = [&](T y) { return (y < 0 ? -y : y) < least_normal ? T(0) : y; };
  return kept(kept(x) * (omod == 1 ? T(2) : omod == 2 ? T(4) : T(0.5)));
}

static void apply_output_mods(const Wave& w, const Inst& in, u32* t) {
  const bool clamp = in.flags & CLAMP;
  const u32 omod = scales(w, in) ? in.omod : 0;
  for (int i = 0; i < WAVE; i++) {
    if (in.float_type == 32) {
      for (int k = 0; k < in.dst_dwords; k++) {
        float x = as_f32(t[k * WAVE + i]);
        if (omod) x = scaled(x, omod, 0x1p-126f);
        t[k * WAVE + i] = bits(clamp ? clamped(w, x) : x);
      }
    } else if (in.float_type == 64) {
      double x = as_f64(pair(t, i));
      if (omod) x = scaled(x, omod, 0x1p-1022);
      set_pair(t, i, bits(clamp ? clamped(w, x) : x));
    } else if (in.float_type == 16 || in.float_type == 15) {
      float x = (float)as_f16(t[i]);
      if (omod) x = scaled(x, omod, 0x1p-14f);
      u32 lo = bits((f16)(clamp ? clamped(w, x) : x));
      u32 hi = t[i] >> 16;
      if (in.float_type == 15 && clamp) hi = bits((f16)clamped(w, (float)as_f16(hi)));
      t[i] = lo | hi << 16;
    }
  }
}

static void apply_sdwa_dst(Wave& w, const Inst& in, u32* t) {
  if (in.dst_sel == 6) return;
  u32 shift = in.dst_sel < 4 ? 8 * in.dst_sel : 16 * (in.dst_sel - 4), width = in.dst_sel < 4 ? 8 : 16;
  u32 field = ((1u << width) - 1) << shift;
  const u32* old = w.vreg(in.dst[0].reg);
  for (int i = 0; i < WAVE; i++) {
    u32 part = t[i] << shift & field, below = (1u << shift) - 1;
    bool negative = t[i] >> (width - 1) & 1;
    u32 rest = in.dst_unused == 2               ? old[i] & ~field  // PRESERVE
               : in.dst_unused == 1 && negative ? ~(field | below)
                                                : 0;  // SEXT; else PAD
    t[i] = part | rest;
  }
}

void write_result(Wave& w, const Inst& in, u32* t) {
  if (in.omod || (in.flags & CLAMP)) apply_output_mods(w, in, t);
  if (in.flags & SDWA) apply_sdwa_dst(w, in, t);
  u32* d = w.vreg(in.dst[0].reg);
  if (in.flags & HALF_DST) {  // a 16-bit result keeps the other half of its register
    bool high = in.op_sel >> 3 & 1;
    for (int i = 0; i < WAVE; i++) t[i] = high ? (d[i] & 0xffff) | t[i] << 16 : (d[i] & 0xffff0000) | (t[i] & 0xffff);
  }
  u64 mask = write_mask(w, in);
  for (int k = 0; k < in.dst_dwords; k++) blend(d + k * WAVE, t + k * WAVE, mask);
}

void lane_op(Wave& w, const Inst& in) {
  alignas(64) u32 ta[4 * WAVE], tb[4 * WAVE], tc[4 * WAVE], t[8 * WAVE];
  u32* tmp[3] = {ta, tb, tc};
  const u32* p[3];
  u32* d = w.vreg(in.dst[0].reg);
  if (__builtin_expect(!(in.flags & SLOW), 1)) {
    for (int k = 0; k < 3; k++) p[k] = lanes(w, in.src[k], tmp[k], in.src_dwords[k]);
    u64 exec = w.exec();
    if (__builtin_expect(exec == ~0ull, 1)) {
      in.core(d, p[0], p[1], p[2]);
      return;
    }
    if (exec == 0) return;
    // Accumulating instructions (v_fmac, v_cvt_pk with a kept half) read their destination through d.
    for (int k = 0; k < in.dst_dwords; k++) memcpy(t + k * WAVE, d + k * WAVE, WAVE * 4);
    in.core(t, p[0], p[1], p[2]);
    for (int k = 0; k < in.dst_dwords; k++) blend(d + k * WAVE, t + k * WAVE, exec);
    return;
  }
  for (int k = 0; k < 3; k++) p[k] = apply_modifiers(w, in, k, tmp[k]);
  if (!in.omod && !(in.flags & (CLAMP | SDWA | HALF_DST)) && write_mask(w, in) == ~0ull) {
    in.core(d, p[0], p[1], p[2]);
    return;
  }
  for (int k = 0; k < in.dst_dwords; k++) memcpy(t + k * WAVE, d + k * WAVE, WAVE * 4);
  in.core(t, p[0], p[1], p[2]);
  write_result(w, in, t);
}

static u64 compare(Wave& w, const Inst& in) {
  alignas(64) u32 ta[2 * WAVE], tb[2 * WAVE], mask[2];
  const u32 *a = modified_source(w, in, 0, ta), *b = modified_source(w, in, 1, tb);
  in.core(mask, a, b, nullptr);
  return (mask[0] | (u64)mask[1] << 32) & w.exec();
}

void compare_op(Wave& w, const Inst& in) { w.set_s64(in.dst[0].reg, compare(w, in)); }

void cmpx_op(Wave& w, const Inst& in) {
  u64 mask = compare(w, in);
  w.set_s64(in.dst[0].reg, mask);
  w.set_exec(mask);
}
