// trimul on gfx942: layer norm of x, its five projections, their gates and the mask, in one pass over x.
//
// A workgroup has some tiles of pairs (i, k) and half of the hidden channels (at width 768 a quarter of the work: see
// PARTS); its weights stay in registers, a wave's 16 channels of each projection. x̂ of a tile goes through LDS, two buffers
// in turn. The norm's affine part is in the weights and their bias, the gates' weights are times -log2 e.
//
// A wave that multiplied, then normed and gated, would leave the matrix core idle for half of the time. So a tile's matrix
// work comes in two phases, and the vector work of other phases in between its instructions:
//
//     phase    multiplies                 meanwhile
//     first    left and gate, tile t      right of tile t - 1: sigmoid, mask, store; much of tile t + 1 normed
//     second   right, tile t              left and gate of tile t; the rest of tile t + 1
//
// x of tile t + 2 is loaded as soon as the registers of t + 1 are free.
#pragma once

#include "trimul_args_gfx942.h"

constexpr int PROJECT_THREADS = 256, PROJECT_WAVES = PROJECT_THREADS / WAVE;

constexpr int tiles_of(int kt) { return kt <= 12 ? 2 : 1; }  // of 16 pairs: 48 KiB of LDS at widths 384 and 768
constexpr int parts_of(int kt) { return kt <= 12 ? 2 : 4; }
constexpr int residency_of(int kt) { return kt <= 4 ? 2 : 1; }  // workgroups a CU

__device__ inline f32x2 sigmoid_of_scaled(f32x2 x) {  // x is times -log2 e
    const f32x2 sum = f32x2{__builtin_amdgcn_exp2f(x[0]), __builtin_amdgcn_exp2f(x[1])} + 1.0f;
    return f32x2{__builtin_amdgcn_rcpf(sum[0]), __builtin_amdgcn_rcpf(sum[1])};
}

__device__ inline u32 pack_f16(f32x2 x) { return __builtin_bit_cast(u32, __builtin_amdgcn_cvt_pkrtz(x[0], x[1])); }

// Of KT * 32 columns of x, a workgroup's projections: FIRST and further ones, FIRST_PHASE of them and then SECOND_PHASE.
template <int KT_, int FIRST_, int FIRST_PHASE_, int SECOND_PHASE_>
struct Projections {
    static constexpr int KT = KT_, FIRST = FIRST_, FIRST_PHASE = FIRST_PHASE_, SECOND_PHASE = SECOND_PHASE_;
    static constexpr int COUNT = FIRST_PHASE + SECOND_PHASE;
    static constexpr bool LEFT = FIRST == LEFT_PROJ, GATE = FIRST + FIRST_PHASE > OUT_GATE, RIGHT = SECOND_PHASE > 0;

    f16x8 weight[COUNT][KT];
    float bias[COUNT];

    // Of 16 channels.
    __device__ Projections(const TrimulArgs& args, int channel, int lane) {
#pragma unroll
        for (int p = 0; p < COUNT; ++p) {
            const int row = (FIRST + p) * HIDDEN + channel;
            bias[p] = args.bias[row + lane % 16];
#pragma unroll
            for (int k = 0; k < KT; ++k)
                weight[p][k] = *reinterpret_cast<const f16x8*>(
                    args.weight + fragment_offset(row + lane % 16, k * 32 + lane / 16 * 8, KT * 32));
        }
    }
};

// A tile of pairs, [pair][column], and how it lies in registers and LDS.
template <int KT>
struct PairTile {
    static constexpr int WIDTH = KT * 32, TILES = tiles_of(KT), ROWS = TILES * 16, OWN = TILES * 4;

    // Where the eight columns lie that a lane multiplies in the first step, or the second: further steps' are 64 halves from
    // these, each 2 steps, and further tiles' 4 rows. Row r of MFMA tile t is the pair r / 4 * OWN + t * 4 + r % 4, so a lane's
    // results are of OWN neighbours, four lanes' of ROWS. Eights are permuted in each 64 columns by an XOR with r % 8: of a
    // step, neither the reads of 16 pairs nor the writes of one meet in a bank.
    static __device__ int read_at(int lane, int step) {
        const int r = lane % 16;
        return (r / 4 * OWN + r % 4) * WIDTH + ((step * 4 + lane / 16) ^ r % 8) * 8;
    }
    static constexpr int next_read(int t, int step) { return t * 4 * WIDTH + step / 2 * 64; }

    // The same for four columns of `pair` of a wave's, lane % 16 of the first 64.
    static __device__ int write_at(int pair, int lane) {
        const int r = pair / OWN * 4 + pair % 4;
        return pair * WIDTH + (lane % 16 / 2 ^ r % 8) * 8 + lane % 2 * 4;
    }
};

// The layer norm of a wave's quarter of a tile: a row of 16 lanes has a pair, four columns of each 64.
template <int KT>
struct Norm {
    using Tile = PairTile<KT>;
    static constexpr int FOURS = Tile::WIDTH / 64, PAIRS = Tile::ROWS / PROJECT_WAVES / 4;
    static constexpr int RAGGED = KT <= 12 ? FOURS - 2 : FOURS / 2;  // from which on columns may lie past dim
    static constexpr int PIECES = 3 * FOURS;                         // of a pair's work

    f32x4 x[PAIRS][FOURS];
    u32 mask;
    f32x2 moment;
    float result;  // minus the mean, then 1 / deviation
    int pair, column, write_at;

    __device__ Norm(const Place& place)
        : pair(place.wave * PAIRS * 4 + place.lane / 16),
          column(place.lane % 16 * 4),
          write_at(Tile::write_at(pair, place.lane)) {}

    // Of a tile: past n x is 0, and past the last row nothing is read. Past dim it is the last columns' again: their x̂ is
    // finite, and meets weights of 0.
    __device__ void load(const TrimulArgs& args, int p, int j, TilePosition tile) {
        const Buffer row = make_buffer(args.x + static_cast<size_t>(tile.row) * args.n * args.dim,
                                       tile.row < args.rows() ? args.n * args.dim * 4u : 0);
        const int at = j < RAGGED ? column + j * 64 : min(column + j * 64, args.dim - 4);
        x[p][j] = __builtin_bit_cast(f32x4, __builtin_amdgcn_raw_buffer_load_b128(
                                                row, ((tile.k + pair + p * 4) * args.dim + at) * 4, 0, CACHE_NORMAL));
    }
    __device__ void load_mask(const TrimulArgs& args, TilePosition tile, int thread) {
        const u32 each = args.mask_is_int64 ? 8 : 4;
        const Buffer row =
            make_buffer(static_cast<const char*>(args.mask) + static_cast<size_t>(tile.row) * args.n * each,
                        tile.row < args.rows() ? args.n * each : 0);
        mask = __builtin_amdgcn_raw_buffer_load_b32(row, (tile.k + thread % Tile::ROWS) * each, 0, CACHE_NORMAL);
    }
    __device__ void store_mask(const TrimulArgs& args, float* masks, int thread) const {
        if (thread < Tile::ROWS)
            masks[thread] =
                args.mask_is_int64 ? static_cast<float>(static_cast<int>(mask)) : __builtin_bit_cast(float, mask);
    }

    __device__ f32x2 inside(int dim, int j, f32x4 four) const {  // 0 past dim
        const f32x2 two = four.lo + four.hi;
        return j < RAGGED ? two : two * (column + j * 64 < dim ? 1.0f : 0.0f);
    }

    // One of PIECES in turn: x of pair p becomes x̂, in LDS. Sums, then differences and their squares, then quotients.
    __device__ void piece(int dim, int p, int which, _Float16* normed) {
        const int j = which % FOURS;
        if (which == 0 || which == FOURS) moment = 0.0f;
        if (which < FOURS) {
            moment += inside(dim, j, x[p][j]);
        } else if (which < 2 * FOURS) {
            x[p][j] += f32x4{result, result, result, result};
            moment += inside(dim, j, x[p][j] * x[p][j]);
        } else {
            const f32x4 y = x[p][j] * f32x4{result, result, result, result};
            *reinterpret_cast<u32x2*>(normed + write_at + p * 4 * Tile::WIDTH + j * 64) =
                u32x2{pack_f16(y.lo), pack_f16(y.hi)};
        }
        if (which == FOURS - 1) result = sum_of_16(moment[0] + moment[1]) * (-1.0f / dim);
        if (which == 2 * FOURS - 1)
            result = __builtin_amdgcn_rsqf(sum_of_16(moment[0] + moment[1]) * (1.0f / dim) + EPSILON);
    }

    // The first tile to LDS, the next one's loads on their way.
    __device__ void begin(const TrimulArgs& args, TilePosition now, TilePosition next, _Float16* normed, float* masks,
                          int thread) {
#pragma unroll
        for (int p = 0; p < PAIRS; ++p)
#pragma unroll
            for (int j = 0; j < FOURS; ++j) load(args, p, j, now);
        load_mask(args, now, thread);
#pragma unroll
        for (int p = 0; p < PAIRS; ++p) {
#pragma unroll
            for (int i = 0; i < PIECES; ++i) piece(args.dim, p, i, normed);
#pragma unroll
            for (int j = 0; j < FOURS; ++j) load(args, p, j, next);
        }
        store_mask(args, masks, thread);
        load_mask(args, next, thread);
    }
};

// Of what was written since the last one: LDS reads first, then matrix instructions with vector ones between them. A wave
// that has a SIMD to itself fits one transcendental and two others into a matrix instruction's time.
template <int READS, int MATRIX, bool ALONE>
__device__ void interleave() {
    constexpr int VECTOR_WORK = 0x2, MATRIX_WORK = 0x8, DS_READ = 0x100, TRANSCENDENTAL = 0x400;
    __builtin_amdgcn_sched_group_barrier(DS_READ, READS, 0);
#pragma unroll
    for (int i = 0; i < MATRIX; ++i) {
        __builtin_amdgcn_sched_group_barrier(MATRIX_WORK, 1, 0);
        if constexpr (ALONE) __builtin_amdgcn_sched_group_barrier(TRANSCENDENTAL, 1, 0);
        __builtin_amdgcn_sched_group_barrier(VECTOR_WORK, ALONE ? 2 : 3, 0);
    }
    __builtin_amdgcn_sched_barrier(0);
}

// What a lane has of channel h: OWN neighbouring k of an intermediate.
template <int KT>
struct Own {
    static constexpr int TWOS = PairTile<KT>::OWN / 2;
    u32 two[TWOS];

    __device__ void store(Buffer to, u32 at) const {
        if constexpr (TWOS == 4)
            __builtin_amdgcn_raw_buffer_store_b128(u32x4{two[0], two[1], two[2], two[3]}, to, at, 0, CACHE_NORMAL);
        else __builtin_amdgcn_raw_buffer_store_b64(u32x2{two[0], two[1]}, to, at, 0, CACHE_NORMAL);
    }
};

// sum = bias + tile * weight, of COUNT projections from FIRST on: KT steps of matrix work, each with its share of the vector
// work, meanwhile(step).
template <class W, int FIRST, int COUNT, class F>
__device__ void multiply_tile(f32x4 (&sum)[W::COUNT][tiles_of(W::KT)], const W& weights, const _Float16* tile, int lane,
                              F&& meanwhile) {
    using Tile = PairTile<W::KT>;
    constexpr int TILES = Tile::TILES;
    const _Float16* const even = tile + Tile::read_at(lane, 0);
    const _Float16* const odd = tile + Tile::read_at(lane, 1);
    f16x8 x[2][TILES];
    const auto read = [&](int step) {
#pragma unroll
        for (int t = 0; t < TILES; ++t)
            x[step % 2][t] = *reinterpret_cast<const f16x8*>((step % 2 ? odd : even) + Tile::next_read(t, step));
    };
    const auto multiply = [&]<int HALF>(int step) {
#pragma unroll
        for (int p = FIRST; p < FIRST + COUNT; ++p)
#pragma unroll
            for (int t = 0; t < TILES; ++t)
                sum[p][t] = multiply_16x16<HALF>(x[step % 2][t], weights.weight[p][step], sum[p][t]);
    };
    if constexpr (COUNT > 0) read(0);
#pragma unroll
    for (int p = FIRST; p < FIRST + COUNT; ++p)
#pragma unroll
        for (int t = 0; t < TILES; ++t) sum[p][t] = weights.bias[p];
#pragma unroll
    for (int step = 0; step < W::KT; ++step) {
        if (COUNT > 0 && step + 1 < W::KT) read(step + 1);
        multiply.template operator()<0>(step);
        multiply.template operator()<1>(step);
        meanwhile(step);
        interleave<TILES, COUNT * TILES * 2, residency_of(W::KT) == 1>();
    }
}

// n_tiles tiles from `now` on, for 16 channels.
template <class W>
__device__ void project(const TrimulArgs& args, TilePosition now, int n_tiles, int channel,
                        _Float16 (*normed)[PairTile<W::KT>::ROWS * W::KT * 32], float (*masks)[32],
                        const Place& place) {
    constexpr int KT = W::KT, FIRST_PHASE = W::FIRST_PHASE;
    using Tile = PairTile<KT>;
    constexpr int TILES = Tile::TILES, TWOS = Own<KT>::TWOS, PAIRS = Norm<KT>::PAIRS, PIECES = Norm<KT>::PIECES;
    // Pieces of the norm in the first phase: its share of the matrix work, or half where another wave has its own phases.
    constexpr int IN_FIRST = residency_of(KT) == 1 ? PAIRS * PIECES * FIRST_PHASE / W::COUNT : PAIRS * PIECES / 2;
    const int h = channel + place.lane % 16, own_k = place.lane / 16 * Tile::OWN;
    const W weights(args, channel, place.lane);
    const auto after = [&](TilePosition tile) { return tile.next(args.n, Tile::ROWS); };
    const auto store = [&](_Float16* to, TilePosition tile, const Own<KT>& own) {
        own.store(make_buffer(to + args.row_of(tile.row), HIDDEN * args.pitch * 2u),
                  (h * args.pitch + tile.k + own_k) * 2u);
    };

    Norm<KT> norm(place);
    TilePosition next = after(now), before = now;
    norm.begin(args, now, next, normed[0], masks[0], place.thread);
    __syncthreads();

    f32x4 sum[W::COUNT][TILES] = {};
    Own<KT> left, right, gate;
    // Two neighbours of an output: results 2 * i and 2 * i + 1 of projection p, and times the mask of tile `turn`.
    const auto result = [&](int p, int i) { return i % 2 ? sum[p][i / 2].hi : sum[p][i / 2].lo; };
    const auto masked = [&](int p, int i, int turn) {
        return result(p, i) * *reinterpret_cast<const f32x2*>(masks[turn & 3] + own_k + i * 2);
    };
    const auto finish_right = [&](int i, int turn) {
        right.two[i] = pack_f16(masked(FIRST_PHASE, i, turn) * sigmoid_of_scaled(result(FIRST_PHASE + 1, i)));
    };
    const auto finish_left_and_gate = [&](int i, int turn) {
        if constexpr (W::LEFT) left.two[i] = pack_f16(masked(0, i, turn) * sigmoid_of_scaled(result(1, i)));
        if constexpr (W::GATE) gate.two[i] = pack_f16(sigmoid_of_scaled(result(FIRST_PHASE - 1, i)));
    };

    for (int turn = 0; turn < n_tiles; ++turn) {
        const TilePosition later = after(next);
        const _Float16* const tile = normed[turn & 1];
        const auto run_phase = [&]<int FIRST, int COUNT>(auto&& meanwhile) {
            multiply_tile<W, FIRST, COUNT>(sum, weights, tile, place.lane, meanwhile);
        };
        // Of all pairs' pieces, those from `first` on before `last`, shared out over a phase's steps.
        const auto norm_pieces = [&](int first, int last, int step) {
#pragma unroll
            for (int i = first + step * (last - first) / KT; i < first + (step + 1) * (last - first) / KT; ++i) {
                norm.piece(args.dim, i / PIECES, i % PIECES, normed[(turn + 1) & 1]);
                if (i % PIECES >= PIECES - Norm<KT>::FOURS) norm.load(args, i / PIECES, i % Norm<KT>::FOURS, later);
            }
        };
        run_phase.template operator()<0, FIRST_PHASE>([&](int step) {
            if constexpr (W::RIGHT)
#pragma unroll
                for (int i = step * TWOS / KT; i < (step + 1) * TWOS / KT; ++i) finish_right(i, turn - 1);
            norm_pieces(0, IN_FIRST, step);
        });
        if (W::RIGHT && turn > 0) store(args.right, before, right);
        norm.store_mask(args, masks[(turn + 1) & 3], place.thread);
        norm.load_mask(args, later, place.thread);
        run_phase.template operator()<FIRST_PHASE, W::SECOND_PHASE>([&](int step) {
#pragma unroll
            for (int i = step * TWOS / KT; i < (step + 1) * TWOS / KT; ++i) finish_left_and_gate(i, turn);
            norm_pieces(IN_FIRST, PAIRS * PIECES, step);
        });
        if constexpr (W::LEFT) store(args.left, now, left);
        if constexpr (W::GATE) store(args.gate, now, gate);
        before = now, now = next, next = later;
        lds_barrier();
    }
    if constexpr (W::RIGHT) {
#pragma unroll
        for (int i = 0; i < TWOS; ++i) finish_right(i, n_tiles - 1);
        store(args.right, before, right);
    }
}

// n_tiles tiles a workgroup. Those that work on the same tiles are 8 apart: on one XCD, whose L2 gives the later ones x.
template <int KT>
__global__ __launch_bounds__(PROJECT_THREADS, residency_of(KT)) void project_kernel(const TrimulArgs args) {
    constexpr int PARTS = parts_of(KT), ROWS = PairTile<KT>::ROWS;
    __shared__ _Float16 normed[2][ROWS * KT * 32];
    __shared__ __attribute__((aligned(16))) float masks[4][32];
    const Place place;
    const int part = blockIdx.x / XCDS % PARTS, range = blockIdx.x / (XCDS * PARTS) * XCDS + blockIdx.x % XCDS;
    const int first = range * args.project_tiles, n_tiles = min(args.tiles(ROWS) - first, args.project_tiles);
    if (n_tiles <= 0) return;
    const TilePosition now = TilePosition::of(first, args.n, ROWS);
    const int channel = part % 2 * (HIDDEN / 2) + place.wave * 16;
    if constexpr (PARTS == 2) {
        project<Projections<KT, LEFT_PROJ, 3, 2>>(args, now, n_tiles, channel, normed, masks, place);
    } else if (part < 2) {
        project<Projections<KT, LEFT_PROJ, 2, 0>>(args, now, n_tiles, channel, normed, masks, place);
    } else {
        project<Projections<KT, OUT_GATE, 1, 2>>(args, now, n_tiles, channel, normed, masks, place);
    }
}
