// hipRAND: published values of the generators, skipping ahead, moments of the distributions, and that host and device
// functions give the same numbers.
#include "check.h"
#include <hiprand/hiprand.h>
#include <hiprand/hiprand_kernel.h>
#include <cmath>
#include <cstring>

#define FINE(call) EXPECT((call) == HIPRAND_STATUS_SUCCESS)

struct Known {
  unsigned xorwow[5], philox[3][4];
  double mrg[4];
  unsigned stream[6];
  bool skips;
};

template <class State>
__device__ bool same_numbers(State a, State b) {
  for (int i = 0; i < 8; i++)
    if (hiprand(&a) != hiprand(&b)) return false;
  return true;
}
template <class State>
__device__ bool skips() {
  State a, b, c;
  hiprand_init(77, 3, 5, &a);
  b = a;
  for (int i = 0; i < 1003; i++) (void)hiprand(&a);
  skipahead(1003, &b);
  hiprand_init(77, 3, 1008, &c);
  return same_numbers(a, b) && same_numbers(a, c);
}

__global__ void known(Known* k) {
  hiprandState_t x;
  hiprand_init(0, 0, 0, &x);
  for (unsigned& v : k->xorwow) v = hiprand(&x);

  hiprandStatePhilox4_32_10_t p;
  hiprand_init(0, 0, 0, &p);
  uint4 four = hiprand4(&p);
  unsigned zero[4] = {four.x, four.y, four.z, four.w};
  memcpy(k->philox[0], zero, sizeof zero);
  const unsigned inputs[2][6] = {{~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
                                 {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0}};
  for (int i = 0; i < 2; i++) {
    memcpy(p.counter, inputs[i], 16);
    memcpy(p.key, inputs[i] + 4, 8);
    p.used = 0;
    skipahead(0, &p);
    for (unsigned& v : k->philox[1 + i]) v = hiprand(&p);
  }

  hiprandStateMRG32k3a_t m;
  hiprand_init(12345, 0, 0, &m);
  for (double& v : k->mrg) v = hiprand_uniform_double(&m);
  hiprand_init(12345, 0, 0, &m);
  skipahead_sequence(1, &m);
  for (int i = 0; i < 3; i++) {
    k->stream[i] = m.s1[i];
    k->stream[3 + i] = m.s2[i];
  }

  hiprandState_t y;  // a sequence has 2^67 numbers
  hiprand_init(9, 1, 0, &x);
  hiprand_init(9, 0, 0, &y);
  for (int i = 0; i < 16; i++) skipahead(1ull << 63, &y);
  // 2^76 numbers, by way of 2^127: 2^51 of them are a sequence
  hiprandStateMRG32k3a_t n;
  hiprand_init(12345, 1ull << 51, 0, &n);
  k->skips = skips<hiprandState_t>() && skips<hiprandStatePhilox4_32_10_t>() && skips<hiprandStateMRG32k3a_t>() &&
             same_numbers(x, y) && same_numbers(m, n);
}

static void known_values() {
  Known* k;
  OK(hipMallocManaged(&k, sizeof *k));
  known<<<1, 1>>>(k);
  OK(hipDeviceSynchronize());
  const unsigned xorwow[] = {246875399, 3690007200, 1264581005, 3906711041, 1866187943};
  EXPECT(!std::memcmp(k->xorwow, xorwow, sizeof xorwow));
  const unsigned philox[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                 {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                 {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
  EXPECT(!std::memcmp(k->philox, philox, sizeof philox));
  const double mrg[] = {0.127011122, 0.318527565, 0.309186016, 0.825846863};  // of RngStreams
  for (int i = 0; i < 4; i++) EXPECT(std::fabs(k->mrg[i] - mrg[i]) < 1e-9);
  const unsigned stream[] = {3692455944, 1366884236, 2968912127, 335948734, 4161675175, 475798818};
  EXPECT(!std::memcmp(k->stream, stream, sizeof stream));
  EXPECT(k->skips);
}

struct Moments {
  double n = 0, sum = 0, squares = 0;
  void add(double x) {
    n++;
    sum += x;
    squares += x * x;
  }
  double mean() const { return sum / n; }
  double variance() const { return squares / n - mean() * mean(); }
};
// Within five standard errors; kurtosis: the fourth central moment in squares of the variance.
static bool agree(const Moments& m, double mean, double variance, double kurtosis) {
  return std::fabs(m.mean() - mean) < 5 * std::sqrt(variance / m.n) &&
         std::fabs(m.variance() - variance) < 5 * variance * std::sqrt((kurtosis - 1) / m.n);
}

constexpr int THREADS = 128, DRAWS = 32;
struct Draws {
  float uniform[DRAWS][THREADS], normal[DRAWS][THREADS];
  double full[DRAWS][THREADS];
  unsigned poisson[DRAWS][THREADS];
};
template <class State, bool POISSON>
__global__ void draw(Draws* out) {
  State s;
  hiprand_init(1234, threadIdx.x, 0, &s);
  for (int i = 0; i < DRAWS; i++) {
    out->uniform[i][threadIdx.x] = hiprand_uniform(&s);
    out->normal[i][threadIdx.x] = hiprand_normal(&s);
    out->full[i][threadIdx.x] = hiprand_normal_double(&s);
    if constexpr (POISSON) out->poisson[i][threadIdx.x] = hiprand_poisson(&s, i % 2 ? 100 : 3.5);
  }
}

template <class State, bool POISSON>
static void distributions() {
  Draws* d;
  OK(hipMallocManaged(&d, sizeof *d));
  draw<State, POISSON><<<1, THREADS>>>(d);
  OK(hipDeviceSynchronize());
  Moments uniform, normal, full, poisson, many, neighbours;
  for (int i = 0; i < DRAWS; i++)
    for (int t = 0; t < THREADS; t++) {
      EXPECT(d->uniform[i][t] > 0 && d->uniform[i][t] <= 1);
      uniform.add(d->uniform[i][t]);
      normal.add(d->normal[i][t]);
      full.add(d->full[i][t]);
      (i % 2 ? many : poisson).add(d->poisson[i][t]);
      if (t) neighbours.add(d->normal[i][t] * d->normal[i][t - 1]);  // sequences know nothing of each other
    }
  EXPECT(agree(uniform, 0.5, 1.0 / 12, 1.8));
  EXPECT(agree(normal, 0, 1, 3) && agree(full, 0, 1, 3) && agree(neighbours, 0, 1, 9));
  if (POISSON) EXPECT(agree(poisson, 3.5, 3.5, 3 + 1 / 3.5) && agree(many, 100, 100, 3.01));
  OK(hipFree(d));
}

template <class State>
__global__ void sequence(unsigned long long seed, unsigned long long offset, unsigned* out, int n) {
  State s;
  hiprand_init(seed, 0, offset, &s);
  for (int i = 0; i < n; i++) out[i] = hiprand(&s);
}
template <class State>
static void host_gives_what_the_device_does(hiprandRngType_t type) {
  const int n = 40;
  DeviceArray<unsigned> device(n), host(n);
  sequence<State><<<1, 1>>>(42, 1000, device.data, n);
  hiprandGenerator_t g;
  FINE(hiprandCreateGenerator(&g, type));
  FINE(hiprandSetPseudoRandomGeneratorSeed(g, 42));
  FINE(hiprandSetGeneratorOffset(g, 1000));
  FINE(hiprandGenerate(g, host.data, 7));
  FINE(hiprandGenerate(g, host.data + 7, n - 7));
  EXPECT(device.host() == host.host());
  FINE(hiprandDestroyGenerator(g));
}

static void host_functions() {
  hiprandGenerator_t g;
  const int n = 20000;
  std::vector<float> x(n);
  std::vector<double> y(n);
  std::vector<unsigned> z(n);
  FINE(hiprandCreateGeneratorHost(&g, HIPRAND_RNG_PSEUDO_MT19937));
  FINE(hiprandGenerate(g, z.data(), 10000));
  EXPECT(z[0] == 3499211612 && z[9999] == 4123659995);  // the latter: as the C++ standard says
  FINE(hiprandGenerateNormal(g, x.data(), n, 2, 3));
  FINE(hiprandGenerateLogNormalDouble(g, y.data(), n, 0, 0.25));
  FINE(hiprandGeneratePoisson(g, z.data(), n, 40));
  Moments normal, log_normal, poisson;
  for (float v : x) normal.add(v);
  for (double v : y) log_normal.add(std::log(v));
  for (unsigned v : z) poisson.add(v);
  EXPECT(agree(normal, 2, 9, 3) && agree(log_normal, 0, 0.0625, 3) && agree(poisson, 40, 40, 3.025));
  FINE(hiprandDestroyGenerator(g));

  FINE(hiprandCreateGeneratorHost(&g, HIPRAND_RNG_QUASI_DEFAULT));
  FINE(hiprandSetQuasiRandomGeneratorDimensions(g, 3));
  EXPECT(hiprandGenerateUniform(g, x.data(), 10) == HIPRAND_STATUS_LENGTH_NOT_MULTIPLE);
  FINE(hiprandGenerateUniform(g, x.data(), 15));
  const float sobol[] = {0, 0.5, 0.75, 0.25, 0.375, 0, 0.5, 0.25, 0.75, 0.375, 0, 0.5, 0.25, 0.75, 0.625};
  for (int i = 0; i < 15; i++) EXPECT(std::fabs(x[i] - sobol[i]) < 1e-6);
  FINE(hiprandSetQuasiRandomGeneratorDimensions(g, 20));
  FINE(hiprandGenerateUniformDouble(g, y.data(), 20 * 256));
  for (int d = 0; d < 20; d++) {  // 256 points: one in each 256th
    bool met[256] = {};
    for (int i = 0; i < 256; i++) met[int(y[d * 256 + i] * 256)] = true;
    for (bool m : met) EXPECT(m);
  }
  FINE(hiprandDestroyGenerator(g));

  DeviceArray<double> device(2 * n);
  hipStream_t stream;
  OK(hipStreamCreate(&stream));
  FINE(hiprandCreateGenerator(&g, HIPRAND_RNG_PSEUDO_DEFAULT));
  FINE(hiprandSetStream(g, stream));
  FINE(hiprandSetPseudoRandomGeneratorSeed(g, 7));
  FINE(hiprandGenerateUniformDouble(g, device.data, n));
  OK(hipStreamSynchronize(stream));
  std::vector<double> first = device.host();
  Moments uniform;
  for (int i = 0; i < n; i++) uniform.add(first[i]);
  EXPECT(agree(uniform, 0.5, 1.0 / 12, 1.8));
  EXPECT(hiprandSetQuasiRandomGeneratorDimensions(g, 2) == HIPRAND_STATUS_TYPE_ERROR);
  EXPECT(hiprandCreateGenerator(&g, hiprandRngType_t(3)) == HIPRAND_STATUS_TYPE_ERROR);
}

int main() {
  known_values();
  distributions<hiprandState_t, true>();
  distributions<hiprandStatePhilox4_32_10_t, false>();
  distributions<hiprandStateMRG32k3a_t, false>();
  host_gives_what_the_device_does<hiprandState_t>(HIPRAND_RNG_PSEUDO_XORWOW);
  host_gives_what_the_device_does<hiprandStatePhilox4_32_10_t>(HIPRAND_RNG_PSEUDO_PHILOX4_32_10);
  host_gives_what_the_device_does<hiprandStateMRG32k3a_t>(HIPRAND_RNG_PSEUDO_MRG32K3A);
  host_functions();
}
