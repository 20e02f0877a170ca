// LDS atomics. A workgroup's waves run one after another on one host thread, so a plain read and write is atomic.
#include "atomics.h"

static u64 lds_lanes(Wave& w, const Inst& in, const Operand& address, u32 offset, u32 bytes, u32* d, int dwords) {
  u64 exec = w.exec();
  if (!exec) return 0;
  u64 inside = lds_addresses(*w.wg, w.vreg(address.reg), offset, bytes, w.address);
  if (d)
    for (u64 m = exec & ~inside; m; m &= m - 1)
      for (int k = 0; k < dwords; k++) d[k * WAVE + __builtin_ctzll(m)] = 0;
  return exec & inside;
}

// new value = f(old, data)
template <class T, T (*F)(T, T), bool RETURNS> static void atomic(Wave& w, const Inst& in) {
  u32* d = RETURNS ? w.vreg(in.dst[0].reg) : nullptr;
  const u32* data = w.vreg(in.src[1].reg);
  for (u64 m = lds_lanes(w, in, in.src[0], (u32)in.offset, sizeof(T), d, sizeof(T) / 4); m; m &= m - 1) {
    int i = __builtin_ctzll(m);
    T old = peek<T>((void*)w.address[i]);
    poke((void*)w.address[i], F(old, lane_value<T>(data, i)));
    if (RETURNS) set_lane(d, i, old);
  }
}

// new value = f(old, data 0, data 1)
template <class T, T (*F)(T, T, T), bool RETURNS> static void atomic2(Wave& w, const Inst& in) {
  u32* d = RETURNS ? w.vreg(in.dst[0].reg) : nullptr;
  const u32 *data0 = w.vreg(in.src[1].reg), *data1 = w.vreg(in.src[2].reg);
  for (u64 m = lds_lanes(w, in, in.src[0], (u32)in.offset, sizeof(T), d, sizeof(T) / 4); m; m &= m - 1) {
    int i = __builtin_ctzll(m);
    T old = peek<T>((void*)w.address[i]);
    poke((void*)w.address[i], F(old, lane_value<T>(data0, i), lane_value<T>(data1, i)));
    if (RETURNS) set_lane(d, i, old);
  }
}

// Before gfx11 the value to compare with comes first (LLVM DSInstructions.td).
template <class T> static T compare_store(T old, T compare, T x) { return old == compare ? x : old; }
static u32 compare_store_f32(u32 old, u32 compare, u32 x) { return as_f32(old) == as_f32(compare) ? x : old; }
static u64 compare_store_f64(u64 old, u64 compare, u64 x) { return as_f64(old) == as_f64(compare) ? x : old; }
template <class T> static T masked_or(T old, T mask, T x) { return (old & ~mask) | x; }
static u32 wrap(u32 old, u32 limit, u32 step) { return old >= limit ? old - limit : old + step; }

// Exchanges two elements a lane; offsets as in ds_read2.
template <class T, u32 STRIDE> static void exchange2(Wave& w, const Inst& in) {
  alignas(64) u32 old[4 * WAVE];
  u32* d = w.vreg(in.dst[0].reg);
  constexpr int dwords = sizeof(T) / 4;
  for (int k = 0; k < 2 * dwords; k++) memcpy(old + k * WAVE, d + k * WAVE, WAVE * 4);
  for (int e = 0; e < 2; e++) {
    const u32* data = w.vreg(in.src[1 + e].reg);
    u32 offset = (u32)(e ? in.offset1 : in.offset) * STRIDE * sizeof(T);
    for (u64 m = lds_lanes(w, in, in.src[0], offset, sizeof(T), old + e * dwords * WAVE, dwords); m; m &= m - 1) {
      int i = __builtin_ctzll(m);
      set_lane(old + e * dwords * WAVE, i, peek<T>((void*)w.address[i]));
      poke((void*)w.address[i], lane_value<T>(data, i));
    }
  }
  memcpy(d, old, 2 * dwords * WAVE * 4);
}

// Two dwords a lane, at a multiple of 8: each is written where the data's top bit is set, without that bit.
static void conditional_exchange(Wave& w, const Inst& in) {
  const u32 *v = w.vreg(in.src[0].reg), *data = w.vreg(in.src[1].reg);
  u32* d = w.vreg(in.dst[0].reg);
  EACH_LANE(w, i) {
    u32 at = (v[i] + (u32)in.offset) & 0xfff8, pair[2] = {data[i], data[WAVE + i]};
    for (u32 k = 0; k < 2; k++, at += 4) {
      u32 x = pair[k], old = 0;
      if ((u64)at + 4 <= w.wg->lds_bytes) {
        old = peek<u32>(w.wg->lds + at);
        if (x >> 31) poke(w.wg->lds + at, x & 0x7fffffff);
      }
      d[k * WAVE + i] = old;
    }
  }
}

// Adds the number of active lanes to, or subtracts it from, the dword at M0 + offset; all lanes get the old value.
template <bool APPEND> static void append(Wave& w, const Inst& in) {
  u64 exec = w.exec(), at = (u64)w.s[M0] + (u32)in.offset;
  u32 old = 0, *d = w.vreg(in.dst[0].reg), n = __builtin_popcountll(exec);
  if (at + 4 <= w.wg->lds_bytes) {
    old = peek<u32>(w.wg->lds + at);
    poke(w.wg->lds + at, APPEND ? old + n : old - n);
  }
  EACH_LANE(w, i) d[i] = old;
}

#define BOTH(NAME, SUFFIX, T, F) \
  {"ds_" NAME SUFFIX, atomic<T, F, false>}, { "ds_" NAME "_rtn" SUFFIX, atomic<T, F, true> }
#define BOTH2(NAME, SUFFIX, T, F) \
  {"ds_" NAME SUFFIX, atomic2<T, F, false>}, { "ds_" NAME "_rtn" SUFFIX, atomic2<T, F, true> }
#define INTEGER(NAME, TYPE, F) BOTH(NAME, "_" TYPE "32", u32, Ops32::F), BOTH(NAME, "_" TYPE "64", u64, Ops64::F)

// clang-format off
static const OpInfo OPS[] = {
  INTEGER("add", "u", add), INTEGER("sub", "u", sub), INTEGER("rsub", "u", rsub), INTEGER("inc", "u", inc),
  INTEGER("dec", "u", dec), INTEGER("min", "u", umin), INTEGER("max", "u", umax), INTEGER("and", "b", band),
  INTEGER("or", "b", bor), INTEGER("xor", "b", bxor), BOTH("min", "_i32", u32, smin32),
  BOTH("max", "_i32", u32, smax32), BOTH("min", "_i64", u64, smin64), BOTH("max", "_i64", u64, smax64),
  BOTH("add", "_f32", u32, add_f32), BOTH("min", "_f32", u32, min_f32), BOTH("max", "_f32", u32, max_f32),
  BOTH("add", "_f64", u64, add_f64), BOTH("min", "_f64", u64, min_f64), BOTH("max", "_f64", u64, max_f64),
  BOTH("pk_add", "_f16", u32, pk_add_f16), BOTH("pk_add", "_bf16", u32, pk_add_bf16),
  BOTH2("mskor", "_b32", u32, masked_or<u32>), BOTH2("mskor", "_b64", u64, masked_or<u64>),
  BOTH2("cmpst", "_b32", u32, compare_store<u32>), BOTH2("cmpst", "_b64", u64, compare_store<u64>),
  BOTH2("cmpst", "_f32", u32, compare_store_f32), BOTH2("cmpst", "_f64", u64, compare_store_f64),
  {"ds_wrap_rtn_b32", atomic2<u32, wrap, true>}, {"ds_wrxchg_rtn_b32", atomic<u32, Ops32::swap, true>},
  {"ds_wrxchg_rtn_b64", atomic<u64, Ops64::swap, true>}, {"ds_wrxchg2_rtn_b32", exchange2<u32, 1>},
  {"ds_wrxchg2st64_rtn_b32", exchange2<u32, 64>}, {"ds_wrxchg2_rtn_b64", exchange2<u64, 1>},
  {"ds_wrxchg2st64_rtn_b64", exchange2<u64, 64>}, {"ds_condxchg32_rtn_b64", conditional_exchange},
  {"ds_append", append<true>}, {"ds_consume", append<false>},
};
// clang-format on
extern const OpTable LDS_ATOMIC_OPS = {OPS, sizeof OPS / sizeof *OPS};
