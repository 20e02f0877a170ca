// Global and flat loads and stores, and loads that go straight to LDS.
#include "memory.h"

template <Space S, Form F> static void load(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  PrivateWindow window;
  if (!exec || !addresses<S>(w, in, in.src[0], in.src[1], form_bytes(F), window)) return;
  load_form<F>(w.vreg(in.dst[0].reg), loaded_from(w, in, form_bytes(F), exec & ~window.lanes), exec);
  prefetch_behind<F>(w.address, exec);
}
template <Space S, Form F> static void store(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  PrivateWindow window;
  if (!exec || !addresses<S>(w, in, in.src[0], in.src[2], form_bytes(F), window)) return;
  stores_to(w, in, form_bytes(F), exec & ~window.lanes);
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
    load_to_lds<F>(w, loaded_from(w, in, form_bytes(F), exec), w.s[M0] + (u32)in.offset, exec);
}

#define LOAD(NAME, FORM) {"global_load_" NAME, load<GLOBAL, FORM>}, {"flat_load_" NAME, load<FLAT, FORM>},
#define STORE(NAME, FORM) {"global_store_" NAME, store<GLOBAL, FORM>}, {"flat_store_" NAME, store<FLAT, FORM>},
// clang-format off
static const OpInfo OPS[] = {
  LOAD_FORMS(LOAD) STORE_FORMS(STORE)
  {"global_load_lds_ubyte", load_lds<U8>}, {"global_load_lds_sbyte", load_lds<I8>},
  {"global_load_lds_ushort", load_lds<U16>}, {"global_load_lds_sshort", load_lds<I16>},
  {"global_load_lds_dword", load_lds<B32>}, {"global_load_lds_dwordx3", load_lds<B96>},
  {"global_load_lds_dwordx4", load_lds<B128>},
};
// clang-format on
extern const OpTable GLOBAL_OPS = {OPS, sizeof OPS / sizeof *OPS};
