// LDS: reads and writes of every width.
#include "memory.h"

template <Form F> static void read(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  if (!exec) return;
  u64 inside = lds_addresses(*w.wg, w.vreg(in.src[0].reg), (u32)in.offset, form_bytes(F), w.address);
  load_form<F>(w.vreg(in.dst[0].reg), w.address, exec & inside, exec & ~inside);
}

template <Form F> static void write(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  if (!exec) return;
  u64 inside = lds_addresses(*w.wg, w.vreg(in.src[0].reg), (u32)in.offset, form_bytes(F), w.address);
  store_form<F>(w.vreg(in.src[1].reg), w.address, exec & inside);
}

// Two elements a lane; the offsets count elements, or 64 elements in the st64 forms.
template <Form F, u32 STRIDE> static void read2(Wave& w, const Inst& in) {
  alignas(64) u64 second[WAVE];
  u64 exec = w.exec();
  if (!exec) return;
  constexpr u32 bytes = form_bytes(F);
  const u32* v = w.vreg(in.src[0].reg);
  u32* d = w.vreg(in.dst[0].reg);  // may be v
  u64 inside0 = lds_addresses(*w.wg, v, (u32)in.offset * STRIDE * bytes, bytes, w.address);
  u64 inside1 = lds_addresses(*w.wg, v, (u32)in.offset1 * STRIDE * bytes, bytes, second);
  load_form<F>(d, w.address, exec & inside0, exec & ~inside0);
  load_form<F>(d + form_dwords(F) * WAVE, second, exec & inside1, exec & ~inside1);
}

template <Form F, u32 STRIDE> static void write2(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  if (!exec) return;
  constexpr u32 bytes = form_bytes(F);
  const u32* v = w.vreg(in.src[0].reg);
  u64 inside = lds_addresses(*w.wg, v, (u32)in.offset * STRIDE * bytes, bytes, w.address);
  store_form<F>(w.vreg(in.src[1].reg), w.address, exec & inside);
  if (in.offset == in.offset1) return;  // one write, of the first data (CDNA4 ISA 11.3.1)
  inside = lds_addresses(*w.wg, v, (u32)in.offset1 * STRIDE * bytes, bytes, w.address);
  store_form<F>(w.vreg(in.src[2].reg), w.address, exec & inside);
}

// clang-format off
static const OpInfo OPS[] = {
  {"ds_read_u8", read<U8>}, {"ds_read_i8", read<I8>}, {"ds_read_u16", read<U16>}, {"ds_read_i16", read<I16>},
  {"ds_read_u8_d16", read<U8_LO>}, {"ds_read_u8_d16_hi", read<U8_HI>}, {"ds_read_i8_d16", read<I8_LO>},
  {"ds_read_i8_d16_hi", read<I8_HI>}, {"ds_read_u16_d16", read<U16_LO>}, {"ds_read_u16_d16_hi", read<U16_HI>},
  {"ds_read_b32", read<B32>}, {"ds_read_b64", read<B64>}, {"ds_read_b96", read<B96>}, {"ds_read_b128", read<B128>},
  {"ds_read2_b32", read2<B32, 1>}, {"ds_read2st64_b32", read2<B32, 64>}, {"ds_read2_b64", read2<B64, 1>},
  {"ds_read2st64_b64", read2<B64, 64>}, {"ds_write_b8", write<U8>}, {"ds_write_b8_d16_hi", write<U8_HI>},
  {"ds_write_b16", write<U16>}, {"ds_write_b16_d16_hi", write<U16_HI>}, {"ds_write_b32", write<B32>},
  {"ds_write_b64", write<B64>}, {"ds_write_b96", write<B96>}, {"ds_write_b128", write<B128>},
  {"ds_write2_b32", write2<B32, 1>}, {"ds_write2st64_b32", write2<B32, 64>}, {"ds_write2_b64", write2<B64, 1>},
  {"ds_write2st64_b64", write2<B64, 64>},
};
// clang-format on
extern const OpTable LDS_OPS = {OPS, sizeof OPS / sizeof *OPS};
