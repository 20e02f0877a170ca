// Global and flat loads and stores, and loads that go straight to LDS.
#include "memory.h"

template <Space S, Form F> static void load(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  PrivateWindow window;
  if (!exec || !addresses<S>(w, in, in.src[0], in.src[1], form_bytes(F), window)) return;
  load_form<F>(w.vreg(in.dst[0].reg), w.address, exec);
  prefetch_behind<F>(w.address, exec);
}
template <Space S, Form F> static void store(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  PrivateWindow window;
  if (!exec || !addresses<S>(w, in, in.src[0], in.src[2], form_bytes(F), window)) return;
  store_form<F>(w.vreg(in.src[1].reg), w.address, exec);
  order_store(in);
  if (S == FLAT) close_window(w, form_bytes(F), window);
}

// LDS address = M0 + immediate + lane * lds_lane_stride; the immediate counts in the global address too (LLVM
// IntrinsicsAMDGPU.td, global_load_lds).
template <Form F> static void load_lds(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  PrivateWindow window;
  if (exec && addresses<GLOBAL>(w, in, in.src[0], in.src[1], form_bytes(F), window))
    load_to_lds<F>(w, w.s[M0] + (u32)in.offset, exec);
}

#define LOADS(NAME, SPACE, TAIL)                                                                                \
  {NAME "_load_ubyte", "D:b32 A" TAIL, load<SPACE, U8>}, {NAME "_load_sbyte", "D:b32 A" TAIL, load<SPACE, I8>}, \
      {NAME "_load_ushort", "D:b32 A" TAIL, load<SPACE, U16>},                                                  \
      {NAME "_load_sshort", "D:b32 A" TAIL, load<SPACE, I16>},                                                  \
      {NAME "_load_ubyte_d16", "D:b32 A" TAIL, load<SPACE, U8_LO>},                                             \
      {NAME "_load_ubyte_d16_hi", "D:b32 A" TAIL, load<SPACE, U8_HI>},                                          \
      {NAME "_load_sbyte_d16", "D:b32 A" TAIL, load<SPACE, I8_LO>},                                             \
      {NAME "_load_sbyte_d16_hi", "D:b32 A" TAIL, load<SPACE, I8_HI>},                                          \
      {NAME "_load_short_d16", "D:b32 A" TAIL, load<SPACE, U16_LO>},                                            \
      {NAME "_load_short_d16_hi", "D:b32 A" TAIL, load<SPACE, U16_HI>},                                         \
      {NAME "_load_dword", "D:b32 A" TAIL, load<SPACE, B32>},                                                   \
      {NAME "_load_dwordx2", "D:b64 A" TAIL, load<SPACE, B64>},                                                 \
      {NAME "_load_dwordx3", "D:b96 A" TAIL, load<SPACE, B96>}, {                                               \
    NAME "_load_dwordx4", "D:b128 A" TAIL, load<SPACE, B128>                                                    \
  }
#define STORES(NAME, SPACE, TAIL)                                         \
  {NAME "_store_byte", "A S:b32" TAIL, store<SPACE, U8>},                 \
      {NAME "_store_byte_d16_hi", "A S:b32" TAIL, store<SPACE, U8_HI>},   \
      {NAME "_store_short", "A S:b32" TAIL, store<SPACE, U16>},           \
      {NAME "_store_short_d16_hi", "A S:b32" TAIL, store<SPACE, U16_HI>}, \
      {NAME "_store_dword", "A S:b32" TAIL, store<SPACE, B32>},           \
      {NAME "_store_dwordx2", "A S:b64" TAIL, store<SPACE, B64>},         \
      {NAME "_store_dwordx3", "A S:b96" TAIL, store<SPACE, B96>}, {       \
    NAME "_store_dwordx4", "A S:b128" TAIL, store<SPACE, B128>            \
  }
// clang-format off
static const OpInfo OPS[] = {
  LOADS("global", GLOBAL, " G" MEMORY_MODS), LOADS("flat", FLAT, MEMORY_MODS),
  STORES("global", GLOBAL, " G" MEMORY_MODS), STORES("flat", FLAT, MEMORY_MODS),
  {"global_load_lds_ubyte", "A G" MEMORY_MODS, load_lds<U8>}, {"global_load_lds_sbyte", "A G" MEMORY_MODS, load_lds<I8>},
  {"global_load_lds_ushort", "A G" MEMORY_MODS, load_lds<U16>}, {"global_load_lds_sshort", "A G" MEMORY_MODS, load_lds<I16>},
  {"global_load_lds_dword", "A G" MEMORY_MODS, load_lds<B32>},
  {"global_load_lds_dwordx3", "A G" MEMORY_MODS, load_lds<B96>}, {"global_load_lds_dwordx4", "A G" MEMORY_MODS, load_lds<B128>},
};
// clang-format on
extern const OpTable GLOBAL_OPS = {OPS, sizeof OPS / sizeof *OPS};
