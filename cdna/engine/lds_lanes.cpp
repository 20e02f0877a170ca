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

// Transposing reads of gfx950, in groups of 16 lanes. The group's addresses give a matrix of 16 columns, row by row: with
// elements of 16 bits four lanes hold a row, with 8 bits two, with 4 and 6 bits one. A lane receives the column of its
// number, top to bottom. Sources: CK-tile, amd_transpose_load_encoding.hpp (16 and 8 bits); Triton's layouts for ds_read_tr.
template <int BITS> static void read_transposed(Wave& w, const Inst& in) {
  constexpr int bytes = BITS == 6 ? 12 : 8, rows = bytes * 8 / BITS;
  u64 exec = w.exec();
  u64 inside = exec & lds_addresses(*w.wg, w.vreg(in.src[0].reg), (u32)in.offset, bytes, w.address);
  alignas(64) u8 raw[WAVE * bytes] = {};
  alignas(64) u32 t[bytes / 4 * WAVE];
  if (inside == ~0ull) for (int i = 0; i < WAVE; i++) memcpy(raw + i * bytes, (void*)w.address[i], bytes);
  else for (u64 m = inside; m; m &= m - 1) memcpy(raw + __builtin_ctzll(m) * bytes, (void*)w.address[__builtin_ctzll(m)], bytes);
  for (int g = 0; g < WAVE; g += 16) {
    const u8* group = raw + g * bytes;
    alignas(64) u32 element[rows][16];  // [row][column]
    for (int k = 0; k < rows; k++)
      for (int n = 0; n < 16; n++) {
        if constexpr (BITS == 16) element[k][n] = peek<u16>(group + k * 32 + n * 2);
        if constexpr (BITS == 8) element[k][n] = group[k * 16 + n];
        if constexpr (BITS == 4) element[k][n] = group[k * 8 + n / 2] >> n % 2 * 4 & 15;
        if constexpr (BITS == 6) element[k][n] = (group[k * 12 + n * 6 / 8] | (n * 6 / 8 < 11 ? group[k * 12 + n * 6 / 8 + 1] : 0) << 8) >> n * 6 % 8 & 63;
      }
    for (int dword = 0; dword < bytes / 4; dword++) {
      u32* column = t + dword * WAVE + g;
      for (int n = 0; n < 16; n++) column[n] = 0;
      for (int k = 0; k < rows; k++) {
        int shift = k * BITS - dword * 32;
        if (shift <= -BITS || shift >= 32) continue;
        for (int n = 0; n < 16; n++) column[n] |= shift >= 0 ? element[k][n] << (shift & 31) : element[k][n] >> (-shift & 31);
      }
    }
  }
  u32* d = w.vreg(in.dst[0].reg);
  for (int k = 0; k < bytes / 4; k++) blend(d + k * WAVE, t + k * WAVE, exec);
}

static const OpInfo OPS[] = {
  {"ds_read_b64_tr_b16@gfx950", "D:b64 S:b32" DS_MODS, read_transposed<16>}, {"ds_read_b64_tr_b8@gfx950", "D:b64 S:b32" DS_MODS, read_transposed<8>},
  {"ds_read_b64_tr_b4@gfx950", "D:b64 S:b32" DS_MODS, read_transposed<4>}, {"ds_read_b96_tr_b6@gfx950", "D:b96 S:b32" DS_MODS, read_transposed<6>},
  {"ds_bpermute_b32", "D:b32 S:b32 S:b32" DS_MODS, bpermute}, {"ds_permute_b32", "D:b32 S:b32 S:b32" DS_MODS, permute},
  {"ds_swizzle_b32", "D:b32 S:b32" DS_MODS, swizzle},
  {"ds_read_addtid_b32", "D:b32" DS_MODS, read_addtid}, {"ds_write_addtid_b32", "S:b32" DS_MODS, write_addtid},
};
extern const OpTable LDS_LANE_OPS = {OPS, sizeof OPS / sizeof *OPS};
