// trimul on gfx942: the four launches of a call. docs/kernels/trimul.md says how they work.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "trimul_output_gfx942.h"
#include "trimul_project_gfx942.h"
#include "trimul_triangle_gfx942.h"

constexpr int WEIGHT_THREADS = 256, WEIGHT_WAVES = WEIGHT_THREADS / WAVE;
constexpr float LOG2_E = 1.44269504f;
constexpr int COMPUTE_UNITS = 304;  // MI300X

// Weights as the other kernels want them, in fp16, a wave a row. x's norm: its weight into the projections' columns, its
// bias into a bias of theirs. Gates are times -log2 e, for sigmoid(z) = 1 / (1 + 2^(-z log2 e)).
__global__ __launch_bounds__(WEIGHT_THREADS) void weight_kernel(const TrimulArgs args) {
    const int lane = threadIdx.x % WAVE, row = uniform(blockIdx.x * WEIGHT_WAVES + threadIdx.x / WAVE);
    if (row >= PROJECTIONS * HIDDEN + args.width) return;
    if (row >= PROJECTIONS * HIDDEN) {
        const int column = row - PROJECTIONS * HIDDEN;
        f16x2 two = {};
        if (column < args.dim)
            two = __builtin_convertvector(*reinterpret_cast<const f32x2*>(args.to_out + column * HIDDEN + lane * 2),
                                          f16x2);
        *reinterpret_cast<f16x2*>(args.weight_out + fragment_offset(column, lane * 2, HIDDEN)) = two;
        return;
    }
    const int projection = row / HIDDEN, h = row % HIDDEN;
    const float* const all[PROJECTIONS] = {args.left_proj, args.left_gate, args.out_gate, args.right_proj,
                                           args.right_gate};
    const float* const from = all[projection] + static_cast<size_t>(h) * args.dim;
    const float factor = projection == LEFT_PROJ || projection == RIGHT_PROJ ? 1.0f : -LOG2_E;
    float bias = 0;
    for (int column = lane * 2; column < args.width; column += 2 * WAVE) {
        f32x2 two = {};
        if (column < args.dim) {
            two = *reinterpret_cast<const f32x2*>(from + column) * factor;
            bias += two[0] * args.norm_bias[column] + two[1] * args.norm_bias[column + 1];
            two *= *reinterpret_cast<const f32x2*>(args.norm_weight + column);
        }
        *reinterpret_cast<f16x2*>(args.weight + fragment_offset(row, column, args.width)) =
            __builtin_convertvector(two, f16x2);
    }
    bias = add_16_apart(sum_of_16(bias));
    bias += __shfl_xor(bias, 32);
    if (lane == 0) args.bias[row] = bias;
}

void launch(void (*kernel)(TrimulArgs), dim3 groups, int threads, const TrimulArgs& args) {
    kernel<<<groups, dim3(threads)>>>(args);
    if (const hipError_t error = hipGetLastError())
        throw std::runtime_error(std::string("trimul, launch: ") + hipGetErrorString(error));
}

int over(int n, int each) { return (n + each - 1) / each; }

// As many workgroups as the card takes at once, each with its share of the tiles: no CU idles in a last round, and weights are
// loaded once.
template <int KT>
void project_and_back(TrimulArgs args, bool back) {
    constexpr int PARTS = parts_of(KT), ROWS = PairTile<KT>::ROWS, PROJECT_AT_ONCE = residency_of(KT) * COMPUTE_UNITS;
    constexpr int COLUMNS = KT <= 12 ? 1 : 2,
                  WIDE = KT / 4 / COLUMNS;  // workgroups a tile of the output, and their width
    if (back) {
        args.output_tiles = over(args.tiles(TILE_J), output_residency(WIDE) * COMPUTE_UNITS / COLUMNS);
        launch(output_kernel<WIDE>, dim3(over(args.tiles(TILE_J), args.output_tiles), COLUMNS), OUTPUT_THREADS, args);
    } else {
        args.project_tiles = over(args.tiles(ROWS), PROJECT_AT_ONCE / PARTS);
        const int ranges = over(over(args.tiles(ROWS), args.project_tiles), XCDS) * XCDS;
        launch(project_kernel<KT>, dim3(ranges * PARTS), PROJECT_THREADS, args);
    }
}

void of_width(const TrimulArgs& args, bool back) {
    if (args.width == 128) project_and_back<4>(args, back);
    else if (args.width == 256) project_and_back<8>(args, back);
    else if (args.width == 384) project_and_back<12>(args, back);
    else project_and_back<24>(args, back);
}

template <class T>
void triangle(const TrimulArgs& args) {
    const int tiles = over(args.n, T::BM) * over(args.n, T::BN);
    launch(triangle_kernel<T>, dim3(std::min(args.batch * HIDDEN * tiles, COMPUTE_UNITS * T::PER_CU)), T::THREADS,
           args);
}

// address, bytes: of a TrimulArgs. tile: rows and columns of the triangle's tile.
void trimul(int64_t address, int bytes, int tile) {
    if (bytes != sizeof(TrimulArgs)) throw std::runtime_error("trimul: TrimulArgs were packed in another way");
    const TrimulArgs& args = *reinterpret_cast<const TrimulArgs*>(address);
    launch(weight_kernel, dim3((PROJECTIONS * HIDDEN + args.width) / WEIGHT_WAVES), WEIGHT_THREADS, args);
    of_width(args, false);
    if (tile == 256) triangle<TriangleTile<256, 256, 2, 4, 1>>(args);
    else if (tile == 128) triangle<TriangleTile<128, 128, 2, 2, 2>>(args);
    else triangle<TriangleTile<64, 64, 2, 1, 4>>(args);
    of_width(args, true);
}
