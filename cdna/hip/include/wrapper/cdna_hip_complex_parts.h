// The four functions that a compiler calls for products and quotients of complex numbers (C11, annex G.5.1):
// what a C library's run time has for a CPU. A result that is NaN in both parts is looked at again, since
// an infinite operand, or a zero divisor, makes an infinity of it.
#pragma once

#define CDNA_COMPLEX(type, product, quotient, suffix)                                                            \
  extern "C" __attribute__((device, weak)) type _Complex product(type a, type b, type c, type d) {               \
    type real = a * c - b * d, imaginary = a * d + b * c;                                                        \
    if (__builtin_isnan(real) && __builtin_isnan(imaginary)) {                                                   \
      bool infinite = false;                                                                                     \
      if (__builtin_isinf(a) || __builtin_isinf(b)) {                                                            \
        a = __builtin_copysign##suffix(__builtin_isinf(a) ? 1 : 0, a);                                           \
        b = __builtin_copysign##suffix(__builtin_isinf(b) ? 1 : 0, b);                                           \
        if (__builtin_isnan(c)) c = __builtin_copysign##suffix(0, c);                                            \
        if (__builtin_isnan(d)) d = __builtin_copysign##suffix(0, d);                                            \
        infinite = true;                                                                                         \
      }                                                                                                          \
      if (__builtin_isinf(c) || __builtin_isinf(d)) {                                                            \
        c = __builtin_copysign##suffix(__builtin_isinf(c) ? 1 : 0, c);                                           \
        d = __builtin_copysign##suffix(__builtin_isinf(d) ? 1 : 0, d);                                           \
        if (__builtin_isnan(a)) a = __builtin_copysign##suffix(0, a);                                            \
        if (__builtin_isnan(b)) b = __builtin_copysign##suffix(0, b);                                            \
        infinite = true;                                                                                         \
      }                                                                                                          \
      if (infinite) {                                                                                            \
        real = __builtin_huge_val##suffix() * (a * c - b * d);                                                   \
        imaginary = __builtin_huge_val##suffix() * (a * d + b * c);                                              \
      }                                                                                                          \
    }                                                                                                            \
    type _Complex result;                                                                                        \
    __real__ result = real;                                                                                      \
    __imag__ result = imaginary;                                                                                 \
    return result;                                                                                               \
  }                                                                                                              \
  extern "C" __attribute__((device, weak)) type _Complex quotient(type a, type b, type c, type d) {              \
    /* the divisor scaled to about 1, so that its square neither overflows nor vanishes */                       \
    type largest = __builtin_fmax##suffix(__builtin_fabs##suffix(c), __builtin_fabs##suffix(d));                 \
    int scale = 0;                                                                                               \
    if (largest > 0 && __builtin_isfinite(largest)) {                                                            \
      __builtin_frexp##suffix(largest, &scale);                                                                  \
      c = __builtin_ldexp##suffix(c, -scale), d = __builtin_ldexp##suffix(d, -scale);                            \
    }                                                                                                            \
    type square = c * c + d * d;                                                                                 \
    type real = __builtin_ldexp##suffix((a * c + b * d) / square, -scale);                                       \
    type imaginary = __builtin_ldexp##suffix((b * c - a * d) / square, -scale);                                  \
    if (__builtin_isnan(real) && __builtin_isnan(imaginary)) {                                                   \
      if (square == 0 && !(__builtin_isnan(a) && __builtin_isnan(b))) {                                          \
        real = __builtin_copysign##suffix(__builtin_huge_val##suffix(), c) * a;                                  \
        imaginary = __builtin_copysign##suffix(__builtin_huge_val##suffix(), c) * b;                             \
      } else if ((__builtin_isinf(a) || __builtin_isinf(b)) && __builtin_isfinite(c) && __builtin_isfinite(d)) { \
        a = __builtin_copysign##suffix(__builtin_isinf(a) ? 1 : 0, a);                                           \
        b = __builtin_copysign##suffix(__builtin_isinf(b) ? 1 : 0, b);                                           \
        real = __builtin_huge_val##suffix() * (a * c + b * d);                                                   \
        imaginary = __builtin_huge_val##suffix() * (b * c - a * d);                                              \
      } else if (__builtin_isinf(largest) && __builtin_isfinite(a) && __builtin_isfinite(b)) {                   \
        c = __builtin_copysign##suffix(__builtin_isinf(c) ? 1 : 0, c);                                           \
        d = __builtin_copysign##suffix(__builtin_isinf(d) ? 1 : 0, d);                                           \
        real = 0 * (a * c + b * d);                                                                              \
        imaginary = 0 * (b * c - a * d);                                                                         \
      }                                                                                                          \
    }                                                                                                            \
    type _Complex result;                                                                                        \
    __real__ result = real;                                                                                      \
    __imag__ result = imaginary;                                                                                 \
    return result;                                                                                               \
  }

#if __HIP_DEVICE_COMPILE__
CDNA_COMPLEX(float, __mulsc3, __divsc3, f)
CDNA_COMPLEX(double, __muldc3, __divdc3, )
#endif
#undef CDNA_COMPLEX
