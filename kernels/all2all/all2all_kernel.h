// amd-all2all: dispatch tokens to the ranks of their experts, run the experts, sum what comes back. One launch.
//
// Every workgroup does three phases in order: it sends its share of this rank's tokens straight into the other ranks'
// memory (waiting for nothing), then runs the experts on its share of what arrives and sends each source one summed row
// a token, then sums what came back. docs/kernels/all2all.md has the protocol, its safety argument and the layouts.
//
// A wave works on one chunk of a token at a time. "Piece": 16 bytes, 8 elements, what a lane moves at once.
//
// The same on every GPU: what differs, waves and memory, is included ahead of this, as in all2all_gfx942.hip.
#pragma once

#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

constexpr int MAX_RANKS = 8;
constexpr int MAX_EXPERTS_PER_TOKEN = 32;  // a lane each
constexpr int THREADS = 512;
constexpr int WAVES = THREADS / WAVE;
constexpr int ENTRY_BYTES = 16;  // of a header: {weight, epoch, expert, epoch}
constexpr int COUNT_BITS = 8;    // of a flag: how many experts; above them the epoch's lower 24 bits

// Pieces of a chunk at most: 1,024 elements; with tagged words what two registers of 16 bytes a lane hold.
__host__ __device__ constexpr int chunk_pieces(bool tagged) { return tagged ? 2 * WAVE : 128; }

// What the kernel waits for when it gives up; all2all_host.py has what the heap's alarm calls it.
enum Awaited { TOKENS_OF_PEER = 1, SUMS_OF_PEER = 2, EXPERT_IN_RANGE = 3 };

// How a row of `dim` elements is cut into chunks of equal size (the last may be smaller).
struct Cut {
    int row_pieces, chunks, pieces;
};

__host__ __device__ constexpr Cut cut(int dim, bool tagged) {
    const int row = dim / 8, chunks = (row + chunk_pieces(tagged) - 1) / chunk_pieces(tagged);
    return {row, chunks, (row + chunks - 1) / chunks};
}

// Bytes of one chunk's place in the region. With tagged words half of them are tags.
__host__ __device__ constexpr int chunk_bytes(Cut c, bool tagged) {
    return tagged ? chunk_pieces(true) * 32 : (c.pieces * 16 + 127) / 128 * 128;
}

// One half (calls of one parity) of a rank's region, as offsets in bytes; the arrived tokens lie at 0.
//   tokens   [source][token][chunk] chunk_bytes   headers [source][token][chunk][k] ENTRY_BYTES
//   flags    [position][chunk][source] u32        position: see position_of
//   sums     [owner][token][chunk] chunk_bytes    sum_flags [token][chunk][owner] u32
struct Layout {
    size_t headers, flags, sums, sum_flags, bytes;
};

inline Layout layout(int world_size, int max_num_tokens, int k, Cut c, bool tagged) {
    const size_t slots = size_t(world_size) * max_num_tokens * c.chunks;
    Layout l;
    l.headers = slots * chunk_bytes(c, tagged);
    l.flags = l.headers + slots * k * ENTRY_BYTES;
    l.sums = (l.flags + slots * 4 + 255) / 256 * 256;
    l.sum_flags = l.sums + slots * chunk_bytes(c, tagged);
    l.bytes = (l.sum_flags + slots * 4 + 4095) / 4096 * 4096;
    return l;
}

struct All2AllArgs {
    unsigned char* region[MAX_RANKS];  // this call's half of each rank's region, as this process sees it
    Layout at;
    const unsigned char* x;  // fp16 [num_tokens][dim]
    const int* indices;      // [num_tokens][k]
    const float* weights;    // [num_tokens][k]
    unsigned char* out;      // fp16 [num_tokens][dim]
    Patience patience;
    long long* stamps;  // [waves][4] wall clock at the phases' boundaries, where ALL2ALL_TRACE
    int rank, world_size, experts_per_rank, k, dim, max_num_tokens, num_tokens;
    int batch;    // sources that a wave polls at once; divides world_size
    int senders;  // waves of a workgroup that send
    u32 epoch;
};

// Sources' tokens are staggered over the positions, so that a position has as many present tokens as any other: ranks
// hold different numbers of tokens, and the low token numbers are always there.
__device__ inline int position_of(const All2AllArgs& a, int source, int token) {
    const int p = token + source * (a.max_num_tokens / a.world_size);
    return p < a.max_num_tokens ? p : p - a.max_num_tokens;
}
__device__ inline int token_at(const All2AllArgs& a, int source, int position) {
    const int t = position - source * (a.max_num_tokens / a.world_size);
    return t < 0 ? t + a.max_num_tokens : t;
}

__device__ inline int lowest(u32 mask) { return __ffs(mask) - 1; }
__device__ inline WaveMask lanes_below(int lane) { return (WaveMask(1) << lane) - 1; }
__device__ inline float broadcast(float x, int lane) {
    return __builtin_bit_cast(float, broadcast(__builtin_bit_cast(int, x), lane));
}
__device__ inline unsigned char* lane_pointer(unsigned char* p, int lane) {
    const u64 bits = reinterpret_cast<u64>(p);
    const u64 low = static_cast<u32>(lane_value(static_cast<int>(bits), lane));
    const u64 high = static_cast<u32>(lane_value(static_cast<int>(bits >> 32), lane));
    return reinterpret_cast<unsigned char*>(high << 32 | low);
}

// A token's expert of this rank: the problem's stand-in multiplies by 1 + rank, in fp16, whichever expert it is.
__device__ inline __half2 expert(__half2 x, int /*local_expert*/, int rank) {
    return __hmul2(x, __float2half2_rn(static_cast<float>(1 + rank)));
}

// The same 32 bits. (__half2 is no type that __builtin_bit_cast takes with CUDA.)
__device__ inline __half2 as_half2(u32 bits) {
    __half2 x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
__device__ inline u32 as_bits(__half2 x) {
    u32 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

// f(0), f(1) ... of a lane's pieces: written out, so that arrays of them stay in registers.
template <int N, class F>
__device__ inline void each(F f) {
    static_assert(N == 2 || N == 4);
    f(0), f(1);
    if constexpr (N == 4) f(2), f(3);
}

// A lane's pieces of a chunk.
template <int N>
struct Pieces {
    Piece of[N];
};

// fp32 sums of a lane's pieces.
template <int N>
struct Sum {
    float2 of[N][4];

    __device__ void clear() {
        each<N>([&](int i) { of[i][0] = of[i][1] = of[i][2] = of[i][3] = make_float2(0, 0); });
    }
    __device__ void add(int i, int j, __half2 x, float weight) {
        const float2 y = __half22float2(x);
        of[i][j].x += weight * y.x;
        of[i][j].y += weight * y.y;
    }
    __device__ Piece rounded(int i) const {
        return make_piece(as_bits(__float22half2_rn(of[i][0])), as_bits(__float22half2_rn(of[i][1])),
                          as_bits(__float22half2_rn(of[i][2])), as_bits(__float22half2_rn(of[i][3])));
    }
};

__device__ inline u32 word(Piece v, int j) { return j == 0 ? v.x : j == 1 ? v.y : j == 2 ? v.z : v.w; }

// Not inlined, as raise_alarm().
[[noreturn]] __attribute__((noinline)) __device__ inline void refuse_expert(Patience patience, int epoch) {
    give_up(patience, alarm_word(EXPERT_IN_RANGE, -1, epoch),
            [] { printf("all2all, assertion failed: an expert's number is not 0 ... num_experts - 1\n"); });
}

// A bounded wait: check() between two polls raises the alarm once the time is up. It looks at the clock now and then
// only: reading it takes longer than a poll.
struct Deadline {
    long long end = 0;
    int polls = 0;

    __device__ void check(const All2AllArgs& a, Awaited what, int peer) {
        pause_polling();
        if (polls++ % 64) return;
        const long long now = clock_ticks();
        if (end == 0) end = now + a.patience.timeout_ticks;
        if (now > end) raise_alarm(a.patience, what, peer, a.epoch);
    }
};

// DIM: dim, or 0 for any. TAGGED: each word carries the epoch, so that it is its own flag and nobody waits for stores
// to be complete; twice the bytes, for small cases.
template <int DIM, bool TAGGED>
struct All2All {
    static constexpr int N = chunk_pieces(TAGGED) / WAVE;

    const All2AllArgs& a;
    const Cut shape;
    const int lane, worker, workers;
    unsigned char* const my_peer;  // lane r's: rank r's region; lanes past world_size repeat

    __device__ explicit All2All(const All2AllArgs& args)
        : a(args),
          shape(DIM ? cut(DIM, TAGGED) : cut(args.dim, TAGGED)),
          lane(threadIdx.x % WAVE),
          worker(wave_uniform(blockIdx.x + gridDim.x * (threadIdx.x / WAVE))),
          workers(gridDim.x * WAVES),
          my_peer(args.region[lane % args.world_size]) {}

    __device__ int token_bytes() const { return 16 * shape.row_pieces; }
    __device__ size_t slot(int rank, int token, int chunk) const {
        return size_t((rank * a.max_num_tokens + token) * shape.chunks + chunk);
    }
    __device__ u32 flag(int count) const { return a.epoch << COUNT_BITS | count; }
    __device__ bool is_set(u32 flag) const { return flag >> COUNT_BITS == (a.epoch & (~0u >> COUNT_BITS)); }
    __device__ unsigned char* peer(int rank) const { return a.region[rank]; }
    __device__ int* token_flag(unsigned char* region, int source, int position, int chunk) const {
        return reinterpret_cast<int*>(region + a.at.flags) + (position * shape.chunks + chunk) * a.world_size + source;
    }
    __device__ int* sum_flag(unsigned char* region, int owner, int token, int chunk) const {
        return reinterpret_cast<int*>(region + a.at.sum_flags) + (token * shape.chunks + chunk) * a.world_size + owner;
    }

    // Whether this lane has an i-th piece of the chunk.
    __device__ bool has(int i, int chunk) const {
        const int mine = lane + i * WAVE;
        return mine < shape.pieces && mine + chunk * shape.pieces < shape.row_pieces;
    }

    __device__ void stamp([[maybe_unused]] int boundary) const {
#ifdef ALL2ALL_TRACE
        if (lane == 0) a.stamps[worker * 4 + boundary] = clock_ticks();
#endif
    }

    // Lane i's: the i-th expert of a token, and its weight.
    struct Choice {
        int expert;
        float weight;
    };

    __device__ Choice load_choice(int token) const {
        Choice mine = {-1, 0};
        if (lane < a.k) mine = {a.indices[token * a.k + lane], a.weights[token * a.k + lane]};
        return mine;
    }

    // Which ranks own experts of a token, as bits, and this lane's expert among them.
    struct Route {
        u32 owners;
        int owner, local_expert;  // -1: this lane has none
        int place;                // of this lane's among the experts of the same owner
        int count;                // lane r's: how many experts of the token rank r owns
    };

    __device__ Route route(int expert) const {
        Route r = {0, -1, -1, 0, 0};
        if (lane < a.k) {
            r.owner = static_cast<u32>(expert) / a.experts_per_rank;
            r.local_expert = expert - r.owner * a.experts_per_rank;
        }
        // By the whole wave: lanes that trap alone would do so only when the others have come to an end.
        if (lanes_where(lane < a.k && static_cast<u32>(r.owner) >= static_cast<u32>(a.world_size)) != 0)
            refuse_expert(a.patience, a.epoch);
        for (int d = 0; d < a.world_size; d++) {
            const WaveMask here = lanes_where(r.owner == d);
            r.owners |= u32(here != 0) << d;
            if (r.owner == d) r.place = popcount(here & lanes_below(lane));
            if (lane == d) r.count = popcount(here);
        }
        return r;
    }

    // ---- moving a chunk -------------------------------------------------------------------------

    // Of this rank's own tokens; item: token and chunk.
    __device__ Pieces<N> load_x(int item) const {
        const int token = item / shape.chunks, chunk = item % shape.chunks;
        const unsigned char* const row = a.x + size_t(token) * token_bytes();
        Pieces<N> v = {};
        each<N>([&](int i) {
            if (has(i, chunk)) v.of[i] = reinterpret_cast<const Piece*>(row)[chunk * shape.pieces + lane + i * WAVE];
        });
        return v;
    }

    __device__ void send(unsigned char* to, const Pieces<N>& v, int chunk) const {
        const Shared place = shared(to);
        each<N>([&](int i) {
            if (!has(i, chunk)) return;
            if constexpr (TAGGED) {
                const u32 at = (2 * i * WAVE + lane) * 16;
                store_tagged_16(place, at, make_piece(v.of[i].x, a.epoch, v.of[i].y, a.epoch));
                store_tagged_16(place, at + WAVE * 16, make_piece(v.of[i].z, a.epoch, v.of[i].w, a.epoch));
            } else {
                store_16(place, (lane + i * WAVE) * 16, v.of[i]);
            }
        });
    }

    // Of a chunk that a flag says is there.
    __device__ Pieces<N> take(const unsigned char* from, int chunk) const {
        const Shared place = shared(from);
        Pieces<N> v = {};
        each<N>([&](int i) {
            if (has(i, chunk)) v.of[i] = load_16(place, (lane + i * WAVE) * 16);
        });
        return v;
    }

    // Of a chunk that may not be there yet: `there` stays true if all of this lane's words are.
    __device__ Pieces<N> take_tagged(const unsigned char* from, int chunk, bool& there) const {
        const Shared place = shared(from);
        Pieces<N> v = {};
        each<N>([&](int i) {
            if (!has(i, chunk)) return;
            const u32 at = (2 * i * WAVE + lane) * 16;
            const Piece low = load_tagged_16(place, at), high = load_tagged_16(place, at + WAVE * 16);
            there &= low.y == a.epoch && low.w == a.epoch && high.y == a.epoch && high.w == a.epoch;
            v.of[i] = make_piece(low.x, low.z, high.x, high.z);
        });
        return v;
    }

    // ---- phase 1: send --------------------------------------------------------------------------

    // By a few waves of each workgroup: what is under way then fills the links, and the tokens arrive one after the
    // other rather than all at the end, so that other waves can work on them meanwhile.
    __device__ void dispatch() const {
        tell_absent_tokens();
        const int stride = gridDim.x * a.senders, items = a.num_tokens * shape.chunks;
        if (worker >= stride || worker >= items) return;
        Pieces<N> v = load_x(worker);
        Choice choice = load_choice(worker / shape.chunks);
        for (int item = worker; item < items; item += stride) {
            const int token = item / shape.chunks, chunk = item % shape.chunks;
            const Route r = route(choice.expert);
            const size_t here = slot(a.rank, token, chunk);
            unsigned char* const owner = lane_pointer(my_peer, r.owner < 0 ? 0 : r.owner);
            if (r.owner >= 0) {
                u64* entry = reinterpret_cast<u64*>(owner + a.at.headers + (here * a.k + r.place) * ENTRY_BYTES);
                store_word(entry, u64(a.epoch) << 32 | __builtin_bit_cast(u32, choice.weight));
                store_word(entry + 1, u64(a.epoch) << 32 | u32(r.local_expert));
            }
            for (int i = 0; i < a.world_size; i++) {
                // Every wave begins with another rank, so that all links are busy.
                const int d = static_cast<u32>(i + worker + a.rank) % static_cast<u32>(a.world_size);
                if (r.owners >> d & 1) send(peer(d) + here * chunk_bytes(shape, TAGGED), v, chunk);
            }
            if (item + stride < items) {
                v = load_x(item + stride);
                choice = load_choice((item + stride) / shape.chunks);
            }
            if constexpr (!TAGGED) wave_stores_complete();
            if (lane < a.world_size)
                store_flag(token_flag(my_peer, a.rank, position_of(a, a.rank, token), chunk), flag(r.count));
        }
    }

    // Tokens that this rank does not have: flags that say so, a wave as many rows as fit.
    __device__ void tell_absent_tokens() const {
        const int rows_at_once = WAVE / a.world_size, row_of_lane = lane / a.world_size;
        const int rows = a.max_num_tokens * shape.chunks;
        if (row_of_lane >= rows_at_once) return;
        for (int row = a.num_tokens * shape.chunks + worker * rows_at_once + row_of_lane; row < rows;
             row += workers * rows_at_once) {
            const int position = position_of(a, a.rank, row / shape.chunks);
            store_flag(token_flag(my_peer, a.rank, position, row % shape.chunks), flag(0));
        }
    }

    // ---- phase 2: experts -----------------------------------------------------------------------

    // What arrived of one token for this rank: a chunk, and in lane i its i-th expert here.
    struct Arrived {
        Pieces<N> x;
        float weight;
        int local_expert;
    };

    __device__ Arrived fetch(int source, int token, int chunk, int count) const {
        unsigned char* const mine = peer(a.rank);
        const size_t here = slot(source, token, chunk);
        const unsigned char* const from = mine + here * chunk_bytes(shape, TAGGED);
        const u64* entry = reinterpret_cast<const u64*>(mine + a.at.headers + (here * a.k + lane) * ENTRY_BYTES);
        u64 weight = 0, local_expert = 0;
        Pieces<N> x;
        for (Deadline deadline;; deadline.check(a, TOKENS_OF_PEER, source)) {
            if (lane < count) weight = load_word(entry), local_expert = load_word(entry + 1);
            if constexpr (!TAGGED) {
                x = take(from, chunk);
                break;
            }
            bool there = lane >= count || (weight >> 32 == a.epoch && local_expert >> 32 == a.epoch);
            x = take_tagged(from, chunk, there);
            if (lanes_where(!there) == 0) break;
        }
        return {x, __builtin_bit_cast(float, static_cast<u32>(weight)), static_cast<int>(local_expert)};
    }

    __device__ void run_experts_and_return(const Arrived& n, int source, int token, int chunk, int count) const {
        Sum<N> sum;
        sum.clear();
        for (int e = 0; e < count; e++) {
            const float weight = broadcast(n.weight, e);
            const int local_expert = broadcast(n.local_expert, e);
            each<N>([&](int i) {
                for (int j = 0; j < 4; j++)
                    sum.add(i, j, expert(as_half2(word(n.x.of[i], j)), local_expert, a.rank), weight);
            });
        }
        Pieces<N> row;
        each<N>([&](int i) { row.of[i] = sum.rounded(i); });
        send(peer(source) + a.at.sums + slot(a.rank, token, chunk) * chunk_bytes(shape, TAGGED), row, chunk);
    }

    __device__ void experts() const {
        const int groups = a.world_size / a.batch;
        const int batches = a.max_num_tokens * shape.chunks * groups;
        // Waves that did not have to send come first.
        const int sending = gridDim.x * a.senders;
        const int mine_first = worker >= sending ? worker - sending : worker - sending + workers;
        for (int batch = mine_first; batch < batches; batch += workers) {
            const int first = batch % groups * a.batch, cell = batch / groups;
            const int position = cell / shape.chunks, chunk = cell % shape.chunks;
            const int* const my_flag = token_flag(peer(a.rank), first + lane, position, chunk);
            unsigned char* const my_source = lane_pointer(my_peer, (first + lane) % a.world_size);
            u32 pending = (1u << a.batch) - 1;
            Deadline deadline;
            while (pending) {
                const bool polls = lane < a.batch && (pending >> lane & 1);
                const u32 seen = polls ? see_flag(my_flag) : 0;
                const u32 arrived = static_cast<u32>(lanes_where(polls && is_set(seen)));
                if (!arrived) {
                    deadline.check(a, TOKENS_OF_PEER, first + lowest(pending));
                    continue;
                }
                pending &= ~arrived;
                const int count = seen & ((1 << COUNT_BITS) - 1);
                u32 left = static_cast<u32>(lanes_where(polls && is_set(seen) && count > 0));
                if (!left) continue;
                const bool mine = lane < a.batch && (left >> lane & 1);
                if constexpr (!TAGGED) wave_has_seen();
                // The next token's loads go out before this one's stores: they need not wait behind them.
                Arrived now = {};
                for (int at = -1; left || at >= 0;) {
                    const int next_at = left ? lowest(left) : -1;
                    Arrived next = {};
                    if (left)
                        next = fetch(first + next_at, token_at(a, first + next_at, position), chunk,
                                     broadcast(count, next_at));
                    if (at >= 0)
                        run_experts_and_return(now, first + at, token_at(a, first + at, position), chunk,
                                               broadcast(count, at));
                    now = next;
                    at = next_at;
                    left &= left - 1;
                }
                if constexpr (!TAGGED) {
                    wave_stores_complete();
                    if (mine) {
                        const int token = token_at(a, first + lane, position);
                        store_flag(sum_flag(my_source, a.rank, token, chunk), flag(1));
                    }
                }
            }
        }
    }

    // ---- phase 3: sum ---------------------------------------------------------------------------

    __device__ const unsigned char* sums_of(int owner, int token, int chunk) const {
        return peer(a.rank) + a.at.sums + slot(owner, token, chunk) * chunk_bytes(shape, TAGGED);
    }

    __device__ void await_sums(u32 owners, int token, int chunk) const {
        const int* const my_flag = sum_flag(peer(a.rank), lane % a.world_size, token, chunk);
        Deadline deadline;
        for (u32 pending = owners; pending;) {
            const bool polls = lane < a.world_size && (pending >> lane & 1);
            const u32 seen = polls ? see_flag(my_flag) : 0;
            pending &= ~static_cast<u32>(lanes_where(polls && is_set(seen)));
            if (pending) deadline.check(a, SUMS_OF_PEER, lowest(pending));
        }
        wave_has_seen();
    }

    // From the first rank of `owners`; without one, zeros.
    __device__ Pieces<N> take_sum(u32 owners, int token, int chunk, bool& there) const {
        if (!owners) return {};
        const unsigned char* const from = sums_of(lowest(owners), token, chunk);
        if constexpr (TAGGED) return take_tagged(from, chunk, there);
        return take(from, chunk);
    }

    __device__ void combine() const {
        for (int item = worker; item < a.num_tokens * shape.chunks; item += workers) {
            const int token = item / shape.chunks, chunk = item % shape.chunks;
            u32 owners = route(load_choice(token).expert).owners;
            if constexpr (!TAGGED) await_sums(owners, token, chunk);
            Sum<N> sum;
            sum.clear();
            const auto add = [&](const Pieces<N>& v) {
                each<N>([&](int i) {
                    for (int j = 0; j < 4; j++) sum.add(i, j, as_half2(word(v.of[i], j)), 1.0f);
                });
            };
            while (owners) {  // in the order of ranks; four ranks' loads at once
                const u32 second = owners & (owners - 1), third = second & (second - 1);
                const u32 fourth = third & (third - 1);
                Pieces<N> v0, v1, v2, v3;
                for (Deadline deadline;;) {
                    bool there0 = true, there1 = true, there2 = true, there3 = true;
                    v0 = take_sum(owners, token, chunk, there0), v1 = take_sum(second, token, chunk, there1);
                    v2 = take_sum(third, token, chunk, there2), v3 = take_sum(fourth, token, chunk, there3);
                    if (!TAGGED || lanes_where(!(there0 && there1 && there2 && there3)) == 0) break;
                    const u32 late = lanes_where(!there0)   ? owners
                                     : lanes_where(!there1) ? second
                                     : lanes_where(!there2) ? third
                                                            : fourth;
                    deadline.check(a, SUMS_OF_PEER, lowest(late));
                }
                add(v0), add(v1), add(v2), add(v3);
                owners = fourth & (fourth - 1);
            }
            Piece* const row = reinterpret_cast<Piece*>(a.out + size_t(token) * token_bytes());
            each<N>([&](int i) {
                if (has(i, chunk)) row[chunk * shape.pieces + lane + i * WAVE] = sum.rounded(i);
            });
        }
    }
};

template <int DIM, bool TAGGED>
__global__ void __launch_bounds__(THREADS) all2all_kernel(const All2AllArgs args) {
    const All2All<DIM, TAGGED> all2all(args);
    all2all.stamp(0);
    all2all.dispatch();
    all2all.stamp(1);
    all2all.experts();
    all2all.stamp(2);
    all2all.combine();
    all2all.stamp(3);
}
