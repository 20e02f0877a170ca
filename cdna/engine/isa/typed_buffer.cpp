// Typed buffer loads and stores: memory in a data format, registers in f32, 32-bit integers, or 16 bits (_d16).
//
// Formats: AMD's ISA documents (GCN3 to CDNA3), "Buffer resource descriptor" and "Memory buffer instructions": a name
// lists components from the highest bits down. buffer_* take format and component selects from the descriptor, tbuffer_*
// the format from the instruction and each component as it comes.
#include "buffer.h"

namespace {
struct DataFormat {
  u8 components, bits[4];
};  // x, y, z, w from the lowest bits up
enum NumberFormat : u32 { UNORM, SNORM, USCALED, SSCALED, UINT, SINT, RESERVED, FLOAT };
struct Texel {
  u32 component[4];
};  // as f32 or as integers
}  // namespace
static const DataFormat FORMATS[16] = {{},
                                       {1, {8}},
                                       {1, {16}},
                                       {2, {8, 8}},
                                       {1, {32}},
                                       {2, {16, 16}},
                                       {3, {11, 11, 10}},
                                       {3, {10, 11, 11}},
                                       {4, {2, 10, 10, 10}},
                                       {4, {10, 10, 10, 2}},
                                       {4, {8, 8, 8, 8}},
                                       {2, {32, 32}},
                                       {4, {16, 16, 16, 16}},
                                       {3, {32, 32, 32}},
                                       {4, {32, 32, 32, 32}},
                                       {}};

static u32 format_bytes(const DataFormat& f) { return (f.bits[0] + f.bits[1] + f.bits[2] + f.bits[3]) / 8; }
static bool is_integer(u32 number) { return number == UINT || number == SINT; }

static u32 ones(u32 bits) { return bits == 32 ? ~0u : (1u << bits) - 1; }
static i32 extended(u32 x, u32 bits) { return (i32)(x << (32 - bits)) >> (32 - bits); }

static u32 widened(u32 x, u32 bits, u32 number) {  // a component of memory to f32 or an integer
  switch (number) {
    case UNORM: return ::bits((float)((double)x / ones(bits)));
    case SNORM: {
      double v = (double)extended(x, bits) / (ones(bits) >> 1);
      return ::bits((float)(v < -1 ? -1 : v));
    }
    case USCALED: return ::bits((float)x);
    case SSCALED: return ::bits((float)extended(x, bits));
    case SINT: return (u32)extended(x, bits);
    case FLOAT: return bits == 32 ? x : ::bits((float)as_f16(bits == 16 ? x : x << (15 - bits)));
    default: return x;
  }
}
static u32 narrowed(u32 x, u32 bits, u32 number) {  // and back, rounded to nearest even
  float f = as_f32(x);
  double low = number == SNORM ? -1 : number == SSCALED ? -(double)(ones(bits) >> 1) - 1 : 0;
  double high = number <= SNORM ? 1 : number == USCALED ? ones(bits) : ones(bits) >> 1;
  double v = f != f ? 0 : f < low ? low : f > high ? high : f;
  switch (number) {
    case UNORM: return (u32)__builtin_rint(v * ones(bits));
    case SNORM: return (u32)(i32)__builtin_rint(v * (ones(bits) >> 1)) & ones(bits);
    case USCALED: return (u32)v;
    case SSCALED: return (u32)(i32)v & ones(bits);
    case FLOAT: return bits == 32 ? x : ::bits((f16)f);
    default: return x & ones(bits);
  }
}

static u32 take_bits(const u8* p, u32 at, u32 count) {
  u64 x = 0;
  memcpy(&x, p + at / 8, (at % 8 + count + 7) / 8);
  return (u32)(x >> at % 8) & ones(count);
}
static void put_bits(u8* p, u32 at, u32 count, u32 value) {
  u64 x = 0;
  u32 bytes = (at % 8 + count + 7) / 8;
  memcpy(&x, p + at / 8, bytes);
  x = (x & ~((u64)ones(count) << at % 8)) | (u64)value << at % 8;
  memcpy(p + at / 8, &x, bytes);
}

// The instruction's or the descriptor's format.
static bool read_format(const Wave& w, const Inst& in, const Operand& descriptor, bool own, u32& data, u32& number) {
  u32 word = w.s[descriptor.reg + 3];
  data = own ? in.offset1 & 15 : word >> 15 & 15;
  number = own ? in.offset1 >> 4 & 7 : word >> 12 & 7;
  const DataFormat& f = FORMATS[data];
  bool small_floats = number == FLOAT && f.bits[0] < 16 && !(f.components == 3 && f.bits[1] == 11);
  return f.components && number != RESERVED && !small_floats;
}
static bool find_format(Wave& w, const Inst& in, const Operand& descriptor, bool own, u32& data, u32& number) {
  if (read_format(w, in, descriptor, own, data, number)) return true;
  fault(w, "buffer data format %u with number format %u: no such format", data, number);
  return false;
}

TypedElement typed_element(const Wave& w, const Inst& in, const Facts& facts) {
  u32 data, number;
  const Operand& descriptor = in.src[facts.does == DOES_STORE ? 2 : 1];
  if (!read_format(w, in, descriptor, facts.is(FACT_OWN_FORMAT), data, number)) return {0, 0};
  u32 components = FORMATS[data].components;
  return {format_bytes(FORMATS[data]), facts.is(FACT_PACKED) ? (components + 1) / 2 : components};
}

// With D16 two components share a register.
template <bool D16> static u32 narrow_register(u32 x, bool integer) {
  return D16 ? integer ? x & 0xffff : bits((f16)as_f32(x)) : x;
}

template <int N, bool TYPED, bool D16, bool HIGH = false> static void load(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  u32 data, number;
  if (!exec || !find_format(w, in, in.src[1], TYPED, data, number)) return;
  const DataFormat& f = FORMATS[data];
  BufferAccess b = buffer_access(w, in, in.src, format_bytes(f), 1);
  if (w.stop == FAULTED) return;
  u32* d = w.vreg(in.dst[0].reg);
  u32 select = TYPED ? 4 | 5 << 3 | 6 << 6 | 7 << 9 : w.s[in.src[1].reg + 3] & 0xfff,
      one = is_integer(number) ? 1 : bits(1.0f);
  for (u64 m = exec; m; m &= m - 1) {
    int lane = __builtin_ctzll(m);
    Texel t = {{0, 0, 0, one}};
    bool inside = b.whole >> lane & 1;
    if (inside) {
      for (u32 k = 0, at = 0; k < f.components; at += f.bits[k++])
        t.component[k] = widened(take_bits((const u8*)w.address[lane], at, f.bits[k]), f.bits[k], number);
    }
    for (int k = 0; k < N; k++) {
      u32 s = select >> 3 * k & 7, x = !inside ? 0 : s >= 4 ? t.component[s - 4] : s == 1 ? one : 0;
      x = narrow_register<D16>(x, is_integer(number));
      u32& to = d[(D16 ? k / 2 : k) * WAVE + lane];
      if (!D16) to = x;
      else if (k % 2) to |= x << 16;
      else to = HIGH ? x << 16 : x;  // the other half becomes 0, as after every load of one half
    }
  }
}

template <int N, bool TYPED, bool D16, bool HIGH = false> static void store(Wave& w, const Inst& in) {
  u64 exec = w.exec();
  u32 data, number;
  if (!exec || !find_format(w, in, in.src[2], TYPED, data, number)) return;
  const DataFormat& f = FORMATS[data];
  if (f.components > N || (number == FLOAT && f.bits[0] < 16)) {
    fault(w, "stores %d components to a buffer of %u in %s format: what that leaves in memory is not documented", N,
          f.components, number == FLOAT && f.bits[0] < 16 ? "a packed float" : "this");
    return;
  }
  BufferAccess b = buffer_access(w, in, in.src + 1, format_bytes(f), 1);
  if (w.stop == FAULTED) return;
  const u32* s = w.vreg(in.src[0].reg);
  for (u64 m = b.whole; m; m &= m - 1) {
    int lane = __builtin_ctzll(m);
    for (u32 k = 0, at = 0; k < f.components; at += f.bits[k++]) {
      u32 x = s[(D16 ? k / 2 : k) * WAVE + lane];
      if (D16) x = HIGH || k % 2 ? x >> 16 : x & 0xffff;
      if (D16) x = is_integer(number) ? number == SINT ? (u32)extended(x, 16) : x : bits((float)as_f16(x));
      put_bits((u8*)w.address[lane], at, f.bits[k], narrowed(x, f.bits[k], number));
    }
  }
}

#define FOUR(NAME, SUFFIX, N)                                                                                 \
  {"buffer_load_format" NAME, load<N, false, SUFFIX>}, {"buffer_store_format" NAME, store<N, false, SUFFIX>}, \
      {"tbuffer_load_format" NAME, load<N, true, SUFFIX>}, {                                                  \
    "tbuffer_store_format" NAME, store<N, true, SUFFIX>                                                       \
  }

// clang-format off
static const OpInfo OPS[] = {
  FOUR("_x", false, 1), FOUR("_xy", false, 2), FOUR("_xyz", false, 3), FOUR("_xyzw", false, 4), FOUR("_d16_x", true, 1),
  FOUR("_d16_xy", true, 2), FOUR("_d16_xyz", true, 3), FOUR("_d16_xyzw", true, 4),
  {"buffer_load_format_d16_hi_x", load<1, false, true, true>},
  {"buffer_store_format_d16_hi_x", store<1, false, true, true>},
};
// clang-format on
extern const OpTable TYPED_BUFFER_OPS = {OPS, sizeof OPS / sizeof *OPS};
