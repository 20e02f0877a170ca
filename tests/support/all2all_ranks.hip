// amd-all2all's kernel for several ranks on one device, each with a region of its own: `ranks` is the grid's y.
//
// Several calls follow each other in one launch, with nothing between them but each rank's own order (one workgroup a
// rank then): as on GPUs whose calls no barrier separates. Every rank idles a random time before each call.
//
// Planted faults: with `halves` 1, calls share one half of the regions; the last `absent` ranks never come.
#include <algorithm>
#include <cmath>
#include <random>

#include "all2all_gfx942.hip"
#include "hip/check.h"

template <int DIM, bool TAGGED>
__global__ void __launch_bounds__(THREADS)
    ranks_kernel(const All2AllArgs* args, const int* idle, int calls, int ranks) {
  for (int call = 0; call < calls; call++) {
    const int at = call * ranks + blockIdx.y;
    for (int i = 0; i < idle[at]; i++) __builtin_amdgcn_s_sleep(1);
    const All2AllArgs mine = args[at];
    const All2All<DIM, TAGGED> all2all(mine);
    all2all.dispatch();
    all2all.experts();
    all2all.combine();
    __syncthreads();
  }
}

struct Case {
  int ranks, experts, k, dim, tokens, calls, tagged, groups, batch, senders, to_one_expert, jitter, patience_s, halves,
      absent;
};

struct Call {
  All2AllArgs args;
  std::vector<float> wanted;
};

int main(int argc, char** argv) {
  if (argc != 16) return 2;
  Case c;
  for (int i = 0; i < 15; i++) reinterpret_cast<int*>(&c)[i] = std::atoi(argv[i + 1]);
  std::mt19937 random(c.dim + c.calls);
  const int64_t region_bytes = all2all_region_bytes(c.ranks, c.tokens, c.k, c.dim, c.tagged);
  std::vector<unsigned char*> regions(c.ranks);
  for (auto& region : regions) {
    OK(hipExtMallocWithFlags(reinterpret_cast<void**>(&region), region_bytes, hipDeviceMallocFinegrained));
    OK(hipMemset(region, 0, region_bytes));
  }
  unsigned long long* alarm;
  OK(hipHostMalloc(reinterpret_cast<void**>(&alarm), 64, 0));
  alarm[0] = 0, alarm[1] = 0;
  std::vector<All2AllPlan*> plans;
  for (int r = 0; r < c.ranks; r++) {
    const int64_t plan = all2all_plan(r, c.ranks, c.experts, c.k, c.dim, c.tokens, c.tagged, c.groups, c.batch,
                                      c.senders, reinterpret_cast<int64_t>(alarm), c.patience_s * TICKS_PER_SECOND);
    for (int peer = 0; peer < c.ranks; peer++) all2all_peer(plan, peer, reinterpret_cast<int64_t>(regions[peer]));
    plans.push_back(reinterpret_cast<All2AllPlan*>(plan));
    if (c.halves == 1) plans.back()->half_bytes = 0;
  }
  const int groups = all2all_groups(reinterpret_cast<int64_t>(plans[0]));
  const int calls_a_launch = groups == 1 ? c.calls : 1;

  // All calls' inputs and outputs follow each other in five arrays.
  std::vector<__half> x;
  std::vector<int> indices, idle;
  std::vector<float> weights;
  std::vector<Call> calls;
  for (int call = 0; call < c.calls; call++)
    for (int r = 0; r < c.ranks; r++) {
      Call now = {plans[r]->args, {}};
      All2AllArgs& a = now.args;
      const int n = a.num_tokens = call % 4 == 3 ? 1 : random() % (c.tokens + 1);
      for (int peer = 0; peer < c.ranks; peer++) a.region[peer] += ((call + 1) & 1) * plans[r]->half_bytes;
      a.epoch = call + 1;
      a.x = reinterpret_cast<unsigned char*>(x.size() * 2);  // offsets, until the arrays are on the device
      a.indices = reinterpret_cast<int*>(indices.size() * 4);
      a.weights = reinterpret_cast<float*>(weights.size() * 4);
      idle.push_back(random() % 4 ? random() % (c.jitter + 1) : 0);
      for (int t = 0; t < n; t++) {
        std::vector<int> experts(c.experts);
        for (int e = 0; e < c.experts; e++) experts[e] = e;
        for (int j = 0; j < c.k; j++) {
          if (!c.to_one_expert) std::swap(experts[j], experts[j + random() % (c.experts - j)]);
          indices.push_back(c.to_one_expert ? c.to_one_expert : experts[j]);
          weights.push_back(random() % 1000 / 1000.f);
        }
        for (int d = 0; d < c.dim; d++) {
          x.push_back(__float2half((static_cast<int>(random() % 2001) - 1000) / 300.f));
          double sum = 0;
          for (size_t j = indices.size() - c.k; j < indices.size(); j++)
            sum += weights[j] *
                   __half2float(__float2half(__half2float(x.back()) * (1 + indices[j] / (c.experts / c.ranks))));
          now.wanted.push_back(sum);
        }
      }
      calls.push_back(now);
    }
  const size_t n_out = x.size();
  x.push_back({}), indices.push_back(0), weights.push_back(0);  // none of them is empty
  DeviceArray<__half> all_x(x), all_out(std::vector<__half>(n_out + 1));
  DeviceArray<int> all_indices(indices), all_idle(idle);
  DeviceArray<float> all_weights(weights);
  std::vector<All2AllArgs> args;
  for (Call& call : calls) {
    All2AllArgs& a = call.args;
    const size_t x_bytes = reinterpret_cast<size_t>(a.x);
    a.x = reinterpret_cast<unsigned char*>(all_x.data) + x_bytes;
    a.out = reinterpret_cast<unsigned char*>(all_out.data) + x_bytes;
    a.indices = all_indices.data + reinterpret_cast<size_t>(a.indices) / 4;
    a.weights = all_weights.data + reinterpret_cast<size_t>(a.weights) / 4;
    args.push_back(a);
  }
  DeviceArray<All2AllArgs> all_args(args);
  for (int call = 0; call < c.calls; call += calls_a_launch) {
    const All2AllArgs* first = all_args.data + call * c.ranks;
    const int* first_idle = all_idle.data + call * c.ranks;
    const auto launch = [&](auto kernel) {
      kernel<<<dim3(groups, c.ranks - c.absent), dim3(THREADS)>>>(first, first_idle, calls_a_launch, c.ranks);
    };
    if (c.dim == 2880) c.tagged ? launch(ranks_kernel<2880, true>) : launch(ranks_kernel<2880, false>);
    else c.tagged ? launch(ranks_kernel<0, true>) : launch(ranks_kernel<0, false>);
  }
  const hipError_t ended = hipDeviceSynchronize();
  if (alarm[0])
    std::printf("gave up on rank %d, waiting for %d in call %d\n", static_cast<int>(alarm[0] >> 16 & 0xffff) - 1,
                static_cast<int>(alarm[0] & 0xffff), static_cast<int>(alarm[0] >> 32));
  OK(ended);
  const std::vector<__half> out = all_out.host();
  size_t i = 0;
  double worst = 0;
  for (size_t call = 0; call < calls.size(); call++)
    for (size_t element = 0; element < calls[call].wanted.size(); element++, i++) {
      const double wanted = calls[call].wanted[element], got = __half2float(out[i]);
      worst = std::max(worst, std::fabs(got - wanted) / (5e-3 + 1e-2 * std::fabs(wanted)));
      if (!(worst <= 1)) {
        std::printf("call %zu, rank %zu, token %zu, element %zu: got %g, wanted %g\n", call / c.ranks, call % c.ranks,
                    element / c.dim, element % c.dim, got, wanted);
        return 1;
      }
    }
  std::printf("%d calls, %d workgroups a rank: errors up to %.3f of the tolerance\n", c.calls, groups, worst);
}
