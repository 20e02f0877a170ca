// Tiles in turn, on NVIDIA's Hopper GPUs: a workgroup for each processor, which takes one tile after the other. The next
// tile's first stages are on their way while this one's sums are still in registers, and a result leaves LDS by bulk
// copies while the next tile is multiplied: no product waits for memory, nor for a link.
#pragma once

#include "../common/bf16_gemm.h"

// Whether it pays. Workgroups of smaller tiles fill each other's gaps where they share a processor, and 64 x 256 is bound by
// the L2. (IN_TURN in hip.py.)
template <class T>
constexpr bool TAKES_TURNS = T::BM * T::BN >= 128 * 256;

// T with room for a result. The last stage of a tile is free until the next tile's second: one warpgroup's result goes
// there, a second one's behind the stages.
template <class T>
struct InTurn : T {
    static constexpr int AHEAD = T::STAGES - 2;             // two stages' products are under way
    static constexpr int W_AT = T::BM * 128;                // in a stage, behind a
    static constexpr int RESULT_BYTES = T::WM * T::BN * 2;  // of a warpgroup
    static constexpr int LDS_BYTES = T::LDS_BYTES + (T::WAVES - 1) * RESULT_BYTES;
    static_assert(T::WAVES_N == 1 && T::WAVES <= 2 && RESULT_BYTES <= T::STAGE_BYTES);
    static_assert(T::Wave::TURN_BYTES <= RESULT_BYTES && LDS_BYTES + 1024 <= LDS_OF_CU);
};

// Tiles of bf16 that go from one workgroup to another of the same T, here or on another GPU, each sum to the thread that
// has its like: eight of a thread in 16 bytes, a warp's one after the other. They need no turning, and a warp's are one
// copy. (A copy for each row would be 128 a tile; when the links are busy, issuing them takes as long as sending.)
template <class T>
struct SentTile {
    using Wave = typename T::Wave;
    static constexpr int BYTES = T::BM * T::BN * 2, CHUNKS = Wave::CHUNKS_8, WARP_BYTES = CHUNKS * WARP * 16;

    static __device__ int place_of(const Place& place) {
        return (place.thread / WARP * CHUNKS * WARP + place.thread % WARP) * 16;
    }

    // Into `result`, RESULT_BYTES of LDS for this warpgroup, from where send() takes it.
    static __device__ void put(const typename Wave::Sum& sum, unsigned char* result, const Place& place) {
        unsigned char* own = result + place.lane / WARP * WARP_BYTES;
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i)
            *reinterpret_cast<u32x4*>(own + (i * WARP + place.lane % WARP) * 16) = Wave::rounded_8(sum, i);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
    }

    // To address `to`. Only begins: result_read() or result_written() is to follow.
    static __device__ void send(long long to, const unsigned char* result, const Place& place) {
        if (place.lane % WARP == 0)
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + place_of(place)),
                         "r"(shared_address(result + place.lane / WARP * WARP_BYTES)), "n"(WARP_BYTES)
                         : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }

    // What send() brought to `from`, added to sum.
    static __device__ void add(typename Wave::Sum& sum, const void* from, const Place& place) {
        const char* own = static_cast<const char*>(from) + place_of(place);
        uint4 words[CHUNKS];
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) words[i] = __ldcg(reinterpret_cast<const uint4*>(own + i * WARP * 16));
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) Wave::add_8(sum, i, {words[i].x, words[i].y, words[i].z, words[i].w});
    }
};

// What this thread's SentTile::send() began has left LDS, or has arrived.
__device__ inline void result_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ inline void result_written() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// One a stage: all threads' copies have come. (cp.async's own groups are counted together with bulk copies.)
template <int N>
struct StageBarriers {
    u32 first;

    __device__ StageBarriers(unsigned long long* barriers) : first(shared_address(barriers)) {}

    __device__ void init(int threads) const {
        for (int i = 0; i < N; ++i)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(first + 8 * i), "r"(threads) : "memory");
    }
    // This thread's copies so far are all that it has for that stage.
    __device__ void arrive(int stage) const {
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(first + 8 * stage) : "memory");
    }
    // round: how often, modulo 2, the stage has been waited for.
    __device__ void wait(int stage, u32 round) const {
        asm volatile(
            "{\n.reg .pred come;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 come, [%0], %1;\n"
            "@come bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(first + 8 * stage),
            "r"(round)
            : "memory");
    }
};

// LDS that is free at the end of a tile: STAGE_BYTES for the workgroup, or RESULT_BYTES for this warpgroup's result, which
// bulk copies may still read during the next tile's first stage.
struct Room {
    unsigned char *of_all, *own;
};

// The operands of one tile after the other, a stage at a time.
template <class T>
struct StageFeed {
    StageLoader<T::BM, T::THREADS> a;
    StageLoader<T::BN, T::THREADS> w;
    int k, last_k;

    __device__ StageFeed(const TileInputs& inputs, const Place& place)
        : a(inputs.a, inputs.a_rows, inputs.k, place.thread),
          w(inputs.w, inputs.w_rows, inputs.k, place.thread),
          k(inputs.first_k),
          last_k(inputs.last_k) {}

    __device__ void turn_to(const TileInputs& inputs) {
        a.turn_to(inputs.a, inputs.a_rows, inputs.k);
        w.turn_to(inputs.w, inputs.w_rows, inputs.k);
        k = inputs.first_k, last_k = inputs.last_k;
    }

    // Of the tile; at the beginning. More than are loaded ahead, so that these belong to two tiles at most: stages that it
    // has not are all zeros.
    __device__ int n_stages() const { return max((last_k - k + STAGE_K - 1) / STAGE_K, T::AHEAD + 1); }

    __device__ void copy(unsigned char* stage) {
        a.copy(stage, k, last_k);
        w.copy(stage + T::W_AT, k, last_k);
        k += STAGE_K;
    }
};

// By `groups` workgroups, all tiles 0 .. n_tiles - 1. A workgroup draws the next one's number while it multiplies: however
// few workgroups are on the GPU at a time, they take the tiles in order. tickets: zero between launches.
//
// job.inputs(number); job.start(sum, number): what sum begins with; job.finish(sum, number, room): what becomes of the
// sum. For the tile before, while this one is multiplied: job.send_rest(own_room), when nothing lies in a stage any more, so
// that until then the links serve what does; job.settle(), with the last products, what is left to do.
template <class T, class Job>
__device__ void tiles_in_turn(Job& job, int n_tiles, int groups, u32* tickets, unsigned char* lds) {
    using Tile = InTurn<T>;
    using Wave = typename T::Wave;
    __shared__ int drawn;
    __shared__ unsigned long long barriers[T::STAGES];
    const StageBarriers<T::STAGES> come(barriers);
    const Place place;
    const auto use = [&](u32 ticket) {
        // Each workgroup leaves one unused. The last of all is followed by the next launch's first.
        if (ticket == static_cast<u32>(n_tiles + groups - 1)) *tickets = 0;
        return static_cast<int>(ticket);
    };
    if (place.thread == 0) {
        const u32 ticket = atomicAdd(tickets, 1u);
        come.init(T::THREADS);
        drawn = use(ticket);
    }
    __syncthreads();
    int number = uniform(drawn);
    if (number >= n_tiles) return;
    __syncthreads();  // all have read it

    unsigned char* const behind_stages = lds + T::LDS_BYTES;
    const int a_at = place.wave * T::WM * 128;
    const auto after = [](int stage, int n) { return stage + n < T::STAGES ? stage + n : stage + n - T::STAGES; };
    StageFeed<Tile> feed(job.inputs(number), place);
    int n_stages = feed.n_stages(), next = 0, next_stages = 0;
#pragma unroll
    for (int i = 0; i < Tile::AHEAD; ++i) {
        feed.copy(lds + i * T::STAGE_BYTES);
        come.arrive(i);
    }
    int stage = 0;
    u32 round = 0;
    for (;;) {
        u32 ticket = 0;
        if (place.thread == 0) ticket = atomicAdd(tickets, 1u);
        typename Wave::Sum sum;
        job.start(sum, number);
        Wave::pin(sum);
        for (int i = 0; i < n_stages; ++i) {
            // Whatever branches comes first: behind a branch, ptxas waits for the products that were begun before it.
            if (i == 1) result_read();
            if (i == 2) job.send_rest(behind_stages);
            if (i == n_stages - 1) job.settle();
            if (i == n_stages - Tile::AHEAD - 1 && place.thread == 0) drawn = use(ticket);
            if (i == n_stages - Tile::AHEAD) {
                next = uniform(drawn);
                if (next < n_tiles) {
                    feed.turn_to(job.inputs(next));
                    next_stages = feed.n_stages();
                }
            }
            come.wait(stage, round);
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // from what was copied to what wgmma reads
            __syncthreads();  // nobody multiplies the stage that is overwritten next, nor reads a result there
            const unsigned char* here = lds + stage * T::STAGE_BYTES;
            Wave::multiply(sum, here + a_at, here + Tile::W_AT);
            const int to = after(stage, Tile::AHEAD);
            feed.copy(lds + to * T::STAGE_BYTES);  // after the last tile zeros, for nobody
            come.arrive(to);
            Wave::template wait<1>(sum);
            stage = after(stage, 1);
            round ^= stage == 0;
        }
        Wave::template wait<0>(sum);
        __syncthreads();  // nobody multiplies the last stage
        unsigned char* last = lds + after(stage, T::STAGES - 1) * T::STAGE_BYTES;
        job.finish(sum, number, Room{last, place.wave == 0 ? last : behind_stages});
        if (next >= n_tiles) break;
        number = next, n_stages = next_stages;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    job.send_rest(behind_stages);
    job.settle();
}

// Workgroups for tiles_in_turn(): as many as the GPU has processors, but no more than tiles.
inline int groups_in_turn(int n_tiles) {
    const int processors = processor_count();
    return n_tiles < processors ? n_tiles : processors;
}
