// CUDA spelling, as programs for both write it.
#pragma once
#include <hip/hip_cooperative_groups.h>
