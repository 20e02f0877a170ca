// hipFloatComplex and hipDoubleComplex: C-style complex numbers on float2 and double2.
#pragma once

#include <hip/hip_runtime.h>
#include <cmath>
#include "amd_detail/cdna_narrow_float.h"

typedef float2 hipFloatComplex;
typedef double2 hipDoubleComplex;
typedef hipFloatComplex hipComplex;

CDNA_HD hipFloatComplex make_hipFloatComplex(float real, float imaginary) { return make_float2(real, imaginary); }
CDNA_HD hipDoubleComplex make_hipDoubleComplex(double real, double imaginary) { return make_double2(real, imaginary); }
CDNA_HD hipComplex make_hipComplex(float real, float imaginary) { return make_float2(real, imaginary); }

// f: of floats. Division by way of the divisor's conjugate, as ROCm's.
#define CDNA_COMPLEX(type, complex, make, letter)                                                                      \
  CDNA_HD type hipCreal##letter(complex a) { return a.x; }                                                             \
  CDNA_HD type hipCimag##letter(complex a) { return a.y; }                                                             \
  CDNA_HD complex hipConj##letter(complex a) { return make(a.x, -a.y); }                                               \
  CDNA_HD type hipCsqabs##letter(complex a) { return a.x * a.x + a.y * a.y; }                                          \
  CDNA_HD type hipCabs##letter(complex a) { return sqrt##letter(hipCsqabs##letter(a)); }                               \
  CDNA_HD complex hipCadd##letter(complex a, complex b) { return make(a.x + b.x, a.y + b.y); }                         \
  CDNA_HD complex hipCsub##letter(complex a, complex b) { return make(a.x - b.x, a.y - b.y); }                         \
  CDNA_HD complex hipCmul##letter(complex a, complex b) { return make(a.x * b.x - a.y * b.y, a.y * b.x + a.x * b.y); } \
  CDNA_HD complex hipCdiv##letter(complex a, complex b) {                                                              \
    type square = hipCsqabs##letter(b);                                                                                \
    return make((a.x * b.x + a.y * b.y) / square, (a.y * b.x - a.x * b.y) / square);                                   \
  }                                                                                                                    \
  CDNA_HD complex hipCfma##letter(complex a, complex b, complex c) {                                                   \
    return make(a.x * b.x - a.y * b.y + c.x, a.y * b.x + a.x * b.y + c.y);                                             \
  }
CDNA_COMPLEX(float, hipFloatComplex, make_hipFloatComplex, f)
CDNA_COMPLEX(double, hipDoubleComplex, make_hipDoubleComplex, )
#undef CDNA_COMPLEX
CDNA_HD hipDoubleComplex hipComplexFloatToDouble(hipFloatComplex a) { return make_hipDoubleComplex(a.x, a.y); }
CDNA_HD hipFloatComplex hipComplexDoubleToFloat(hipDoubleComplex a) {
  return make_hipFloatComplex((float)a.x, (float)a.y);
}
