// The version that comes with the HIP of hip_version.h.
#pragma once

#include <hip/hip_version.h>

#if HIP_VERSION_MAJOR < 7
#define HIPBLASLT_VERSION_MAJOR 0
#define HIPBLASLT_VERSION_MINOR 10
#else
#define HIPBLASLT_VERSION_MAJOR 1
#define HIPBLASLT_VERSION_MINOR 1
#endif
#define HIPBLASLT_VERSION_PATCH 0
#define hipblasltVersionMajor HIPBLASLT_VERSION_MAJOR
#define hipblasltVersionMinor HIPBLASLT_VERSION_MINOR
#define hipblasltVersionPatch HIPBLASLT_VERSION_PATCH
