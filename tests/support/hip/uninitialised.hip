// Local variables that are read before anything is written to them. Meant for -O0: with optimisation, clang takes the
// liberty that they give it, and nothing of them is left to be found.
#include "check.h"

__global__ void branch(int* out, int n) {
  int x;
  if (n > 100) x = n;
  out[threadIdx.x] = x > 3 ? 1 : 2;
}
__global__ void sum(int* out, int n) {
  float total;
  for (int i = 0; i < n; i++) total += out[i];
  ((float*)out)[threadIdx.x] = total;
}
__global__ void some_lanes(int* out, int n) {
  int x;
  if (threadIdx.x < 32) x = n;
  if (threadIdx.x < 40) out[threadIdx.x] = x + 1;
}
struct Padded {
  char a;
  int b;
  double c;
};
__global__ void correct(int* out, int n) {  // padding, and a component that is not used, are copied
  Padded s, copy;
  s.a = 1, s.b = n, s.c = n;
  copy = s;
  ((Padded*)out)[threadIdx.x] = copy;
  float4 v;
  v.x = n * 2.0f;
  ((float4*)out)[threadIdx.x + 64] = v;
  int x;
  if (threadIdx.x < 32) x = n;
  if (threadIdx.x < 32) out[threadIdx.x] = x + 1;
}

int main(int, char** arguments) {
  DeviceArray<int> out(4096);
  OK(hipMemset(out.data, 0, 4096 * sizeof(int)));
  int which = atoi(arguments[1]);
  if (which == 0) branch<<<1, 64>>>(out.data, 3);
  if (which == 1) sum<<<1, 64>>>(out.data, 3);
  if (which == 2) some_lanes<<<1, 64>>>(out.data, 3);
  if (which == 3) correct<<<1, 64>>>(out.data, 3);
  OK(hipDeviceSynchronize());
}
