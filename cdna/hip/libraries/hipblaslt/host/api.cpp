// hipBLASLt's C calls. A product is put on its queue as a host function is, so that it runs in order with what is
// before and behind it, and becomes a graph's node where the queue captures.
#include <hip/hip_runtime_api.h>
#include <hipblaslt/hipblaslt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"

struct hipblasLtMatrixLayoutOpaque_t {
  hipDataType type;
  int batches;
  uint64_t rows, columns;
  int64_t ld, batch_stride;
};
struct hipblasLtMatmulDescOpaque_t {
  hipblasComputeType_t compute;
  hipDataType scale, bias_type;
  int32_t op_a, op_b;
  uint32_t epilogue;
  void *bias, *scale_a, *scale_b, *scale_c, *scale_d;
};
struct hipblasLtMatmulPreferenceOpaque_t {
  uint64_t max_workspace_bytes;
};

// Why a call is refused.
static hipblasStatus_t refused(hipblasStatus_t status, const char* format, ...) {
  char text[300];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "cdna: hipBLASLt: %s\n", text);
  return status;
}

// --- attributes ------------------------------------------------------------------------------------

struct Attribute {
  void* at;  // null: there is no such attribute
  size_t bytes;
};
static hipblasStatus_t set(Attribute a, const void* from, size_t bytes) {
  if (!a.at || !from || bytes != a.bytes) return HIPBLAS_STATUS_INVALID_VALUE;
  memcpy(a.at, from, bytes);
  return HIPBLAS_STATUS_SUCCESS;
}

template <class T> static Attribute of(T& member) { return {&member, sizeof(T)}; }
static Attribute attribute_of(hipblasLtMatrixLayoutOpaque_t* x, int which) {
  if (!x) return {nullptr, 0};
  switch (which) {
    case HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return of(x->batches);
    case HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return of(x->batch_stride);
    default: return {nullptr, 0};
  }
}
static Attribute attribute_of(hipblasLtMatmulDescOpaque_t* x, int which) {
  if (!x) return {nullptr, 0};
  switch (which) {
    case HIPBLASLT_MATMUL_DESC_TRANSA: return of(x->op_a);
    case HIPBLASLT_MATMUL_DESC_TRANSB: return of(x->op_b);
    case HIPBLASLT_MATMUL_DESC_EPILOGUE: return of(x->epilogue);
    case HIPBLASLT_MATMUL_DESC_BIAS_POINTER: return of(x->bias);
    case HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return of(x->bias_type);
    case HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER: return of(x->scale_a);
    case HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER: return of(x->scale_b);
    case HIPBLASLT_MATMUL_DESC_C_SCALE_POINTER: return of(x->scale_c);
    case HIPBLASLT_MATMUL_DESC_D_SCALE_POINTER: return of(x->scale_d);
    default: return {nullptr, 0};
  }
}
static Attribute attribute_of(hipblasLtMatmulPreferenceOpaque_t* x, int which) {
  if (!x) return {nullptr, 0};
  switch (which) {
    case HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return of(x->max_workspace_bytes);
    default: return {nullptr, 0};
  }
}

// --- what is computed -----------------------------------------------------------------------------

static hipblasStatus_t matrix(const char* name, const hipblasLtMatrixLayoutOpaque_t* x, int32_t op, Matrix& out) {
  if (!x) return refused(HIPBLAS_STATUS_INVALID_VALUE, "%s has no layout", name);
  if (!bytes_of(x->type))
    return refused(HIPBLAS_STATUS_NOT_SUPPORTED,
                   "%s is of hipDataType %d: computed here are R_32F, R_16F, R_16BF and R_8F", name, x->type);
  if (x->ld < (int64_t)x->rows)
    return refused(HIPBLAS_STATUS_INVALID_VALUE, "%s has %llu rows, %llu columns and a leading dimension of %lld", name,
                   (unsigned long long)x->rows, (unsigned long long)x->columns, (long long)x->ld);
  out = {nullptr, x->type, (int64_t)x->rows, (int64_t)x->columns, x->ld, x->batch_stride, op != HIPBLAS_OP_N};
  return HIPBLAS_STATUS_SUCCESS;
}

// Fills in everything but the data; HIPBLAS_STATUS_SUCCESS if that can be computed.
static hipblasStatus_t plan(const hipblasLtMatmulDescOpaque_t* desc, const hipblasLtMatrixLayoutOpaque_t* a,
                            const hipblasLtMatrixLayoutOpaque_t* b, const hipblasLtMatrixLayoutOpaque_t* c,
                            const hipblasLtMatrixLayoutOpaque_t* d, Matmul& out) {
  memset(&out, 0, sizeof out);
  if (!desc) return refused(HIPBLAS_STATUS_INVALID_VALUE, "there is no hipblasLtMatmulDesc_t");
  hipblasStatus_t status = matrix("A", a, desc->op_a, out.a);
  if (status == HIPBLAS_STATUS_SUCCESS) status = matrix("B", b, desc->op_b, out.b);
  if (status == HIPBLAS_STATUS_SUCCESS) status = matrix("C", c, HIPBLAS_OP_N, out.c);
  if (status == HIPBLAS_STATUS_SUCCESS) status = matrix("D", d, HIPBLAS_OP_N, out.d);
  if (status != HIPBLAS_STATUS_SUCCESS) return status;
  int compute = desc->compute;
  bool in_fp32 = (compute >= HIPBLAS_COMPUTE_32F && compute <= HIPBLAS_COMPUTE_32F_FAST_TF32) || compute >= 100;
  if (!in_fp32 || desc->scale != HIP_R_32F)
    return refused(HIPBLAS_STATUS_NOT_SUPPORTED,
                   "hipblasComputeType_t %d with scales of hipDataType %d: computed here "
                   "is HIPBLAS_COMPUTE_32F with HIP_R_32F",
                   compute, desc->scale);
  bool transposed_a = out.a.transposed, transposed_b = out.b.transposed;
  out.m = d->rows, out.n = d->columns, out.batches = d->batches;
  out.k = transposed_a ? a->rows : a->columns;
  uint64_t rows_a = transposed_a ? a->columns : a->rows, rows_b = transposed_b ? b->columns : b->rows;
  uint64_t columns_b = transposed_b ? b->rows : b->columns;
  if (rows_a != d->rows || rows_b != (uint64_t)out.k || columns_b != d->columns || c->rows != d->rows ||
      c->columns != d->columns || a->batches != d->batches || b->batches != d->batches || c->batches != d->batches)
    return refused(HIPBLAS_STATUS_INVALID_VALUE,
                   "A is %llu x %llu, B %llu x %llu, C %llu x %llu, D %llu x %llu, in "
                   "%d, %d, %d, %d batches",
                   (unsigned long long)rows_a, (unsigned long long)out.k, (unsigned long long)rows_b,
                   (unsigned long long)columns_b, (unsigned long long)c->rows, (unsigned long long)c->columns,
                   (unsigned long long)d->rows, (unsigned long long)d->columns, a->batches, b->batches, c->batches,
                   d->batches);
  switch (desc->epilogue) {
    case HIPBLASLT_EPILOGUE_DEFAULT:
    case HIPBLASLT_EPILOGUE_BIAS: break;
    case HIPBLASLT_EPILOGUE_RELU:
    case HIPBLASLT_EPILOGUE_RELU_BIAS: out.activation = RELU; break;
    case HIPBLASLT_EPILOGUE_GELU:
    case HIPBLASLT_EPILOGUE_GELU_BIAS: out.activation = GELU; break;
    default:
      return refused(HIPBLAS_STATUS_NOT_SUPPORTED,
                     "hipblasLtEpilogue_t %u: computed here are the default one, BIAS, RELU and GELU", desc->epilogue);
  }
  if (desc->epilogue & HIPBLASLT_EPILOGUE_BIAS) {
    out.bias = (const char*)desc->bias;
    out.bias_type = desc->bias_type == HIPBLASLT_DATATYPE_INVALID ? d->type : desc->bias_type;
    if (!bytes_of(out.bias_type))
      return refused(HIPBLAS_STATUS_NOT_SUPPORTED, "the bias is of hipDataType %d", out.bias_type);
  }
  out.scale_a = (const float*)desc->scale_a, out.scale_b = (const float*)desc->scale_b;
  out.scale_c = (const float*)desc->scale_c, out.scale_d = (const float*)desc->scale_d;
  return HIPBLAS_STATUS_SUCCESS;
}

// A matrix of which a part is beyond the end of what hipMalloc gave would fault on a card.
static bool within_memory(const char* name, const Matrix& x, int64_t batches) {
  if (x.rows <= 0 || x.columns <= 0 || batches <= 0) return true;
  int64_t last = (batches - 1) * x.batch_stride + x.rows - 1 + (x.columns - 1) * x.ld;
  size_t bytes = (last + 1) * bytes_of(x.type), there = 0;
  hipDeviceptr_t base = nullptr;
  bool well_before = hipPeekAtLastError() == hipSuccess;
  if (hipMemGetAddressRange(&base, &there, x.data) != hipSuccess) {  // memory that HIP has not given
    if (well_before) (void)hipGetLastError();
    return true;
  }
  size_t left = (char*)base + there - x.data;
  if (bytes > left)
    refused(HIPBLAS_STATUS_INVALID_VALUE, "%s is %zu bytes long, and its allocation ends after %zu", name, bytes, left);
  return bytes <= left;
}

struct Queued {
  Matmul call;
  bool again;  // of a graph, which may be launched any number of times
};
static void run(void* argument) {
  Queued* q = (Queued*)argument;
  multiply(q->call);
  if (!q->again) free(q);
}

// What a product is told to, where a tool wants to know; true: it is not carried out.
typedef bool (*ProductRecorder)(int64_t m, int64_t n, int64_t k, int64_t batches, int64_t element_bytes);
static ProductRecorder recorder;

extern "C" {
__attribute__((visibility("default"))) void cdna_record_products(ProductRecorder r) { recorder = r; }

hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t* handle) {
  if (!handle) return HIPBLAS_STATUS_INVALID_VALUE;
  if (!can_multiply())
    return refused(HIPBLAS_STATUS_NOT_INITIALIZED, "numpy's OpenBLAS is no longer at %s: build the program again",
                   OPENBLAS);
  *handle = malloc(1);
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtDestroy(const hipblasLtHandle_t handle) {
  if (!handle) return HIPBLAS_STATUS_INVALID_VALUE;
  free(handle);
  return hipDeviceSynchronize() == hipSuccess ? HIPBLAS_STATUS_SUCCESS : HIPBLAS_STATUS_EXECUTION_FAILED;
}
#define ATTRIBUTES(Kind, Which)                                                                                       \
  hipblasStatus_t hipblasLt##Kind##Destroy(const hipblasLt##Kind##_t x) {                                             \
    free(x);                                                                                                          \
    return HIPBLAS_STATUS_SUCCESS;                                                                                    \
  }                                                                                                                   \
  hipblasStatus_t hipblasLt##Kind##SetAttribute(hipblasLt##Kind##_t x, Which which, const void* from, size_t bytes) { \
    return set(attribute_of(x, which), from, bytes);                                                                  \
  }
ATTRIBUTES(MatrixLayout, hipblasLtMatrixLayoutAttribute_t)
ATTRIBUTES(MatmulDesc, hipblasLtMatmulDescAttributes_t)
ATTRIBUTES(MatmulPreference, hipblasLtMatmulPreferenceAttributes_t)

hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t* out, hipDataType type, uint64_t rows,
                                            uint64_t columns, int64_t ld) {
  if (!out) return HIPBLAS_STATUS_INVALID_VALUE;
  *out = (hipblasLtMatrixLayout_t)calloc(1, sizeof **out);
  (*out)->type = type;
  (*out)->rows = rows, (*out)->columns = columns, (*out)->ld = ld;
  (*out)->batches = 1;
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t* out, hipblasComputeType_t compute, hipDataType scale) {
  if (!out) return HIPBLAS_STATUS_INVALID_VALUE;
  *out = (hipblasLtMatmulDesc_t)calloc(1, sizeof **out);
  (*out)->compute = compute;
  (*out)->scale = scale;
  (*out)->bias_type = HIPBLASLT_DATATYPE_INVALID;
  (*out)->op_a = (*out)->op_b = HIPBLAS_OP_N;
  (*out)->epilogue = HIPBLASLT_EPILOGUE_DEFAULT;
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t* out) {
  if (!out) return HIPBLAS_STATUS_INVALID_VALUE;
  *out = (hipblasLtMatmulPreference_t)calloc(1, sizeof **out);
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t, hipblasLtMatmulDesc_t desc,
                                                hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b,
                                                hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,
                                                hipblasLtMatmulPreference_t, int requested,
                                                hipblasLtMatmulHeuristicResult_t results[], int* returned) {
  if (!results || !returned || requested < 1) return HIPBLAS_STATUS_INVALID_VALUE;
  Matmul call;
  hipblasStatus_t status = plan(desc, a, b, c, d, call);
  *returned = status == HIPBLAS_STATUS_SUCCESS;
  if (*returned) results[0] = hipblasLtMatmulHeuristicResult_t();
  return status;
}

hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc, const void* alpha, const void* a,
                                hipblasLtMatrixLayout_t layout_a, const void* b, hipblasLtMatrixLayout_t layout_b,
                                const void* beta, const void* c, hipblasLtMatrixLayout_t layout_c, void* d,
                                hipblasLtMatrixLayout_t layout_d, const hipblasLtMatmulAlgo_t*, void*, size_t,
                                hipStream_t stream) {
  if (!handle) return HIPBLAS_STATUS_NOT_INITIALIZED;
  Matmul call;
  hipblasStatus_t status = plan(desc, layout_a, layout_b, layout_c, layout_d, call);
  if (status != HIPBLAS_STATUS_SUCCESS) return status;
  if (!alpha || !beta) return refused(HIPBLAS_STATUS_INVALID_VALUE, "alpha or beta is null");
  call.alpha = *(const float*)alpha;
  call.beta = *(const float*)beta;
  call.a.data = (char*)a, call.b.data = (char*)b, call.c.data = (char*)c, call.d.data = (char*)d;
  bool some = call.m > 0 && call.n > 0 && call.batches > 0, wants_c = call.beta != 0;
  if (!some) return HIPBLAS_STATUS_SUCCESS;
  if ((call.k > 0 && (!a || !b)) || !d || (wants_c && !c))
    return refused(HIPBLAS_STATUS_INVALID_VALUE, "%s is null", !d ? "D" : !a ? "A" : !b ? "B" : "C");
  if (!within_memory("A", call.a, call.batches) || !within_memory("B", call.b, call.batches) ||
      (wants_c && !within_memory("C", call.c, call.batches)) || !within_memory("D", call.d, call.batches))
    return HIPBLAS_STATUS_INVALID_VALUE;
  if (recorder && recorder(call.m, call.n, call.k, call.batches, bytes_of(call.a.type))) return HIPBLAS_STATUS_SUCCESS;
  hipStreamCaptureStatus capture = hipStreamCaptureStatusNone;
  (void)hipStreamIsCapturing(stream, &capture);
  Queued* q = (Queued*)malloc(sizeof(Queued));
  *q = {call, capture != hipStreamCaptureStatusNone};
  return hipLaunchHostFunc(stream, run, q) == hipSuccess ? HIPBLAS_STATUS_SUCCESS : HIPBLAS_STATUS_EXECUTION_FAILED;
}
}
