// HIP's half precision is CUDA's, name for name.
#pragma once
#include <cuda_fp16.h>
