// Views of a fragment of A or B as another one (rocWMMA's rocwmma_transforms.hpp). Elements lie in registers as matrix
// instructions want them whatever the layout in memory, and a row of A as a column of B does: so each is a copy.
#pragma once

#include <rocwmma/rocwmma.hpp>

namespace rocwmma {

// The same values as a fragment that is stored and loaded in another layout.
template <typename Layout, typename Matrix, uint32_t M, uint32_t N, uint32_t K, typename T, typename L>
__device__ inline fragment<Matrix, M, N, K, T, Layout> apply_data_layout(const fragment<Matrix, M, N, K, T, L>& frag) {
  fragment<Matrix, M, N, K, T, Layout> made;
#pragma unroll
  for (uint32_t i = 0; i < frag.size(); i++) made.x[i] = frag.x[i];
  return made;
}

// A as the B that is its transpose, and B as A; what was row-major becomes column-major.
template <typename Matrix, uint32_t M, uint32_t N, uint32_t K, typename T, typename L>
__device__ inline auto apply_transpose(const fragment<Matrix, M, N, K, T, L>& frag) {
  static_assert(!std::is_same_v<Matrix, accumulator>, "only fragments of A and B have a transpose");
  using Other = std::conditional_t<std::is_same_v<Matrix, matrix_a>, matrix_b, matrix_a>;
  fragment<Other, N, M, K, T, std::conditional_t<std::is_same_v<L, row_major>, col_major, row_major>> made;
#pragma unroll
  for (uint32_t i = 0; i < frag.size(); i++) made.x[i] = frag.x[i];
  return made;
}

// As they were called before rocWMMA 2.
template <typename Layout, typename Fragment> __device__ inline auto applyDataLayout(const Fragment& frag) {
  return apply_data_layout<Layout>(frag);
}
template <typename Fragment> __device__ inline auto applyTranspose(const Fragment& frag) {
  return apply_transpose(frag);
}

}  // namespace rocwmma
