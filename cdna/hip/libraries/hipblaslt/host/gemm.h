// Products of matrices on the host: what hipBLASLt's calls (api.cpp) put on a queue.
#pragma once

#include <hip/library_types.h>
#include <stddef.h>
#include <stdint.h>

struct Matrix {  // column by column; strides in elements
  char* data;
  hipDataType type;
  int64_t rows, columns, ld, batch_stride;
  bool transposed;  // an operand: what is multiplied is its transpose
};

enum Activation { NO_ACTIVATION, RELU, GELU };

// D [m][n] = scale_d * f(alpha * scale_a * scale_b * (A [m][k] B [k][n]) + beta * scale_c * C [m][n] + bias [m]),
// for each matrix of the batch. Scales are in device memory and read when it runs; null: 1.
struct Matmul {
  int64_t m, n, k, batches;
  Matrix a, b, c, d;
  float alpha, beta;
  const float *scale_a, *scale_b, *scale_c, *scale_d;
  const char* bias;
  hipDataType bias_type;
  Activation activation;
};

size_t bytes_of(hipDataType);  // 0: a type that is not computed with
bool can_multiply();           // whether OpenBLAS is where it was when this library was built
void multiply(const Matmul&);
