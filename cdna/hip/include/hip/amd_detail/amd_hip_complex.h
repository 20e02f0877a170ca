// ROCm has the same under this name.
#pragma once
#include <hip/hip_complex.h>
