// What variables hold before a kernel has run: repeated bytes, all widths, strings, addresses.
#include "check.h"

#define EIGHT(x) x, x, x, x, x, x, x, x
struct Mixed {
  char c;
  double d;
  short s;
  const int* p;
};
__device__ unsigned char same_bytes[40] = {EIGHT(7), EIGHT(7), EIGHT(7), EIGHT(7), EIGHT(7)};
__device__ int minus[16] = {EIGHT(-1), EIGHT(-1)};
__device__ float ones[16] = {EIGHT(1), EIGHT(1)};
__device__ double doubles[3] = {1.5, -2.25, 1e300};
__device__ _Float16 halves[5] = {1, 2, 3, 4, 5};
__device__ __int128 wide[2] = {((__int128)5 << 64) + 7, -1};
__constant__ char text[] = "tab\t quote\" nul\0x \xe9 end";
__device__ int target = 42;
__device__ Mixed mixed[2] = {{1, 2.5, 3, &target}, {4, 5.5, 6, nullptr}};

__global__ void look(double* out, int zero) {
  const Mixed &first = mixed[zero], &second = mixed[zero + 1];
  double seen[] = {(double)same_bytes[zero + 39],
                   (double)minus[zero + 15],
                   ones[zero + 15],
                   doubles[zero + 1],
                   (double)halves[zero + 4],
                   (double)(long)(wide[zero] >> 64),
                   (double)(long)wide[zero + 1],
                   (double)text[zero + 3],
                   (double)text[zero + 10],
                   (double)text[zero + 15],
                   (double)(unsigned char)text[zero + 18],
                   first.d,
                   (double)*first.p,
                   (double)second.s,
                   second.p ? 1. : 0.};
  for (double x : seen) *out++ = x;
}

int main() {
  const double want[] = {7, -1, 1, -2.25, 5, 5, -1, '\t', '"', 0, 0xe9, 2.5, 42, 6, 0};
  constexpr size_t n = sizeof want / sizeof *want;
  double *out, seen[n];
  OK(hipMalloc(&out, sizeof want));
  look<<<1, 1>>>(out, 0);
  OK(hipMemcpy(seen, out, sizeof seen, hipMemcpyDeviceToHost));
  for (size_t i = 0; i < n; i++) EXPECT(seen[i] == want[i]);
  return 0;
}
