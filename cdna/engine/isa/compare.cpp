// Compares: a mask of lanes to VCC or an SGPR pair; the cmpx forms also set exec.
#include "cores.h"
#include "minmax.h"

// Each condition over the lanes of one type.
#define COMPARE(NAME, LOADS, EXPR)                                     \
  static void NAME(u32* d, const u32* pa, const u32* pb, const u32*) { \
    alignas(64) u32 flags[WAVE];                                       \
    LANES { LOADS flags[i] = (EXPR) ? ~0u : 0u; }                      \
    u64 mask = gather_mask(flags);                                     \
    d[0] = (u32)mask;                                                  \
    d[1] = (u32)(mask >> 32);                                          \
  }

static void never(u32* d, const u32*, const u32*, const u32*) { d[0] = d[1] = 0; }
static void always(u32* d, const u32*, const u32*, const u32*) { d[0] = d[1] = ~0u; }
#define ON(X, T, NAME, EXPR) COMPARE(NAME##_##X, AB(T, read_##X), EXPR)
// clang-format off
#define ORDER_COMPARES(X, T) \
  ON(X, T, lt, a < b) ON(X, T, eq, a == b) ON(X, T, le, a <= b) ON(X, T, gt, a > b) ON(X, T, ge, a >= b)
#define INTEGER_COMPARES(X, T) ORDER_COMPARES(X, T) ON(X, T, ne, a != b)
#define FLOAT_COMPARES(X, T) ORDER_COMPARES(X, T) \
  ON(X, T, lg, a < b || a > b) ON(X, T, o, a == a && b == b) ON(X, T, u, a != a || b != b) \
  ON(X, T, nlt, !(a < b)) ON(X, T, neq, !(a == b)) ON(X, T, nle, !(a <= b)) ON(X, T, ngt, !(a > b)) \
  ON(X, T, nge, !(a >= b)) ON(X, T, nlg, !(a < b || a > b))
INTEGER_COMPARES(u32, u32) INTEGER_COMPARES(i32, i32) INTEGER_COMPARES(u16, u32) INTEGER_COMPARES(i16, i32)
INTEGER_COMPARES(u64, u64) INTEGER_COMPARES(i64, i64)
FLOAT_COMPARES(f16, float) FLOAT_COMPARES(f32, float) FLOAT_COMPARES(f64, double)

// Bit of S1's mask that a value's class selects: 0 signalling NaN, 1 quiet NaN, 2 -inf up to 9 +inf.
template <class U> static inline u32 class_of(U x, U least_normal) {
  bool negative = x >> (8 * sizeof(U) - 1);
  U m = (U)(x & (U)((U)~(U)0 >> 1));
  u32 positive = m == FloatBits<U>::INF ? 9 : m >= least_normal ? 8 : m ? 7 : 6;
  return is_nan(m) ? (is_snan(m) ? 0 : 1) : negative ? 11 - positive : positive;
}
COMPARE(class_f16, u16 a = (u16)pa[i]; u32 b = pb[i];, b >> class_of<u16>(a, 0x0400) & 1)
COMPARE(class_f32, u32 a = pa[i]; u32 b = pb[i];, b >> class_of<u32>(a, 0x00800000) & 1)
COMPARE(class_f64, u64 a = pair(pa, i); u32 b = pb[i];, b >> class_of<u64>(a, 0x0010000000000000ull) & 1)
// clang-format on

// v_cmp_<condition>_<type> and v_cmpx_...
#define BOTH(CONDITION, TYPE, CORE_NAME, CMP, CMPX) \
  {"v_cmp_" CONDITION "_" TYPE, CMP, CORE_NAME}, { "v_cmpx_" CONDITION "_" TYPE, CMPX, CORE_NAME }
#define ROW(C, X) BOTH(#C, #X, C##_##X, compare_op, cmpx_op)
#define ROW_WIDE(C, X) BOTH(#C, #X, C##_##X, wide<compare_op>, wide<cmpx_op>)
#define INTEGER_ROWS(X)                                                                                              \
  BOTH("f", #X, never, compare_op, cmpx_op), ROW(lt, X), ROW(eq, X), ROW(le, X), ROW(gt, X), ROW(ne, X), ROW(ge, X), \
      BOTH("t", #X, always, compare_op, cmpx_op)
#define FLOAT_ROWS(X, R)                                                                                          \
  BOTH("f", #X, never, compare_op, cmpx_op), R(lt, X), R(eq, X), R(le, X), R(gt, X), R(lg, X), R(ge, X), R(o, X), \
      R(u, X), R(nge, X), R(nlg, X), R(ngt, X), R(nle, X), R(neq, X), R(nlt, X),                                  \
      BOTH("tru", #X, always, compare_op, cmpx_op)
// clang-format off
static const OpInfo OPS[] = {
  INTEGER_ROWS(u32), INTEGER_ROWS(i32), INTEGER_ROWS(u16), INTEGER_ROWS(i16), INTEGER_ROWS(u64), INTEGER_ROWS(i64),
  FLOAT_ROWS(f16, ROW), FLOAT_ROWS(f32, ROW), FLOAT_ROWS(f64, ROW_WIDE),
  BOTH("class", "f16", class_f16, compare_op, cmpx_op), BOTH("class", "f32", class_f32, compare_op, cmpx_op),
  BOTH("class", "f64", class_f64, compare_op, cmpx_op),
};
// clang-format on
TABLE(COMPARE_OPS);
