// Conversions between integers, f16, f32 and f64 (fp8, bf8, fp6, fp4 and bf16 are in convert_low.cpp).
// Float to integer: toward zero, saturating, NaN to 0, but where it says otherwise.
#include "cores.h"

template <class F> static inline i32 to_i32(F x) {
  F low = x < (F)-2147483648.0 ? (F)-2147483648.0 : x;
  i32 r = (i32)(low < (F)2147483648.0 ? low : (F)0);  // NaN takes the 0
  return low >= (F)2147483648.0 ? 0x7fffffff : r;
}
template <class F> static inline u32 to_u32(F x) {
  F low = x < (F)0 ? (F)0 : x;
  u32 r = (u32)(low < (F)4294967296.0 ? low : (F)0);
  return low >= (F)4294967296.0 ? ~0u : r;
}
// Of a NaN the limit of its sign, as measured on gfx1201 and on GCN2.
static inline u32 floored(u32 a, double more) {
  return (a & 0x7fffffff) > 0x7f800000 ? 0x7fffffff + (a >> 31) : (u32)to_i32(__builtin_floor(as_f32(a) + more));
}
static inline i32 clamp_to(i32 x, i32 low, i32 high) { return x < low ? low : x > high ? high : x; }

// clang-format off
CORE(i32_f32, to_i32(as_f32(a))) CORE(u32_f32, to_u32(as_f32(a))) CORE(f32_i32, bits((float)(i32)a))
CORE(f32_u32, bits((float)a))
CORE(rpi, floored(a, 0.5)) CORE(flr, floored(a, 0))
CORE(ubyte0, bits((float)(i32)(a & 0xff))) CORE(ubyte1, bits((float)(i32)(a >> 8 & 0xff)))
CORE(ubyte2, bits((float)(i32)(a >> 16 & 0xff))) CORE(ubyte3, bits((float)(i32)(a >> 24)))
CORE(off_i4, bits((float)((i32)(a << 28) >> 28) * 0.0625f))

CORE(f32_f16, bits((float)as_f16(a))) CORE(f16_f32, bits((f16)as_f32(a)))
CORE(i16_f16, (u16)clamp_to(to_i32((float)as_f16(a)), -0x8000, 0x7fff))
CORE(u16_f16, (u16)clamp_to(to_i32((float)as_f16(a)), 0, 0xffff))
CORE(f16_i16, bits((f16)(float)(i16)a)) CORE(f16_u16, bits((f16)(float)(i32)(u16)a))

CORE_LOOP(f64_f32, float a = as_f32(pa[i]);, set_pair(d, i, bits((double)a)))
CORE_LOOP(f32_f64, double a = as_f64(pair(pa, i));, d[i] = bits((float)a))
CORE_LOOP(f64_i32, i32 a = (i32)pa[i];, set_pair(d, i, bits((double)a)))
CORE_LOOP(f64_u32, u32 a = pa[i];, set_pair(d, i, bits((double)a)))
CORE_LOOP(i32_f64, double a = as_f64(pair(pa, i));, d[i] = (u32)to_i32(a))
CORE_LOOP(u32_f64, double a = as_f64(pair(pa, i));, d[i] = to_u32(a))

// Normalised integers: [-1, 1] to +-32767, [0, 1] to 65535, to nearest even, whatever MODE says: products
// are exact as doubles.
static inline u32 snorm(float x) {
  float y = x > 1 ? 1.0f : x > -1 ? x : x == x ? -1.0f : 0.0f;
  return (u16)(i32)__builtin_roundeven(y * 32767.0);
}
static inline u32 unorm(float x) {
  float y = x > 1 ? 1.0f : x > 0 ? x : 0.0f;
  return (u16)(i32)__builtin_roundeven(y * 65535.0);
}
CORE(norm_i16, snorm((float)as_f16(a))) CORE(norm_u16, unorm((float)as_f16(a)))
CORE(pknorm_i16_f32, snorm(as_f32(a)) | snorm(as_f32(b)) << 16)
CORE(pknorm_u16_f32, unorm(as_f32(a)) | unorm(as_f32(b)) << 16)
CORE(pknorm_i16_f16, snorm((float)as_f16(a)) | snorm((float)as_f16(b)) << 16)
CORE(pknorm_u16_f16, unorm((float)as_f16(a)) | unorm((float)as_f16(b)) << 16)

// Toward zero, in whatever rounding mode the host is: a result that is too large in magnitude steps back.
static inline u32 toward_zero(float x) {
  f16 h = (f16)x;
  return bits(h) - (__builtin_fabsf((float)h) > __builtin_fabsf(x));
}
CORE(pkrtz, toward_zero(as_f32(a)) | toward_zero(as_f32(b)) << 16)
CORE(pk_f16_f32, bits((f16)as_f32(a)) | bits((f16)as_f32(b)) << 16)
CORE(pk_u16_u32, (a > 0xffff ? 0xffff : a) | (b > 0xffff ? 0xffff : b) << 16)
CORE(pk_i16_i32, (u32)(u16)clamp_to((i32)a, -0x8000, 0x7fff) | (u32)clamp_to((i32)b, -0x8000, 0x7fff) << 16)

// As MODE rounds, not toward zero: measured on cards before and after these (docs/emulated-device.md).
static inline u32 to_u8(float x) { return (u32)__builtin_rintf(x > 0 ? (x < 255 ? x : 255) : 0); }
static inline u32 insert_byte(u32 old, u32 k, u32 value) {
  return (old & ~(0xffu << 8 * (k & 3))) | value << 8 * (k & 3);
}
CORE(pk_u8, insert_byte(c, b, to_u8(as_f32(a)))) CORE(pkaccum_u8, insert_byte(d[i], b, to_u8(as_f32(a))))

static const OpInfo OPS[] = {
  LANE("v_cvt_i32_f32", i32_f32), LANE("v_cvt_u32_f32", u32_f32), LANE("v_cvt_f32_i32", f32_i32),
  LANE("v_cvt_f32_u32", f32_u32), LANE("v_cvt_rpi_i32_f32", rpi), LANE("v_cvt_flr_i32_f32", flr),
  LANE("v_cvt_f32_ubyte0", ubyte0), LANE("v_cvt_f32_ubyte1", ubyte1), LANE("v_cvt_f32_ubyte2", ubyte2),
  LANE("v_cvt_f32_ubyte3", ubyte3), LANE("v_cvt_off_f32_i4", off_i4), LANE("v_cvt_f32_f16", f32_f16),
  WIDE_LANE("v_cvt_f16_f32", f16_f32), LANE("v_cvt_i16_f16", i16_f16), LANE("v_cvt_u16_f16", u16_f16),
  WIDE_LANE("v_cvt_f16_i16", f16_i16), WIDE_LANE("v_cvt_f16_u16", f16_u16), LANE("v_cvt_f64_f32", f64_f32),
  LANE("v_cvt_f32_f64", f32_f64), LANE("v_cvt_f64_i32", f64_i32), LANE("v_cvt_f64_u32", f64_u32),
  LANE("v_cvt_i32_f64", i32_f64), LANE("v_cvt_u32_f64", u32_f64), LANE("v_cvt_norm_i16_f16", norm_i16),
  LANE("v_cvt_norm_u16_f16", norm_u16), LANE("v_cvt_pknorm_i16_f32", pknorm_i16_f32),
  LANE("v_cvt_pknorm_u16_f32", pknorm_u16_f32), LANE("v_cvt_pknorm_i16_f16", pknorm_i16_f16),
  LANE("v_cvt_pknorm_u16_f16", pknorm_u16_f16), LANE("v_cvt_pkrtz_f16_f32", pkrtz),
  LANE("v_cvt_pk_f16_f32", pk_f16_f32), LANE("v_cvt_pk_u16_u32", pk_u16_u32), LANE("v_cvt_pk_i16_i32", pk_i16_i32),
  LANE("v_cvt_pk_u8_f32", pk_u8), LANE("v_cvt_pkaccum_u8_f32", pkaccum_u8),
};
// clang-format on
TABLE(CONVERT_OPS);
