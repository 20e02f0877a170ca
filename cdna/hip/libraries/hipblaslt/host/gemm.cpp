// A product on the host: the operands become dense fp32 matrices, numpy's OpenBLAS multiplies them, and the rest of
// hipBLASLt's formula is applied to the sums.
#include "gemm.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "numbers.h"

typedef void (*Sgemm)(int order, int op_a, int op_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                      int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
enum { COLUMN_MAJOR = 102, NOT_TRANSPOSED = 111, TRANSPOSED = 112 };  // cblas.h

static Sgemm sgemm;
static float (*exponential)(float);  // OpenBLAS brings the C library's

__attribute__((constructor)) static void load_openblas() {
  void* library = dlopen(OPENBLAS /* its path: a flag of this build */, RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  sgemm = (Sgemm)dlsym(library, "scipy_cblas_sgemm64_");
  exponential = (float (*)(float))dlsym(library, "expf");
}

bool can_multiply() { return sgemm && exponential; }

static float activated(Activation f, float x) {
  switch (f) {
    case RELU: return x > 0 ? x : x != x ? x : 0;
    case GELU: {  // by way of tanh
      float y = 0.7978845608f * (x + 0.044715f * x * x * x);
      return x - x / (exponential(2 * y) + 1);
    }
    case SWISH: return x / (1 + exponential(-x));
    default: return x;
  }
}

static float scalar(const float* p) { return p ? *p : 1.0f; }

// D of one matrix of the batch. sums: [n][m]; lines: two of the longer side of D; bias: [m] or null.
static void finish(const Matmul& g, int64_t batch, const float* sums, const float* bias, float* lines) {
  float alpha = g.alpha_of_rows ? 1 : g.alpha_pointer ? *g.alpha_pointer : g.alpha;
  float beta = (g.beta_pointer ? *g.beta_pointer : g.beta) * scalar(g.scale_c), scale_d = scalar(g.scale_d);
  if (!g.scale_a_of_rows) alpha *= scalar(g.scale_a);
  if (!g.scale_b_of_columns) alpha *= scalar(g.scale_b);
  bool by_columns = g.d.row_stride == 1;  // along what lies side by side in D
  int64_t count = by_columns ? g.n : g.m, n = by_columns ? g.m : g.n;
  float *line = lines, *before = lines + n;
  for (int64_t j = 0; j < count; j++) {
    auto at = [&](const Matrix& x) {
      return x.data + (batch * x.batch_stride + j * (by_columns ? x.column_stride : x.row_stride)) * bytes_of(x.type);
    };
    auto along = [&](const Matrix& x) { return by_columns ? x.row_stride : x.column_stride; };
    if (beta != 0) to_floats(g.c.type, at(g.c), along(g.c), n, before);
    for (int64_t i = 0; i < n; i++) {
      int64_t row = by_columns ? i : j, column = by_columns ? j : i;
      float x = sums[row + column * g.m] * alpha;
      if (g.alpha_of_rows) x *= g.alpha_pointer[row];
      if (g.scale_a_of_rows) x *= g.scale_a[row];
      if (g.scale_b_of_columns) x *= g.scale_b[column];
      if (beta != 0) x += beta * before[i];
      if (bias) x += bias[row];
      line[i] = scale_d * activated(g.activation, x);
    }
    from_floats(g.d.type, line, n, at(g.d), along(g.d));
  }
}

// A matrix of the batch as floats, densely: its columns if they lie side by side in memory, else its rows.
struct Dense {
  float* data;
  int64_t ld;
  int op;
};
static Dense dense(const Matrix& x, int64_t batch, int64_t rows, int64_t columns) {
  bool by_columns = x.row_stride == 1;
  int64_t n = by_columns ? rows : columns, count = by_columns ? columns : rows;
  float* data = (float*)malloc(rows * columns * sizeof(float));
  for (int64_t j = 0; j < count; j++) {
    int64_t at = batch * x.batch_stride + j * (by_columns ? x.column_stride : x.row_stride);
    to_floats(x.type, x.data + at * bytes_of(x.type), by_columns ? x.row_stride : x.column_stride, n, data + j * n);
  }
  return {data, n, by_columns ? NOT_TRANSPOSED : TRANSPOSED};
}

void multiply(const Matmul& g) {
  if (g.m <= 0 || g.n <= 0 || g.batches <= 0) return;
  bool without_product = g.k <= 0 || (!g.alpha_of_rows && (g.alpha_pointer ? *g.alpha_pointer : g.alpha) == 0);
  float* sums = (float*)calloc(g.m * g.n, sizeof(float));
  float* lines = (float*)malloc(2 * (g.m > g.n ? g.m : g.n) * sizeof(float));
  float* bias = g.bias ? (float*)malloc(g.m * sizeof(float)) : nullptr;
  if (bias) to_floats(g.bias_type, g.bias, 1, g.m, bias);
  for (int64_t batch = 0; batch < g.batches; batch++) {
    if (!without_product) {
      Dense a = dense(g.a, batch, g.m, g.k), b = dense(g.b, batch, g.k, g.n);
      sgemm(COLUMN_MAJOR, a.op, b.op, g.m, g.n, g.k, 1, a.data, a.ld, b.data, b.ld, 0, sums, g.m);
      free(a.data);
      free(b.data);
    }
    finish(g, batch, sums, bias, lines);
  }
  free(bias);
  free(lines);
  free(sums);
}
