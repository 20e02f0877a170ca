// amd-all2all on gfx942; all2all_kernel.h says how.
#include "all2all_memory_gfx942.h"
#include "all2all_launch.h"
