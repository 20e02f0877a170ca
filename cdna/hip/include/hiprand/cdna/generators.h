// Pseudo-random generators, and distributions of what they give, for host and device: a stand-in for rocRAND.
//
// XORWOW: G. Marsaglia, "Xorshift RNGs", 2003. Philox4x32-10: J. Salmon and others, "Parallel random numbers: as easy
// as 1, 2, 3", 2011. MRG32k3a: P. L'Ecuyer, "Good parameters and implementations for combined multiple recursive random
// number generators", 1999. How a seed becomes a state is this file's own choice but for Philox, whose key it is.
#pragma once
#include <hip/hip_runtime.h>
#include <math.h>

#define CDNA_RAND __host__ __device__ inline

namespace cdna_rand {

typedef unsigned u32;
typedef unsigned long long u64;

CDNA_RAND u64 mixed(u64 x) {  // the last step of SplitMix64; 0 stays 0
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// The second of two normal numbers, which come in pairs.
struct Kept {
  float single;
  double full;
  bool has_single, has_full;
};

constexpr u32 XORWOW_JUMPS[2 * 16 * 15 * 5] = {
#include "xorwow_jumps.inc"
};

struct Xorwow {
  u32 x[5], d;
  Kept kept;

  CDNA_RAND void init(u64 seed, u64 sequence, u64 offset) {  // 0: Marsaglia's own state
    u64 a = mixed(seed), b = mixed(a + (a << 32)), c = mixed(b ^ a >> 1);
    x[0] = 123456789u ^ (u32)a;
    x[1] = 362436069u ^ (u32)(a >> 32);
    x[2] = 521288629u ^ (u32)b;
    x[3] = 88675123u ^ (u32)(b >> 32);
    x[4] = 5783321u ^ (u32)c;
    d = 6615241u + (u32)(c >> 32);
    kept.has_single = kept.has_full = false;
    skip_sequences(sequence);
    skip(offset);
  }
  CDNA_RAND u32 next() {
    shift();
    d += 362437u;
    return x[4] + d;
  }
  CDNA_RAND void skip(u64 n) {
    jump(0, n);
    d += 362437u * (u32)n;
  }
  CDNA_RAND void skip_sequences(u64 n) { jump(1, n); }  // of 2^67 steps, after which d is what it was

 private:
  CDNA_RAND void shift() {
    u32 t = x[0] ^ x[0] >> 2;
    x[0] = x[1];
    x[1] = x[2];
    x[2] = x[3];
    x[3] = x[4];
    x[4] = x[4] ^ x[4] << 4 ^ t ^ t << 1;
  }
  CDNA_RAND void jump(u32 which, u64 n) {  // see xorwow_jumps.py
    for (u32 digit = 0; n; digit++, n >>= 4) {
      u32 c = n & 15;
      if (!c) continue;
      const u32* polynomial = XORWOW_JUMPS + ((which * 16 + digit) * 15 + c - 1) * 5;
      u32 sum[5] = {0, 0, 0, 0, 0};
      for (u32 word = 0; word < 5; word++)
        for (u32 bits = polynomial[word], i = 0; i < 32; i++, bits >>= 1) {
          u32 mask = -(bits & 1);
          for (u32 k = 0; k < 5; k++) sum[k] ^= x[k] & mask;
          shift();
        }
      for (u32 k = 0; k < 5; k++) x[k] = sum[k];
    }
  }
};

struct Philox {
  u32 counter[4], key[2], result[4], used;  // of the four numbers of a counter
  Kept kept;

  CDNA_RAND void init(u64 seed, u64 sequence, u64 offset) {
    key[0] = (u32)seed;
    key[1] = (u32)(seed >> 32);
    counter[0] = counter[1] = 0;
    counter[2] = (u32)sequence;
    counter[3] = (u32)(sequence >> 32);
    used = 0;
    kept.has_single = kept.has_full = false;
    add(offset / 4);
    used = offset % 4;
    compute();
  }
  CDNA_RAND u32 next() {
    u32 value = result[used];
    if (++used == 4) advance();
    return value;
  }
  CDNA_RAND uint4 next4() {
    u32 a[8];
    u32 from = used;
    for (u32 i = 0; i < 4; i++) a[i] = result[i];
    advance();
    used = from;
    for (u32 i = 0; i < 4; i++) a[4 + i] = result[i];
    return from == 0   ? make_uint4(a[0], a[1], a[2], a[3])
           : from == 1 ? make_uint4(a[1], a[2], a[3], a[4])
           : from == 2 ? make_uint4(a[2], a[3], a[4], a[5])
                       : make_uint4(a[3], a[4], a[5], a[6]);
  }
  CDNA_RAND void skip(u64 n) {
    u64 blocks = n / 4;
    used += n % 4;
    if (used >= 4) {
      used -= 4;
      blocks++;
    }
    add(blocks);
    compute();
  }
  CDNA_RAND void skip_sequences(u64 n) {  // of 2^66 numbers
    u64 high = (counter[2] | (u64)counter[3] << 32) + n;
    counter[2] = (u32)high;
    counter[3] = (u32)(high >> 32);
    compute();
  }

 private:
  CDNA_RAND void advance() {
    add(1);
    used = 0;
    compute();
  }
  CDNA_RAND void add(u64 n) {
    u64 low = counter[0] | (u64)counter[1] << 32, sum = low + n;
    counter[0] = (u32)sum;
    counter[1] = (u32)(sum >> 32);
    if (sum < low && ++counter[2] == 0) counter[3]++;
  }
  CDNA_RAND void compute() {
    u32 c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
      u64 a = 0xd2511f53ull * c0, b = 0xcd9e8d57ull * c2;
      c0 = (u32)(b >> 32) ^ c1 ^ k0;
      c2 = (u32)(a >> 32) ^ c3 ^ k1;
      c1 = (u32)b;
      c3 = (u32)a;
      k0 += 0x9e3779b9u;
      k1 += 0xbb67ae85u;
    }
    result[0] = c0;
    result[1] = c1;
    result[2] = c2;
    result[3] = c3;
  }
};

constexpr u32 MRG_M1 = 4294967087u, MRG_M2 = 4294944443u;

// Steps of MRG32k3a's two recurrences, as matrices.
struct Map {
  u32 a[3][3];
};
struct Maps {
  Map first, second;
};
__host__ __device__ constexpr Map times(const Map& p, const Map& q, u32 modulus) {
  Map r = {};
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      u64 sum = 0;
      for (int k = 0; k < 3; k++) sum = (sum + (u64)p.a[i][k] * q.a[k][j] % modulus) % modulus;
      r.a[i][j] = (u32)sum;
    }
  return r;
}
__host__ __device__ constexpr void square(Maps& m) {
  m.first = times(m.first, m.first, MRG_M1);
  m.second = times(m.second, m.second, MRG_M2);
}
__host__ __device__ constexpr Maps power(int log_steps) {
  Maps m = {{{{0, 1, 0}, {0, 0, 1}, {MRG_M1 - 810728, 1403580, 0}}},
            {{{0, 1, 0}, {0, 0, 1}, {MRG_M2 - 1370589, 0, 527612}}}};
  for (int i = 0; i < log_steps; i++) square(m);
  return m;
}

struct Mrg32k3a {
  u32 s1[3], s2[3];
  Kept kept;

  CDNA_RAND void init(u64 seed, u64 sequence, u64 offset) {  // 12345: L'Ecuyer's first state
    u64 a = mixed(seed - 12345), b = mixed(a + (a << 32)), c = mixed(b ^ a >> 1);
    s1[0] = (u32)((12345ull + (u32)a) % MRG_M1);
    s1[1] = (u32)((12345ull + (u32)(a >> 32)) % MRG_M1);
    s1[2] = (u32)((12345ull + (u32)b) % MRG_M1);
    s2[0] = (u32)((12345ull + (u32)(b >> 32)) % MRG_M2);
    s2[1] = (u32)((12345ull + (u32)c) % MRG_M2);
    s2[2] = (u32)((12345ull + (u32)(c >> 32)) % MRG_M2);
    if (!(s1[0] | s1[1] | s1[2])) s1[0] = 1;
    if (!(s2[0] | s2[1] | s2[2])) s2[0] = 1;
    kept.has_single = kept.has_full = false;
    skip_subsequences(sequence);
    skip(offset);
  }
  CDNA_RAND u32 draw() {  // from 1 to MRG_M1
    u32 p1 = (u32)((1403580ull * s1[1] + 810728ull * (MRG_M1 - s1[0])) % MRG_M1);
    u32 p2 = (u32)((527612ull * s2[2] + 1370589ull * (MRG_M2 - s2[0])) % MRG_M2);
    s1[0] = s1[1];
    s1[1] = s1[2];
    s1[2] = p1;
    s2[0] = s2[1];
    s2[1] = s2[2];
    s2[2] = p2;
    return p1 > p2 ? p1 - p2 : p1 - p2 + MRG_M1;
  }
  CDNA_RAND double uniform() { return draw() * (1.0 / 4294967088.0); }
  CDNA_RAND u32 next() { return (u32)((draw() - 1) * (4294967296.0 / 4294967087.0)); }
  CDNA_RAND void skip(u64 n) { jump(power(0), n); }
  CDNA_RAND void skip_subsequences(u64 n) {  // of 2^76 steps
    if (!n) return;
    constexpr Maps maps = power(76);
    jump(maps, n);
  }
  CDNA_RAND void skip_sequences(u64 n) {  // of 2^127 steps
    if (!n) return;
    constexpr Maps maps = power(127);
    jump(maps, n);
  }

 private:
  CDNA_RAND void apply(const Map& m, u32* s, u32 modulus) {
    u32 r[3];
    for (int i = 0; i < 3; i++) {
      u64 sum = 0;
      for (int k = 0; k < 3; k++) sum = (sum + (u64)m.a[i][k] * s[k] % modulus) % modulus;
      r[i] = (u32)sum;
    }
    for (int i = 0; i < 3; i++) s[i] = r[i];
  }
  CDNA_RAND void jump(Maps m, u64 n) {
    for (; n; n >>= 1) {
      if (n & 1) {
        apply(m.first, s1, MRG_M1);
        apply(m.second, s2, MRG_M2);
      }
      if (n > 1) square(m);
    }
  }
};

// --- distributions: each takes from the generator what it needs ----------------------------------------

constexpr float PI_2 = 6.28318530717958648f;
constexpr double PI_2_FULL = 6.28318530717958648;

CDNA_RAND float unit(u32 bits) { return __builtin_fmaf((float)bits, 0x1p-32f, 0x1p-32f); }  // (0, 1]
CDNA_RAND double unit(u32 low, u32 high) { return ((((u64)high << 32 | low) >> 11) + 1) * 0x1p-53; }

template <class State>
CDNA_RAND float uniform(State& s) {
  return unit(s.next());
}
CDNA_RAND float uniform(Mrg32k3a& s) { return (float)s.uniform(); }
template <class State>
CDNA_RAND double uniform_double(State& s) {
  u32 low = s.next();
  return unit(low, s.next());
}
CDNA_RAND double uniform_double(Mrg32k3a& s) { return s.uniform(); }

// G. Box, M. Muller, "A note on the generation of random normal deviates", 1958.
CDNA_RAND float2 pair(float u, float v) {
  float radius = sqrtf(-2.0f * logf(u)), angle = PI_2 * v;
  return make_float2(radius * sinf(angle), radius * cosf(angle));
}
CDNA_RAND double2 pair(double u, double v) {
  double radius = sqrt(-2.0 * log(u)), angle = PI_2_FULL * v;
  return make_double2(radius * sin(angle), radius * cos(angle));
}
template <class State>
CDNA_RAND float2 normal2(State& s) {
  float u = uniform(s);
  return pair(u, uniform(s));
}
template <class State>
CDNA_RAND double2 normal2_double(State& s) {
  double u = uniform_double(s);
  return pair(u, uniform_double(s));
}
template <class State>
CDNA_RAND float normal(State& s) {
  if (s.kept.has_single) {
    s.kept.has_single = false;
    return s.kept.single;
  }
  float2 both = normal2(s);
  s.kept.single = both.y;
  s.kept.has_single = true;
  return both.x;
}
template <class State>
CDNA_RAND double normal_double(State& s) {
  if (s.kept.has_full) {
    s.kept.has_full = false;
    return s.kept.full;
  }
  double2 both = normal2_double(s);
  s.kept.full = both.y;
  s.kept.has_full = true;
  return both.x;
}

// Small means by a product of uniform numbers (D. Knuth), others by transformed rejection (W. Hormann, "The transformed
// rejection method for generating Poisson random variables", 1993, PTRS).
template <class State>
CDNA_RAND u32 poisson(State& s, double mean) {
  if (mean < 30) {
    double bound = exp(-mean), product = uniform_double(s);
    u32 n = 0;
    for (; product > bound; n++) product *= uniform_double(s);
    return n;
  }
  double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b, inverse = 1.1239 + 1.1328 / (b - 3.4);
  double accept = 0.9277 - 3.6224 / (b - 2), log_mean = log(mean);
  while (true) {
    double u = uniform_double(s) - 0.5, v = uniform_double(s), near = 0.5 - fabs(u);
    double k = floor((2 * a / near + b) * u + mean + 0.43);
    if (near >= 0.07 && v <= accept) return (u32)k;
    if (k < 0 || (near < 0.013 && v > near)) continue;
    if (log(v * inverse / (a / (near * near) + b)) <= k * log_mean - mean - lgamma(k + 1)) return (u32)k;
  }
}

}  // namespace cdna_rand
