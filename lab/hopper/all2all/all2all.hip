// amd-all2all on NVIDIA's Hopper GPUs; all2all_kernel.h says how.
#include "all2all_memory.h"
#include "../../../kernels/all2all/all2all_launch.h"
