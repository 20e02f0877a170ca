// hipCUB's interface (ROCm documentation, "hipCUB API reference") for waves of 64 lanes, as far as kernels use it:
// sorts, reductions, scans and selections of a device, block or wave, and what goes with them. What is not here does
// not compile: the error names it. It is written to be right and short, not to be fast on a card.
#pragma once

#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>
#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>
#include <stddef.h>
#include <stdint.h>
#include <iterator>
#include <limits>
#include <type_traits>

#define HIPCUB_ARCH 1
#define HIPCUB_WARP_THREADS 64
#define HIPCUB_DEVICE_WARP_THREADS 64
#define HIPCUB_HOST_WARP_THREADS 64
#define HIPCUB_DEVICE __device__
#define HIPCUB_HOST __host__
#define HIPCUB_HOST_DEVICE __host__ __device__
#define HIPCUB_RUNTIME_FUNCTION __host__
#define HIPCUB_ROCPRIM_API 1
#define BEGIN_HIPCUB_NAMESPACE namespace hipcub {
#define END_HIPCUB_NAMESPACE }
