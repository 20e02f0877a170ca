// HIP on NVIDIA: launches and device code. docs/hip.md says what is the same, what differs and what is an error.
#pragma once

#include <hip/hip_runtime_api.h>

#ifdef __CUDACC__
#define __HIPCC__ 1
#ifdef __CUDA_ARCH__
#define __HIP_DEVICE_COMPILE__ 1
#endif

#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_SYMBOL(symbol) symbol
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define hipLaunchKernelGGL(kernel, grid, block, shared_bytes, queue, ...) \
  kernel<<<(grid), (block), (shared_bytes), (queue)>>>(__VA_ARGS__)

#include <hip/nvidia_detail/amdgcn.h>
#include <hip/nvidia_detail/atomics.h>
#include <hip/nvidia_detail/waves.h>
#endif
