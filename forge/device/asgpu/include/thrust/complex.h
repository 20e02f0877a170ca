// thrust::complex as far as torch's headers need it under a HIP compiler (c10/util/complex.h converts to and from it).
// Arithmetic works in kernels. The transcendental functions are the C++ library's, so in host code only: a kernel that
// calls one does not compile.
#pragma once
#include <cmath>
#include <complex>

namespace thrust {

#define FORGE_HD __host__ __device__ inline

template <typename T>
struct complex {
  using value_type = T;
  T re, im;
  FORGE_HD complex(T real = T(), T imag = T()) : re(real), im(imag) {}
  template <typename U> FORGE_HD complex(const complex<U>& z) : re(T(z.real())), im(T(z.imag())) {}
  complex(const std::complex<T>& z) : re(z.real()), im(z.imag()) {}
  operator std::complex<T>() const { return {re, im}; }
  FORGE_HD T real() const { return re; }
  FORGE_HD T imag() const { return im; }
  FORGE_HD void real(T x) { re = x; }
  FORGE_HD void imag(T x) { im = x; }
  FORGE_HD complex& operator+=(complex z) { return *this = *this + z; }
  FORGE_HD complex& operator-=(complex z) { return *this = *this - z; }
  FORGE_HD complex& operator*=(complex z) { return *this = *this * z; }
  FORGE_HD complex& operator/=(complex z) { return *this = *this / z; }
  friend FORGE_HD complex operator+(complex a, complex b) { return {a.re + b.re, a.im + b.im}; }
  friend FORGE_HD complex operator-(complex a, complex b) { return {a.re - b.re, a.im - b.im}; }
  friend FORGE_HD complex operator-(complex a) { return {-a.re, -a.im}; }
  friend FORGE_HD complex operator*(complex a, complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend FORGE_HD complex operator/(complex a, complex b) {
    T scale = b.re * b.re + b.im * b.im;
    return {(a.re * b.re + a.im * b.im) / scale, (a.im * b.re - a.re * b.im) / scale};
  }
  friend FORGE_HD bool operator==(complex a, complex b) { return a.re == b.re && a.im == b.im; }
  friend FORGE_HD bool operator!=(complex a, complex b) { return !(a == b); }
};

template <typename T> FORGE_HD T norm(complex<T> z) { return z.re * z.re + z.im * z.im; }
template <typename T> FORGE_HD complex<T> conj(complex<T> z) { return {z.re, -z.im}; }

#define FORGE_UNARY(result, name) \
  template <typename T> __host__ __device__ result name(const complex<T>& z) { return std::name(std::complex<T>(z)); }
FORGE_UNARY(T, abs)
FORGE_UNARY(T, arg)
FORGE_UNARY(complex<T>, proj)
FORGE_UNARY(complex<T>, exp)
FORGE_UNARY(complex<T>, log)
FORGE_UNARY(complex<T>, log10)
FORGE_UNARY(complex<T>, sqrt)
FORGE_UNARY(complex<T>, sin)
FORGE_UNARY(complex<T>, cos)
FORGE_UNARY(complex<T>, tan)
FORGE_UNARY(complex<T>, asin)
FORGE_UNARY(complex<T>, acos)
FORGE_UNARY(complex<T>, atan)
FORGE_UNARY(complex<T>, sinh)
FORGE_UNARY(complex<T>, cosh)
FORGE_UNARY(complex<T>, tanh)
FORGE_UNARY(complex<T>, asinh)
FORGE_UNARY(complex<T>, acosh)
FORGE_UNARY(complex<T>, atanh)
#undef FORGE_UNARY

template <typename T> __host__ __device__ complex<T> polar(const T& r, const T& theta = T()) { return std::polar(r, theta); }
template <typename T> __host__ __device__ complex<T> pow(const complex<T>& x, const complex<T>& y) {
  return std::pow(std::complex<T>(x), std::complex<T>(y));
}
template <typename T> __host__ __device__ complex<T> pow(const complex<T>& x, const T& y) {
  return std::pow(std::complex<T>(x), y);
}
template <typename T> __host__ __device__ complex<T> pow(const T& x, const complex<T>& y) {
  return std::pow(x, std::complex<T>(y));
}

#undef FORGE_HD
}  // namespace thrust
