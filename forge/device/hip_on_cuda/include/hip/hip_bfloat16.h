// The older of HIP's two bfloat16 types. Its member `data` has no counterpart.
#pragma once
#include <cuda_bf16.h>

typedef __nv_bfloat16 hip_bfloat16;
