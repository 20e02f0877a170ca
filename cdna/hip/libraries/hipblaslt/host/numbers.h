// Numbers of every type to fp32 and back.
#pragma once

#include "gemm.h"

void to_floats(hipDataType, const char* from, int64_t n, float* to);
void from_floats(hipDataType, const float* from, int64_t n, char* to);
