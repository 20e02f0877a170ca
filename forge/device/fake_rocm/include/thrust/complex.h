// thrust::complex as far as torch's headers need it under a HIP compiler (c10/util/complex.h converts to and from it).
// Arithmetic works in kernels. The transcendental functions are the C++ library's, so in host code only: a kernel that
// calls one does not compile.
#pragma once
#include <cmath>
#include <complex>

namespace thrust {

#define COMPLEX_HD __host__ __device__ inline

template <typename T>
struct complex {
  using value_type = T;
  T re, im;
  COMPLEX_HD complex(T real = T(), T imag = T()) : re(real), im(imag) {}
  template <typename U> COMPLEX_HD complex(const complex<U>& z) : re(T(z.real())), im(T(z.imag())) {}
  complex(const std::complex<T>& z) : re(z.real()), im(z.imag()) {}
  operator std::complex<T>() const { return {re, im}; }
  COMPLEX_HD T real() const { return re; }
  COMPLEX_HD T imag() const { return im; }
  COMPLEX_HD void real(T x) { re = x; }
  COMPLEX_HD void imag(T x) { im = x; }
  COMPLEX_HD complex& operator+=(complex z) { return *this = *this + z; }
  COMPLEX_HD complex& operator-=(complex z) { return *this = *this - z; }
  COMPLEX_HD complex& operator*=(complex z) { return *this = *this * z; }
  COMPLEX_HD complex& operator/=(complex z) { return *this = *this / z; }
  friend COMPLEX_HD complex operator+(complex a, complex b) { return {a.re + b.re, a.im + b.im}; }
  friend COMPLEX_HD complex operator-(complex a, complex b) { return {a.re - b.re, a.im - b.im}; }
  friend COMPLEX_HD complex operator-(complex a) { return {-a.re, -a.im}; }
  friend COMPLEX_HD complex operator*(complex a, complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend COMPLEX_HD complex operator/(complex a, complex b) {
    T scale = b.re * b.re + b.im * b.im;
    return {(a.re * b.re + a.im * b.im) / scale, (a.im * b.re - a.re * b.im) / scale};
  }
  friend COMPLEX_HD bool operator==(complex a, complex b) { return a.re == b.re && a.im == b.im; }
  friend COMPLEX_HD bool operator!=(complex a, complex b) { return !(a == b); }
};

template <typename T> COMPLEX_HD T norm(complex<T> z) { return z.re * z.re + z.im * z.im; }
template <typename T> COMPLEX_HD complex<T> conj(complex<T> z) { return {z.re, -z.im}; }

#define COMPLEX_UNARY(result, name) \
  template <typename T> __host__ __device__ result name(const complex<T>& z) { return std::name(std::complex<T>(z)); }
COMPLEX_UNARY(T, abs)
COMPLEX_UNARY(T, arg)
COMPLEX_UNARY(complex<T>, proj)
COMPLEX_UNARY(complex<T>, exp)
COMPLEX_UNARY(complex<T>, log)
COMPLEX_UNARY(complex<T>, log10)
COMPLEX_UNARY(complex<T>, sqrt)
COMPLEX_UNARY(complex<T>, sin)
COMPLEX_UNARY(complex<T>, cos)
COMPLEX_UNARY(complex<T>, tan)
COMPLEX_UNARY(complex<T>, asin)
COMPLEX_UNARY(complex<T>, acos)
COMPLEX_UNARY(complex<T>, atan)
COMPLEX_UNARY(complex<T>, sinh)
COMPLEX_UNARY(complex<T>, cosh)
COMPLEX_UNARY(complex<T>, tanh)
COMPLEX_UNARY(complex<T>, asinh)
COMPLEX_UNARY(complex<T>, acosh)
COMPLEX_UNARY(complex<T>, atanh)
#undef COMPLEX_UNARY

template <typename T> __host__ __device__ complex<T> polar(const T& r, const T& theta = T()) {
  return std::polar(r, theta);
}
template <typename T> __host__ __device__ complex<T> pow(const complex<T>& x, const complex<T>& y) {
  return std::pow(std::complex<T>(x), std::complex<T>(y));
}
template <typename T> __host__ __device__ complex<T> pow(const complex<T>& x, const T& y) {
  return std::pow(std::complex<T>(x), y);
}
template <typename T> __host__ __device__ complex<T> pow(const T& x, const complex<T>& y) {
  return std::pow(x, std::complex<T>(y));
}

#undef COMPLEX_HD
}  // namespace thrust
