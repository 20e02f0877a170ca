// Sobol's quasi-random sequence in 20 dimensions, and the normal distribution's inverse for it.
//
// Direction numbers: S. Joe, F. Kuo, "Constructing Sobol sequences with better two-dimensional projections", 2008.
#pragma once
#include <math.h>

namespace cdna_rand {

constexpr unsigned SOBOL_DIMENSIONS = 20;

struct Directions {
  unsigned of[SOBOL_DIMENSIONS][32];  // of bit 0 first
};

constexpr Directions sobol_directions() {
  struct Row {
    unsigned degree, coefficients, m[7];
  };
  constexpr Row rows[SOBOL_DIMENSIONS] = {
      {0, 0, {}},
      {1, 0, {1}},
      {2, 1, {1, 3}},
      {3, 1, {1, 3, 1}},
      {3, 2, {1, 1, 1}},
      {4, 1, {1, 1, 3, 3}},
      {4, 4, {1, 3, 5, 13}},
      {5, 2, {1, 1, 5, 5, 17}},
      {5, 4, {1, 1, 5, 5, 5}},
      {5, 7, {1, 1, 7, 11, 19}},
      {5, 11, {1, 1, 5, 1, 1}},
      {5, 13, {1, 1, 1, 3, 11}},
      {5, 14, {1, 3, 5, 5, 31}},
      {6, 1, {1, 3, 3, 9, 7, 49}},
      {6, 13, {1, 1, 1, 15, 21, 21}},
      {6, 16, {1, 3, 1, 13, 27, 49}},
      {6, 19, {1, 1, 1, 15, 7, 5}},
      {6, 22, {1, 3, 1, 15, 13, 25}},
      {6, 25, {1, 1, 5, 5, 19, 61}},
      {7, 1, {1, 3, 7, 11, 23, 15, 103}},
  };
  Directions v = {};
  for (unsigned d = 0; d < SOBOL_DIMENSIONS; d++)
    for (unsigned i = 0; i < 32; i++) {
      const Row& r = rows[d];
      unsigned& one = v.of[d][i];
      if (!r.degree) {
        one = 1u << (31 - i);
      } else if (i < r.degree) {
        one = r.m[i] << (31 - i);
      } else {
        one = v.of[d][i - r.degree] ^ v.of[d][i - r.degree] >> r.degree;
        for (unsigned k = 1; k < r.degree; k++)
          if (r.coefficients >> (r.degree - 1 - k) & 1) one ^= v.of[d][i - k];
      }
    }
  return v;
}

// A dimension's points from a place of the sequence on.
class Sobol {
 public:
  Sobol(unsigned dimension, unsigned long long first) : directions(ALL.of[dimension]), place(first), value(0) {
    for (unsigned i = 0, gray = (unsigned)(place ^ place >> 1); gray; i++, gray >>= 1)
      if (gray & 1) value ^= directions[i];
  }
  unsigned next() {
    unsigned point = value;
    value ^= directions[__builtin_ctzll(++place) & 31];
    return point;
  }

 private:
  static constexpr Directions ALL = sobol_directions();
  const unsigned* directions;
  unsigned long long place;
  unsigned value;
};

// From M. Abramowitz, I. Stegun, "Handbook of mathematical functions", 26.2.23, by three of Newton's steps.
inline double inverse_normal(double p) {
  double tail = p < 0.5 ? p : 1 - p, t = sqrt(-2 * log(tail));
  double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  for (int i = 0; i < 3; i++) x += (0.5 * erfc(x * M_SQRT1_2) - tail) * sqrt(2 * M_PI) * exp(0.5 * x * x);
  return p < 0.5 ? -x : x;
}

}  // namespace cdna_rand
