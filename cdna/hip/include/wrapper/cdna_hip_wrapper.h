// What clang includes before every HIP source when its own resource folder holds the HIP wrapper headers.
// ziglang's compiler comes without them: this file takes their place there, and only there.
//
// It gives device code the C and C++ mathematics functions, under ROCm's documented names ("HIP math API"),
// as calls of the device library (ocml.bc) or of compiler builtins that the AMDGPU backend expands itself.
#pragma once
#pragma clang system_header

#if __HIP__

// The device library's own declarations (__ocml_*) and __device__ & co.; both only as long as no wrapper is there.
#include <hip/amd_detail/math_fwd.h>
#include <hip/amd_detail/hip_fp16_math_fwd.h>
#define __CLANG_HIP_RUNTIME_WRAPPER_INCLUDED__ 1

#define __managed__ __attribute__((managed))
#define __grid_constant__ __attribute__((grid_constant))

#include "cdna_hip_math_names.h"  // before <cmath>: what the standard library declares must not become device code
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>  // as ROCm's own wrapper brings it
#include "cdna_hip_math_in_std.h"
#include "cdna_hip_memory.h"
#if __has_include(<__config>)
#include <deque>  // libc++'s has a function __local, which HIP's headers make a macro
#endif

#endif
