// rocWMMA's interface to the matrix instructions of gfx942 and gfx950 (ROCm documentation, "rocWMMA API reference"):
// fragments of 16 x 16 and 32 x 32 blocks that a wave of 64 lanes holds, with any depth that instructions divide.
// The order of a fragment's elements is that of the instructions' registers; names of rocWMMA before 2 are here too. Not
// here: cooperative operations between waves, xfloat32.
#pragma once

#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>
#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_fp8.h>
#include <stdint.h>
#include <tuple>
#include <type_traits>

namespace rocwmma {

struct Constants {
  static constexpr uint32_t AMDGCN_WAVE_SIZE_32 = 32, AMDGCN_WAVE_SIZE_64 = 64, AMDGCN_WAVE_SIZE = AMDGCN_WAVE_SIZE_64;
};

using float16_t = _Float16;
using hfloat16_t = __half;
using bfloat16_t = hip_bfloat16;
using float32_t = float;
using float64_t = double;
using float8_fnuz_t = __hip_fp8_e4m3_fnuz;
using bfloat8_fnuz_t = __hip_fp8_e5m2_fnuz;
using float8_t = __hip_fp8_e4m3;
using bfloat8_t = __hip_fp8_e5m2;
using ::int32_t;
using ::int8_t;

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t : uint32_t { mem_row_major, mem_col_major };

template <typename T, unsigned Count>
struct alignas(sizeof(T) * Count <= 16 && !(Count & (Count - 1)) ? sizeof(T) * Count : alignof(T)) VecT {
  T data[Count];
  __host__ __device__ T& operator[](unsigned i) { return data[i]; }
  __host__ __device__ const T& operator[](unsigned i) const { return data[i]; }
};
template <typename T, typename... Rest>
__host__ __device__ inline VecT<T, 1 + sizeof...(Rest)> make_vector(T first, Rest... rest) {
  return {{first, T(rest)...}};
}

namespace cdna {
constexpr unsigned WAVE = 64;

template <typename T, typename... Types> constexpr bool any_of = (std::is_same_v<T, Types> || ...);
template <typename T> constexpr bool is_f16 = any_of<T, _Float16, __half>;
template <typename T> constexpr bool is_bf16 = any_of<T, hip_bfloat16, __hip_bfloat16>;
template <typename T> constexpr bool is_fp8 = any_of<T, __hip_fp8_e4m3_fnuz, __hip_fp8_e4m3>;
template <typename T> constexpr bool is_bf8 = any_of<T, __hip_fp8_e5m2_fnuz, __hip_fp8_e5m2>;

// Values along k that an instruction takes from one lane; a wave's lanes are 64 / block such groups.
template <typename T>
constexpr unsigned per_lane = any_of<T, float, double>  ? 1
                              : is_f16<T> || is_bf16<T> ? 4
                                                        : 8;

template <typename Matrix, unsigned Block, unsigned K, typename T>
constexpr unsigned elements = (std::is_same_v<Matrix, accumulator> ? Block * Block : Block * K) / WAVE;

// Along the block (a row of A, a column of B) and along k, of element i of an operand in this lane.
template <unsigned Block, typename T>
__device__ inline void place_of_operand(unsigned i, unsigned& along, unsigned& k) {
  unsigned lane = __lane_id(), groups = WAVE / Block;
  along = lane % Block;
  k = (i / per_lane<T> * groups + lane / Block) * per_lane<T> + i % per_lane<T>;
}
template <unsigned Block, typename T>
__device__ inline void place_of_result(unsigned i, unsigned& row, unsigned& column) {
  unsigned lane = __lane_id(), group = lane / Block;
  column = lane % Block;
  if constexpr (std::is_same_v<T, double>) row = 4 * i + group;
  else row = i / 4 * 4 * (WAVE / Block) + 4 * group + i % 4;
}

template <typename Operand, typename T> __device__ inline Operand operand(const T* x) {
  Operand value;
  static_assert(sizeof value == sizeof(T) * per_lane<T>);
  __builtin_memcpy(&value, x, sizeof value);
  return value;
}

using half4 = __attribute__((__vector_size__(8))) _Float16;
using short4 = __attribute__((__vector_size__(8))) short;

template <unsigned Block, typename A, typename B, typename V>
__device__ inline V multiply(const A* a, const B* b, V c) {
  constexpr bool small = Block == 16;
  if constexpr (is_f16<A> && is_f16<B>) {
    half4 x = operand<half4>(a), y = operand<half4>(b);
    if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, c, 0, 0, 0);
    else return __builtin_amdgcn_mfma_f32_32x32x8f16(x, y, c, 0, 0, 0);
  } else if constexpr (is_bf16<A> && is_bf16<B>) {
    short4 x = operand<short4>(a), y = operand<short4>(b);
    if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, c, 0, 0, 0);
    else return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(x, y, c, 0, 0, 0);
  } else if constexpr (std::is_same_v<A, int8_t> && std::is_same_v<B, int8_t>) {
    long x = operand<long>(a), y = operand<long>(b);
    if constexpr (small) return __builtin_amdgcn_mfma_i32_16x16x32_i8(x, y, c, 0, 0, 0);
    else return __builtin_amdgcn_mfma_i32_32x32x16_i8(x, y, c, 0, 0, 0);
  } else if constexpr ((is_fp8<A> || is_bf8<A>) && (is_fp8<B> || is_bf8<B>)) {
    long x = operand<long>(a), y = operand<long>(b);
    if constexpr (is_fp8<A> && is_fp8<B>) {
      if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(x, y, c, 0, 0, 0);
      else return __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(x, y, c, 0, 0, 0);
    } else if constexpr (is_fp8<A>) {
      if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8(x, y, c, 0, 0, 0);
      else return __builtin_amdgcn_mfma_f32_32x32x16_fp8_bf8(x, y, c, 0, 0, 0);
    } else if constexpr (is_fp8<B>) {
      if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8(x, y, c, 0, 0, 0);
      else return __builtin_amdgcn_mfma_f32_32x32x16_bf8_fp8(x, y, c, 0, 0, 0);
    } else {
      if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(x, y, c, 0, 0, 0);
      else return __builtin_amdgcn_mfma_f32_32x32x16_bf8_bf8(x, y, c, 0, 0, 0);
    }
  } else if constexpr (std::is_same_v<A, float> && std::is_same_v<B, float>) {
    if constexpr (small) return __builtin_amdgcn_mfma_f32_16x16x4f32(*a, *b, c, 0, 0, 0);
    else return __builtin_amdgcn_mfma_f32_32x32x2f32(*a, *b, c, 0, 0, 0);
  } else {
    static_assert(std::is_same_v<A, double> && std::is_same_v<B, double> && small, "no such matrix instruction");
    return __builtin_amdgcn_mfma_f64_16x16x4f64(*a, *b, c, 0, 0, 0);
  }
}

// fp8 of the form that the card does not have would be read as the other: half or twice the value.
template <typename T>
constexpr bool is_the_cards =
#if defined(__gfx942__)
    !any_of<T, __hip_fp8_e4m3, __hip_fp8_e5m2>;
#elif defined(__gfx950__)
    !any_of<T, __hip_fp8_e4m3_fnuz, __hip_fp8_e5m2_fnuz>;
#else
    true;
#endif
}  // namespace cdna

template <typename Matrix, uint32_t BlockM, uint32_t BlockN, uint32_t BlockK, typename T, typename Layout = void>
class fragment {
 public:
  static_assert(BlockM == BlockN && (BlockM == 16 || BlockM == 32), "blocks are 16 x 16 or 32 x 32");
  static_assert(cdna::is_the_cards<T>, "fp8 is fnuz on gfx942 and OCP on gfx950");
  static constexpr uint32_t num_elements = cdna::elements<Matrix, BlockM, BlockK, T>;
  T x[num_elements];

  __device__ static constexpr uint32_t size() { return num_elements; }
  __device__ T& operator[](uint32_t i) { return x[i]; }
  __device__ const T& operator[](uint32_t i) const { return x[i]; }
};

namespace cdna {
// Calls visit(element, offset in memory, how many elements from there on lie in a row both here and there).
template <typename Matrix, uint32_t M, uint32_t N, uint32_t K, typename T, typename L, typename Visit>
__device__ inline void walk(const fragment<Matrix, M, N, K, T, L>&, uint32_t ld, bool by_row, Visit visit) {
  using F = fragment<Matrix, M, N, K, T, L>;
  if constexpr (std::is_same_v<Matrix, accumulator>) {
#pragma unroll
    for (uint32_t i = 0; i < F::num_elements; i++) {
      unsigned row, column;
      place_of_result<M, T>(i, row, column);
      visit(i, by_row ? (size_t)row * ld + column : (size_t)column * ld + row, 1u);
    }
  } else {
    constexpr bool is_a = std::is_same_v<Matrix, matrix_a>;
    bool along_k = is_a == by_row;
#pragma unroll
    for (uint32_t chunk = 0; chunk < F::num_elements; chunk += per_lane<T>) {
      unsigned along, k;
      place_of_operand<M, T>(chunk, along, k);
      if (along_k) {
        visit(chunk, (size_t)along * ld + k, per_lane<T>);
      } else {
#pragma unroll
        for (uint32_t i = 0; i < per_lane<T>; i++) visit(chunk + i, (size_t)(k + i) * ld + along, 1u);
      }
    }
  }
}
template <typename Matrix, uint32_t M, uint32_t N, uint32_t K, typename T, typename L>
__device__ inline void load(fragment<Matrix, M, N, K, T, L>& frag, const T* data, uint32_t ld, bool by_row) {
  walk(frag, ld, by_row, [&](uint32_t i, size_t at, uint32_t count) {
    if (count == 1) frag.x[i] = data[at];
    else __builtin_memcpy(frag.x + i, data + at, per_lane<T> * sizeof(T));
  });
}
template <typename Matrix, uint32_t M, uint32_t N, uint32_t K, typename T, typename L>
__device__ inline void store(T* data, const fragment<Matrix, M, N, K, T, L>& frag, uint32_t ld, bool by_row) {
  walk(frag, ld, by_row, [&](uint32_t i, size_t at, uint32_t count) {
    if (count == 1) data[at] = frag.x[i];
    else __builtin_memcpy(data + at, frag.x + i, per_lane<T> * sizeof(T));
  });
}
}  // namespace cdna

template <typename Matrix, uint32_t M, uint32_t N, uint32_t K, typename T, typename L>
__device__ inline void fill_fragment(fragment<Matrix, M, N, K, T, L>& frag, std::common_type_t<T> value) {
#pragma unroll
  for (uint32_t i = 0; i < frag.num_elements; i++) frag.x[i] = value;
}

// `ld`: elements between the starts of two rows (row-major) or columns.
template <typename Matrix, uint32_t M, uint32_t N, uint32_t K, typename T, typename L>
__device__ inline void load_matrix_sync(fragment<Matrix, M, N, K, T, L>& frag, const T* data, uint32_t ld) {
  static_assert(!std::is_void_v<L>, "a fragment without a layout is loaded with one: mem_row_major, mem_col_major");
  cdna::load(frag, data, ld, std::is_same_v<L, row_major>);
}
template <uint32_t M, uint32_t N, uint32_t K, typename T, typename L>
__device__ inline void load_matrix_sync(fragment<accumulator, M, N, K, T, L>& frag, const T* data, uint32_t ld,
                                        layout_t layout) {
  cdna::load(frag, data, ld, layout == mem_row_major);
}
template <typename Matrix, uint32_t M, uint32_t N, uint32_t K, typename T, typename L>
__device__ inline void store_matrix_sync(T* data, const fragment<Matrix, M, N, K, T, L>& frag, uint32_t ld) {
  static_assert(!std::is_void_v<L>, "a fragment without a layout is stored with one: mem_row_major, mem_col_major");
  cdna::store(data, frag, ld, std::is_same_v<L, row_major>);
}
template <uint32_t M, uint32_t N, uint32_t K, typename T, typename L>
__device__ inline void store_matrix_sync(T* data, const fragment<accumulator, M, N, K, T, L>& frag, uint32_t ld,
                                         layout_t layout) {
  cdna::store(data, frag, ld, layout == mem_row_major);
}

// d = a @ b + c. Sums are fp32, int32 or fp64, and are rounded at the end where the accumulator is narrower.
template <uint32_t M, uint32_t N, uint32_t K, typename A, typename B, typename C, typename LA, typename LB, typename LC,
          typename LD>
__device__ inline void mma_sync(fragment<accumulator, M, N, K, C, LD>& d, const fragment<matrix_a, M, N, K, A, LA>& a,
                                const fragment<matrix_b, M, N, K, B, LB>& b,
                                const fragment<accumulator, M, N, K, C, LC>& c) {
  using Sum = std::conditional_t<std::is_same_v<A, int8_t>, int32_t,
                                 std::conditional_t<std::is_same_v<A, double>, double, float>>;
  constexpr uint32_t count = fragment<accumulator, M, N, K, C, LD>::num_elements, step = cdna::per_lane<A>;
  static_assert(step == cdna::per_lane<B> && K % (step * cdna::WAVE / M) == 0, "K is no multiple of an instruction's");
  using Sums = __attribute__((__vector_size__(count * sizeof(Sum)))) Sum;
  Sums sums;
#pragma unroll
  for (uint32_t i = 0; i < count; i++) sums[i] = (Sum)c.x[i];
#pragma unroll
  for (uint32_t i = 0; i < a.num_elements; i += step) sums = cdna::multiply<M>(a.x + i, b.x + i, sums);
#pragma unroll
  for (uint32_t i = 0; i < count; i++) d.x[i] = (C)sums[i];
}

__device__ inline void synchronize_workgroup() { __syncthreads(); }

template <typename To, typename From> __host__ __device__ constexpr To convert(const From& value) {
  return (To)(value);
}
template <typename T, typename U> __host__ __device__ constexpr auto ceilDiv(T number, U divisor) {
  return (number + divisor - 1) / divisor;
}
template <uint32_t Power> struct Log2 {
  static_assert(Power && !(Power & (Power - 1)), "a power of two");
  static constexpr uint32_t value = __builtin_ctz(Power);
};

using Coord2d = std::tuple<uint32_t, uint32_t>;  // row and column
using std::get;
__host__ __device__ constexpr Coord2d make_coord2d(uint32_t row, uint32_t column) { return {row, column}; }

// Where each wave's block of a matrix lies: waves follow each other along x down the rows, along y over the columns.
template <uint32_t BlockHeight, uint32_t BlockWidth, typename T, typename Layout> struct MappingUtil {
  __device__ static Coord2d matrixCoord() {
    uint32_t down = (blockIdx.x * blockDim.x + threadIdx.x) / cdna::WAVE;
    return {down * BlockHeight, (blockIdx.y * blockDim.y + threadIdx.y) * BlockWidth};
  }
  __device__ static uint32_t dataOffset(Coord2d at, uint32_t ld) {
    auto [row, column] = at;
    return std::is_same_v<Layout, row_major> ? row * ld + column : column * ld + row;
  }
  template <typename Pointer> __device__ static Pointer dataCoord(Pointer base, Coord2d at, uint32_t ld) {
    return base + dataOffset(at, ld);
  }
};

}  // namespace rocwmma
