// Numbers of every type to fp32 and back, to the nearest, of two equally near ones the even.
#include "numbers.h"

#include <hip/amd_detail/cdna_fp8_software.h>

static bool is_fp8(hipDataType type, __hip_fp8_interpretation_t& kind) {
  switch ((int)type) {
    case HIP_R_8F_E4M3: kind = __HIP_E4M3; return true;
    case HIP_R_8F_E5M2: kind = __HIP_E5M2; return true;
    case HIP_R_8F_E4M3_FNUZ: kind = __HIP_E4M3_FNUZ; return true;
    case HIP_R_8F_E5M2_FNUZ: kind = __HIP_E5M2_FNUZ; return true;
    default: return false;
  }
}

size_t bytes_of(hipDataType type) {
  __hip_fp8_interpretation_t kind;
  switch ((int)type) {
    case HIP_R_32F: return 4;
    case HIP_R_16F:
    case HIP_R_16BF: return 2;
    default: return is_fp8(type, kind);
  }
}

template <class T, class Convert>
static void each(const char* from, int64_t n, float* to, Convert convert) {
  for (int64_t i = 0; i < n; i++) to[i] = convert(((const T*)from)[i]);
}

void to_floats(hipDataType type, const char* from, int64_t n, float* to) {
  __hip_fp8_interpretation_t kind;
  switch ((int)type) {
    case HIP_R_32F: return each<float>(from, n, to, [](float x) { return x; });
    case HIP_R_16F: return each<_Float16>(from, n, to, [](_Float16 x) { return (float)x; });
    case HIP_R_16BF: return each<uint16_t>(from, n, to, [](uint16_t x) { return __cdna_float((uint32_t)x << 16); });
    default:
      (void)is_fp8(type, kind);
      return each<uint8_t>(from, n, to, [=](uint8_t x) { return __cdna_fp8_decode(x, kind); });
  }
}

template <class T, class Convert>
static void each_back(const float* from, int64_t n, char* to, Convert convert) {
  for (int64_t i = 0; i < n; i++) ((T*)to)[i] = convert(from[i]);
}

void from_floats(hipDataType type, const float* from, int64_t n, char* to) {
  __hip_fp8_interpretation_t kind;
  switch ((int)type) {
    case HIP_R_32F: return each_back<float>(from, n, to, [](float x) { return x; });
    case HIP_R_16F: return each_back<_Float16>(from, n, to, [](float x) { return (_Float16)x; });
    case HIP_R_16BF:
      return each_back<uint16_t>(from, n, to, [](float x) {
        uint32_t bits = __cdna_bits(x);
        return (uint16_t)(x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : bits >> 16 | 0x40);
      });
    default:  // too large a number becomes the largest
      (void)is_fp8(type, kind);
      return each_back<uint8_t>(from, n, to, [=](float x) { return __cdna_fp8_encode(x, __HIP_SATFINITE, kind); });
  }
}
