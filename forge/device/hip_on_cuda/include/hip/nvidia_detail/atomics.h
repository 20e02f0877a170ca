// clang's __hip_atomic_* by nvcc's __nv_atomic_*: same orders, same scopes. Order and scope are constants.
#pragma once

#include <type_traits>

#define __HIP_MEMORY_SCOPE_SINGLETHREAD __NV_THREAD_SCOPE_THREAD
#define __HIP_MEMORY_SCOPE_WAVEFRONT __NV_THREAD_SCOPE_BLOCK  // CUDA has none this narrow
#define __HIP_MEMORY_SCOPE_WORKGROUP __NV_THREAD_SCOPE_BLOCK
#define __HIP_MEMORY_SCOPE_AGENT __NV_THREAD_SCOPE_DEVICE
#define __HIP_MEMORY_SCOPE_SYSTEM __NV_THREAD_SCOPE_SYSTEM

namespace hip_on_cuda {

template <int BYTES> struct UnsignedOf;
template <> struct UnsignedOf<1> {
  typedef unsigned char type;
};
template <> struct UnsignedOf<2> {
  typedef unsigned short type;
};
template <> struct UnsignedOf<4> {
  typedef unsigned int type;
};
template <> struct UnsignedOf<8> {
  typedef unsigned long long type;
};

// nvcc's builtins move integers only, clang's any type of their sizes.
template <typename T> using Plain = std::remove_cv_t<T>;
template <typename T> struct Same {
  typedef T type;
};
template <typename T> using Given = typename Same<Plain<T>>::type;  // converted to, not deduced
template <typename T> using Bits = typename UnsignedOf<sizeof(T)>::type;
template <typename T> __device__ __forceinline__ Bits<T>* as_bits(T* p) {
  return reinterpret_cast<Bits<T>*>(const_cast<Plain<T>*>(p));
}

template <int ORDER, int SCOPE, typename T> __device__ __forceinline__ Plain<T> load(T* p) {
  return __builtin_bit_cast(Plain<T>, __nv_atomic_load_n(as_bits(p), ORDER, SCOPE));
}
template <int ORDER, int SCOPE, typename T>
__device__ __forceinline__ void store(T* p, Given<T> value) {
  __nv_atomic_store_n(as_bits(p), __builtin_bit_cast(Bits<T>, value), ORDER, SCOPE);
}
template <int ORDER, int SCOPE, typename T>
__device__ __forceinline__ Plain<T> exchange(T* p, Given<T> value) {
  return __builtin_bit_cast(Plain<T>,
                            __nv_atomic_exchange_n(as_bits(p), __builtin_bit_cast(Bits<T>, value), ORDER, SCOPE));
}
template <bool WEAK, int ORDER, int FAILURE_ORDER, int SCOPE, typename T>
__device__ __forceinline__ bool compare_exchange(T* p, Plain<T>* expected, Given<T> value) {
  return __nv_atomic_compare_exchange_n(as_bits(p), as_bits(expected), __builtin_bit_cast(Bits<T>, value), WEAK, ORDER,
                                        FAILURE_ORDER, SCOPE);
}

// nvcc adds no signed numbers of 64 bits; in two's complement it makes no difference.
#define HIP_ON_CUDA_FETCH(name)                                                                                      \
  template <int ORDER, int SCOPE, typename T>                                                                        \
  __device__ __forceinline__ Plain<T> fetch_##name(T* p, Given<T> value) {                                           \
    if constexpr (std::is_integral_v<T>)                                                                             \
      return static_cast<Plain<T>>(__nv_atomic_fetch_##name(as_bits(p), static_cast<Bits<T>>(value), ORDER, SCOPE)); \
    else return __nv_atomic_fetch_##name(const_cast<Plain<T>*>(p), value, ORDER, SCOPE);                             \
  }
#define HIP_ON_CUDA_FETCH_ORDERED(name)                                             \
  template <int ORDER, int SCOPE, typename T>                                       \
  __device__ __forceinline__ Plain<T> fetch_##name(T* p, Given<T> value) {          \
    return __nv_atomic_fetch_##name(const_cast<Plain<T>*>(p), value, ORDER, SCOPE); \
  }
HIP_ON_CUDA_FETCH(add)
HIP_ON_CUDA_FETCH(sub)
HIP_ON_CUDA_FETCH(and)
HIP_ON_CUDA_FETCH(or)
HIP_ON_CUDA_FETCH(xor)
HIP_ON_CUDA_FETCH_ORDERED(min)
HIP_ON_CUDA_FETCH_ORDERED(max)
#undef HIP_ON_CUDA_FETCH
#undef HIP_ON_CUDA_FETCH_ORDERED

}  // namespace hip_on_cuda

#define __hip_atomic_load(p, order, scope) (hip_on_cuda::load<(order), (scope)>(p))
#define __hip_atomic_store(p, value, order, scope) (hip_on_cuda::store<(order), (scope)>(p, value))
#define __hip_atomic_exchange(p, value, order, scope) (hip_on_cuda::exchange<(order), (scope)>(p, value))
#define __hip_atomic_compare_exchange_weak(p, expected, value, order, failure, scope) \
  (hip_on_cuda::compare_exchange<true, (order), (failure), (scope)>(p, expected, value))
#define __hip_atomic_compare_exchange_strong(p, expected, value, order, failure, scope) \
  (hip_on_cuda::compare_exchange<false, (order), (failure), (scope)>(p, expected, value))
#define __hip_atomic_fetch_add(p, value, order, scope) (hip_on_cuda::fetch_add<(order), (scope)>(p, value))
#define __hip_atomic_fetch_sub(p, value, order, scope) (hip_on_cuda::fetch_sub<(order), (scope)>(p, value))
#define __hip_atomic_fetch_and(p, value, order, scope) (hip_on_cuda::fetch_and<(order), (scope)>(p, value))
#define __hip_atomic_fetch_or(p, value, order, scope) (hip_on_cuda::fetch_or<(order), (scope)>(p, value))
#define __hip_atomic_fetch_xor(p, value, order, scope) (hip_on_cuda::fetch_xor<(order), (scope)>(p, value))
#define __hip_atomic_fetch_min(p, value, order, scope) (hip_on_cuda::fetch_min<(order), (scope)>(p, value))
#define __hip_atomic_fetch_max(p, value, order, scope) (hip_on_cuda::fetch_max<(order), (scope)>(p, value))

__device__ __forceinline__ float unsafeAtomicAdd(float* p, float value) { return atomicAdd(p, value); }
__device__ __forceinline__ double unsafeAtomicAdd(double* p, double value) { return atomicAdd(p, value); }
__device__ __forceinline__ float safeAtomicAdd(float* p, float value) { return atomicAdd(p, value); }
__device__ __forceinline__ double safeAtomicAdd(double* p, double value) { return atomicAdd(p, value); }
