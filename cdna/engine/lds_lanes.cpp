// DS instructions that move data between lanes: permutes, swizzles, addresses by lane id, transposing reads.
#include "memory.h"

// Pulls: each lane reads the lane its address names. A source lane that is off in exec reads as 0.
static void bpermute(Wave& w, const Inst& in) {
  alignas(64) u32 from[WAVE];
  const u32 *address = w.vreg(in.src[0].reg), *data = w.vreg(in.src[1].reg);
  u32* d = w.vreg(in.dst[0].reg);
  u64 exec = w.exec();
  for (int i = 0; i < WAVE; i++) from[i] = exec >> i & 1 ? data[i] : 0;
  alignas(64) u32 t[WAVE];
  for (int i = 0; i < WAVE; i++) t[i] = from[(address[i] + (u32)in.offset) >> 2 & 63];
  blend(d, t, exec);
}

// Pushes: each active lane writes to the lane its address names; later lanes win, lanes nobody names get 0.
static void permute(Wave& w, const Inst& in) {
  alignas(64) u32 t[WAVE] = {};
  const u32 *address = w.vreg(in.src[0].reg), *data = w.vreg(in.src[1].reg);
  EACH_LANE(w, i) t[(address[i] + (u32)in.offset) >> 2 & 63] = data[i];
  blend(w.vreg(in.dst[0].reg), t, w.exec());
}

// Source lane of a swizzle (CDNA3 ISA, DS_SWIZZLE_B32): four modes in the offset's high bits.
static int swizzle_lane(u32 offset, int lane) {
  int upper = lane & 0x20, i = lane & 0x1f, mask = offset & 0x1f;
  if (offset >= 0xe000) {  // FFT: bits of the lane reversed, less those the mask keeps in place
    int reversed = __builtin_bitreverse32(i) >> 27;
    return upper | ((reversed >> __builtin_popcount(mask)) | (i & mask));
  }
  if (offset >= 0xc000) {  // rotate among the lanes that agree in the mask's bits
    int rotate = offset >> 5 & 0x1f;
    if (offset >> 10 & 1) rotate = -rotate;
    return upper | ((i & mask) | ((i + rotate) & ~mask & 0x1f));
  }
  if (offset & 0x8000) return (lane & ~3) | (offset >> 2 * (lane & 3) & 3);  // quads
  return upper | (((i & mask) | (offset >> 5 & 0x1f)) ^ (offset >> 10 & 0x1f));
}

static void swizzle(Wave& w, const Inst& in) {
  alignas(64) u32 t[WAVE];
  const u32* data = w.vreg(in.src[0].reg);
  u64 exec = w.exec();
  for (int i = 0; i < WAVE; i++) {
    int from = swizzle_lane((u32)in.offset & 0xffff, i);
    t[i] = exec >> from & 1 ? data[from] : 0;
  }
  blend(w.vreg(in.dst[0].reg), t, exec);
}

// LDS address = M0 + offset + lane * 4.
static u64 lane_addresses(Wave& w, const Inst& in) {
  alignas(64) u32 at[WAVE];
  LANES at[i] = w.s[M0] + (u32)i * 4;
  return lds_addresses(*w.wg, at, (u32)in.offset, 4, w.address);
}
static void read_addtid(Wave& w, const Inst& in) {
  u64 inside = lane_addresses(w, in);
  load_form<B32>(w.vreg(in.dst[0].reg), w.address, w.exec() & inside, w.exec() & ~inside);
}
static void write_addtid(Wave& w, const Inst& in) {
  u64 inside = lane_addresses(w, in);
  store_form<B32>(w.vreg(in.src[0].reg), w.address, w.exec() & inside);
}

static const OpInfo OPS[] = {
  {"ds_bpermute_b32", "D:b32 S:b32 S:b32", bpermute}, {"ds_permute_b32", "D:b32 S:b32 S:b32", permute},
  {"ds_swizzle_b32", "D:b32 S:b32", swizzle},
  {"ds_read_addtid_b32", "D:b32", read_addtid}, {"ds_write_addtid_b32", "S:b32", write_addtid},
};
extern const OpTable LDS_LANE_OPS = {OPS, sizeof OPS / sizeof *OPS};
