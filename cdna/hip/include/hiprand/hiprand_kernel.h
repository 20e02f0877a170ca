// hipRAND's device functions, on generators of ours: see docs/hip.md for whose numbers they are.
#pragma once
#include "cdna/generators.h"
#include "hiprand.h"

#define HIPRAND_XORWOW_DEFAULT_SEED 0ULL
#define HIPRAND_PHILOX4x32_DEFAULT_SEED 0ULL
#define HIPRAND_MRG32K3A_DEFAULT_SEED 12345ULL

typedef cdna_rand::Xorwow hiprandStateXORWOW, hiprandStateXORWOW_t, hiprandState, hiprandState_t, hipRandState_t;
typedef cdna_rand::Philox hiprandStatePhilox4_32_10, hiprandStatePhilox4_32_10_t;
typedef cdna_rand::Mrg32k3a hiprandStateMRG32k3a, hiprandStateMRG32k3a_t;

#define HIPRAND_FUNCTION template <class State> __device__ inline

HIPRAND_FUNCTION void hiprand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                                   State* s) {
  s->init(seed, sequence, offset);
}
HIPRAND_FUNCTION void skipahead(unsigned long long n, State* s) { s->skip(n); }
HIPRAND_FUNCTION void skipahead_sequence(unsigned long long n, State* s) { s->skip_sequences(n); }
HIPRAND_FUNCTION void skipahead_subsequence(unsigned long long n, State* s) { s->skip_subsequences(n); }

HIPRAND_FUNCTION unsigned hiprand(State* s) { return s->next(); }
HIPRAND_FUNCTION unsigned long long hiprand_long_long(State* s) {
  unsigned long long low = s->next();
  return low | (unsigned long long)s->next() << 32;
}
HIPRAND_FUNCTION float hiprand_uniform(State* s) { return cdna_rand::uniform(*s); }
HIPRAND_FUNCTION double hiprand_uniform_double(State* s) { return cdna_rand::uniform_double(*s); }
HIPRAND_FUNCTION float hiprand_normal(State* s) { return cdna_rand::normal(*s); }
HIPRAND_FUNCTION float2 hiprand_normal2(State* s) { return cdna_rand::normal2(*s); }
HIPRAND_FUNCTION double hiprand_normal_double(State* s) { return cdna_rand::normal_double(*s); }
HIPRAND_FUNCTION double2 hiprand_normal2_double(State* s) { return cdna_rand::normal2_double(*s); }
HIPRAND_FUNCTION float hiprand_log_normal(State* s, float mean, float deviation) {
  return expf(mean + deviation * hiprand_normal(s));
}
HIPRAND_FUNCTION float2 hiprand_log_normal2(State* s, float mean, float deviation) {
  float2 n = hiprand_normal2(s);
  return make_float2(expf(mean + deviation * n.x), expf(mean + deviation * n.y));
}
HIPRAND_FUNCTION double hiprand_log_normal_double(State* s, double mean, double deviation) {
  return exp(mean + deviation * hiprand_normal_double(s));
}
HIPRAND_FUNCTION double2 hiprand_log_normal2_double(State* s, double mean, double deviation) {
  double2 n = hiprand_normal2_double(s);
  return make_double2(exp(mean + deviation * n.x), exp(mean + deviation * n.y));
}
HIPRAND_FUNCTION unsigned hiprand_poisson(State* s, double mean) { return cdna_rand::poisson(*s, mean); }

#undef HIPRAND_FUNCTION

// Philox gives four numbers at a time.
__device__ inline uint4 hiprand4(hiprandStatePhilox4_32_10_t* s) { return s->next4(); }
__device__ inline float4 hiprand_uniform4(hiprandStatePhilox4_32_10_t* s) {
  uint4 v = s->next4();
  return make_float4(cdna_rand::unit(v.x), cdna_rand::unit(v.y), cdna_rand::unit(v.z), cdna_rand::unit(v.w));
}
__device__ inline double2 hiprand_uniform2_double(hiprandStatePhilox4_32_10_t* s) {
  uint4 v = s->next4();
  return make_double2(cdna_rand::unit(v.x, v.y), cdna_rand::unit(v.z, v.w));
}
__device__ inline double4 hiprand_uniform4_double(hiprandStatePhilox4_32_10_t* s) {
  double2 a = hiprand_uniform2_double(s), b = hiprand_uniform2_double(s);
  return make_double4(a.x, a.y, b.x, b.y);
}
__device__ inline float4 hiprand_normal4(hiprandStatePhilox4_32_10_t* s) {
  float4 u = hiprand_uniform4(s);
  float2 a = cdna_rand::pair(u.x, u.y), b = cdna_rand::pair(u.z, u.w);
  return make_float4(a.x, a.y, b.x, b.y);
}
__device__ inline double4 hiprand_normal4_double(hiprandStatePhilox4_32_10_t* s) {
  double2 a = hiprand_normal2_double(s), b = hiprand_normal2_double(s);
  return make_double4(a.x, a.y, b.x, b.y);
}
__device__ inline float4 hiprand_log_normal4(hiprandStatePhilox4_32_10_t* s, float mean, float deviation) {
  float4 n = hiprand_normal4(s);
  return make_float4(expf(mean + deviation * n.x), expf(mean + deviation * n.y), expf(mean + deviation * n.z),
                     expf(mean + deviation * n.w));
}
__device__ inline double4 hiprand_log_normal4_double(hiprandStatePhilox4_32_10_t* s, double mean, double deviation) {
  double2 a = hiprand_log_normal2_double(s, mean, deviation), b = hiprand_log_normal2_double(s, mean, deviation);
  return make_double4(a.x, a.y, b.x, b.y);
}
__device__ inline uint4 hiprand_poisson4(hiprandStatePhilox4_32_10_t* s, double mean) {
  unsigned a = hiprand_poisson(s, mean), b = hiprand_poisson(s, mean), c = hiprand_poisson(s, mean);
  return make_uint4(a, b, c, hiprand_poisson(s, mean));
}
