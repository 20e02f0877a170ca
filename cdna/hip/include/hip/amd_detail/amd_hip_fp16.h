// ROCm has the same under this name.
#pragma once
#include <hip/hip_fp16.h>
