// The device mathematics functions, in the global namespace and in std.
//
// Must come before <cmath>. The standard library's own overloads are constexpr, and clang makes a constexpr function
// callable from device code unless a __device__ function of the same signature was declared before it. Their bodies
// are builtins that would end as calls of a C library that a GPU has not.
#pragma once

#define CDNA_DEVICE static __inline__ __attribute__((always_inline, device))

// name: the C function of doubles; the float one has an f behind it.
// clang-format off
#define CDNA_MATH_UNARY(X)                                                                                  \
  X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(cbrt) X(ceil) X(cos) X(cosh) X(erf) X(erfc) X(exp)   \
  X(exp2) X(expm1) X(fabs) X(floor) X(lgamma) X(log) X(log10) X(log1p) X(log2) X(logb) X(nearbyint) X(rint) \
  X(round) X(sin) X(sinh) X(sqrt) X(tan) X(tanh) X(tgamma) X(trunc)
#define CDNA_MATH_BINARY(X) \
  X(atan2) X(copysign) X(fdim) X(fmax) X(fmin) X(fmod) X(hypot) X(nextafter) X(pow) X(remainder)
#define CDNA_MATH_TO_INTEGER(X) \
  X(int, ilogb) X(long, lrint) X(long, lround) X(long long, llrint) X(long long, llround)
#define CDNA_MATH_CLASS(X) X(isfinite) X(isinf) X(isnan) X(isnormal) X(signbit)
#define CDNA_MATH_COMPARE(X) \
  X(isgreater) X(isgreaterequal) X(isless) X(islessequal) X(islessgreater) X(isunordered)
// clang-format on

// Arguments of mixed or integer type count as double, as C++ has it.
template <bool, class T> struct __cdna_if {};
template <class T> struct __cdna_if<true, T> {
  typedef T type;
};
#define CDNA_INTEGRAL(T) typename __cdna_if<__is_integral(T), double>::type
#define CDNA_MIXED(T, U) typename __cdna_if<__is_arithmetic(T) && __is_arithmetic(U) && !__is_same(T, U), double>::type

#include "cdna_hip_math.h"

#define CDNA_PROMOTE(name) \
  template <class T> CDNA_DEVICE CDNA_INTEGRAL(T) name(T x) { return ::name((double)x); }
// clang-format off
CDNA_MATH_UNARY(CDNA_PROMOTE)
#undef CDNA_PROMOTE
#define CDNA_PROMOTE(name)                                                                                   \
  template <class T> CDNA_DEVICE CDNA_INTEGRAL(T) name(T x, T y) { return ::name((double)x, (double)y); }    \
  template <class T, class U> CDNA_DEVICE CDNA_MIXED(T, U) name(T x, U y) { return ::name((double)x, (double)y); }
CDNA_MATH_BINARY(CDNA_PROMOTE)
#undef CDNA_PROMOTE
#undef CDNA_INTEGRAL
#undef CDNA_MIXED

// Into std: libstdc++ declares its own there directly, libc++ in an inline namespace.
#if __has_include(<__config>)
#include <__config>
_LIBCPP_BEGIN_NAMESPACE_STD
#else
namespace std {
#endif
#define CDNA_USING(name) using ::name;
#define CDNA_USING_TYPED(type, name) using ::name;
CDNA_MATH_UNARY(CDNA_USING)
CDNA_MATH_BINARY(CDNA_USING)
CDNA_MATH_TO_INTEGER(CDNA_USING_TYPED)
CDNA_MATH_CLASS(CDNA_USING)
CDNA_MATH_COMPARE(CDNA_USING)
CDNA_USING(abs) CDNA_USING(labs) CDNA_USING(llabs) CDNA_USING(fma) CDNA_USING(frexp) CDNA_USING(ldexp)
CDNA_USING(modf) CDNA_USING(nan) CDNA_USING(nanf) CDNA_USING(remquo) CDNA_USING(scalbln) CDNA_USING(scalbn)
// clang-format on
#undef CDNA_USING
#undef CDNA_USING_TYPED
#if __has_include(<__config>)
        _LIBCPP_END_NAMESPACE_STD
#else
}
#endif
