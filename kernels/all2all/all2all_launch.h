// amd-all2all, host side: a plan for each shape, one launch a call. Functions take numbers and addresses only.
#pragma once

#include <stdexcept>
#include <string>

#include "all2all_kernel.h"

static void must(hipError_t error, const char* what) {
    if (error != hipSuccess)
        throw std::runtime_error(std::string("all2all: ") + what + ": " + hipGetErrorString(error));
}

// Runs f with the kernel for that dim.
template <bool TAGGED, class F>
static void with_kernel(int dim, F f) {
    switch (dim) {
        case 2048: return f(all2all_kernel<2048, TAGGED>);
        case 2880: return f(all2all_kernel<2880, TAGGED>);
        case 4096: return f(all2all_kernel<4096, TAGGED>);
        case 6144: return f(all2all_kernel<6144, TAGGED>);
        case 7168: return f(all2all_kernel<7168, TAGGED>);
        default: return f(all2all_kernel<0, TAGGED>);
    }
}

// What does not change from call to call. `half_bytes`: of a rank's region, what calls of one parity use.
struct All2AllPlan {
    All2AllArgs args;
    size_t half_bytes;
    int groups;
    bool tagged;
};

template <class F>
static void with_kernel_of(bool tagged, int dim, F f) {
    tagged ? with_kernel<true>(dim, f) : with_kernel<false>(dim, f);
}

// Bytes that every rank's region needs.
int64_t all2all_region_bytes(int world_size, int max_num_tokens, int k, int dim, bool tagged) {
    return 2 * layout(world_size, max_num_tokens, k, cut(dim, tagged), tagged).bytes;
}

// A new plan, until all2all_drop. max_groups, batch (0: chosen here), senders: see all2all_host.py.
int64_t all2all_plan(int rank, int world_size, int experts, int k, int dim, int max_num_tokens, bool tagged,
                     int max_groups, int batch, int senders, int64_t alarm, int64_t timeout_ticks) {
    All2AllPlan* plan = new All2AllPlan();
    All2AllArgs& a = plan->args;
    const Cut shape = cut(dim, tagged);
    a.at = layout(world_size, max_num_tokens, k, shape, tagged);
    a.patience = {alarm, timeout_ticks};
    a.rank = rank;
    a.world_size = world_size;
    a.experts_per_rank = experts / world_size;
    a.k = k;
    a.dim = dim;
    a.max_num_tokens = max_num_tokens;
    a.senders = tagged || senders > WAVES ? WAVES : senders;
    plan->half_bytes = a.at.bytes;
    plan->tagged = tagged;

    // As many workgroups as the GPU holds at once, or fewer if there is less to do: phases 2 and 3 wait for phases 1
    // and 2 of every workgroup, so all of them must be running.
    int device = 0, units = 0, fit = 0;
    must(hipGetDevice(&device), "hipGetDevice");
    must(hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device), "number of compute units");
    with_kernel_of(tagged, dim, [&](auto kernel) {
        must(hipOccupancyMaxActiveBlocksPerMultiprocessor(&fit, reinterpret_cast<const void*>(kernel), THREADS, 0),
             "occupancy of all2all_kernel");
    });
    const int64_t resident = int64_t(units) * fit;
    if (resident < 1) throw std::runtime_error("all2all: a workgroup of all2all_kernel does not fit on this GPU");
    const int64_t limit = resident < max_groups ? resident : max_groups;
    const int64_t rows = int64_t(max_num_tokens) * shape.chunks;
    for (a.batch = batch ? batch : 1; batch == 0 && a.batch < world_size; a.batch++)
        if (world_size % a.batch == 0 && rows * world_size / a.batch <= limit * WAVES) break;
    const int64_t waves = rows * world_size / a.batch;
    const int64_t wanted = (waves + WAVES - 1) / WAVES;
    plan->groups = wanted < limit ? wanted : limit;
    return reinterpret_cast<int64_t>(plan);
}

void all2all_drop(int64_t plan) { delete reinterpret_cast<All2AllPlan*>(plan); }

int all2all_groups(int64_t plan) { return reinterpret_cast<All2AllPlan*>(plan)->groups; }

// Where this process sees rank `peer`'s region.
void all2all_peer(int64_t plan, int peer, int64_t address) {
    reinterpret_cast<All2AllPlan*>(plan)->args.region[peer] = reinterpret_cast<unsigned char*>(address);
}

// One call. stamps: where the waves' clock readings go (int64 [groups * WAVES][4]) if built with ALL2ALL_TRACE, else 0.
void all2all_run(int64_t plan, int64_t x, int64_t indices, int64_t weights, int64_t out, int num_tokens, int64_t epoch,
                 int64_t stamps) {
    const All2AllPlan& p = *reinterpret_cast<const All2AllPlan*>(plan);
    All2AllArgs a = p.args;
    const size_t half = (epoch & 1) * p.half_bytes;
    for (int r = 0; r < a.world_size; r++) a.region[r] += half;
    a.x = reinterpret_cast<const unsigned char*>(x);
    a.indices = reinterpret_cast<const int*>(indices);
    a.weights = reinterpret_cast<const float*>(weights);
    a.out = reinterpret_cast<unsigned char*>(out);
    a.num_tokens = num_tokens;
    a.epoch = static_cast<u32>(epoch);
    a.stamps = reinterpret_cast<long long*>(stamps);
    with_kernel_of(p.tagged, a.dim, [&](auto kernel) { kernel<<<dim3(p.groups), dim3(THREADS)>>>(a); });
    must(hipGetLastError(), "launch of all2all_kernel");
}
