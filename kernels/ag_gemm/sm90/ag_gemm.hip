// amd-ag-gemm on NVIDIA's Hopper GPUs; ../ag_gemm_kernel.h says how.
#include <hip/hip_runtime.h>

#include "sm90/bf16_gemm.h"
#include "sm90/peer_signals.h"
#include "../ag_gemm_kernel.h"
