// A product tile by tile, each by one thread: the operands' parts are converted to fp32 and laid out in panels, and a
// block of registers sums over k. A result does not depend on the number of threads.
#include "gemm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "numbers.h"

#if defined(__AVX2__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
constexpr int MR = 6, VECTORS = 2, NR = VECTORS * LANES;  // a block of registers: MR x NR
constexpr int TILE_M = 384, TILE_N = 512, DEPTH = 256;
static_assert(TILE_M % MR == 0 && TILE_N % NR == 0 && TILE_M <= TILE_N && DEPTH <= TILE_N, "");

typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4)));

// c [MR][TILE_N] += a [depth][MR] b [depth][NR], for NR columns of c.
static void sum_block(const float* a, const float* b, int64_t depth, float* c) {
  Vector sum[MR][VECTORS] = {};
  for (int64_t p = 0; p < depth; p++, a += MR, b += NR) {
    Vector y[VECTORS];
#pragma clang loop unroll(full)
    for (int v = 0; v < VECTORS; v++) y[v] = *(const Vector*)(b + v * LANES);
#pragma clang loop unroll(full)
    for (int r = 0; r < MR; r++)
#pragma clang loop unroll(full)
      for (int v = 0; v < VECTORS; v++) sum[r][v] += a[r] * y[v];
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < MR; r++)
#pragma clang loop unroll(full)
    for (int v = 0; v < VECTORS; v++) *(Vector*)(c + r * TILE_N + v * LANES) += sum[r][v];
}

// `count` rows of `depth` values, as panels [count / width][depth][width], with zeros for the rows that the last lacks.
// stride_row, stride_depth: of the matrix, in elements; one of them is 1. scratch: [TILE_N].
static void lay_out(hipDataType type, const char* at, int64_t stride_row, int64_t stride_depth, int64_t count,
                    int64_t depth, int width, float* panels, float* scratch) {
  size_t bytes = bytes_of(type);
  if (count % width) memset(panels + count / width * width * depth, 0, depth * width * sizeof(float));
  if (stride_row == 1) {
    for (int64_t p = 0; p < depth; p++) {
      to_floats(type, at + p * stride_depth * bytes, 1, count, scratch);
      for (int64_t r = 0; r < count; r += width)
        memcpy(panels + r * depth + p * width, scratch + r, (count - r < width ? count - r : width) * sizeof(float));
    }
    return;
  }
  for (int64_t r = 0; r < count; r++) {
    float* panel = panels + r / width * width * depth + r % width;
    to_floats(type, at + r * stride_row * bytes, stride_depth, depth, scratch);
    for (int64_t p = 0; p < depth; p++) panel[p * width] = scratch[p];
  }
}

// e to the power of x, to fp32's precision: the library is linked to nothing that has one.
static float exponential(float x) {
  if (!(x == x)) return x;
  if (x < -104) return 0;
  if (x > 89) return __builtin_inff();
  double y = x * 1.4426950408889634, whole = y < 0 ? (int)(y - 0.5) : (int)(y + 0.5);
  double z = (y - whole) * 0.6931471805599453;
  double sum = 1, term = 1;
  for (int i = 1; i < 12; i++) sum += term *= z / i;
  uint64_t bits = (uint64_t)((int64_t)whole + 1023) << 52;
  double power;
  memcpy(&power, &bits, 8);
  return (float)(sum * power);
}
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

struct Work {
  const Matmul* call;
  int64_t tiles_m, tiles_n, tiles, next;
};

static float scalar(const float* p) { return p ? *p : 1.0f; }

// What is done with the sums of one tile.
static void finish(const Matmul& g, int64_t batch, int64_t row0, int64_t column0, int64_t rows, int64_t columns,
                   const float* sums, float* line) {
  float alpha = g.alpha_pointer && !g.alpha_of_rows ? *g.alpha_pointer : g.alpha_of_rows ? 1 : g.alpha;
  float beta = (g.beta_pointer ? *g.beta_pointer : g.beta) * scalar(g.scale_c), scale_d = scalar(g.scale_d);
  if (!g.scale_a_of_rows) alpha *= scalar(g.scale_a);
  if (!g.scale_b_of_columns) alpha *= scalar(g.scale_b);
  size_t bytes_c = bytes_of(g.c.type), bytes_d = bytes_of(g.d.type);
  // along what lies side by side in D, so that it is written in order
  bool by_columns = g.d.row_stride == 1;
  int64_t lines = by_columns ? columns : rows, n = by_columns ? rows : columns;
  float *before = line + TILE_N, *bias = before + TILE_N;
  for (int64_t j = 0; j < lines; j++) {
    int64_t row = row0 + (by_columns ? 0 : j), column = column0 + (by_columns ? j : 0);
    auto offset = [&](const Matrix& x) {
      return batch * x.batch_stride + row * x.row_stride + column * x.column_stride;
    };
    auto along = [&](const Matrix& x) { return by_columns ? x.row_stride : x.column_stride; };
    if (beta != 0) to_floats(g.c.type, g.c.data + offset(g.c) * bytes_c, along(g.c), n, before);
    if (g.bias) to_floats(g.bias_type, g.bias + row * bytes_of(g.bias_type), by_columns, n, bias);
    for (int64_t i = 0; i < n; i++) {
      int64_t r = by_columns ? i : j, c = by_columns ? j : i;
      float x = sums[r * TILE_N + c] * alpha;
      if (g.alpha_of_rows) x *= g.alpha_pointer[row0 + r];
      if (g.scale_a_of_rows) x *= g.scale_a[row0 + r];
      if (g.scale_b_of_columns) x *= g.scale_b[column0 + c];
      if (beta != 0) x += beta * before[i];
      if (g.bias) x += bias[i];
      line[i] = scale_d * activated(g.activation, x);
    }
    from_floats(g.d.type, line, n, g.d.data + offset(g.d) * bytes_d, along(g.d));
  }
}

static void* work(void* argument) {
  Work& w = *(Work*)argument;
  const Matmul& g = *w.call;
  constexpr size_t SUMS = TILE_M * TILE_N, A = TILE_M * DEPTH, B = TILE_N * DEPTH, LINES = 3 * TILE_N;
  float* memory = (float*)malloc((SUMS + A + B + LINES) * sizeof(float));
  float *sums = memory, *a = sums + SUMS, *b = a + A, *line = b + B;
  bool without_product = !g.alpha_of_rows && (g.alpha_pointer ? *g.alpha_pointer : g.alpha) == 0;
  for (;;) {
    int64_t tile = __atomic_fetch_add(&w.next, 1, __ATOMIC_RELAXED);
    if (tile >= w.tiles) break;
    int64_t batch = tile / (w.tiles_m * w.tiles_n), row = tile % w.tiles_m * TILE_M;
    int64_t column = tile / w.tiles_m % w.tiles_n * TILE_N;
    int64_t rows = g.m - row < TILE_M ? g.m - row : TILE_M, columns = g.n - column < TILE_N ? g.n - column : TILE_N;
    memset(sums, 0, SUMS * sizeof(float));
    for (int64_t k = 0; k < g.k && !without_product; k += DEPTH) {
      int64_t depth = g.k - k < DEPTH ? g.k - k : DEPTH;
      auto at = [&](const Matrix& x, int64_t r, int64_t c) {
        return x.data + (batch * x.batch_stride + r * x.row_stride + c * x.column_stride) * (int64_t)bytes_of(x.type);
      };
      lay_out(g.a.type, at(g.a, row, k), g.a.row_stride, g.a.column_stride, rows, depth, MR, a, line);
      lay_out(g.b.type, at(g.b, k, column), g.b.column_stride, g.b.row_stride, columns, depth, NR, b, line);
      for (int64_t j = 0; j < columns; j += NR)
        for (int64_t i = 0; i < rows; i += MR) sum_block(a + i * depth, b + j * depth, depth, sums + i * TILE_N + j);
    }
    finish(g, batch, row, column, rows, columns, sums, line);
  }
  free(memory);
  return nullptr;
}

static int threads_for(const Matmul& g, int64_t tiles) {
  const char* said = getenv("CDNA_THREADS");
  long most = said ? atol(said) : sysconf(_SC_NPROCESSORS_ONLN);
  if ((double)g.m * g.n * g.k * g.batches < 1e7) most = 1;  // less than starting one takes
  if (most > tiles) most = tiles;
  return most < 1 ? 1 : most > 256 ? 256 : (int)most;
}

void multiply(const Matmul& g) {
  if (g.m <= 0 || g.n <= 0 || g.batches <= 0) return;
  Work w = {&g, (g.m + TILE_M - 1) / TILE_M, (g.n + TILE_N - 1) / TILE_N, 0, 0};
  w.tiles = w.tiles_m * w.tiles_n * g.batches;
  pthread_t threads[256];
  int count = threads_for(g, w.tiles), started = 0;
  while (started < count - 1 && !pthread_create(&threads[started], nullptr, work, &w)) started++;
  work(&w);
  while (started > 0) pthread_join(threads[--started], nullptr);
}
