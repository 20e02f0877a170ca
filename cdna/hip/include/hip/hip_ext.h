// Launches that record events themselves. Names and signatures: AMD's HIP documentation, "Extended runtime functions".
#pragma once

#include <hip/hip_runtime.h>

// Sizes of the whole launch in work-items, not in workgroups.
extern "C" hipError_t hipExtModuleLaunchKernel(hipFunction_t kernel, uint32_t x, uint32_t y, uint32_t z,
                                               uint32_t block_x, uint32_t block_y, uint32_t block_z, size_t lds_bytes,
                                               hipStream_t stream, void** arguments, void** extra,
                                               hipEvent_t start = nullptr, hipEvent_t stop = nullptr,
                                               uint32_t flags = 0);

inline hipError_t hipHccModuleLaunchKernel(hipFunction_t kernel, uint32_t x, uint32_t y, uint32_t z, uint32_t block_x,
                                           uint32_t block_y, uint32_t block_z, size_t lds_bytes, hipStream_t stream,
                                           void** arguments, void** extra, hipEvent_t start = nullptr,
                                           hipEvent_t stop = nullptr) {
  return hipExtModuleLaunchKernel(kernel, x, y, z, block_x, block_y, block_z, lds_bytes, stream, arguments, extra,
                                  start, stop);
}

template <class... Parameters, class... Arguments>
inline void hipExtLaunchKernelGGL(void (*kernel)(Parameters...), const dim3& grid, const dim3& block,
                                  uint32_t lds_bytes, hipStream_t stream, hipEvent_t start, hipEvent_t stop,
                                  uint32_t flags, Arguments&&... arguments) {
  [&](Parameters... converted) {
    void* list[] = {(void*)&converted..., nullptr};
    (void)hipExtLaunchKernel((const void*)kernel, grid, block, list, lds_bytes, stream, start, stop, (int)flags);
  }(static_cast<Arguments&&>(arguments)...);
}
