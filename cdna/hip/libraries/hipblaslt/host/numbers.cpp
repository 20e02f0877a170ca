// Numbers of every type to fp32 and back, to the nearest, of two equally near ones the even.
#include "numbers.h"

#include <string.h>

static float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}

// --- 8 bits ----------------------------------------------------------------------------------------

struct Form {
  int mantissa_bits, bias;
  bool fnuz;
  int largest;  // the code of the largest number
};
static const Form* form_of(hipDataType type) {
  static const Form forms[] = {{3, 7, false, 0x7e}, {2, 15, false, 0x7b}, {3, 8, true, 0x7f}, {2, 16, true, 0x7f}};
  switch ((int)type) {
    case HIP_R_8F_E4M3: return &forms[0];
    case HIP_R_8F_E5M2: return &forms[1];
    case HIP_R_8F_E4M3_FNUZ: return &forms[2];
    case HIP_R_8F_E5M2_FNUZ: return &forms[3];
    default: return nullptr;
  }
}

static float decoded(const Form& f, int code) {
  int magnitude = code & 0x7f, exponent = magnitude >> f.mantissa_bits;
  int mantissa = magnitude & ((1 << f.mantissa_bits) - 1);
  if (f.fnuz && code == 0x80) return __builtin_nanf("");
  float x;
  if (magnitude > f.largest) x = f.mantissa_bits == 2 && !mantissa ? __builtin_inff() : __builtin_nanf("");
  else
    x = __builtin_ldexpf(exponent ? mantissa + (1 << f.mantissa_bits) : mantissa,
                         (exponent ? exponent : 1) - f.bias - f.mantissa_bits);
  return code & 0x80 ? -x : x;
}

// Too large a number becomes the largest. Codes are in the order of their numbers.
static uint8_t encoded(const Form& f, const float* values, float x) {
  uint8_t sign = bits_of(x) >> 31 ? 0x80 : 0;
  float size = __builtin_fabsf(x);
  if (!(size == size)) return f.fnuz ? 0x80 : sign | 0x7f;
  int low = 0, high = f.largest;
  if (size >= values[high]) return sign | high;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    (size < values[middle] ? high : low) = middle;
  }
  float below = size - values[low], above = values[high] - size;
  int code = below < above || (below == above && low % 2 == 0) ? low : high;
  return f.fnuz && !code ? 0 : sign | code;
}

static const float* values_of(const Form& f) {
  struct Table {
    const Form* form;
    float values[256];
  };
  static Table tables[4];
  static int made = 0;
  if (!__atomic_load_n(&made, __ATOMIC_ACQUIRE)) {  // who comes at the same time writes the same
    const hipDataType types[] = {HIP_R_8F_E4M3, HIP_R_8F_E5M2, HIP_R_8F_E4M3_FNUZ, HIP_R_8F_E5M2_FNUZ};
    for (int i = 0; i < 4; i++) {
      tables[i].form = form_of(types[i]);
      for (int code = 0; code < 256; code++) tables[i].values[code] = decoded(*tables[i].form, code);
    }
    __atomic_store_n(&made, 1, __ATOMIC_RELEASE);
  }
  for (const Table& t : tables)
    if (t.form == &f) return t.values;
  return nullptr;
}

// --- any ------------------------------------------------------------------------------------------

size_t bytes_of(hipDataType type) {
  switch ((int)type) {
    case HIP_R_32F: return 4;
    case HIP_R_16F:
    case HIP_R_16BF: return 2;
    default: return form_of(type) ? 1 : 0;
  }
}

template <class T, class Convert>
static void each(const char* from, int64_t n, float* to, Convert convert) {
  for (int64_t i = 0; i < n; i++) to[i] = convert(((const T*)from)[i]);
}

void to_floats(hipDataType type, const char* from, int64_t n, float* to) {
  switch ((int)type) {
    case HIP_R_32F: return each<float>(from, n, to, [](float x) { return x; });
    case HIP_R_16F: return each<_Float16>(from, n, to, [](_Float16 x) { return (float)x; });
    case HIP_R_16BF: return each<uint16_t>(from, n, to, [](uint16_t x) { return from_bits((uint32_t)x << 16); });
    default: {
      const float* values = values_of(*form_of(type));
      return each<uint8_t>(from, n, to, [=](uint8_t x) { return values[x]; });
    }
  }
}

template <class T, class Convert>
static void each_back(const float* from, int64_t n, char* to, Convert convert) {
  for (int64_t i = 0; i < n; i++) ((T*)to)[i] = convert(from[i]);
}

void from_floats(hipDataType type, const float* from, int64_t n, char* to) {
  switch ((int)type) {
    case HIP_R_32F: return each_back<float>(from, n, to, [](float x) { return x; });
    case HIP_R_16F: return each_back<_Float16>(from, n, to, [](float x) { return (_Float16)x; });
    case HIP_R_16BF:
      return each_back<uint16_t>(from, n, to, [](float x) {
        uint32_t bits = bits_of(x);
        return (uint16_t)(x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : bits >> 16 | 0x40);
      });
    default: {
      const Form& form = *form_of(type);
      const float* values = values_of(form);
      return each_back<uint8_t>(from, n, to, [&](float x) { return encoded(form, values, x); });
    }
  }
}
