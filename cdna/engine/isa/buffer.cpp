// Buffer loads, stores and loads that go straight to LDS, through a resource descriptor (V#).
#include "buffer.h"

template <Form F> static void load(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  if (!exec) return;
  u32* d = w.vreg(in.dst[0].reg);
  BufferAccess b = buffer_access(w, in, in.src, form_bytes(F) < 4 ? form_bytes(F) : 4, form_dwords(F));
  if (w.stop == FAULTED) return;
  load_form<F>(d, loaded_from(w, in, form_bytes(F), b.whole), b.whole, b.none);
  prefetch_behind<F>(w.address, b.whole);
  for (u64 m = b.partly; m; m &= m - 1) {  // each dword is checked on its own
    int i = __builtin_ctzll(m);
    for (u32 k = 0; k < form_dwords(F); k++)
      d[k * WAVE + i] = k < b.dwords[i] ? peek<u32>((void*)(w.address[i] + 4 * k)) : 0;
  }
}

template <Form F> static void store(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  if (!exec) return;
  const u32* s = w.vreg(in.src[0].reg);
  BufferAccess b = buffer_access(w, in, in.src + 1, form_bytes(F) < 4 ? form_bytes(F) : 4, form_dwords(F));
  if (w.stop == FAULTED) return;
  stores_to(w, in, form_bytes(F), b.whole);
  store_form<F>(s, w.address, b.whole);
  order_store(in);
  for (u64 m = b.partly; m; m &= m - 1) {
    int i = __builtin_ctzll(m);
    for (u32 k = 0; k < b.dwords[i]; k++) poke((void*)(w.address[i] + 4 * k), s[k * WAVE + i]);
  }
}

// LDS address = M0 + immediate + lane * lds_lane_stride; the immediate counts in the buffer offset too (CDNA3 ISA, "Memory
// Buffer Load to LDS"). A lane that is out of range writes 0.
template <Form F> static void load_lds(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  if (!exec) return;
  BufferAccess b = buffer_access(w, in, in.src, form_bytes(F) < 4 ? form_bytes(F) : 4, form_dwords(F));
  if (w.stop == FAULTED) return;
  u32 base = w.s[M0] + (u32)in.offset;
  load_to_lds<F>(w, loaded_from(w, in, form_bytes(F), b.whole), base, b.whole, b.none | b.partly);
  for (u64 m = b.partly; m; m &= m - 1) {
    int i = __builtin_ctzll(m);
    u64 at = (u64)base + i * lds_lane_stride(form_bytes(F));
    if (at + form_bytes(F) <= w.wg->lds_bytes) memcpy(w.wg->lds + at, (void*)w.address[i], 4 * b.dwords[i]);
  }
}

#define LOAD(NAME, FORM) {"buffer_load_" NAME, load<FORM>},
#define STORE(NAME, FORM) {"buffer_store_" NAME, store<FORM>},
// clang-format off
static const OpInfo OPS[] = {
  LOAD_FORMS(LOAD) STORE_FORMS(STORE)
  // The decoder appends " lds" where the statement has that modifier: it takes the data operand away.
  {"buffer_load_ubyte lds", load_lds<U8>}, {"buffer_load_sbyte lds", load_lds<I8>},
  {"buffer_load_ushort lds", load_lds<U16>}, {"buffer_load_sshort lds", load_lds<I16>},
  {"buffer_load_dword lds", load_lds<B32>}, {"buffer_load_dwordx3 lds@global_load_lds_dwordx3", load_lds<B96>},
  {"buffer_load_dwordx4 lds@global_load_lds_dwordx4", load_lds<B128>},
};
// clang-format on
extern const OpTable BUFFER_OPS = {OPS, sizeof OPS / sizeof *OPS};
