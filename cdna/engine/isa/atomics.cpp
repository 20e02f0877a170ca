// Global, flat and buffer atomics: sequentially consistent operations of the host, lane by lane.
#include "atomics.h"
#include "buffer.h"

template <Space S, class T, T (*F)(T, T)> static void atomic(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  PrivateWindow window;
  if (!exec || !addresses<S>(w, in, in.src[0], in.src[2], sizeof(T), window)) return;
  atomic_lanes<T, F>(w, in.flags & GLC ? w.vreg(in.dst[0].reg) : nullptr, w.vreg(in.src[1].reg), exec);
  if (S == FLAT) close_window(w, sizeof(T), window);
}
template <Space S, class T> static void cmpswap(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  PrivateWindow window;
  if (!exec || !addresses<S>(w, in, in.src[0], in.src[2], sizeof(T), window)) return;
  cmpswap_lanes<T>(w, in.flags & GLC ? w.vreg(in.dst[0].reg) : nullptr, w.vreg(in.src[1].reg), exec);
  if (S == FLAT) close_window(w, sizeof(T), window);
}

// Buffer atomics return into their data register; a lane out of range returns 0.
template <class T> static u64 buffer_lanes(Wave& w, const Inst& in, u32* data) {
  if (!w.exec()) return 0;
  BufferAccess b = buffer_access(w, in, in.src + 1, sizeof(T), 1);
  if (w.stop == FAULTED) return 0;
  if (in.flags & GLC)
    for (u64 m = b.none; m; m &= m - 1) set_lane(data, __builtin_ctzll(m), (T)0);
  return b.whole;
}
template <class T, T (*F)(T, T)> static void buffer_atomic(Wave& w, const Inst& in) {
  u32* data = w.vreg(in.src[0].reg);
  u64 lanes = buffer_lanes<T>(w, in, data);
  atomic_lanes<T, F>(w, in.flags & GLC ? data : nullptr, data, lanes);
}
template <class T> static void buffer_cmpswap(Wave& w, const Inst& in) {
  u32* data = w.vreg(in.src[0].reg);
  u64 lanes = buffer_lanes<T>(w, in, data);
  cmpswap_lanes<T>(w, in.flags & GLC ? data : nullptr, data, lanes);
}

// One operation in its three spaces.
#define FORMS(NAME, T, F)                                                                     \
  {"global_atomic_" NAME, atomic<GLOBAL, T, F>}, {"flat_atomic_" NAME, atomic<FLAT, T, F>}, { \
    "buffer_atomic_" NAME, buffer_atomic<T, F>                                                \
  }
#define INTEGER(NAME, F) FORMS(NAME, u32, Ops32::F), FORMS(NAME "_x2", u64, Ops64::F)
#define CMPSWAP(NAME, T)                                                                  \
  {"global_atomic_" NAME, cmpswap<GLOBAL, T>}, {"flat_atomic_" NAME, cmpswap<FLAT, T>}, { \
    "buffer_atomic_" NAME, buffer_cmpswap<T>                                              \
  }

// clang-format off
static const OpInfo OPS[] = {
  INTEGER("swap", swap), INTEGER("add", add), INTEGER("sub", sub), INTEGER("umin", umin), INTEGER("umax", umax),
  INTEGER("and", band), INTEGER("or", bor), INTEGER("xor", bxor), INTEGER("inc", inc), INTEGER("dec", dec),
  FORMS("smin", u32, smin32), FORMS("smax", u32, smax32), FORMS("smin_x2", u64, smin64), FORMS("smax_x2", u64, smax64),
  CMPSWAP("cmpswap", u32), CMPSWAP("cmpswap_x2", u64), FORMS("add_f32", u32, add_f32),
  FORMS("pk_add_f16", u32, pk_add_f16), FORMS("pk_add_bf16", u32, pk_add_bf16), FORMS("add_f64", u64, add_f64),
  FORMS("min_f64", u64, min_f64), FORMS("max_f64", u64, max_f64),
};
// clang-format on
extern const OpTable ATOMIC_OPS = {OPS, sizeof OPS / sizeof *OPS};
