// hipRAND's host functions, on generators of ours: see docs/hip.md for whose numbers they are.
//
// Device memory is the host's here: the host computes the numbers, as a host function in the generator's stream. The
// i-th number that a generator gives is the i-th of its sequence, whatever calls it is asked for in.
#pragma once
#include "cdna/generators.h"
#include "cdna/sobol.h"

#define HIPRAND_VERSION 300100

typedef enum hiprandStatus {
  HIPRAND_STATUS_SUCCESS = 0,
  HIPRAND_STATUS_VERSION_MISMATCH = 100,
  HIPRAND_STATUS_NOT_INITIALIZED = 101,
  HIPRAND_STATUS_ALLOCATION_FAILED = 102,
  HIPRAND_STATUS_TYPE_ERROR = 103,
  HIPRAND_STATUS_OUT_OF_RANGE = 104,
  HIPRAND_STATUS_LENGTH_NOT_MULTIPLE = 105,
  HIPRAND_STATUS_DOUBLE_PRECISION_REQUIRED = 106,
  HIPRAND_STATUS_LAUNCH_FAILURE = 201,
  HIPRAND_STATUS_PREEXISTING_FAILURE = 202,
  HIPRAND_STATUS_INITIALIZATION_FAILED = 203,
  HIPRAND_STATUS_ARCH_MISMATCH = 204,
  HIPRAND_STATUS_INTERNAL_ERROR = 999,
  HIPRAND_STATUS_NOT_IMPLEMENTED = 1000
} hiprandStatus_t;

typedef enum hiprandRngType {
  HIPRAND_RNG_TEST = 0,
  HIPRAND_RNG_PSEUDO_DEFAULT = 400,
  HIPRAND_RNG_PSEUDO_XORWOW = 401,
  HIPRAND_RNG_PSEUDO_MRG32K3A = 402,
  HIPRAND_RNG_PSEUDO_MTGP32 = 403,
  HIPRAND_RNG_PSEUDO_MT19937 = 404,
  HIPRAND_RNG_PSEUDO_PHILOX4_32_10 = 405,
  HIPRAND_RNG_QUASI_DEFAULT = 500,
  HIPRAND_RNG_QUASI_SOBOL32 = 501,
  HIPRAND_RNG_QUASI_SCRAMBLED_SOBOL32 = 502,
  HIPRAND_RNG_QUASI_SOBOL64 = 503,
  HIPRAND_RNG_QUASI_SCRAMBLED_SOBOL64 = 504
} hiprandRngType_t;

typedef enum hiprandOrdering {
  HIPRAND_ORDERING_PSEUDO_BEST = 100,
  HIPRAND_ORDERING_PSEUDO_DEFAULT = 101,
  HIPRAND_ORDERING_PSEUDO_SEEDED = 102,
  HIPRAND_ORDERING_PSEUDO_LEGACY = 103,
  HIPRAND_ORDERING_PSEUDO_DYNAMIC = 104,
  HIPRAND_ORDERING_QUASI_DEFAULT = 201
} hiprandOrdering_t;

typedef struct hiprandGenerator_st* hiprandGenerator_t;

namespace cdna_rand {

// M. Matsumoto, T. Nishimura, "Mersenne twister", 1998, with the initialisation of 2002.
struct Mt19937 {
  u32 state[624], used;
  Kept kept;

  void init(u64 seed, u64 offset) {
    state[0] = (u32)seed;
    for (u32 i = 1; i < 624; i++) state[i] = 1812433253u * (state[i - 1] ^ state[i - 1] >> 30) + i;
    used = 624;
    kept.has_single = kept.has_full = false;
    while (offset--) next();
  }
  u32 next() {
    if (used == 624) {
      for (u32 i = 0; i < 624; i++) {
        u32 y = (state[i] & 0x80000000u) | (state[(i + 1) % 624] & 0x7fffffffu);
        state[i] = state[(i + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
      }
      used = 0;
    }
    u32 y = state[used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
  }
};

// What a generator has come to. Never freed: a captured graph may ask for more of it at any time.
struct Source {
  hiprandRngType_t type;
  u64 place;  // of the quasi-random point that comes next
  u32 dimensions;
  union {
    Xorwow xorwow;
    Philox philox;
    Mrg32k3a mrg;
    Mt19937 twister;
  };
};

// Distributions: of a generator, and of a quasi-random number's bits.
template <class Value>
struct Bits {
  template <class State>
  Value of(State& s) const {
    u64 low = s.next();
    return (Value)(sizeof(Value) == 8 ? low | (u64)s.next() << 32 : low);
  }
  Value at(u32 bits) const { return (Value)bits; }
};
struct Uniform {
  template <class State>
  float of(State& s) const {
    return uniform(s);
  }
  float at(u32 bits) const { return unit(bits); }
};
struct UniformDouble {
  template <class State>
  double of(State& s) const {
    return uniform_double(s);
  }
  double at(u32 bits) const { return (bits + 1.0) * 0x1p-32; }
};
template <class Value>
struct Normal {
  Value mean, deviation;
  bool log;
  template <class State>
  Value of(State& s) const {
    return scaled(sizeof(Value) == 4 ? (Value)normal(s) : (Value)normal_double(s));
  }
  Value at(u32 bits) const { return scaled((Value)inverse_normal((bits + 0.5) * 0x1p-32)); }

 private:
  Value scaled(Value x) const { return log ? (Value)exp((double)(mean + deviation * x)) : mean + deviation * x; }
};
struct PoissonNumber {
  double mean;
  template <class State>
  u32 of(State& s) const {
    return poisson(s, mean);
  }
  u32 at(u32 bits) const {  // the first n whose probability of being reached is not below
    double wanted = (bits + 0.5) * 0x1p-32, term = exp(-mean), sum = term;
    u32 n = 0;
    while (sum < wanted && n < mean + 20 * sqrt(mean) + 100) sum += term *= mean / ++n;
    return n;
  }
};

template <class Value, class Distribution>
struct Order {
  Source* source;
  Value* out;
  u64 n;
  Distribution distribution;
  bool once;  // else a graph may ask again

  template <class State>
  void fill(State& s) const {
    for (u64 i = 0; i < n; i++) out[i] = (Value)distribution.of(s);
  }
  void fill_with_points() const {
    u64 points = n / source->dimensions;
    for (u32 d = 0; d < source->dimensions; d++) {
      Sobol sequence(d, source->place);
      for (u64 i = 0; i < points; i++) out[d * points + i] = (Value)distribution.at(sequence.next());
    }
    source->place += points;
  }
  static void run(void* argument) {
    Order* o = (Order*)argument;
    switch (o->source->type) {
      case HIPRAND_RNG_PSEUDO_MRG32K3A: o->fill(o->source->mrg); break;
      case HIPRAND_RNG_PSEUDO_MT19937: o->fill(o->source->twister); break;
      case HIPRAND_RNG_PSEUDO_PHILOX4_32_10: o->fill(o->source->philox); break;
      case HIPRAND_RNG_QUASI_SOBOL32: o->fill_with_points(); break;
      default: o->fill(o->source->xorwow);
    }
    if (o->once) delete o;
  }
};

}  // namespace cdna_rand

struct hiprandGenerator_st {
  hiprandRngType_t type;
  unsigned long long seed, offset;
  unsigned dimensions;
  hipStream_t stream;
  bool on_host;
  cdna_rand::Source* source;  // null: to be made of what stands above
};

namespace cdna_rand {

inline Source* source_of(hiprandGenerator_t g) {
  if (g->source) return g->source;
  Source* s = g->source = new Source();
  s->type = g->type;
  s->dimensions = g->dimensions;
  s->place = g->offset;
  switch (g->type) {
    case HIPRAND_RNG_PSEUDO_MRG32K3A: s->mrg.init(g->seed, 0, g->offset); break;
    case HIPRAND_RNG_PSEUDO_MT19937: s->twister.init(g->seed, g->offset); break;
    case HIPRAND_RNG_PSEUDO_PHILOX4_32_10: s->philox.init(g->seed, 0, g->offset); break;
    case HIPRAND_RNG_QUASI_SOBOL32: break;
    default: s->xorwow.init(g->seed, 0, g->offset);
  }
  return s;
}

template <class Value, class Distribution>
inline hiprandStatus_t give(hiprandGenerator_t g, Value* out, size_t n, Distribution distribution) {
  if (!g) return HIPRAND_STATUS_NOT_INITIALIZED;
  if (n % g->dimensions) return HIPRAND_STATUS_LENGTH_NOT_MULTIPLE;
  typedef Order<Value, Distribution> Wanted;
  hipStreamCaptureStatus capture = hipStreamCaptureStatusNone;
  if (!g->on_host && g->stream) (void)hipStreamIsCapturing(g->stream, &capture);
  Wanted* order = new Wanted{source_of(g), out, n, distribution, capture == hipStreamCaptureStatusNone};
  if (g->on_host) Wanted::run(order);
  else if (hipLaunchHostFunc(g->stream, Wanted::run, order) != hipSuccess) return HIPRAND_STATUS_LAUNCH_FAILURE;
  return HIPRAND_STATUS_SUCCESS;
}

inline hiprandStatus_t create(hiprandGenerator_t* out, hiprandRngType_t type, bool on_host) {
  if (!out) return HIPRAND_STATUS_OUT_OF_RANGE;
  switch (type) {
    case HIPRAND_RNG_PSEUDO_DEFAULT: type = HIPRAND_RNG_PSEUDO_XORWOW; break;
    case HIPRAND_RNG_QUASI_DEFAULT: type = HIPRAND_RNG_QUASI_SOBOL32; break;
    case HIPRAND_RNG_PSEUDO_XORWOW:
    case HIPRAND_RNG_PSEUDO_MRG32K3A:
    case HIPRAND_RNG_PSEUDO_MT19937:
    case HIPRAND_RNG_PSEUDO_PHILOX4_32_10:
    case HIPRAND_RNG_QUASI_SOBOL32: break;
    case HIPRAND_RNG_PSEUDO_MTGP32:
    case HIPRAND_RNG_QUASI_SCRAMBLED_SOBOL32:
    case HIPRAND_RNG_QUASI_SOBOL64:
    case HIPRAND_RNG_QUASI_SCRAMBLED_SOBOL64: return HIPRAND_STATUS_NOT_IMPLEMENTED;
    default: return HIPRAND_STATUS_TYPE_ERROR;
  }
  u64 seed = type == HIPRAND_RNG_PSEUDO_MRG32K3A ? 12345 : type == HIPRAND_RNG_PSEUDO_MT19937 ? 5489 : 0;
  *out = new hiprandGenerator_st{type, seed, 0, 1, nullptr, on_host, nullptr};
  return HIPRAND_STATUS_SUCCESS;
}

}  // namespace cdna_rand

inline hiprandStatus_t hiprandCreateGenerator(hiprandGenerator_t* out, hiprandRngType_t type) {
  return cdna_rand::create(out, type, false);
}
inline hiprandStatus_t hiprandCreateGeneratorHost(hiprandGenerator_t* out, hiprandRngType_t type) {
  return cdna_rand::create(out, type, true);
}
inline hiprandStatus_t hiprandDestroyGenerator(hiprandGenerator_t g) {
  if (!g) return HIPRAND_STATUS_NOT_INITIALIZED;
  delete g;
  return HIPRAND_STATUS_SUCCESS;
}
inline hiprandStatus_t hiprandSetStream(hiprandGenerator_t g, hipStream_t stream) {
  if (!g) return HIPRAND_STATUS_NOT_INITIALIZED;
  // what comes next in the sequence must be known
  if (g->stream != stream && g->source && hipStreamSynchronize(g->stream) != hipSuccess)
    return HIPRAND_STATUS_PREEXISTING_FAILURE;
  g->stream = stream;
  return HIPRAND_STATUS_SUCCESS;
}
inline hiprandStatus_t hiprandSetPseudoRandomGeneratorSeed(hiprandGenerator_t g, unsigned long long seed) {
  if (!g) return HIPRAND_STATUS_NOT_INITIALIZED;
  if (g->type == HIPRAND_RNG_QUASI_SOBOL32) return HIPRAND_STATUS_TYPE_ERROR;
  g->seed = seed;
  g->source = nullptr;
  return HIPRAND_STATUS_SUCCESS;
}
inline hiprandStatus_t hiprandSetGeneratorOffset(hiprandGenerator_t g, unsigned long long offset) {
  if (!g) return HIPRAND_STATUS_NOT_INITIALIZED;
  if (g->type == HIPRAND_RNG_PSEUDO_MT19937) return HIPRAND_STATUS_TYPE_ERROR;
  g->offset = offset;
  g->source = nullptr;
  return HIPRAND_STATUS_SUCCESS;
}
inline hiprandStatus_t hiprandSetGeneratorOrdering(hiprandGenerator_t g, hiprandOrdering_t) {  // there is one
  return g ? HIPRAND_STATUS_SUCCESS : HIPRAND_STATUS_NOT_INITIALIZED;
}
inline hiprandStatus_t hiprandSetQuasiRandomGeneratorDimensions(hiprandGenerator_t g, unsigned dimensions) {
  if (!g) return HIPRAND_STATUS_NOT_INITIALIZED;
  if (g->type != HIPRAND_RNG_QUASI_SOBOL32) return HIPRAND_STATUS_TYPE_ERROR;
  if (dimensions < 1 || dimensions > cdna_rand::SOBOL_DIMENSIONS) return HIPRAND_STATUS_OUT_OF_RANGE;
  g->dimensions = dimensions;
  g->source = nullptr;
  return HIPRAND_STATUS_SUCCESS;
}
inline hiprandStatus_t hiprandGenerateSeeds(hiprandGenerator_t g) {
  if (!g) return HIPRAND_STATUS_NOT_INITIALIZED;
  (void)cdna_rand::source_of(g);
  return HIPRAND_STATUS_SUCCESS;
}
inline hiprandStatus_t hiprandGetVersion(int* version) {
  if (!version) return HIPRAND_STATUS_OUT_OF_RANGE;
  *version = HIPRAND_VERSION;
  return HIPRAND_STATUS_SUCCESS;
}

inline hiprandStatus_t hiprandGenerate(hiprandGenerator_t g, unsigned* out, size_t n) {
  return cdna_rand::give(g, out, n, cdna_rand::Bits<unsigned>());
}
inline hiprandStatus_t hiprandGenerateChar(hiprandGenerator_t g, unsigned char* out, size_t n) {
  return cdna_rand::give(g, out, n, cdna_rand::Bits<unsigned char>());
}
inline hiprandStatus_t hiprandGenerateShort(hiprandGenerator_t g, unsigned short* out, size_t n) {
  return cdna_rand::give(g, out, n, cdna_rand::Bits<unsigned short>());
}
inline hiprandStatus_t hiprandGenerateLongLong(hiprandGenerator_t g, unsigned long long* out, size_t n) {
  if (g && g->type == HIPRAND_RNG_QUASI_SOBOL32) return HIPRAND_STATUS_TYPE_ERROR;
  return cdna_rand::give(g, out, n, cdna_rand::Bits<unsigned long long>());
}
inline hiprandStatus_t hiprandGenerateUniform(hiprandGenerator_t g, float* out, size_t n) {
  return cdna_rand::give(g, out, n, cdna_rand::Uniform());
}
inline hiprandStatus_t hiprandGenerateUniformDouble(hiprandGenerator_t g, double* out, size_t n) {
  return cdna_rand::give(g, out, n, cdna_rand::UniformDouble());
}
inline hiprandStatus_t hiprandGenerateNormal(hiprandGenerator_t g, float* out, size_t n, float mean, float deviation) {
  return cdna_rand::give(g, out, n, cdna_rand::Normal<float>{mean, deviation, false});
}
inline hiprandStatus_t hiprandGenerateNormalDouble(hiprandGenerator_t g, double* out, size_t n, double mean,
                                                   double deviation) {
  return cdna_rand::give(g, out, n, cdna_rand::Normal<double>{mean, deviation, false});
}
inline hiprandStatus_t hiprandGenerateLogNormal(hiprandGenerator_t g, float* out, size_t n, float mean,
                                                float deviation) {
  return cdna_rand::give(g, out, n, cdna_rand::Normal<float>{mean, deviation, true});
}
inline hiprandStatus_t hiprandGenerateLogNormalDouble(hiprandGenerator_t g, double* out, size_t n, double mean,
                                                      double deviation) {
  return cdna_rand::give(g, out, n, cdna_rand::Normal<double>{mean, deviation, true});
}
inline hiprandStatus_t hiprandGeneratePoisson(hiprandGenerator_t g, unsigned* out, size_t n, double mean) {
  if (!(mean > 0)) return HIPRAND_STATUS_OUT_OF_RANGE;
  return cdna_rand::give(g, out, n, cdna_rand::PoissonNumber{mean});
}
