// 8-bit floating-point numbers without any instruction for them: what hip_fp8.h converts on the host, and in device code of
// an arch with the other form; its table has the forms. Plain C++ may include it.
#pragma once

#include "cdna_narrow_float.h"

enum __hip_fp8_interpretation_t { __HIP_E4M3 = 0, __HIP_E5M2 = 1, __HIP_E4M3_FNUZ = 2, __HIP_E5M2_FNUZ = 3 };
enum __hip_saturation_t { __HIP_NOSAT = 0, __HIP_SATFINITE = 1 };
typedef unsigned char __hip_fp8_storage_t;
typedef unsigned short __hip_fp8x2_storage_t;
typedef unsigned int __hip_fp8x4_storage_t;

struct __cdna_fp8_form {
  int mantissa_bits, bias;
  unsigned char largest;
  bool fnuz;
};
CDNA_HD constexpr __cdna_fp8_form __cdna_fp8(__hip_fp8_interpretation_t kind) {
  return kind == __HIP_E4M3        ? __cdna_fp8_form{3, 7, 0x7e, false}
         : kind == __HIP_E4M3_FNUZ ? __cdna_fp8_form{3, 8, 0x7f, true}
         : kind == __HIP_E5M2      ? __cdna_fp8_form{2, 15, 0x7b, false}
                                   : __cdna_fp8_form{2, 16, 0x7f, true};
}

// Rounds to nearest even. The exponent field of a result is at least 1 while its leading bit is counted in the
// mantissa: so numbers below the smallest normal one, and a mantissa that rounds up to the next power of two, come out.
CDNA_HD __hip_fp8_storage_t __cdna_fp8_encode(float value, __hip_saturation_t saturate,
                                              __hip_fp8_interpretation_t kind) {
  const __cdna_fp8_form form = __cdna_fp8(kind);
  const unsigned int bits = __cdna_bits(value), magnitude = bits & 0x7fffffff;
  const unsigned char sign = (unsigned char)(bits >> 24 & 0x80);
  const unsigned char nan = form.fnuz ? 0x80 : (unsigned char)(sign | 0x7f);
  if (magnitude > 0x7f800000) return nan;
  const unsigned char beyond = saturate == __HIP_SATFINITE ? (unsigned char)(sign | form.largest)
                               : kind == __HIP_E5M2        ? (unsigned char)(sign | 0x7c)
                                                           : nan;
  if (magnitude == 0x7f800000) return beyond;
  const int field = (int)(magnitude >> 23) - 127 + form.bias;  // exponent field of a normal result
  const int shift = 23 - form.mantissa_bits + (field < 1 ? 1 - field : 0);
  unsigned int code = 0;
  if (shift < 26 && magnitude >= 0x00800000) {  // else less than half of the smallest number
    const unsigned int mantissa = (magnitude & 0x7fffff) | 0x800000;
    unsigned int kept = shift < 25 ? mantissa >> shift : 0;
    const unsigned int rest = mantissa & ((1u << shift) - 1), middle = 1u << (shift - 1);
    kept += rest > middle || (rest == middle && (kept & 1));
    code = ((unsigned int)((field < 1 ? 1 : field) - 1) << form.mantissa_bits) + kept;
  }
  if (code > form.largest) return beyond;
  return form.fnuz && code == 0 ? 0 : (unsigned char)(sign | code);
}

CDNA_HD float __cdna_fp8_decode(__hip_fp8_storage_t code, __hip_fp8_interpretation_t kind) {
  const __cdna_fp8_form form = __cdna_fp8(kind);
  const unsigned int sign = (unsigned int)(code & 0x80) << 24, magnitude = code & 0x7f;
  if (form.fnuz && code == 0x80) return __cdna_float(0x7fc00000);
  if (!form.fnuz && magnitude > form.largest)
    return __cdna_float(sign | (kind == __HIP_E5M2 && magnitude == 0x7c ? 0x7f800000 : 0x7fc00000));
  const unsigned int field = magnitude >> form.mantissa_bits, mantissa = magnitude & ((1u << form.mantissa_bits) - 1);
  if (field == 0) {  // mantissa * 2^(1 - bias - mantissa_bits); both factors and the product are normal floats
    const float step = __cdna_float((unsigned int)(127 + 1 - form.bias - form.mantissa_bits) << 23);
    return __cdna_float(__cdna_bits((float)mantissa * step) | sign);
  }
  return __cdna_float(sign | (field + 127 - (unsigned int)form.bias) << 23 | mantissa << (23 - form.mantissa_bits));
}
