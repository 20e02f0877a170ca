// amd-ag-gemm on gfx942; ag_gemm_kernel.h says how.
#include <hip/hip_runtime.h>

#include "bf16_gemm_gfx942.h"
#include "peer_signals_gfx942.h"
#include "ag_gemm_kernel.h"
