// The number types of cdna/hip/include, on the host (functions) and on the device (kernels): the same templates.
#include <hip/hip_bf16.h>
#include <hip/hip_bfloat16.h>
#include <hip/hip_complex.h>
#include <hip/hip_fp16.h>
#include <hip/hip_fp8.h>
#include <hip/hip_runtime.h>

__host__ __device__ void encode_one(int kind, int saturate, const float* in, unsigned char* out, int i) {
  switch (kind) {  // constants, so that the arch's instructions are taken where it has them
    case 0: out[i] = __hip_cvt_float_to_fp8(in[i], (__hip_saturation_t)saturate, __HIP_E4M3); break;
    case 1: out[i] = __hip_cvt_float_to_fp8(in[i], (__hip_saturation_t)saturate, __HIP_E5M2); break;
    case 2: out[i] = __hip_cvt_float_to_fp8(in[i], (__hip_saturation_t)saturate, __HIP_E4M3_FNUZ); break;
    default: out[i] = __hip_cvt_float_to_fp8(in[i], (__hip_saturation_t)saturate, __HIP_E5M2_FNUZ);
  }
}
template <class T> __host__ __device__ float decoded(unsigned char code) {
  T number;
  number.__x = code;
  return number;
}
__host__ __device__ void decode_one(int kind, float* out, int i) {
  unsigned char code = (unsigned char)i;
  out[i] = kind == 0   ? decoded<__hip_fp8_e4m3>(code)
           : kind == 1 ? decoded<__hip_fp8_e5m2>(code)
           : kind == 2 ? decoded<__hip_fp8_e4m3_fnuz>(code)
                       : decoded<__hip_fp8_e5m2_fnuz>(code);
}

// 16 results for each i, of the 16-bit numbers whose bits are a[i], b[i], c[i].
template <class T, class T2, class Bits>
__host__ __device__ void arithmetic_one(const unsigned short* a, const unsigned short* b, const unsigned short* c,
                                        float* out, int i, Bits of) {
  T x = of(a[i]), y = of(b[i]), z = of(c[i]);
  T2 p(x, y), q(y, z), r = __hfma2(p, q, p) * p;
  float* o = out + 16 * i;
  o[0] = (float)(x + y), o[1] = (float)(x - y), o[2] = (float)(x * y), o[3] = (float)(x / y);
  o[4] = (float)__hfma(x, y, z), o[5] = (float)__hneg(x), o[6] = (float)__habs(x), o[7] = (float)__hmax(x, y);
  o[8] = (float)__hmin(x, y), o[9] = x < y, o[10] = __hne(x, y), o[11] = __hleu(x, y), o[12] = __hisnan(x);
  o[13] = (float)r.x, o[14] = (float)r.y, o[15] = __hbge2(p, q);
}
struct HalfBits {
  __host__ __device__ __half operator()(unsigned short bits) const { return __ushort_as_half(bits); }
};
struct Bf16Bits {
  __host__ __device__ __hip_bfloat16 operator()(unsigned short bits) const { return __ushort_as_bfloat16(bits); }
};
// The bits of in[i] as half (rn, rd, ru, rz), as bfloat16 from float and from double, and back through int.
__host__ __device__ void round_one(const double* in, unsigned short* out, int i) {
  float f = (float)in[i];
  unsigned short* o = out + 8 * i;
  o[0] = __half_as_ushort(__float2half(f)), o[1] = __half_as_ushort(__float2half_rd(f));
  o[2] = __half_as_ushort(__float2half_ru(f)), o[3] = __half_as_ushort(__float2half_rz(f));
  o[4] = __bfloat16_as_ushort(__float2bfloat16(f)), o[5] = __bfloat16_as_ushort(__double2bfloat16(in[i]));
  o[6] = hip_bfloat16(f).data, o[7] = hip_bfloat16::round_to_bfloat16(f, hip_bfloat16::truncate).data;
}

extern "C" {
void host_encode(int kind, int saturate, const float* in, unsigned char* out, int n) {
  for (int i = 0; i < n; ++i) encode_one(kind, saturate, in, out, i);
}
void host_decode(int kind, float* out, int n) {
  for (int i = 0; i < n; ++i) decode_one(kind, out, i);
}
void host_half(const unsigned short* a, const unsigned short* b, const unsigned short* c, float* out, int n) {
  for (int i = 0; i < n; ++i) arithmetic_one<__half, __half2>(a, b, c, out, i, HalfBits());
}
void host_bf16(const unsigned short* a, const unsigned short* b, const unsigned short* c, float* out, int n) {
  for (int i = 0; i < n; ++i) arithmetic_one<__hip_bfloat16, __hip_bfloat162>(a, b, c, out, i, Bf16Bits());
}
void host_round(const double* in, unsigned short* out, int n) {
  for (int i = 0; i < n; ++i) round_one(in, out, i);
}

#if __HIP_DEVICE_COMPILE__  // the host has no kernels: so its library needs no HIP runtime
#define INDEX (int)(blockIdx.x * blockDim.x + threadIdx.x)
__global__ void device_encode(int kind, int saturate, const float* in, unsigned char* out, int n) {
  if (INDEX < n) encode_one(kind, saturate, in, out, INDEX);
}
__global__ void device_decode(int kind, float* out, int n) {
  if (INDEX < n) decode_one(kind, out, INDEX);
}
__global__ void device_half(const unsigned short* a, const unsigned short* b, const unsigned short* c, float* out,
                            int n) {
  if (INDEX < n) arithmetic_one<__half, __half2>(a, b, c, out, INDEX, HalfBits());
}
__global__ void device_bf16(const unsigned short* a, const unsigned short* b, const unsigned short* c, float* out,
                            int n) {
  if (INDEX < n) arithmetic_one<__hip_bfloat16, __hip_bfloat162>(a, b, c, out, INDEX, Bf16Bits());
}
__global__ void device_round(const double* in, unsigned short* out, int n) {
  if (INDEX < n) round_one(in, out, INDEX);
}
#endif
}
