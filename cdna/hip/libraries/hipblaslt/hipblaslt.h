// hipBLASLt's C interface (ROCm documentation, "hipBLASLt API reference"), as far as host/ computes it on the
// host: D = alpha A B + beta C with bias and activation, of fp32, fp16, bf16 and fp8, in fp32.
#pragma once

#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>
#include <hip/library_types.h>
#include <hipblas-common/hipblas-common.h>
#include <stddef.h>
#include <stdint.h>
#if __HIP__ && defined(__cplusplus)
#include <hip/hip_bfloat16.h>
#endif

#define HIPBLASLT_EXPORT
#define HIPBLASLT_DATATYPE_INVALID static_cast<hipDataType>(255)

typedef enum {
  HIPBLASLT_EPILOGUE_DEFAULT = 1,
  HIPBLASLT_EPILOGUE_RELU = 2,
  HIPBLASLT_EPILOGUE_BIAS = 4,
  HIPBLASLT_EPILOGUE_RELU_BIAS = 6,
  HIPBLASLT_EPILOGUE_GELU = 32,
  HIPBLASLT_EPILOGUE_GELU_BIAS = 36,
} hipblasLtEpilogue_t;

typedef enum {
  HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 0,
  HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 1,
} hipblasLtMatrixLayoutAttribute_t;

typedef enum {
  HIPBLASLT_MATMUL_DESC_TRANSA = 0,
  HIPBLASLT_MATMUL_DESC_TRANSB = 1,
  HIPBLASLT_MATMUL_DESC_EPILOGUE = 2,
  HIPBLASLT_MATMUL_DESC_BIAS_POINTER = 3,
  HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 4,
  HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER = 5,
  HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER = 6,
  HIPBLASLT_MATMUL_DESC_C_SCALE_POINTER = 7,
  HIPBLASLT_MATMUL_DESC_D_SCALE_POINTER = 8,
} hipblasLtMatmulDescAttributes_t;

typedef enum {
  HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
} hipblasLtMatmulPreferenceAttributes_t;

#if __HIP__ && defined(__cplusplus)
typedef float hipblasLtFloat;
typedef _Float16 hipblasLtHalf;
typedef hip_bfloat16 hipblasLtBfloat16;
typedef int8_t hipblasLtInt8;
typedef int32_t hipblasLtInt32;
#endif

typedef void* hipblasLtHandle_t;
typedef struct hipblasLtMatmulDescOpaque_t* hipblasLtMatmulDesc_t;
typedef struct hipblasLtMatrixLayoutOpaque_t* hipblasLtMatrixLayout_t;
typedef struct hipblasLtMatmulPreferenceOpaque_t* hipblasLtMatmulPreference_t;

// All algorithms are one here: what is kept is only the index by which the program knows it.
typedef struct _hipblasLtMatmulAlgo_t {
#ifdef __cplusplus
  uint8_t data[16] = {0};
  size_t max_workspace_bytes = 0;
#else
  uint8_t data[16];
  size_t max_workspace_bytes;
#endif
} hipblasLtMatmulAlgo_t;

typedef struct _hipblasLtMatmulHeuristicResult_t {
#ifdef __cplusplus
  hipblasLtMatmulAlgo_t algo;
  size_t workspaceSize = 0;
  hipblasStatus_t state = HIPBLAS_STATUS_SUCCESS;
  float wavesCount = 1.0f;
  int reserved[4] = {};
#else
  hipblasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  hipblasStatus_t state;
  float wavesCount;
  int reserved[4];
#endif
} hipblasLtMatmulHeuristicResult_t;

#ifdef __cplusplus
extern "C" {
#endif
hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t* handle);
hipblasStatus_t hipblasLtDestroy(const hipblasLtHandle_t handle);

hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t* layout, hipDataType type, uint64_t rows,
                                            uint64_t cols, int64_t ld);
hipblasStatus_t hipblasLtMatrixLayoutDestroy(const hipblasLtMatrixLayout_t layout);
hipblasStatus_t hipblasLtMatrixLayoutSetAttribute(hipblasLtMatrixLayout_t layout, hipblasLtMatrixLayoutAttribute_t attr,
                                                  const void* buf, size_t bytes);

hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t* desc, hipblasComputeType_t compute, hipDataType scale);
hipblasStatus_t hipblasLtMatmulDescDestroy(const hipblasLtMatmulDesc_t desc);
hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t desc, hipblasLtMatmulDescAttributes_t attr,
                                                const void* buf, size_t bytes);

hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t* preference);
hipblasStatus_t hipblasLtMatmulPreferenceDestroy(const hipblasLtMatmulPreference_t preference);
hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t preference,
                                                      hipblasLtMatmulPreferenceAttributes_t attr, const void* buf,
                                                      size_t bytes);

hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc,
                                                hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b,
                                                hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,
                                                hipblasLtMatmulPreference_t preference, int requested,
                                                hipblasLtMatmulHeuristicResult_t results[], int* returned);
hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc, const void* alpha, const void* a,
                                hipblasLtMatrixLayout_t layout_a, const void* b, hipblasLtMatrixLayout_t layout_b,
                                const void* beta, const void* c, hipblasLtMatrixLayout_t layout_c, void* d,
                                hipblasLtMatrixLayout_t layout_d, const hipblasLtMatmulAlgo_t* algo, void* workspace,
                                size_t workspace_bytes, hipStream_t stream);
#ifdef __cplusplus
}
#endif
