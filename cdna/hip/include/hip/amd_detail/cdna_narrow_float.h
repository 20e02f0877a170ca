// Shared by the headers of 16-bit and 8-bit numbers.
#pragma once

#ifdef __HIP__
#define CDNA_HD __inline__ __attribute__((host, device, always_inline))
#else
#define CDNA_HD __inline__ __attribute__((always_inline))
#endif
#define CDNA_D __inline__ __attribute__((device, always_inline))
// Before a function that ROCm has not, or not in every release: a program's own of that name and those arguments,
// which is no template, is another function and is preferred.
#define CDNA_YIELDS template <class = void>

CDNA_HD unsigned int __cdna_bits(float value) { return __builtin_bit_cast(unsigned int, value); }
CDNA_HD float __cdna_float(unsigned int bits) { return __builtin_bit_cast(float, bits); }
