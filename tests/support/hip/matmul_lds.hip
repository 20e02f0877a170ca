#include "check.h"

constexpr int TILE = 16;

// C = A B, all n x n; edges are handled where n is no multiple of the tile.
__global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float as[TILE][TILE + 1], bs[TILE][TILE + 1];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += TILE) {
    int ka = k + threadIdx.x, kb = k + threadIdx.y;
    as[threadIdx.y][threadIdx.x] = row < n && ka < n ? a[row * n + ka] : 0;
    bs[threadIdx.y][threadIdx.x] = kb < n && column < n ? b[kb * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < TILE; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < n && column < n) c[row * n + column] = sum;
}

int main() {
  const int n = 75;
  std::vector<float> a(n * n), b(n * n);
  for (int i = 0; i < n * n; i++) a[i] = int(hashed(i) % 9) - 4, b[i] = int(hashed(i + 7777) % 9) - 4;
  DeviceArray<float> da(a), db(b), dc(n * n);
  int tiles = (n + TILE - 1) / TILE;
  matmul<<<dim3(tiles, tiles), dim3(TILE, TILE)>>>(da.data, db.data, dc.data, n);
  OK(hipDeviceSynchronize());
  std::vector<float> c = dc.host();
  for (int r = 0; r < n; r++)
    for (int s = 0; s < n; s++) {
      float sum = 0;
      for (int k = 0; k < n; k++) sum += a[r * n + k] * b[k * n + s];
      EXPECT(c[r * n + s] == sum);  // small integers: exact in any order
    }
}
