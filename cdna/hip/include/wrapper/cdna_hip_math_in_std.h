// The float functions of C in namespace std, for host and device: clang's own wrapper has these names there
// (__clang_hip_cmath.h), libstdc++ only those that are younger than C99. Behind <cmath>, which declares the host's.
#pragma once

// clang-format off
namespace std {
#define CDNA_USING(name) using ::name##f;
#define CDNA_USING_TYPED(type, name) using ::name##f;
CDNA_MATH_UNARY(CDNA_USING)
CDNA_MATH_BINARY(CDNA_USING)
CDNA_MATH_TO_INTEGER(CDNA_USING_TYPED)
CDNA_USING(fma) CDNA_USING(frexp) CDNA_USING(ldexp) CDNA_USING(modf) CDNA_USING(remquo) CDNA_USING(scalbln) CDNA_USING(scalbn)
#undef CDNA_USING
#undef CDNA_USING_TYPED
}
// clang-format on
