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
    default: return x;
  }
}

static float scalar(const float* p) { return p ? *p : 1.0f; }

static char* column_of(const Matrix& x, int64_t batch, int64_t column) {
  return x.data + (batch * x.batch_stride + column * x.ld) * bytes_of(x.type);
}

// D of one matrix of the batch. sums: [n][m]; lines: two columns of D; bias: [m] or null.
static void finish(const Matmul& g, int64_t batch, const float* sums, const float* bias, float* lines) {
  float alpha = g.alpha * scalar(g.scale_a) * scalar(g.scale_b), beta = g.beta * scalar(g.scale_c);
  float scale_d = scalar(g.scale_d), *line = lines, *before = lines + g.m;
  for (int64_t j = 0; j < g.n; j++) {
    if (beta != 0) to_floats(g.c.type, column_of(g.c, batch, j), g.m, before);
    for (int64_t i = 0; i < g.m; i++) {
      float x = sums[i + j * g.m] * alpha;
      if (beta != 0) x += beta * before[i];
      if (bias) x += bias[i];
      line[i] = scale_d * activated(g.activation, x);
    }
    from_floats(g.d.type, line, g.m, column_of(g.d, batch, j));
  }
}

// An operand of the batch as floats, its columns without gaps.
static float* dense(const Matrix& x, int64_t batch) {
  float* data = (float*)malloc(x.rows * x.columns * sizeof(float));
  for (int64_t j = 0; j < x.columns; j++) to_floats(x.type, column_of(x, batch, j), x.rows, data + j * x.rows);
  return data;
}

void multiply(const Matmul& g) {
  if (g.m <= 0 || g.n <= 0 || g.batches <= 0) return;
  bool with_product = g.k > 0 && g.alpha != 0;
  float* sums = (float*)calloc(g.m * g.n, sizeof(float));
  float* lines = (float*)malloc(2 * g.m * sizeof(float));
  float* bias = g.bias ? (float*)malloc(g.m * sizeof(float)) : nullptr;
  if (bias) to_floats(g.bias_type, g.bias, g.m, bias);
  for (int64_t batch = 0; batch < g.batches; batch++) {
    if (with_product) {
      float *a = dense(g.a, batch), *b = dense(g.b, batch);
      auto op = [](const Matrix& x) { return x.transposed ? TRANSPOSED : NOT_TRANSPOSED; };
      sgemm(COLUMN_MAJOR, op(g.a), op(g.b), g.m, g.n, g.k, 1, a, g.a.rows, b, g.b.rows, 0, sums, g.m);
      free(a);
      free(b);
    }
    finish(g, batch, sums, bias, lines);
  }
  free(bias);
  free(lines);
  free(sums);
}
