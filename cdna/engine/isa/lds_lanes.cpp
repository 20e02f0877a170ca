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
// raw: what the 16 lanes read; d: the group's place in the first destination register.
template <int BITS> static void transpose_group(const u8* raw, u32* d);

template <> void transpose_group<16>(const u8* raw, u32* d) {
  u16 row[4][16];
  memcpy(row, raw, sizeof row);
  for (int n = 0; n < 16; n++) d[n] = row[0][n] | (u32)row[1][n] << 16;
  for (int n = 0; n < 16; n++) d[WAVE + n] = row[2][n] | (u32)row[3][n] << 16;
}
template <> void transpose_group<8>(const u8* raw, u32* d) {
  u8 row[8][16];
  memcpy(row, raw, sizeof row);
  for (int h = 0; h < 2; h++)
    for (int n = 0; n < 16; n++)
      d[h * WAVE + n] = row[4 * h][n] | row[4 * h + 1][n] << 8 | row[4 * h + 2][n] << 16 | (u32)row[4 * h + 3][n] << 24;
}
template <> void transpose_group<4>(const u8* raw, u32* d) {
  u8 pairs[8][16];  // two rows in a byte
  for (int j = 0; j < 8; j++)
    for (int b = 0; b < 8; b++) {
      u8 upper = raw[16 * j + b], lower = raw[16 * j + 8 + b];
      pairs[j][2 * b] = (upper & 15) | lower << 4;
      pairs[j][2 * b + 1] = upper >> 4 | (lower & 0xf0);
    }
  transpose_group<8>(pairs[0], d);
}
template <> void transpose_group<6>(const u8* raw, u32* d) {
  for (int n = 0; n < 16; n++) {
    unsigned __int128 column = 0;
    for (int k = 0; k < 16; k++) {
      const u8* three = raw + k * 12 + n / 4 * 3;  // four elements
      u32 element = (three[0] | three[1] << 8 | three[2] << 16) >> n % 4 * 6 & 63;
      column |= (unsigned __int128)element << 6 * k;
    }
    for (int h = 0; h < 3; h++) d[h * WAVE + n] = (u32)(column >> 32 * h);
  }
}

template <int BITS> static void read_transposed(Wave& w, const Inst& in) {
  constexpr int bytes = BITS == 6 ? 12 : 8;
  u64 exec = w.exec();
  u64 inside = exec & lds_addresses(*w.wg, w.vreg(in.src[0].reg), (u32)in.offset, bytes, w.address);
  static const u8 zeros[bytes] = {};
  alignas(64) u8 raw[WAVE * bytes];
  alignas(64) u32 t[bytes / 4 * WAVE];
  for (int i = 0; i < WAVE; i++) memcpy(raw + i * bytes, inside >> i & 1 ? (void*)w.address[i] : zeros, bytes);
  for (int g = 0; g < WAVE; g += 16) transpose_group<BITS>(raw + g * bytes, t + g);
  u32* d = w.vreg(in.dst[0].reg);
  for (int k = 0; k < bytes / 4; k++) blend(d + k * WAVE, t + k * WAVE, exec);
}

static void nop(Wave&, const Inst&) {}

// clang-format off
static const OpInfo OPS[] = {
  {"ds_nop", nop}, {"ds_read_b64_tr_b16", read_transposed<16>}, {"ds_read_b64_tr_b8", read_transposed<8>},
  {"ds_read_b64_tr_b4", read_transposed<4>}, {"ds_read_b96_tr_b6", read_transposed<6>}, {"ds_bpermute_b32", bpermute},
  {"ds_permute_b32", permute}, {"ds_swizzle_b32", swizzle}, {"ds_read_addtid_b32", read_addtid},
  {"ds_write_addtid_b32", write_addtid},
};
// clang-format on
extern const OpTable LDS_LANE_OPS = {OPS, sizeof OPS / sizeof *OPS};
