// HIP's runtime on NVIDIA: names for CUDA's, and what has no name there. Compiles as CUDA and as plain C++.
#pragma once

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <hip/hip_version.h>

#include <cstdio>

#define __HIP_PLATFORM_NVIDIA__ 1

#include "hip_runtime_names.h"  // made of runtime_names.txt where an extension is built

// --- devices -----------------------------------------------------------------------------------------------------

// CUDA's properties, those that CUDA 13 has only as attributes, and AMD's name for what code is compiled for.
struct hipDeviceProp_t : cudaDeviceProp {
  char gcnArchName[256];           // sm_90
  int clockRate, memoryClockRate;  // kHz
  int clockInstructionRate;        // kHz, of wall_clock64()
};

typedef int hipDevice_t;
typedef cudaDeviceAttr hipDeviceAttribute_t;
// Ticks of wall_clock64(), which is the GPU's timer in nanoseconds. No number of CUDA's.
#define hipDeviceAttributeWallClockRate static_cast<cudaDeviceAttr>(0x48495000)

inline cudaError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  if (attribute != hipDeviceAttributeWallClockRate) return cudaDeviceGetAttribute(value, attribute, device);
  *value = 1000000;  // kHz
  return cudaSuccess;
}

inline cudaError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device) {
  cudaError_t error = cudaGetDeviceProperties(properties, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&properties->clockRate, cudaDevAttrClockRate, device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&properties->memoryClockRate, cudaDevAttrMemoryClockRate, device);
  properties->clockInstructionRate = 1000000;
  snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "sm_%d%d", properties->major, properties->minor);
  return error;
}

inline cudaError_t hipInit(unsigned) { return cudaFree(nullptr); }
inline cudaError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  *device = ordinal;
  return cudaSuccess;
}

// --- memory ------------------------------------------------------------------------------------------------------

typedef void* hipDeviceptr_t;
typedef cudaPointerAttributes hipPointerAttribute_t;

#define hipDeviceMallocDefault 0x0
#define hipDeviceMallocFinegrained 0x1
#define hipMallocSignalMemory 0x2
#define hipDeviceMallocUncached 0x3
#define hipDeviceMallocContiguous 0x4

// Every allocation of CUDA's is fine-grained: other GPUs see what was written before a release at system scope.
template <typename T> cudaError_t hipExtMallocWithFlags(T** pointer, size_t bytes, unsigned) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}

template <typename T> cudaError_t hipHostMalloc(T** pointer, size_t bytes, unsigned flags = hipHostMallocDefault) {
  return cudaHostAlloc(reinterpret_cast<void**>(pointer), bytes, flags);
}

inline cudaError_t hipMemcpyWithStream(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                       cudaStream_t queue) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, queue);
  return error == cudaSuccess ? cudaStreamSynchronize(queue) : error;
}

#define hipEventDisableSystemFence 0  // CUDA's events have no fence to leave out
#define hipEventReleaseToDevice 0
#define hipEventReleaseToSystem 0
