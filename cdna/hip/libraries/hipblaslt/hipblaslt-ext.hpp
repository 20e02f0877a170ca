// hipBLASLt's C++ interface (ROCm documentation, "hipBLASLtExt API reference") on top of the C one: Gemm, GroupedGemm
// and what they are told. Not here: arguments in device memory (UserArguments), softmax, layer norm, amax.
#pragma once

#include <hipblaslt/hipblaslt.h>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hipblaslt_ext {

enum class GemmType { HIPBLASLT_GEMM = 1, HIPBLASLT_GROUPED_GEMM = 2 };

#define CDNA_PROPERTY(type, name, member)        \
  void set##name(type value) { member = value; } \
  type get##name() const { return member; }

class GemmPreference {
 public:
  CDNA_PROPERTY(size_t, MaxWorkspaceBytes, bytes_)

 private:
  size_t bytes_ = 0;
};

// Members are public, as those of ROCm 6's plain structs are, from which these classes come.
class GemmProblemType {
 public:
  GemmProblemType() = default;
  GemmProblemType(hipblasOperation_t opA, hipblasOperation_t opB, hipDataType typeA, hipDataType typeB,
                  hipDataType typeC, hipDataType typeD, hipblasComputeType_t typeCompute)
      : op_a(opA), op_b(opB), type_a(typeA), type_b(typeB), type_c(typeC), type_d(typeD), type_compute(typeCompute) {}
  CDNA_PROPERTY(hipblasOperation_t, OpA, op_a)
  CDNA_PROPERTY(hipblasOperation_t, OpB, op_b)
  CDNA_PROPERTY(hipDataType, TypeA, type_a)
  CDNA_PROPERTY(hipDataType, TypeB, type_b)
  CDNA_PROPERTY(hipDataType, TypeC, type_c)
  CDNA_PROPERTY(hipDataType, TypeD, type_d)
  CDNA_PROPERTY(hipblasComputeType_t, TypeCompute, type_compute)

  hipblasOperation_t op_a = HIPBLAS_OP_N, op_b = HIPBLAS_OP_N;
  hipDataType type_a = HIP_R_32F, type_b = HIP_R_32F, type_c = HIP_R_32F, type_d = HIP_R_32F;
  hipblasComputeType_t type_compute = HIPBLAS_COMPUTE_32F;
};

class GemmEpilogue {
 public:
  CDNA_PROPERTY(hipblasLtEpilogue_t, Mode, mode)
  CDNA_PROPERTY(hipDataType, BiasDataType, bias_data_type)
  CDNA_PROPERTY(hipDataType, AuxDataType, aux_data_type)
  CDNA_PROPERTY(int, AuxLeadingDimension, aux_ld)
  CDNA_PROPERTY(int, AuxBatchStride, aux_stride)
  CDNA_PROPERTY(hipblasLtMatmulMatrixScale_t, ScalingAType, scaling_a_type)
  CDNA_PROPERTY(hipblasLtMatmulMatrixScale_t, ScalingBType, scaling_b_type)

  hipblasLtEpilogue_t mode = HIPBLASLT_EPILOGUE_DEFAULT;
  hipDataType bias_data_type = HIPBLASLT_DATATYPE_INVALID, aux_data_type = HIPBLASLT_DATATYPE_INVALID;
  int aux_ld = 0, aux_stride = 0;
  hipblasLtMatmulMatrixScale_t scaling_a_type = HIPBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  hipblasLtMatmulMatrixScale_t scaling_b_type = HIPBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
};

// Nothing of it makes a difference here.
class GemmTuning {
 public:
  CDNA_PROPERTY(uint16_t, SplitK, splitK)
  CDNA_PROPERTY(int16_t, Wgm, wgm)
  uint16_t splitK = 0;
  int16_t wgm = 0;
};
#undef CDNA_PROPERTY

#define CDNA_POINTER(name, member)                                 \
  void set##name(const void* p) { member = const_cast<void*>(p); } \
  const void* get##name() const { return member; }

class GemmInputs {
 public:
  CDNA_POINTER(A, a)
  CDNA_POINTER(B, b)
  CDNA_POINTER(C, c)
  CDNA_POINTER(D, d)
  CDNA_POINTER(Alpha, alpha)
  CDNA_POINTER(Beta, beta)
  CDNA_POINTER(Bias, bias)
  CDNA_POINTER(ScaleA, scaleA)
  CDNA_POINTER(ScaleB, scaleB)
  CDNA_POINTER(ScaleC, scaleC)
  CDNA_POINTER(ScaleD, scaleD)
  CDNA_POINTER(ScaleAux, scaleAux)
  CDNA_POINTER(ScaleAlphaVec, scaleAlphaVec)
  CDNA_POINTER(Aux, aux)
  CDNA_POINTER(AmaxD, amaxD)

  void *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr, *alpha = nullptr, *beta = nullptr, *bias = nullptr;
  void *scaleA = nullptr, *scaleB = nullptr, *scaleC = nullptr, *scaleD = nullptr, *scaleAux = nullptr;
  void *scaleAlphaVec = nullptr, *aux = nullptr, *amaxD = nullptr;
};
#undef CDNA_POINTER

// As ROCm 6 calls them.
using GemmPreferenceV2 = GemmPreference;
using GemmProblemTypeV2 = GemmProblemType;
using GemmEpilogueV2 = GemmEpilogue;
using GemmTuningV2 = GemmTuning;
using GemmInputsV2 = GemmInputs;

namespace cdna {

// One product: what hipblasLtMatmul takes, in descriptors of its own. alpha and beta are read when it is set, but where
// its descriptor says that they are in device memory.
struct Product {
  std::shared_ptr<hipblasLtMatmulDescOpaque_t> desc;
  std::shared_ptr<hipblasLtMatrixLayoutOpaque_t> layout_a, layout_b, layout_c, layout_d;
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void* d = nullptr;
  float alpha = 1, beta = 0;
  const void *device_alpha = nullptr, *device_beta = nullptr;

  hipblasStatus_t run(hipblasLtHandle_t handle, hipStream_t stream) const {
    return hipblasLtMatmul(handle, desc.get(), device_alpha ? device_alpha : &alpha, a, layout_a.get(), b,
                           layout_b.get(), device_beta ? device_beta : &beta, c, layout_c.get(), d, layout_d.get(),
                           nullptr, nullptr, 0, stream);
  }
  hipblasStatus_t supported(hipblasLtHandle_t handle) const {
    hipblasLtMatmulHeuristicResult_t result;
    int count = 0;
    return hipblasLtMatmulAlgoGetHeuristic(handle, desc.get(), layout_a.get(), layout_b.get(), layout_c.get(),
                                           layout_d.get(), nullptr, 1, &result, &count);
  }
};

template <typename T>
void set(Product& p, hipblasLtMatmulDescAttributes_t attribute, T value) {
  (void)hipblasLtMatmulDescSetAttribute(p.desc.get(), attribute, &value, sizeof value);
}
inline std::shared_ptr<hipblasLtMatrixLayoutOpaque_t> layout(hipDataType type, int64_t rows, int64_t columns,
                                                             int64_t ld, int32_t batches, int64_t stride) {
  hipblasLtMatrixLayout_t made = nullptr;
  (void)hipblasLtMatrixLayoutCreate(&made, type, rows, columns, ld);
  (void)hipblasLtMatrixLayoutSetAttribute(made, HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches);
  (void)hipblasLtMatrixLayoutSetAttribute(made, HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  return {made, hipblasLtMatrixLayoutDestroy};
}
// Another's layout may be gone before the product is run.
inline std::shared_ptr<hipblasLtMatrixLayoutOpaque_t> copy_of(hipblasLtMatrixLayout_t from) {
  uint32_t type = 0, order = 0;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0, stride = 0;
  int32_t batches = 1;
  auto get = [&](hipblasLtMatrixLayoutAttribute_t attribute, auto& value) {
    (void)hipblasLtMatrixLayoutGetAttribute(from, attribute, &value, sizeof value, nullptr);
  };
  get(HIPBLASLT_MATRIX_LAYOUT_TYPE, type);
  get(HIPBLASLT_MATRIX_LAYOUT_ORDER, order);
  get(HIPBLASLT_MATRIX_LAYOUT_ROWS, rows);
  get(HIPBLASLT_MATRIX_LAYOUT_COLS, columns);
  get(HIPBLASLT_MATRIX_LAYOUT_LD, ld);
  get(HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  get(HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches);
  auto made = layout(hipDataType(type), rows, columns, ld, batches, stride);
  (void)hipblasLtMatrixLayoutSetAttribute(made.get(), HIPBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
  return made;
}

struct Shape {
  int64_t m, n, k, batches, lda, ldb, ldc, ldd, stride_a, stride_b, stride_c, stride_d;
};
// Matrices without gaps, column by column.
inline Shape dense(const GemmProblemType& t, int64_t m, int64_t n, int64_t k, int64_t batches) {
  return {m,     n,     k,     batches, t.op_a == HIPBLAS_OP_N ? m : k, t.op_b == HIPBLAS_OP_N ? k : n, m, m,
          m * k, k * n, m * n, m * n};
}
inline Product product(const GemmProblemType& t, const Shape& s, const GemmEpilogue& e, const GemmInputs& in) {
  Product p;
  hipblasLtMatmulDesc_t made = nullptr;
  (void)hipblasLtMatmulDescCreate(&made, t.type_compute, HIP_R_32F);
  p.desc = {made, hipblasLtMatmulDescDestroy};
  set(p, HIPBLASLT_MATMUL_DESC_TRANSA, int32_t(t.op_a));
  set(p, HIPBLASLT_MATMUL_DESC_TRANSB, int32_t(t.op_b));
  set(p, HIPBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(e.mode));
  set(p, HIPBLASLT_MATMUL_DESC_BIAS_POINTER, in.bias);
  if (e.bias_data_type != HIPBLASLT_DATATYPE_INVALID)
    set(p, HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t(e.bias_data_type));
  set(p, HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER, in.scaleA);
  set(p, HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER, in.scaleB);
  set(p, HIPBLASLT_MATMUL_DESC_C_SCALE_POINTER, in.scaleC);
  set(p, HIPBLASLT_MATMUL_DESC_D_SCALE_POINTER, in.scaleD);
  set(p, HIPBLASLT_MATMUL_DESC_A_SCALE_MODE, uint32_t(e.scaling_a_type));
  set(p, HIPBLASLT_MATMUL_DESC_B_SCALE_MODE, uint32_t(e.scaling_b_type));
  set(p, HIPBLASLT_MATMUL_DESC_AMAX_D_POINTER, in.amaxD);
  bool a_as_is = t.op_a == HIPBLAS_OP_N, b_as_is = t.op_b == HIPBLAS_OP_N;
  p.layout_a = layout(t.type_a, a_as_is ? s.m : s.k, a_as_is ? s.k : s.m, s.lda, s.batches, s.stride_a);
  p.layout_b = layout(t.type_b, b_as_is ? s.k : s.n, b_as_is ? s.n : s.k, s.ldb, s.batches, s.stride_b);
  p.layout_c = layout(t.type_c, s.m, s.n, s.ldc, s.batches, s.stride_c);
  p.layout_d = layout(t.type_d, s.m, s.n, s.ldd, s.batches, s.stride_d);
  p.a = in.a, p.b = in.b, p.c = in.c, p.d = in.d;
  if (in.alpha) p.alpha = *static_cast<const float*>(in.alpha);
  if (in.beta) p.beta = *static_cast<const float*>(in.beta);
  return p;
}

}  // namespace cdna

class GemmInstance {
 public:
  virtual ~GemmInstance() {}
  GemmInstance(const GemmInstance&) = delete;
  GemmInstance& operator=(const GemmInstance&) = delete;
  GemmInstance(GemmInstance&&) noexcept = default;
  GemmInstance& operator=(GemmInstance&&) noexcept = default;

  hipblasStatus_t algoGetHeuristic(const int requestedAlgoCount, const GemmPreference&,
                                   std::vector<hipblasLtMatmulHeuristicResult_t>& heuristicResults) {
    heuristicResults.clear();
    hipblasStatus_t status = supported();
    if (status == HIPBLAS_STATUS_SUCCESS && requestedAlgoCount > 0) heuristicResults.resize(1);
    return status;
  }
  hipblasStatus_t isAlgoSupported(hipblasLtMatmulAlgo_t&, size_t& workspaceSizeInBytes) {
    workspaceSizeInBytes = 0;
    return supported();
  }
  hipblasStatus_t isAlgoSupported(hipblasLtMatmulAlgo_t& algo, GemmTuning&, size_t& workspaceSizeInBytes) {
    return isAlgoSupported(algo, workspaceSizeInBytes);
  }
  hipblasStatus_t initialize(const hipblasLtMatmulAlgo_t&, void*, bool = true, hipStream_t = 0) { return supported(); }
  hipblasStatus_t initialize(const hipblasLtMatmulAlgo_t&, GemmTuning&, void*, bool = true, hipStream_t = 0) {
    return supported();
  }
  hipblasStatus_t run(hipStream_t stream, hipEvent_t start = nullptr, hipEvent_t stop = nullptr) {
    if (products_.empty()) return HIPBLAS_STATUS_INVALID_VALUE;
    if (start && hipEventRecord(start, stream) != hipSuccess) return HIPBLAS_STATUS_EXECUTION_FAILED;
    for (const cdna::Product& p : products_) {
      hipblasStatus_t status = p.run(m_handle, stream);
      if (status != HIPBLAS_STATUS_SUCCESS) return status;
    }
    if (stop && hipEventRecord(stop, stream) != hipSuccess) return HIPBLAS_STATUS_EXECUTION_FAILED;
    return HIPBLAS_STATUS_SUCCESS;
  }
  GemmType getGemmType() { return m_gemm_type; }
  size_t getGemmCount() { return products_.size(); }
  std::string getSolutionName() { return "cdna"; }
  std::string getKernelName() { return "cdna"; }

 protected:
  explicit GemmInstance(hipblasLtHandle_t handle, GemmType type) : m_gemm_type(type), m_handle(handle) {}
  hipblasStatus_t supported() const {
    if (products_.empty()) return HIPBLAS_STATUS_INVALID_VALUE;
    for (const cdna::Product& p : products_) {
      hipblasStatus_t status = p.supported(m_handle);
      if (status != HIPBLAS_STATUS_SUCCESS) return status;
    }
    return HIPBLAS_STATUS_SUCCESS;
  }
  static cdna::Product from_descriptors(hipblasLtMatmulDesc_t desc, const void* alpha, const void* A,
                                        hipblasLtMatrixLayout_t matA, const void* B, hipblasLtMatrixLayout_t matB,
                                        const void* beta, const void* C, hipblasLtMatrixLayout_t matC, void* D,
                                        hipblasLtMatrixLayout_t matD) {
    cdna::Product p;
    p.desc = {desc, [](hipblasLtMatmulDesc_t) {}};  // the program's, and to live as long as this is run
    p.layout_a = cdna::copy_of(matA), p.layout_b = cdna::copy_of(matB);
    p.layout_c = cdna::copy_of(matC), p.layout_d = cdna::copy_of(matD);
    p.a = A, p.b = B, p.c = C, p.d = D;
    int32_t mode = HIPBLASLT_POINTER_MODE_HOST;
    (void)hipblasLtMatmulDescGetAttribute(desc, HIPBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode, nullptr);
    if (mode != HIPBLASLT_POINTER_MODE_HOST) p.device_alpha = alpha;
    else if (alpha) p.alpha = *static_cast<const float*>(alpha);
    if (mode == HIPBLASLT_POINTER_MODE_DEVICE) p.device_beta = beta;
    else if (beta) p.beta = *static_cast<const float*>(beta);
    return p;
  }

  GemmType m_gemm_type;
  std::vector<GemmProblemType> m_problem_types;
  hipblasLtHandle_t m_handle;
  std::vector<cdna::Product> products_;
};

class Gemm : public GemmInstance {
 public:
  explicit Gemm(hipblasLtHandle_t handle, hipblasOperation_t opA, hipblasOperation_t opB, hipDataType typeA,
                hipDataType typeB, hipDataType typeC, hipDataType typeD, hipblasComputeType_t typeCompute)
      : GemmInstance(handle, GemmType::HIPBLASLT_GEMM) {
    m_problem_types = {GemmProblemType(opA, opB, typeA, typeB, typeC, typeD, typeCompute)};
  }
  explicit Gemm(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc, const void* alpha, const void* A,
                hipblasLtMatrixLayout_t matA, const void* B, hipblasLtMatrixLayout_t matB, const void* beta,
                const void* C, hipblasLtMatrixLayout_t matC, void* D, hipblasLtMatrixLayout_t matD)
      : GemmInstance(handle, GemmType::HIPBLASLT_GEMM) {
    (void)setProblem(desc, alpha, A, matA, B, matB, beta, C, matC, D, matD);
  }
  hipblasStatus_t setProblem(int64_t m, int64_t n, int64_t k, int64_t batch_count, GemmEpilogue& epilogue,
                             GemmInputs& inputs) {
    const GemmProblemType& type = m_problem_types[0];
    products_ = {cdna::product(type, cdna::dense(type, m, n, k, batch_count), epilogue, inputs)};
    return HIPBLAS_STATUS_SUCCESS;
  }
  hipblasStatus_t setProblem(int64_t m, int64_t n, int64_t k, int64_t batch_count, int64_t lda, int64_t ldb,
                             int64_t ldc, int64_t ldd, int64_t strideA, int64_t strideB, int64_t strideC,
                             int64_t strideD, GemmEpilogue& epilogue, GemmInputs& inputs,
                             GemmProblemType& problemtype) {
    m_problem_types = {problemtype};
    products_ = {cdna::product(
        problemtype, {m, n, k, batch_count, lda, ldb, ldc, ldd, strideA, strideB, strideC, strideD}, epilogue, inputs)};
    return HIPBLAS_STATUS_SUCCESS;
  }
  hipblasStatus_t setProblem(hipblasLtMatmulDesc_t desc, const void* alpha, const void* A, hipblasLtMatrixLayout_t matA,
                             const void* B, hipblasLtMatrixLayout_t matB, const void* beta, const void* C,
                             hipblasLtMatrixLayout_t matC, void* D, hipblasLtMatrixLayout_t matD) {
    products_ = {from_descriptors(desc, alpha, A, matA, B, matB, beta, C, matC, D, matD)};
    return HIPBLAS_STATUS_SUCCESS;
  }
  GemmProblemType getProblemTypes() { return m_problem_types.empty() ? GemmProblemType() : m_problem_types[0]; }
};

class GroupedGemm : public GemmInstance {
 public:
  explicit GroupedGemm(hipblasLtHandle_t handle, hipblasOperation_t opA, hipblasOperation_t opB, hipDataType typeA,
                       hipDataType typeB, hipDataType typeC, hipDataType typeD, hipblasComputeType_t typeCompute)
      : GemmInstance(handle, GemmType::HIPBLASLT_GROUPED_GEMM) {
    m_problem_types = {GemmProblemType(opA, opB, typeA, typeB, typeC, typeD, typeCompute)};
  }
  explicit GroupedGemm(hipblasLtHandle_t handle, std::vector<hipblasLtMatmulDesc_t>& desc, std::vector<void*>& alpha,
                       std::vector<void*>& A, std::vector<hipblasLtMatrixLayout_t>& matA, std::vector<void*>& B,
                       std::vector<hipblasLtMatrixLayout_t>& matB, std::vector<void*>& beta, std::vector<void*>& C,
                       std::vector<hipblasLtMatrixLayout_t>& matC, std::vector<void*>& D,
                       std::vector<hipblasLtMatrixLayout_t>& matD)
      : GemmInstance(handle, GemmType::HIPBLASLT_GROUPED_GEMM) {
    (void)setProblem(desc, alpha, A, matA, B, matB, beta, C, matC, D, matD);
  }
  hipblasStatus_t setProblem(std::vector<int64_t>& m, std::vector<int64_t>& n, std::vector<int64_t>& k,
                             std::vector<int64_t>& batch_count, std::vector<GemmEpilogue>& epilogue,
                             std::vector<GemmInputs>& inputs) {
    return set_all(m.size(), inputs, epilogue,
                   [&](size_t i) { return cdna::dense(type_of(i), m[i], n[i], k[i], batch_count[i]); });
  }
  hipblasStatus_t setProblem(std::vector<int64_t>& m, std::vector<int64_t>& n, std::vector<int64_t>& k,
                             std::vector<int64_t>& batch_count, std::vector<int64_t>& lda, std::vector<int64_t>& ldb,
                             std::vector<int64_t>& ldc, std::vector<int64_t>& ldd, std::vector<int64_t>& strideA,
                             std::vector<int64_t>& strideB, std::vector<int64_t>& strideC,
                             std::vector<int64_t>& strideD, std::vector<GemmEpilogue>& epilogue,
                             std::vector<GemmInputs>& inputs, GemmProblemType& problemtype) {
    m_problem_types = {problemtype};
    return set_all(m.size(), inputs, epilogue, [&](size_t i) {
      return cdna::Shape{m[i],   n[i],   k[i],       batch_count[i], lda[i],     ldb[i],
                         ldc[i], ldd[i], strideA[i], strideB[i],     strideC[i], strideD[i]};
    });
  }
  hipblasStatus_t setProblem(std::vector<hipblasLtMatmulDesc_t>& desc, std::vector<void*>& alpha, std::vector<void*>& A,
                             std::vector<hipblasLtMatrixLayout_t>& matA, std::vector<void*>& B,
                             std::vector<hipblasLtMatrixLayout_t>& matB, std::vector<void*>& beta,
                             std::vector<void*>& C, std::vector<hipblasLtMatrixLayout_t>& matC, std::vector<void*>& D,
                             std::vector<hipblasLtMatrixLayout_t>& matD) {
    products_.clear();
    for (size_t i = 0; i < desc.size(); i++)
      products_.push_back(
          from_descriptors(desc[i], alpha[i], A[i], matA[i], B[i], matB[i], beta[i], C[i], matC[i], D[i], matD[i]));
    return desc.empty() ? HIPBLAS_STATUS_INVALID_VALUE : HIPBLAS_STATUS_SUCCESS;
  }
  std::vector<GemmProblemType> getProblemTypes() { return m_problem_types; }

 private:
  const GemmProblemType& type_of(size_t i) const { return m_problem_types[m_problem_types.size() > 1 ? i : 0]; }
  template <typename ShapeOf>
  hipblasStatus_t set_all(size_t count, std::vector<GemmInputs>& inputs, std::vector<GemmEpilogue>& epilogue,
                          ShapeOf shape_of) {
    products_.clear();
    if (inputs.size() != count || epilogue.size() != count || !count) return HIPBLAS_STATUS_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
      products_.push_back(cdna::product(type_of(i), shape_of(i), epilogue[i], inputs[i]));
    return HIPBLAS_STATUS_SUCCESS;
  }
};

inline std::string gemmType2String(GemmType type) { return type == GemmType::HIPBLASLT_GEMM ? "gemm" : "grouped_gemm"; }

// Algorithms by their indices. Any index is taken, as they are all one: those of another release are too.
inline hipblasStatus_t getAlgosFromIndex(hipblasLtHandle_t, std::vector<int>& algoIndex,
                                         std::vector<hipblasLtMatmulHeuristicResult_t>& heuristicResults) {
  for (int index : algoIndex) {
    heuristicResults.emplace_back();
    std::memcpy(heuristicResults.back().algo.data, &index, sizeof index);
  }
  return HIPBLAS_STATUS_SUCCESS;
}
inline int getIndexFromAlgo(hipblasLtMatmulAlgo_t& algo) {
  int index;
  std::memcpy(&index, algo.data, sizeof index);
  return index;
}
inline std::string getSolutionNameFromAlgo(hipblasLtHandle_t, hipblasLtMatmulAlgo_t&) { return "cdna"; }
inline std::string getKernelNameFromAlgo(hipblasLtHandle_t, hipblasLtMatmulAlgo_t&) { return "cdna"; }
inline hipblasStatus_t getAllAlgos(hipblasLtHandle_t, GemmType, hipblasOperation_t, hipblasOperation_t, hipDataType,
                                   hipDataType, hipDataType, hipDataType, hipblasComputeType_t,
                                   std::vector<hipblasLtMatmulHeuristicResult_t>& heuristicResults) {
  heuristicResults.assign(1, {});
  return HIPBLAS_STATUS_SUCCESS;
}
inline hipblasStatus_t matmulIsAlgoSupported(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc, const void*,
                                             hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b, const void*,
                                             hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,
                                             hipblasLtMatmulAlgo_t&, size_t& workspaceSizeInBytes) {
  hipblasLtMatmulHeuristicResult_t result;
  int count = 0;
  workspaceSizeInBytes = 0;
  return hipblasLtMatmulAlgoGetHeuristic(handle, desc, a, b, c, d, nullptr, 1, &result, &count);
}

}  // namespace hipblaslt_ext
