// hipBLASLt's products against their definition, in order with kernels, in graphs, and what is refused.
#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_fp8.h>
#include <hipblaslt/hipblaslt-ext.hpp>
#include <hipblaslt/hipblaslt.h>
#include <cmath>
#include "check.h"

#if !defined(__HIP_DEVICE_COMPILE__)
#pragma clang optimize off  // the host's loops are short, and take longer to be compiled
#endif

#define DONE(call) EXPECT((call) == HIPBLAS_STATUS_SUCCESS)

// A type's number, and how far apart its numbers are, relative to them.
template <typename T> struct Of;
#define TYPE(T, number, apart)                  \
  template <> struct Of<T> {                    \
    static constexpr hipDataType type = number; \
    static constexpr float step = apart;        \
  };
TYPE(float, HIP_R_32F, 1e-6f)
TYPE(__half, HIP_R_16F, 1 / 2048.f)
TYPE(__hip_bfloat16, HIP_R_16BF, 1 / 256.f)
TYPE(__hip_fp8_e4m3_fnuz, HIP_R_8F_E4M3_FNUZ, 1 / 16.f)
TYPE(__hip_fp8_e5m2_fnuz, HIP_R_8F_E5M2_FNUZ, 1 / 8.f)
TYPE(__hip_fp8_e4m3, HIP_R_8F_E4M3, 1 / 16.f)
TYPE(__hip_fp8_e5m2, HIP_R_8F_E5M2, 1 / 8.f)

template <typename T> std::vector<T> numbers(size_t n, unsigned seed) {
  std::vector<T> x(n);
  for (size_t i = 0; i < n; i++) x[i] = T((int(hashed(i + 77 * seed) % 17) - 8) / 4.0f);
  return x;
}

struct Case {
  int m, n, k;
  hipblasOperation_t op_a = HIPBLAS_OP_N, op_b = HIPBLAS_OP_N;
  hipblasLtEpilogue_t epilogue = HIPBLASLT_EPILOGUE_DEFAULT;
  float alpha = 1, beta = 0;
  int batches = 1;
  bool scales = false;  // of A, B, C and D
};

hipblasLtHandle_t handle;

template <typename In, typename Out> void product(const Case& t) {
  bool na = t.op_a == HIPBLAS_OP_N, nb = t.op_b == HIPBLAS_OP_N;
  int rows_a = na ? t.m : t.k, columns_a = na ? t.k : t.m, rows_b = nb ? t.k : t.n, columns_b = nb ? t.n : t.k;
  int lda = rows_a + 3, ldb = rows_b + 1, ldc = t.m + 2, ldd = t.m + 5;
  int64_t stride_a = int64_t(lda) * columns_a, stride_b = int64_t(ldb) * columns_b;
  int64_t stride_c = int64_t(ldc) * t.n, stride_d = int64_t(ldd) * t.n;
  auto a = numbers<In>(stride_a * t.batches, 1), b = numbers<In>(stride_b * t.batches, 2);
  auto c = numbers<Out>(stride_c * t.batches, 3), before = numbers<Out>(stride_d * t.batches, 4);
  auto bias = numbers<float>(t.m, 5);
  std::vector<float> scalars = {t.alpha, t.beta, 0.5f, 4.0f, 0.25f, 2.0f};  // then the scales of A, B, C, D
  DeviceArray<In> da(a), db(b);
  DeviceArray<Out> dc(c), dd(before);
  DeviceArray<float> dbias(bias), dscalars(scalars);

  hipblasLtMatmulDesc_t desc;
  hipblasLtMatrixLayout_t la, lb, lc, ld;
  DONE(hipblasLtMatmulDescCreate(&desc, HIPBLAS_COMPUTE_32F, HIP_R_32F));
  auto set = [&](hipblasLtMatmulDescAttributes_t which, auto value) {
    DONE(hipblasLtMatmulDescSetAttribute(desc, which, &value, sizeof value));
  };
  set(HIPBLASLT_MATMUL_DESC_TRANSA, int32_t(t.op_a));
  set(HIPBLASLT_MATMUL_DESC_TRANSB, int32_t(t.op_b));
  set(HIPBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(t.epilogue));
  set(HIPBLASLT_MATMUL_DESC_BIAS_POINTER, (const void*)dbias.data);
  set(HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t(HIP_R_32F));
  if (t.scales) {
    set(HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER, (const void*)(dscalars.data + 2));
    set(HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER, (const void*)(dscalars.data + 3));
    set(HIPBLASLT_MATMUL_DESC_C_SCALE_POINTER, (const void*)(dscalars.data + 4));
    set(HIPBLASLT_MATMUL_DESC_D_SCALE_POINTER, (const void*)(dscalars.data + 5));
  }
  DONE(hipblasLtMatrixLayoutCreate(&la, Of<In>::type, rows_a, columns_a, lda));
  DONE(hipblasLtMatrixLayoutCreate(&lb, Of<In>::type, rows_b, columns_b, ldb));
  DONE(hipblasLtMatrixLayoutCreate(&lc, Of<Out>::type, t.m, t.n, ldc));
  DONE(hipblasLtMatrixLayoutCreate(&ld, Of<Out>::type, t.m, t.n, ldd));
  auto stride_of = [&](hipblasLtMatrixLayout_t layout, int64_t stride) {
    int32_t batches = t.batches;
    DONE(hipblasLtMatrixLayoutSetAttribute(layout, HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches));
    DONE(hipblasLtMatrixLayoutSetAttribute(layout, HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                           sizeof stride));
  };
  stride_of(la, stride_a);
  stride_of(lb, stride_b);
  stride_of(lc, stride_c);
  stride_of(ld, stride_d);
  hipblasLtMatmulPreference_t preference;
  hipblasLtMatmulHeuristicResult_t result;
  int found = 0;
  uint64_t workspace = 1 << 20;
  DONE(hipblasLtMatmulPreferenceCreate(&preference));
  DONE(hipblasLtMatmulPreferenceSetAttribute(preference, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                             sizeof workspace));
  DONE(hipblasLtMatmulAlgoGetHeuristic(handle, desc, la, lb, lc, ld, preference, 1, &result, &found));
  EXPECT(found == 1 && result.workspaceSize <= workspace);
  DONE(hipblasLtMatmul(handle, desc, &scalars[0], da.data, la, db.data, lb, &scalars[1], dc.data, lc, dd.data, ld,
                       &result.algo, nullptr, 0, nullptr));
  OK(hipDeviceSynchronize());
  DONE(hipblasLtMatmulPreferenceDestroy(preference));
  for (hipblasLtMatrixLayout_t layout : {la, lb, lc, ld}) DONE(hipblasLtMatrixLayoutDestroy(layout));
  DONE(hipblasLtMatmulDescDestroy(desc));

  std::vector<Out> got = dd.host(), wanted = before;
  for (int batch = 0; batch < t.batches; batch++)
    for (int i = 0; i < t.m; i++)
      for (int j = 0; j < t.n; j++) {
        double sum = 0;
        for (int p = 0; p < t.k; p++) {
          int r = na ? i : p, q = na ? p : i, u = nb ? p : j, v = nb ? j : p;
          sum += double(float(a[batch * stride_a + r + q * lda])) * double(float(b[batch * stride_b + u + v * ldb]));
        }
        double x = t.alpha * sum * (t.scales ? 2 : 1);
        if (t.beta != 0) x += t.beta * (t.scales ? 0.25 : 1) * float(c[batch * stride_c + i + j * ldc]);
        if (t.epilogue & HIPBLASLT_EPILOGUE_BIAS) x += bias[i];
        int activation = t.epilogue & ~HIPBLASLT_EPILOGUE_BIAS;
        if (activation == HIPBLASLT_EPILOGUE_RELU) x = x > 0 ? x : 0;
        if (activation == HIPBLASLT_EPILOGUE_GELU)
          x = x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        if (t.scales) x *= 2;
        size_t at = batch * stride_d + i + size_t(j) * ldd;
        if (sizeof(Out) == 1) {  // too large a number becomes the largest
          double largest = float(Out(1e30f));
          x = x > largest ? largest : x < -largest ? -largest : x;
        }
        EXPECT(std::fabs(float(got[at]) - x) <= std::fabs(x) * Of<Out>::step + 1e-5);
        got[at] = wanted[at];
      }
  EXPECT(!memcmp(got.data(), wanted.data(), got.size() * sizeof(Out)));  // nothing between the columns is touched
}

// --- order ----------------------------------------------------------------------------------------

__global__ void fill(float* x, float value) { x[threadIdx.x] = value; }
__global__ void wait_then_fill(float* x, float value, volatile int* flag) {
  while (!*flag) __builtin_amdgcn_s_sleep(10);
  x[threadIdx.x] = value;
}

// 8 x 8 of ones times x, whose columns are all `value`: 8 value everywhere.
hipblasStatus_t times_ones(hipblaslt_ext::Gemm& gemm, const float* ones, const float* x, float* out, float* scalars) {
  hipblaslt_ext::GemmEpilogue epilogue;
  hipblaslt_ext::GemmInputs inputs;
  inputs.setA(ones);
  inputs.setB(x);
  inputs.setC(out);
  inputs.setD(out);
  inputs.setAlpha(scalars);
  inputs.setBeta(scalars + 1);
  return gemm.setProblem(8, 8, 8, 1, epilogue, inputs);
}

void order() {
  hipStream_t stream;
  OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  DeviceArray<float> ones(std::vector<float>(64, 1)), x(64), y(64), z(64), scalars(std::vector<float>{1, 0});
  hipblaslt_ext::Gemm first(handle, HIPBLAS_OP_N, HIPBLAS_OP_N, HIP_R_32F, HIP_R_32F, HIP_R_32F, HIP_R_32F,
                            HIPBLAS_COMPUTE_32F);
  hipblaslt_ext::Gemm second(handle, HIPBLAS_OP_N, HIPBLAS_OP_N, HIP_R_32F, HIP_R_32F, HIP_R_32F, HIP_R_32F,
                             HIPBLAS_COMPUTE_32F);
  EXPECT(first.run(stream) == HIPBLAS_STATUS_INVALID_VALUE);  // no problem is set
  DONE(times_ones(first, ones.data, x.data, y.data, scalars.data));
  DONE(times_ones(second, ones.data, y.data, z.data, scalars.data));
  hipblaslt_ext::GemmPreferenceV2 preference;
  preference.setMaxWorkspaceBytes(1 << 20);
  std::vector<hipblasLtMatmulHeuristicResult_t> algorithms;
  DONE(first.algoGetHeuristic(3, preference, algorithms));
  EXPECT(algorithms.size() == 1);
  DONE(first.initialize(algorithms[0].algo, nullptr));
  DONE(second.initialize(algorithms[0].algo, nullptr));

  // behind a kernel that waits for the host
  volatile int* flag;
  OK(hipHostMalloc((void**)&flag, sizeof(int), 0));
  *flag = 0;
  wait_then_fill<<<1, 64, 0, stream>>>(x.data, 3, flag);
  DONE(first.run(stream));
  DONE(second.run(stream));
  fill<<<1, 64, 0, stream>>>(x.data, -1);
  EXPECT(hipStreamQuery(stream) == hipErrorNotReady);
  *flag = 1;
  OK(hipStreamSynchronize(stream));
  EXPECT(y.host() == std::vector<float>(64, 24) && z.host() == std::vector<float>(64, 192) && x.host()[5] == -1);

  // in a graph, launched twice
  hipGraph_t graph;
  hipGraphExec_t executable;
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  DONE(first.run(stream));
  fill<<<1, 64, 0, stream>>>(x.data, 5);
  OK(hipStreamEndCapture(stream, &graph));
  OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  EXPECT(y.host()[0] == 24);
  OK(hipGraphLaunch(executable, stream));
  OK(hipStreamSynchronize(stream));
  EXPECT(y.host() == std::vector<float>(64, -8));
  OK(hipGraphLaunch(executable, stream));
  OK(hipStreamSynchronize(stream));
  EXPECT(y.host() == std::vector<float>(64, 40));
}

// --- groups, algorithms, refusals --------------------------------------------------------------------

void grouped() {
  constexpr int EXPERTS = 3, N = 12, K = 40;
  std::vector<int64_t> m(EXPERTS, N), n = {5, 0, 9}, k(EXPERTS, K), batches(EXPERTS, 1);
  auto weights = numbers<__half>(EXPERTS * N * K, 8), tokens = numbers<__half>(14 * K, 9);
  DeviceArray<__half> dw(weights), dt(tokens), out(14 * N);
  DeviceArray<float> scalars(std::vector<float>{1, 0});
  std::vector<hipblaslt_ext::GemmInputsV2> inputs(EXPERTS);
  std::vector<hipblaslt_ext::GemmEpilogueV2> epilogues(EXPERTS);
  for (int i = 0, row = 0; i < EXPERTS; row += n[i++]) {
    inputs[i].setA(dw.data + i * N * K);
    inputs[i].setB(dt.data + row * K);
    inputs[i].setC(out.data + row * N);
    inputs[i].setD(out.data + row * N);
    inputs[i].setAlpha(scalars.data);
    inputs[i].setBeta(scalars.data + 1);
    epilogues[i].setMode(HIPBLASLT_EPILOGUE_DEFAULT);
  }
  hipblaslt_ext::GroupedGemm gemm(handle, HIPBLAS_OP_T, HIPBLAS_OP_N, HIP_R_16F, HIP_R_16F, HIP_R_16F, HIP_R_16F,
                                  HIPBLAS_COMPUTE_32F);
  std::vector<int> indices = {166966};
  std::vector<hipblasLtMatmulHeuristicResult_t> algorithms;
  DONE(hipblaslt_ext::getAlgosFromIndex(handle, indices, algorithms));
  EXPECT(algorithms.size() == 1 && hipblaslt_ext::getIndexFromAlgo(algorithms[0].algo) == 166966);
  EXPECT(gemm.initialize(algorithms[0].algo, nullptr, false) == HIPBLAS_STATUS_INVALID_VALUE);  // no problem is set
  DONE(gemm.setProblem(m, n, k, batches, epilogues, inputs));
  size_t bytes = 1;
  DONE(gemm.isAlgoSupported(algorithms[0].algo, bytes));
  DONE(gemm.initialize(algorithms[0].algo, nullptr, false, nullptr));
  DONE(gemm.run(nullptr));
  OK(hipDeviceSynchronize());
  std::vector<__half> got = out.host();
  for (int i = 0, row = 0; i < EXPERTS; row += n[i++])
    for (int r = row; r < row + n[i]; r++)
      for (int c = 0; c < N; c++) {
        float sum = 0;
        for (int p = 0; p < K; p++) sum += float(weights[(i * N + c) * K + p]) * float(tokens[r * K + p]);
        EXPECT(float(got[r * N + c]) == float(__half(sum)));
      }
}

void refused() {
  DeviceArray<float> small(60), scalars(std::vector<float>{1, 0});
  hipblaslt_ext::Gemm beyond(handle, HIPBLAS_OP_N, HIPBLAS_OP_N, HIP_R_32F, HIP_R_32F, HIP_R_32F, HIP_R_32F,
                             HIPBLAS_COMPUTE_32F);
  DONE(times_ones(beyond, small.data, small.data, small.data, scalars.data));
  EXPECT(beyond.run(nullptr) == HIPBLAS_STATUS_INVALID_VALUE);
  EXPECT(hipGetLastError() == hipSuccess);
  hipblasLtMatmulDesc_t desc;
  hipblasLtMatrixLayout_t x, integers, tall;
  hipblasLtMatmulHeuristicResult_t result;
  int found = 1;
  DONE(hipblasLtMatmulDescCreate(&desc, HIPBLAS_COMPUTE_32F, HIP_R_32F));
  DONE(hipblasLtMatrixLayoutCreate(&x, HIP_R_32F, 8, 8, 8));
  DONE(hipblasLtMatrixLayoutCreate(&tall, HIP_R_32F, 9, 8, 9));
  DONE(hipblasLtMatrixLayoutCreate(&integers, HIP_R_8I, 8, 8, 8));
  auto status = [&](hipblasLtMatrixLayout_t a) {
    return hipblasLtMatmulAlgoGetHeuristic(handle, desc, a, x, x, x, nullptr, 1, &result, &found);
  };
  EXPECT(status(x) == HIPBLAS_STATUS_SUCCESS && found == 1);
  EXPECT(status(integers) == HIPBLAS_STATUS_NOT_SUPPORTED && found == 0);
  EXPECT(status(tall) == HIPBLAS_STATUS_INVALID_VALUE);
  uint32_t epilogue = 192;  // HIPBLASLT_EPILOGUE_DGELU
  DONE(hipblasLtMatmulDescSetAttribute(desc, HIPBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  EXPECT(status(x) == HIPBLAS_STATUS_NOT_SUPPORTED);
  EXPECT(hipblasLtMatmulDescSetAttribute(desc, HIPBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 8) ==
         HIPBLAS_STATUS_INVALID_VALUE);
}

int main() {
  constexpr auto N = HIPBLAS_OP_N, T = HIPBLAS_OP_T;
  DONE(hipblasLtCreate(&handle));
  product<float, float>({.m = 7, .n = 33, .k = 300});
  product<__half, __half>({.m = 400, .n = 530, .k = 9, .op_a = T, .alpha = 0.5f, .beta = 2});
  product<__half, float>({.m = 13, .n = 6, .k = 257, .op_b = T, .epilogue = HIPBLASLT_EPILOGUE_RELU_BIAS});
  product<__hip_bfloat16, __hip_bfloat16>({.m = 20, .n = 17, .k = 64, .op_a = T, .op_b = T, .beta = -1, .batches = 3});
  product<__hip_bfloat16, float>({.m = 9, .n = 31, .k = 12, .epilogue = HIPBLASLT_EPILOGUE_GELU_BIAS});
  product<float, __half>({.m = 18, .n = 5, .k = 0, .beta = 1});
  product<__hip_fp8_e4m3_fnuz, __hip_bfloat16>({.m = 33, .n = 14, .k = 128, .op_a = T, .scales = true});
  product<__hip_fp8_e5m2_fnuz, __half>({.m = 5, .n = 5, .k = 20});
  product<__hip_fp8_e4m3, __hip_fp8_e4m3>({.m = 16, .n = 16, .k = 64, .op_a = T, .scales = true});
  product<__hip_fp8_e5m2, __hip_fp8_e5m2>({.m = 16, .n = 16, .k = 4, .beta = 1});
  product<__half, __hip_fp8_e4m3_fnuz>({.m = 16, .n = 16, .k = 64, .alpha = 0.25f});
  order();
  grouped();
  refused();
  DONE(hipblasLtDestroy(handle));
}
