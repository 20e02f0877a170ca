// What ROCm 6 said otherwise: included before a source where CDNA_HIP_VERSION is 6. HIP's headers stay those of ROCm 7.
#pragma once
#pragma clang system_header

#if __HIP__
#ifndef __AMDGCN_WAVEFRONT_SIZE
#define __AMDGCN_WAVEFRONT_SIZE 64
#endif
#ifndef __AMDGCN_WAVEFRONT_SIZE__
#define __AMDGCN_WAVEFRONT_SIZE__ 64
#endif

// Since ROCm 7 warpSize is an object that the device converts to a number, and so no constant; until then it was one,
// on the host too. HIP's header is read with another name for the object.
#include <hip/amd_detail/host_defines.h>
#include <hip/amd_detail/device_library_decls.h>
#define warpSize __cdna_warp_size_of_hip_7
#include <hip/amd_detail/amd_warp_functions.h>
#undef warpSize
static constexpr int warpSize = 64;
#endif
