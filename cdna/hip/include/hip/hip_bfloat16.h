// hip_bfloat16: the older bfloat16 type of ROCm, with its 16 bits as `data`.
#pragma once

#include <hip/hip_bf16.h>

struct hip_bfloat16 {
  unsigned short data;

  enum truncate_t { truncate };
  hip_bfloat16() = default;
  CDNA_HD hip_bfloat16(float value) : data(__cdna_bf16_bits(value)) {}
  CDNA_HD explicit hip_bfloat16(float value, truncate_t) : data((unsigned short)(__cdna_bits(value) >> 16)) {
    if ((__cdna_bits(value) & 0x7fffffff) > 0x7f800000) data |= 0x40;  // a NaN stays one
  }
  CDNA_HD operator float() const { return __cdna_bf16_value(data); }
  static __attribute__((host, device)) hip_bfloat16 round_to_bfloat16(float value) { return hip_bfloat16(value); }
  static __attribute__((host, device)) hip_bfloat16 round_to_bfloat16(float value, truncate_t) {
    return hip_bfloat16(value, truncate);
  }
};

#define CDNA_OPERATOR(op)                                                                                         \
  CDNA_HD hip_bfloat16 operator op(hip_bfloat16 a, hip_bfloat16 b) { return hip_bfloat16((float)a op(float) b); } \
  CDNA_HD hip_bfloat16& operator op## = (hip_bfloat16 & a, hip_bfloat16 b) { return a = a op b; }
// clang-format off
CDNA_OPERATOR(+) CDNA_OPERATOR(-) CDNA_OPERATOR(*) CDNA_OPERATOR(/)
#undef CDNA_OPERATOR
#define CDNA_COMPARE(op) \
  CDNA_HD bool operator op(hip_bfloat16 a, hip_bfloat16 b) { return (float)a op (float)b; }
CDNA_COMPARE(==) CDNA_COMPARE(!=) CDNA_COMPARE(<) CDNA_COMPARE(<=) CDNA_COMPARE(>) CDNA_COMPARE(>=)
// clang-format on
#undef CDNA_COMPARE
        CDNA_HD hip_bfloat16 operator+(hip_bfloat16 a) {
  return a;
}
CDNA_HD hip_bfloat16 operator-(hip_bfloat16 a) {
  a.data ^= 0x8000;
  return a;
}
CDNA_HD hip_bfloat16& operator++(hip_bfloat16& a) { return a = a + hip_bfloat16(1.0f); }
CDNA_HD hip_bfloat16& operator--(hip_bfloat16& a) { return a = a - hip_bfloat16(1.0f); }
