// Lane-wise memory access for global.cpp, buffer.cpp, lds.cpp and atomics.cpp: an instruction first computes the
// host address of each lane (w.address), then moves data between those addresses and registers.
#pragma once
#include "reach.h"
#include "xcd_l2.h"

// What a lane reads or writes. _LO and _HI forms touch one half of the register; loads zero the other half, as cards whose
// registers have ECC do: measured on an MI300X, and what LLVM counts on (d16PreservesUnusedBits). The ISA documents say
// that it is kept.
enum Form { U8, I8, U16, I16, U8_LO, I8_LO, U16_LO, U8_HI, I8_HI, U16_HI, B32, B64, B96, B128 };

constexpr int form_bytes(Form f) {
  switch (f) {
    case B32: return 4;
    case B64: return 8;
    case B96: return 12;
    case B128: return 16;
    case U16:
    case I16:
    case U16_LO:
    case U16_HI: return 2;
    default: return 1;
  }
}
constexpr int form_dwords(Form f) { return form_bytes(f) < 4 ? 1 : form_bytes(f) / 4; }

// Modifiers that memory instructions take, for their signatures. Cache policies (sc0, sc1, nt) change nothing here,
// for a host access is coherent, but where a launch follows what L2 caches hold.

typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x8 __attribute__((ext_vector_type(8)));
typedef u32 u32x16 __attribute__((ext_vector_type(16)));
typedef bool bool16 __attribute__((ext_vector_type(16)));

template <class T> static inline T peek(const void* p) {
  T x;
  memcpy(&x, p, sizeof x);
  return x;
}
template <class T> static inline void poke(void* p, T x) { memcpy(p, &x, sizeof x); }

// Lanes whose x is at most `limit`, as a mask.
static inline u64 lanes_at_most(const u32* x, u32 limit) {
  u64 mask = 0;
  for (int q = 0; q < 4; q++) {
    u32x16 v = peek<u32x16>(x + 16 * q);
    mask |= (u64) __builtin_bit_cast(u16, __builtin_convertvector(v <= limit, bool16)) << 16 * q;
  }
  return mask;
}

// Whether the lanes' addresses follow each other without a gap.
static inline bool contiguous(const u64* a, u32 bytes) {
  if (a[63] - a[0] != 63ull * bytes || a[1] - a[0] != bytes) return false;
  u64 first = a[0], differs = 0;
  for (int i = 0; i < WAVE; i++) differs |= a[i] ^ (first + (u64)i * bytes);
  return differs == 0;
}

// --- one lane ------------------------------------------------------------------------------------

// d: the lane's place in the first destination register. Aligned dwords and pairs move in one access, so a lane that
// polls a flag never sees half of it.
template <Form F> static inline void load_lane(u32* d, const u8* p) {
  if constexpr (F == U8) *d = p[0];
  if constexpr (F == I8) *d = (u32)(i32)(i8)p[0];
  if constexpr (F == U16) *d = peek<u16>(p);
  if constexpr (F == I16) *d = (u32)(i32)peek<i16>(p);
  if constexpr (F == U8_LO) *d = p[0];
  if constexpr (F == I8_LO) *d = (u16)(i16)(i8)p[0];
  if constexpr (F == U16_LO) *d = peek<u16>(p);
  if constexpr (F == U8_HI) *d = (u32)p[0] << 16;
  if constexpr (F == I8_HI) *d = (u32)(i32)(i8)p[0] << 16;
  if constexpr (F == U16_HI) *d = (u32)peek<u16>(p) << 16;
  if constexpr (F == B32) *d = peek<u32>(p);
  if constexpr (F == B64) {
    u64 x = peek<u64>(p);
    d[0] = (u32)x;
    d[WAVE] = (u32)(x >> 32);
  }
  if constexpr (F == B96) {
    u64 x = peek<u64>(p);
    d[0] = (u32)x;
    d[WAVE] = (u32)(x >> 32);
    d[2 * WAVE] = peek<u32>(p + 8);
  }
  if constexpr (F == B128) {
    u32x4 x = peek<u32x4>(p);
    for (int k = 0; k < 4; k++) d[k * WAVE] = x[k];
  }
}

// What a lane reads where its address is out of range.
template <Form F> static inline void zero_lane(u32* d) {
  static const u8 zeros[16] = {};
  load_lane<F>(d, zeros);
}

template <Form F> static inline void store_lane(const u32* s, u8* p) {
  if constexpr (F == U8) p[0] = (u8)*s;
  if constexpr (F == U8_HI) p[0] = (u8)(*s >> 16);
  if constexpr (F == U16) poke(p, (u16)*s);
  if constexpr (F == U16_HI) poke(p, (u16)(*s >> 16));
  if constexpr (F == B32) poke(p, *s);
  if constexpr (F == B64) poke(p, s[0] | (u64)s[WAVE] << 32);
  if constexpr (F == B96) {
    poke(p, s[0] | (u64)s[WAVE] << 32);
    poke(p + 8, s[2 * WAVE]);
  }
  if constexpr (F == B128) poke(p, (u32x4){s[0], s[WAVE], s[2 * WAVE], s[3 * WAVE]});
}

// --- all lanes -----------------------------------------------------------------------------------

// Four registers of 16 lanes <-> 16 lanes of four dwords, in blocks of 4 x 4; x[j] holds lanes j, j+4, j+8, j+12.
static inline void transpose4(const u32x16 x[4], u32x16 y[4]) {
#define LOW32(A, B) __builtin_shufflevector(A, B, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH32(A, B) __builtin_shufflevector(A, B, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define LOW64(A, B) __builtin_shufflevector(A, B, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HIGH64(A, B) __builtin_shufflevector(A, B, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
  u32x16 p = LOW32(x[0], x[1]), q = HIGH32(x[0], x[1]), r = LOW32(x[2], x[3]), s = HIGH32(x[2], x[3]);
  y[0] = LOW64(p, r);
  y[1] = HIGH64(p, r);
  y[2] = LOW64(q, s);
  y[3] = HIGH64(q, s);
#undef LOW32
#undef HIGH32
#undef LOW64
#undef HIGH64
}

static inline u32x16 join(u32x4 a, u32x4 b, u32x4 c, u32x4 d) {
  u32x8 ab = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7),
        cd = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline void load_all_b128(u32* d, const u64* a) {
  for (int g = 0; g < WAVE; g += 16) {
    u32x16 x[4], y[4];
    for (int j = 0; j < 4; j++) {
      const u64* b = a + g + j;
      x[j] =
          join(peek<u32x4>((void*)b[0]), peek<u32x4>((void*)b[4]), peek<u32x4>((void*)b[8]), peek<u32x4>((void*)b[12]));
    }
    transpose4(x, y);
    for (int k = 0; k < 4; k++) poke(d + k * WAVE + g, y[k]);
  }
}

static inline void store_all_b128(const u32* s, const u64* a) {
  for (int g = 0; g < WAVE; g += 16) {
    u32x16 x[4], y[4];
    for (int k = 0; k < 4; k++) x[k] = peek<u32x16>(s + k * WAVE + g);
    transpose4(x, y);
    for (int j = 0; j < 4; j++) poke((void*)a[g + j], __builtin_shufflevector(y[j], y[j], 0, 1, 2, 3));
    for (int j = 0; j < 4; j++) poke((void*)a[g + j + 4], __builtin_shufflevector(y[j], y[j], 4, 5, 6, 7));
    for (int j = 0; j < 4; j++) poke((void*)a[g + j + 8], __builtin_shufflevector(y[j], y[j], 8, 9, 10, 11));
    for (int j = 0; j < 4; j++) poke((void*)a[g + j + 12], __builtin_shufflevector(y[j], y[j], 12, 13, 14, 15));
  }
}

static inline u32x4 two(u64 a, u64 b) { return (u32x4){(u32)a, (u32)(a >> 32), (u32)b, (u32)(b >> 32)}; }

static inline void load_all_b64(u32* d, const u64* a) {
  for (int g = 0; g < WAVE; g += 16) {
    u32x16 x[2];
    for (int h = 0; h < 2; h++) {
      u64 v[8];
      for (int i = 0; i < 8; i++) v[i] = peek<u64>((void*)a[g + 8 * h + i]);
      x[h] = join(two(v[0], v[1]), two(v[2], v[3]), two(v[4], v[5]), two(v[6], v[7]));
    }
    poke(d + g, __builtin_shufflevector(x[0], x[1], 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
    poke(d + WAVE + g, __builtin_shufflevector(x[0], x[1], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
  }
}

template <Form F> static inline void load_contiguous(u32* d, const u8* p) {
  if constexpr (F == B32) memcpy(d, p, WAVE * 4);
  else LANES load_lane<F>(d + i, p + i * form_bytes(F));
}

// Every lane loads.
template <Form F> static inline void load_all(u32* d, const u64* a) {
  if constexpr (F == B128) load_all_b128(d, a);
  else if constexpr (F == B64) load_all_b64(d, a);
  else if (form_bytes(F) <= 4 && contiguous(a, form_bytes(F))) load_contiguous<F>(d, (const u8*)a[0]);
  else
    for (int i = 0; i < WAVE; i++) load_lane<F>(d + i, (const u8*)a[i]);
}

// Products walk along more rows at once than the host's prefetchers follow: what they will ask for is the lines behind.
template <Form F> static inline void prefetch_behind(const u64* a, u64 active) {
  constexpr u64 LINES = 128;
  if (F == B128 && active == ~0ull)
    for (int i = 0; i < WAVE; i += 4) __builtin_prefetch((const void*)(a[i] + LINES));
}

// Lanes of `active` load from their addresses; those of `out_of_range` read 0.
template <Form F> static inline void load_form(u32* d, const u64* a, u64 active, u64 out_of_range = 0) {
  if (__builtin_expect(active == ~0ull, 1)) {
    load_all<F>(d, a);
    return;
  }
  if (out_of_range == ~0ull) {
    memset(d, 0, form_dwords(F) * WAVE * 4);
    return;
  }
  for (u64 m = active; m; m &= m - 1) load_lane<F>(d + __builtin_ctzll(m), (const u8*)a[__builtin_ctzll(m)]);
  for (u64 m = out_of_range; m; m &= m - 1) zero_lane<F>(d + __builtin_ctzll(m));
}

template <Form F> static inline void store_contiguous(const u32* s, u8* p) {
  if constexpr (F == B32) {
    memcpy(p, s, WAVE * 4);
    return;
  }
  alignas(64) u8 packed[WAVE * form_bytes(F)];
  LANES store_lane<F>(s + i, packed + i * form_bytes(F));
  memcpy(p, packed, sizeof packed);
}

// Lanes of `active` store, in the order of lanes: where two write one address, the later lane's value stays.
template <Form F> static inline void store_form(const u32* s, const u64* a, u64 active) {
  if (__builtin_expect(active == ~0ull, 1)) {
    if constexpr (F == B128) store_all_b128(s, a);
    else if (form_bytes(F) <= 4 && contiguous(a, form_bytes(F))) store_contiguous<F>(s, (u8*)a[0]);
    else
      for (int i = 0; i < WAVE; i++) store_lane<F>(s + i, (u8*)a[i]);
    return;
  }
  for (u64 m = active; m; m &= m - 1) store_lane<F>(s + __builtin_ctzll(m), (u8*)a[__builtin_ctzll(m)]);
}

// How far apart lanes lie in LDS where loads go straight there: three dwords take the room of four (CDNA4 ISA 9.1.9).
constexpr u32 lds_lane_stride(u32 bytes) { return bytes == 12 ? 16 : bytes < 4 ? 4 : bytes; }

// Lanes of `active` load from their addresses straight to LDS at base + lane * stride, those of `out_of_range` write 0 there; a byte or a
// short fills a dword. What lies beyond the allocation is dropped.
template <Form F>
static inline void load_to_lds(Wave& w, const u64* from, u32 base, u64 active, u64 out_of_range = 0) {
  constexpr u32 width = form_dwords(F) * 4, stride = lds_lane_stride(form_bytes(F));
  const Workgroup& g = *w.wg;
  if (form_bytes(F) >= 4 && active == ~0ull && (u64)base + WAVE * stride <= g.lds_bytes) {
    for (u32 i = 0; i < WAVE; i++) memcpy(g.lds + base + i * stride, (const void*)from[i], width);
    return;
  }
  for (u64 m = active | out_of_range; m; m &= m - 1) {
    u32 lane = __builtin_ctzll(m);
    u64 at = (u64)base + lane * stride;
    if (at + width > g.lds_bytes) continue;
    if (!(active >> lane & 1)) {
      memset(g.lds + at, 0, width);
      continue;
    }
    if constexpr (form_bytes(F) >= 4) {
      memcpy(g.lds + at, (const void*)from[lane], width);
    } else {
      u32 x;
      load_lane<F>(&x, (const u8*)from[lane]);
      poke(g.lds + at, x);
    }
  }
}

// A store with a scope bit is an atomic or volatile one. The host would let a later load of the same wave pass it, which
// breaks waves that write a flag and then read the other's.
static inline void order_store(const Inst& in) {
  if (in.flags & (GLC | SC1)) __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// --- addresses -----------------------------------------------------------------------------------

enum Space { GLOBAL, FLAT };

// Scratch is interleaved by dwords, as on hardware: dword k of all lanes, then dword k + 1, so that a spill is a plain
// copy of a register. Bytes of one lane that share a dword are next to each other.
static inline u8* scratch_cell(const Wave& w, u32 lane, u32 offset) {
  return w.scratch + (size_t)(offset >> 2) * WAVE * 4 + lane * 4 + (offset & 3);
}
static inline void scratch_read(const Wave& w, u32 lane, u32 offset, u8* data, u32 bytes) {
  for (u32 b = 0; b < bytes; b++) data[b] = *scratch_cell(w, lane, offset + b);
}
static inline void scratch_write(const Wave& w, u32 lane, u32 offset, const u8* data, u32 bytes) {
  for (u32 b = 0; b < bytes; b++) *scratch_cell(w, lane, offset + b) = data[b];
}

// Copies of the scratch bytes that lanes reach through flat addresses.
struct PrivateWindow {
  u64 lanes = 0;
  u32 offset[WAVE];
  alignas(16) u8 data[WAVE][16];
};
bool flat_apertures(Wave& w, u32 bytes, PrivateWindow& window);
static inline void close_window(Wave& w, u32 bytes, const PrivateWindow& window) {
  for (u64 m = window.lanes; m; m &= m - 1) {
    u32 i = __builtin_ctzll(m);
    scratch_write(w, i, window.offset[i], window.data[i], bytes);
  }
}

// Fills w.address for an access of `bytes` bytes a lane; false if it faulted. A 64-bit vector address, or a scalar
// base with a 32-bit unsigned vector offset (CDNA3 ISA, "Flat Memory Instructions"; LLVM AMDGPUUsage, address spaces).
template <Space S>
static inline bool addresses(Wave& w, const Inst& in, const Operand& vaddr, const Operand& saddr, u32 bytes,
                             PrivateWindow& window) {
  u64* a = w.address;
  u64 offset = (u64)(i64)in.offset;
  const u32* v = w.vreg(vaddr.reg);
  if (saddr.kind != NONE) {
    u64 base = scalar64(w, saddr) + offset;
    LANES a[i] = base + v[i];
    return reaches(w, w.exec());
  }
  u64 top = 0;
  LANES {
    a[i] = (v[i] | (u64)v[WAVE + i] << 32) + offset;
    if (S == FLAT) top |= a[i];
  }
  if (S == FLAT && top >> 48 && !flat_apertures(w, bytes, window)) return false;
  return reaches(w, w.exec() & ~window.lanes);
}

// Host addresses of `bytes` bytes at LDS offset v + offset, into a; returns the lanes that lie within the allocation.
static inline u64 lds_addresses(const Workgroup& g, const u32* v, u32 offset, u32 bytes, u64* a) {
  alignas(64) u32 at[WAVE];
  u32 highest = 0;
  u64 base = (u64)g.lds;
  LANES {
    at[i] = v[i] + offset;
    highest = at[i] > highest ? at[i] : highest;
    a[i] = base + at[i];
  }
  if (g.lds_bytes < bytes) return 0;
  return __builtin_expect(highest <= g.lds_bytes - bytes, 1) ? ~0ull : lanes_at_most(at, g.lds_bytes - bytes);
}

// The forms that all kinds of memory have, by what an instruction's name says of them; X(name, form).
// clang-format off
#define LOAD_FORMS(X) \
  X("ubyte", U8) X("sbyte", I8) X("ushort", U16) X("sshort", I16) X("ubyte_d16", U8_LO) X("ubyte_d16_hi", U8_HI) \
  X("sbyte_d16", I8_LO) X("sbyte_d16_hi", I8_HI) X("short_d16", U16_LO) X("short_d16_hi", U16_HI) X("dword", B32) \
  X("dwordx2", B64) X("dwordx3", B96) X("dwordx4", B128)
#define STORE_FORMS(X) \
  X("byte", U8) X("byte_d16_hi", U8_HI) X("short", U16) X("short_d16_hi", U16_HI) X("dword", B32) X("dwordx2", B64) \
  X("dwordx3", B96) X("dwordx4", B128)
// clang-format on
