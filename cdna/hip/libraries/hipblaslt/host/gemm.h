// Products of matrices on the host: what hipBLASLt's calls (api.cpp) put on a queue.
#pragma once

#include <hip/library_types.h>
#include <stddef.h>
#include <stdint.h>

struct Matrix {  // strides in elements
  char* data;
  hipDataType type;
  int64_t row_stride, column_stride, batch_stride;
};

enum Activation { NO_ACTIVATION, RELU, GELU, SWISH };

// D [m][n] = scale_d * f(alpha * scale_a * scale_b * (A [m][k] B [k][n]) + beta * scale_c * C [m][n] + bias [m]),
// for each matrix of the batch. Scales and vectors are in device memory and read when it runs; null: 1.
struct Matmul {
  int64_t m, n, k, batches;
  Matrix a, b, c, d;
  float alpha, beta;
  const float *alpha_pointer, *beta_pointer;  // instead of alpha and beta
  bool alpha_of_rows;                         // alpha_pointer: [m]
  const float *scale_a, *scale_b, *scale_c, *scale_d;
  bool scale_a_of_rows, scale_b_of_columns;  // scale_a: [m], scale_b: [n]
  const char* bias;
  hipDataType bias_type;
  Activation activation;
};

size_t bytes_of(hipDataType);  // 0: a type that is not computed with
bool can_multiply();           // whether OpenBLAS is where it was when this library was built
void multiply(const Matmul&);
