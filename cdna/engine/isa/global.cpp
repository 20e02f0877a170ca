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

#define LOADS(NAME, SPACE)                                                                             \
  {NAME "_load_ubyte", load<SPACE, U8>}, {NAME "_load_sbyte", load<SPACE, I8>},                        \
      {NAME "_load_ushort", load<SPACE, U16>}, {NAME "_load_sshort", load<SPACE, I16>},                \
      {NAME "_load_ubyte_d16", load<SPACE, U8_LO>}, {NAME "_load_ubyte_d16_hi", load<SPACE, U8_HI>},   \
      {NAME "_load_sbyte_d16", load<SPACE, I8_LO>}, {NAME "_load_sbyte_d16_hi", load<SPACE, I8_HI>},   \
      {NAME "_load_short_d16", load<SPACE, U16_LO>}, {NAME "_load_short_d16_hi", load<SPACE, U16_HI>}, \
      {NAME "_load_dword", load<SPACE, B32>}, {NAME "_load_dwordx2", load<SPACE, B64>},                \
      {NAME "_load_dwordx3", load<SPACE, B96>}, {                                                      \
    NAME "_load_dwordx4", load<SPACE, B128>                                                            \
  }
#define STORES(NAME, SPACE)                                                                         \
  {NAME "_store_byte", store<SPACE, U8>}, {NAME "_store_byte_d16_hi", store<SPACE, U8_HI>},         \
      {NAME "_store_short", store<SPACE, U16>}, {NAME "_store_short_d16_hi", store<SPACE, U16_HI>}, \
      {NAME "_store_dword", store<SPACE, B32>}, {NAME "_store_dwordx2", store<SPACE, B64>},         \
      {NAME "_store_dwordx3", store<SPACE, B96>}, {                                                 \
    NAME "_store_dwordx4", store<SPACE, B128>                                                       \
  }
// clang-format off
static const OpInfo OPS[] = {
  LOADS("global", GLOBAL), LOADS("flat", FLAT), STORES("global", GLOBAL), STORES("flat", FLAT),
  {"global_load_lds_ubyte", load_lds<U8>}, {"global_load_lds_sbyte", load_lds<I8>},
  {"global_load_lds_ushort", load_lds<U16>}, {"global_load_lds_sshort", load_lds<I16>},
  {"global_load_lds_dword", load_lds<B32>}, {"global_load_lds_dwordx3", load_lds<B96>},
  {"global_load_lds_dwordx4", load_lds<B128>},
};
// clang-format on
extern const OpTable GLOBAL_OPS = {OPS, sizeof OPS / sizeof *OPS};
