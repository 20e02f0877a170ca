// Inline assembly that takes an assembler: repetitions, symbols, conditions, expressions, labels that are numbers, dwords.
#include "check.h"

__global__ void repeats(int* x) {
  int v = x[threadIdx.x];
  asm volatile(".rept 5\n v_add_u32 %0, 1, %0\n .endr" : "+v"(v));
  x[threadIdx.x] = v;
}
__global__ void counts(int* x) {
  int v = x[threadIdx.x];
  asm volatile(".set i, 1\n .rept 4\n v_add_u32 %0, i, %0\n .set i, i * 2\n .endr" : "+v"(v));
  x[threadIdx.x] = v;
}
__global__ void defines(int* x) {
  int v = x[threadIdx.x];
  asm volatile(".macro twice a, b\n v_add_u32 \\a, \\b, \\a\n v_add_u32 \\a, \\b, \\a\n .endm\n twice %0, 7" : "+v"(v));
  x[threadIdx.x] = v;
}
__global__ void decides(int* x) {
  int v = x[threadIdx.x];
  asm volatile(
      ".if %1 > 2\n v_add_u32 %0, 50, %0\n .else\n v_sub_u32 %0, %0, 50\n .endif\n"
      ".irp k, 1, 2, 3\n v_add_u32 %0, \\k, %0\n .endr"
      : "+v"(v)
      : "n"(3));
  x[threadIdx.x] = v;
}
__global__ void computes(int* x) {
  int v;
  asm volatile("global_load_dword %0, %1, off offset:4*(2+1) /* three on */\n s_waitcnt vmcnt(0)"
               : "=v"(v)
               : "v"(x)
               : "memory");
  __syncthreads();
  x[threadIdx.x] += v;
}
__global__ void goes_round(int* x) {
  int v = x[threadIdx.x], n = 5;
  asm volatile("1:\n v_add_u32 %0, 2, %0\n s_sub_u32 %1, %1, 1\n s_cmp_lg_u32 %1, 0\n s_cbranch_scc1 1b"
               : "+v"(v), "+s"(n)
               :
               : "scc");
  x[threadIdx.x] = v;
}
__global__ void is_encoded(int* x) {
  int v = x[threadIdx.x];
  asm volatile("v_mov_b32 v1, %0\n .long 0x68020281\n v_mov_b32 %0, v1" : "+v"(v) : : "v1");  // v_add_u32 v1, 1, v1
  x[threadIdx.x] = v;
}

int main() {
  struct {
    void (*kernel)(int*);
    int adds;
  } cases[] = {{repeats, 5},  {counts, 15},     {defines, 14},  {decides, 56},
               {computes, 3}, {goes_round, 10}, {is_encoded, 1}};
  int *x, host[64];
  OK(hipMalloc(&x, sizeof host));
  for (auto& one : cases) {
    for (int i = 0; i < 64; i++) host[i] = i;
    OK(hipMemcpy(x, host, sizeof host, hipMemcpyHostToDevice));
    one.kernel<<<1, 64>>>(x);
    OK(hipMemcpy(host, x, sizeof host, hipMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++) EXPECT(host[i] == i + one.adds);
  }
  return 0;
}
