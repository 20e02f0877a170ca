// The division helpers: v_div_scale, v_div_fmas, v_div_fixup. LLVM's division sequence of scale, rcp, Newton
// steps, fmas and fixup gives correctly rounded quotients with them.
#include "cores.h"
#include "host.h"
#include "minmax.h"

struct F32 {
  typedef float Float;
  typedef u32 Bits;
  static constexpr Float UP = 0x1p64f, DOWN = 0x1p-62f;
  static constexpr int MANTISSA = 23, EXPONENT_MAX = 255, FAR_APART = 96, SCALE = 64, TINY = 23;
  static constexpr int HUGE_DENOMINATOR = 253, UNDERFLOW = -150, REGISTERS = 1;
  static Bits load(const u32* p, int i) { return p[i]; }
  static void store(u32* p, int i, Bits x) { p[i] = x; }
};
struct F64 {
  typedef double Float;
  typedef u64 Bits;
  static constexpr Float UP = 0x1p512, DOWN = 0x1p-510;
  static constexpr int MANTISSA = 52, EXPONENT_MAX = 2047, FAR_APART = 768, SCALE = 128, TINY = 53;
  static constexpr int HUGE_DENOMINATOR = 2045, UNDERFLOW = -1075, REGISTERS = 2;
  static Bits load(const u32* p, int i) { return pair(p, i); }
  static void store(u32* p, int i, Bits x) { set_pair(p, i, x); }
};
template <class T> static inline typename T::Float value(typename T::Bits x) {
  return __builtin_bit_cast(typename T::Float, x);
}
template <class T> static inline typename T::Bits pattern(typename T::Float x) {
  return __builtin_bit_cast(typename T::Bits, x);
}
template <class T> static inline int exponent(typename T::Bits x) { return (int)(x >> T::MANTISSA) & T::EXPONENT_MAX; }
template <class T> static inline typename T::Bits magnitude(typename T::Bits x) {
  return x & ((typename T::Bits) ~(typename T::Bits)0 >> 1);
}
// x * 2^n in two exact steps where the result is normal.
template <class T> static inline typename T::Bits scaled(typename T::Bits x, int n) {
  typename T::Float factor = value<T>((typename T::Bits)(T::EXPONENT_MAX / 2 + n) << T::MANTISSA);
  return pattern<T>(value<T>(x) * factor);
}

// Is the quotient of two finite non-zero numbers below the smallest normal one, 2^-126 or 2^-1022? Both scalings are exact
// where they decide, and a product that is too large is above every quotient.
template <class T> static inline bool quotient_is_denormal(typename T::Bits n, typename T::Bits d) {
  return value<T>(magnitude<T>(n)) * T::UP < value<T>(magnitude<T>(d)) * T::DOWN;
}

// Pre-scaling (CDNA3 ISA, V_DIV_SCALE_F32): S0 is the denominator S1 or the numerator S2, scaled so that no
// step of the division leaves the normal range; the flag marks lanes where v_div_fmas has to scale back.
// Where both 1/S1 and the quotient are denormal the ISA text scales the denominator up, past the largest
// number; scaling it down is what v_div_fmas undoes. Without branches: the loop over lanes is to be one of vectors.
template <class T>
static inline typename T::Bits div_scale(typename T::Bits s0, typename T::Bits s1, typename T::Bits s2, u32& flag) {
  typedef typename T::Bits Bits;
  const int e1 = exponent<T>(s1), e2 = exponent<T>(s2);
  const bool zero = (magnitude<T>(s1) == 0) | (magnitude<T>(s2) == 0), far = !zero & (e2 - e1 >= T::FAR_APART);
  const bool near = !zero & !far, small = near & (e1 == 0);
  const bool huge = near & (e1 >= T::HUGE_DENOMINATOR) & (e1 < T::EXPONENT_MAX);  // its reciprocal is denormal
  const bool denormal = (e1 < T::EXPONENT_MAX) & (e2 < T::EXPONENT_MAX) & quotient_is_denormal<T>(s2, s1);
  const bool usual = near & !small & !huge;
  const bool up = (far & (s0 == s1)) | small | (usual & denormal & (s0 == s2)) | (usual & !denormal & (e2 <= T::TINY));
  const bool down = huge & (!denormal | (s0 == s1));
  const Bits moved = scaled<T>(s0, up ? T::SCALE : -T::SCALE);
  const Bits nan = (Bits)(2 * T::EXPONENT_MAX + 1) << (T::MANTISSA - 1);
  flag = far | (huge & denormal) | (usual & denormal);
  return zero ? nan : up | down ? moved : s0;
}

template <class T> static void div_scale(Wave& w, const Inst& in) {
  alignas(64) u32 ta[2 * WAVE], tb[2 * WAVE], tc[2 * WAVE], t[2 * WAVE], flags[WAVE];
  const u32 *a = modified_source(w, in, 0, ta), *b = modified_source(w, in, 1, tb);
  const u32* c = modified_source(w, in, 2, tc);
  LANES T::store(t, i, div_scale<T>(T::load(a, i), T::load(b, i), T::load(c, i), flags[i]));
  write_result(w, in, t);
  w.set_s64(in.dst[1].reg, gather_mask(flags) & w.exec());
}

// S0 * S1 + S2, scaled back where VCC is set: up if the quotient S2 is above one, else down. The scaled
// result is rounded once.
static inline u32 scaled_fma(u32 a, u32 b, u32 c) {
  double r = __builtin_fma((double)as_f32(a), (double)as_f32(b), (double)as_f32(c));
  return bits((float)(exponent<F32>(c) > 127 ? r * 0x1p64 : r * 0x1p-64));
}
static inline u64 scaled_fma(u64 x, u64 y, u64 z) {
  const u32 mode = float_mode();
  set_float_mode(USUAL_FLOAT_MODE);
  const double a = as_f64(x), b = as_f64(y), c = as_f64(z), r = __builtin_fma(a, b, c);
  const bool up = exponent<F64>(z) > 1023;
  double scaled = r * (up ? 0x1p128 : 0x1p-128);
  // Where it becomes denormal it is rounded again, which is wrong where r lies half-way between two of those and the sum
  // that r was rounded from does not.
  const double halves = r * 0x1p947, whole = __builtin_fabs(halves) < 0x1p53 ? (double)(i64)halves : 0;
  if (!up && whole == halves && ((i64)whole & 1)) {
    const double u = c - r, t = u - c, v = (c - (u - t)) + (-r - t);  // c - r is u + v
    double rest = __builtin_fma(a, b, u) + v;                         // of the sum, beyond r
    if (rest == 0 && u == 0 && a != 0 && b != 0) rest = (a < 0) == (b < 0) ? 1 : -1;
    if (rest != 0) scaled = (whole + (rest > 0 ? 1 : -1)) * 0x1p-537 * 0x1p-538;
  }
  set_float_mode(mode);
  return bits(scaled);
}
template <class T> static void div_fmas(Wave& w, const Inst& in) {
  alignas(64) u32 ta[2 * WAVE], tb[2 * WAVE], tc[2 * WAVE], t[2 * WAVE];
  const u32 *a = modified_source(w, in, 0, ta), *b = modified_source(w, in, 1, tb);
  const u32* c = modified_source(w, in, 2, tc);
  u64 vcc = w.s64(VCC);
  for (int i = 0; i < WAVE; i++) {
    typename T::Float x = value<T>(T::load(a, i)), y = value<T>(T::load(b, i)), z = value<T>(T::load(c, i));
    typename T::Float r;
    if constexpr (T::REGISTERS == 1) r = __builtin_fmaf(x, y, z);
    else r = __builtin_fma(x, y, z);
    T::store(t, i, pattern<T>(r));
  }
  for (u64 m = vcc & w.exec(); m; m &= m - 1) {
    int i = __builtin_ctzll(m);
    T::store(t, i, scaled_fma(T::load(a, i), T::load(b, i), T::load(c, i)));
  }
  write_result(w, in, t);
}

// The special cases of numerator S2 / denominator S1; otherwise the computed quotient S0 with their sign. A
// NaN quotient of ordinary numbers is what the steps before leave where it overflows, and hardware makes it
// infinite, though the ISA text does not say so (found on hardware by tinygrad, test/mockgpu/amd/emu.py).
template <class U, int MANTISSA, int UNDERFLOW> static inline U fixup(U q, U denominator, U numerator) {
  constexpr U INF = FloatBits<U>::INF, SIGN = (U)((U)1 << (8 * sizeof(U) - 1));
  U sign = (denominator ^ numerator) & SIGN, d = denominator & (U)~SIGN, n = numerator & (U)~SIGN;
  int difference = (int)(n >> MANTISSA) - (int)(d >> MANTISSA);
  U r = is_nan(q) ? (U)(sign | INF) : (U)((q & (U)~SIGN) | sign);
  r = difference < UNDERFLOW ? sign : r;
  r = d == INF || n == 0 ? sign : r;
  r = d == 0 || n == INF ? (U)(sign | INF) : r;
  r = (d == 0 && n == 0) || (d == INF && n == INF) ? (U)(SIGN | INF | FloatBits<U>::QUIET) : r;
  r = d > INF ? quiet(denominator) : r;
  return n > INF ? quiet(numerator) : r;
}
// clang-format off
CORE(div_fixup_f32, (fixup<u32, 23, F32::UNDERFLOW>(a, b, c)))
CORE_U64(div_fixup_f64, (fixup<u64, 52, F64::UNDERFLOW>(a, b, c)))
CORE_U16(div_fixup_legacy_f16, (fixup<u16, 10, -100>((u16)a, (u16)b, (u16)c)))
CORE_U16_KEEP(div_fixup_f16, (fixup<u16, 10, -100>((u16)a, (u16)b, (u16)c)))

static const OpInfo OPS[] = {
  {"v_div_scale_f32", div_scale<F32>}, {"v_div_scale_f64", wide<div_scale<F64>>}, {"v_div_fmas_f32", div_fmas<F32>},
  {"v_div_fmas_f64", wide<div_fmas<F64>>}, LANE("v_div_fixup_f32", div_fixup_f32),
  LANE("v_div_fixup_f64", div_fixup_f64), LANE("v_div_fixup_f16", div_fixup_f16),
  LANE("v_div_fixup_legacy_f16", div_fixup_legacy_f16),
};
// clang-format on
TABLE(DIVISION_OPS);
