// amd-ag-gemm on NVIDIA's Hopper GPUs; ag_gemm_kernel.h says how.
#include <hip/hip_runtime.h>

#include "../common/bf16_gemm.h"
#include "../common/peer_signals.h"
#include "../../../kernels/ag_gemm/ag_gemm_kernel.h"
