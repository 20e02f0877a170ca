// Of hipBLASLt's C++ interface (ROCm documentation, "hipBLASLtExt API reference") products and groups of them by their
// sizes, on top of the C one. Not here: other leading dimensions, epilogues but the default one, descriptors.
#pragma once

#include <hipblaslt/hipblaslt.h>
#include <cstring>
#include <memory>
#include <vector>

namespace hipblaslt_ext {

enum class GemmType { HIPBLASLT_GEMM = 1, HIPBLASLT_GROUPED_GEMM = 2 };

class GemmPreference {
 public:
  void setMaxWorkspaceBytes(size_t bytes) { bytes_ = bytes; }
  size_t getMaxWorkspaceBytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// Members are public, as those of ROCm 6's plain structs are, from which these classes come.
class GemmEpilogue {
 public:
  void setMode(hipblasLtEpilogue_t value) { mode = value; }
  hipblasLtEpilogue_t mode = HIPBLASLT_EPILOGUE_DEFAULT;
};

#define CDNA_POINTER(name, member) \
  void set##name(const void* p) { member = const_cast<void*>(p); }
class GemmInputs {
 public:
  CDNA_POINTER(A, a)
  CDNA_POINTER(B, b)
  CDNA_POINTER(C, c)
  CDNA_POINTER(D, d)
  CDNA_POINTER(Alpha, alpha)
  CDNA_POINTER(Beta, beta)
  CDNA_POINTER(Bias, bias)

  void *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr, *alpha = nullptr, *beta = nullptr, *bias = nullptr;
};
#undef CDNA_POINTER

// As ROCm 6 calls them.
using GemmPreferenceV2 = GemmPreference;
using GemmEpilogueV2 = GemmEpilogue;
using GemmInputsV2 = GemmInputs;

namespace cdna {

struct ProblemType {
  hipblasOperation_t op_a, op_b;
  hipDataType type_a, type_b, type_c, type_d;
  hipblasComputeType_t compute;
};

// One product: what hipblasLtMatmul takes, in descriptors of its own. alpha and beta are read when it is set.
struct Product {
  std::shared_ptr<hipblasLtMatmulDescOpaque_t> desc;
  std::shared_ptr<hipblasLtMatrixLayoutOpaque_t> layout_a, layout_b, layout_c, layout_d;
  GemmInputs in;
  float alpha = 1, beta = 0;

  hipblasStatus_t run(hipblasLtHandle_t handle, hipStream_t stream) const {
    return hipblasLtMatmul(handle, desc.get(), &alpha, in.a, layout_a.get(), in.b, layout_b.get(), &beta, in.c,
                           layout_c.get(), in.d, layout_d.get(), nullptr, nullptr, 0, stream);
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
// Of matrices without gaps, column by column.
inline std::shared_ptr<hipblasLtMatrixLayoutOpaque_t> layout(hipDataType type, int64_t rows, int64_t columns,
                                                             int32_t batches) {
  hipblasLtMatrixLayout_t made = nullptr;
  int64_t stride = rows * columns;
  (void)hipblasLtMatrixLayoutCreate(&made, type, rows, columns, rows);
  (void)hipblasLtMatrixLayoutSetAttribute(made, HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches);
  (void)hipblasLtMatrixLayoutSetAttribute(made, HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  return {made, hipblasLtMatrixLayoutDestroy};
}
inline Product product(const ProblemType& t, int64_t m, int64_t n, int64_t k, int64_t batches, const GemmEpilogue& e,
                       const GemmInputs& in) {
  Product p;
  hipblasLtMatmulDesc_t made = nullptr;
  (void)hipblasLtMatmulDescCreate(&made, t.compute, HIP_R_32F);
  p.desc = {made, hipblasLtMatmulDescDestroy};
  set(p, HIPBLASLT_MATMUL_DESC_TRANSA, int32_t(t.op_a));
  set(p, HIPBLASLT_MATMUL_DESC_TRANSB, int32_t(t.op_b));
  set(p, HIPBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(e.mode));
  set(p, HIPBLASLT_MATMUL_DESC_BIAS_POINTER, in.bias);
  bool a_as_is = t.op_a == HIPBLAS_OP_N, b_as_is = t.op_b == HIPBLAS_OP_N;
  p.layout_a = layout(t.type_a, a_as_is ? m : k, a_as_is ? k : m, batches);
  p.layout_b = layout(t.type_b, b_as_is ? k : n, b_as_is ? n : k, batches);
  p.layout_c = layout(t.type_c, m, n, batches);
  p.layout_d = layout(t.type_d, m, n, batches);
  p.in = in;
  if (in.alpha) p.alpha = *static_cast<const float*>(in.alpha);
  if (in.beta) p.beta = *static_cast<const float*>(in.beta);
  return p;
}

}  // namespace cdna

class GemmInstance {
 public:
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
  hipblasStatus_t initialize(const hipblasLtMatmulAlgo_t&, void*, bool = true, hipStream_t = 0) { return supported(); }
  hipblasStatus_t run(hipStream_t stream) {
    return for_all([&](const cdna::Product& p) { return p.run(handle_, stream); });
  }

 protected:
  GemmInstance(hipblasLtHandle_t handle, const cdna::ProblemType& type) : type_(type), handle_(handle) {}
  hipblasStatus_t supported() const {
    return for_all([&](const cdna::Product& p) { return p.supported(handle_); });
  }
  cdna::ProblemType type_;
  std::vector<cdna::Product> products_;

 private:
  template <typename Call> hipblasStatus_t for_all(Call call) const {
    hipblasStatus_t status = products_.empty() ? HIPBLAS_STATUS_INVALID_VALUE : HIPBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < products_.size() && status == HIPBLAS_STATUS_SUCCESS; i++) status = call(products_[i]);
    return status;
  }
  hipblasLtHandle_t handle_;
};

class Gemm : public GemmInstance {
 public:
  explicit Gemm(hipblasLtHandle_t handle, hipblasOperation_t opA, hipblasOperation_t opB, hipDataType typeA,
                hipDataType typeB, hipDataType typeC, hipDataType typeD, hipblasComputeType_t typeCompute)
      : GemmInstance(handle, {opA, opB, typeA, typeB, typeC, typeD, typeCompute}) {}
  hipblasStatus_t setProblem(int64_t m, int64_t n, int64_t k, int64_t batch_count, GemmEpilogue& epilogue,
                             GemmInputs& inputs) {
    products_ = {cdna::product(type_, m, n, k, batch_count, epilogue, inputs)};
    return HIPBLAS_STATUS_SUCCESS;
  }
};

class GroupedGemm : public GemmInstance {
 public:
  explicit GroupedGemm(hipblasLtHandle_t handle, hipblasOperation_t opA, hipblasOperation_t opB, hipDataType typeA,
                       hipDataType typeB, hipDataType typeC, hipDataType typeD, hipblasComputeType_t typeCompute)
      : GemmInstance(handle, {opA, opB, typeA, typeB, typeC, typeD, typeCompute}) {}
  hipblasStatus_t setProblem(std::vector<int64_t>& m, std::vector<int64_t>& n, std::vector<int64_t>& k,
                             std::vector<int64_t>& batch_count, std::vector<GemmEpilogue>& epilogue,
                             std::vector<GemmInputs>& inputs) {
    products_.clear();
    if (inputs.size() != m.size() || epilogue.size() != m.size() || m.empty()) return HIPBLAS_STATUS_INVALID_VALUE;
    for (size_t i = 0; i < m.size(); i++)
      products_.push_back(cdna::product(type_, m[i], n[i], k[i], batch_count[i], epilogue[i], inputs[i]));
    return HIPBLAS_STATUS_SUCCESS;
  }
};

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
inline hipblasStatus_t getAllAlgos(hipblasLtHandle_t, GemmType, hipblasOperation_t, hipblasOperation_t, hipDataType,
                                   hipDataType, hipDataType, hipDataType, hipblasComputeType_t,
                                   std::vector<hipblasLtMatmulHeuristicResult_t>& heuristicResults) {
  heuristicResults.assign(1, {});
  return HIPBLAS_STATUS_SUCCESS;
}

}  // namespace hipblaslt_ext
