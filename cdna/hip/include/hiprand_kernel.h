// As programs find it that are compiled with -I/opt/rocm/include/hiprand.
#pragma once
#include "hiprand/hiprand_kernel.h"
