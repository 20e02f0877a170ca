"""The host side of amd-all2all in HIP, on every GPU.

It checks a shape once, makes the region of the symmetric heap, and then each call is an allocation of the output and a
launch. docs/kernels/all2all.md has the protocol, and why back-to-back calls need no barrier.
"""

import torch

from kernels.common.gemm_inputs import aligned
from kernels.common.rank_plan import RankPlan, plan_for
from kernels.common.symmetric_heap import HeapError, symmetric_heap

FUNCTIONS = ["all2all_region_bytes", "all2all_plan", "all2all_peer", "all2all_run", "all2all_drop"]
BATCH = 0  # sources that a wave polls at once: as many as it takes for all work to be under way

MAX_RANKS = 8
MAX_EXPERTS_PER_TOKEN = 32
MAX_REGION_BYTES = 16 << 30
# Why a kernel gave up: what it was waiting for, or what made it (enum Awaited).
WAITS = {
    1: "its tokens, in all2all",
    2: "its experts' sums, in all2all",
    3: "an expert's number in all2all's indices is not 0 ... num_experts - 1",
}

# Where a rank sends at most this many bytes, every 4 bytes carry the call's number, so that they need no flag behind
# them: twice the bytes, but nobody waits for stores to arrive before he announces them. Measured on 4 H200: 11 instead
# of 14 us for the two smallest benchmark cases, equal at 1.5 MB, slower above.
TAGGED_UP_TO_BYTES = 1 << 20


def expected_sent_bytes(cfg, world_size):
    """fp16 bytes that a rank with all its tokens sends to others, a token once to each rank it needs."""
    ranks = (world_size - 1) * (1 - (1 - 1 / world_size) ** cfg.experts_per_token)
    return 2 * cfg.max_num_tokens * cfg.hidden_dim * ranks


class All2AllPlan(RankPlan):
    """A shape's kernel arguments and region, for one heap."""

    def __init__(self, heap, data, build, max_groups, senders):
        """build: returns the extension. max_groups: workgroups of 512 threads at most. senders: waves of a workgroup
        that send where words are not tagged; what they have under way should fill the links, no more."""
        super().__init__(heap)
        cfg, mine, rank, world_size = data
        experts, k = cfg.num_experts, cfg.experts_per_token
        dim, max_tokens = cfg.hidden_dim, cfg.max_num_tokens
        if (rank, world_size) != (heap.rank, heap.world_size):
            group = f"{heap.rank} of {heap.world_size}"
            raise ValueError(f"all2all: called as rank {rank} of {world_size}, but the process group says {group}")
        if not 1 <= world_size <= MAX_RANKS:
            raise ValueError(f"all2all: 1 to {MAX_RANKS} ranks, of one machine, got {world_size}")
        if experts < 1 or experts % world_size:
            raise ValueError(f"all2all: {experts} experts do not spread evenly over {world_size} ranks")
        if dim % 8 or dim < 8:
            raise ValueError(f"all2all: hidden_dim must be a multiple of 8, got {dim}")
        if not 1 <= k <= MAX_EXPERTS_PER_TOKEN:
            raise ValueError(f"all2all: 1 to {MAX_EXPERTS_PER_TOKEN} experts a token, got {k}")
        if max_tokens < 1:
            raise ValueError(f"all2all: max_num_tokens must be 1 or more, got {max_tokens}")
        if cfg.in_dtype != torch.float16 or cfg.out_dtype != torch.float16:
            raise ValueError(f"all2all: fp16 in and out, got {cfg.in_dtype} and {cfg.out_dtype}")
        self.dim, self.k, self.max_tokens = dim, k, max_tokens
        self.inputs(mine)  # before the region: peers of a rank that refuses its own learn that it does not come
        self.extension = build()  # before the region: peers must not wait for a compiler
        tagged = expected_sent_bytes(cfg, world_size) <= TAGGED_UP_TO_BYTES
        size_bytes = self.extension.all2all_region_bytes(world_size, max_tokens, k, dim, tagged)
        if size_bytes > MAX_REGION_BYTES:
            raise HeapError(
                f"all2all: {max_tokens} tokens of {dim} for {world_size} ranks need a region of "
                f"{size_bytes / 2**30:.1f} GiB, more than {MAX_REGION_BYTES >> 30}"
            )
        # The plan asks the GPU about the kernel, and so loads it: before the region as well.
        self.handle = self.extension.all2all_plan(
            rank,
            world_size,
            experts,
            k,
            dim,
            max_tokens,
            tagged,
            max_groups,
            BATCH,
            senders,
            heap.alarm_address,
            heap.timeout_ticks,
        )
        shape = f"all2all of {max_tokens} tokens of {dim} for {k} of {experts} experts"
        self.take_region(f"{shape} {tagged}", 0, size_bytes // 2, WAITS)
        for peer, address in enumerate(self.region.addresses):
            self.extension.all2all_peer(self.handle, peer, address)
        self.launch = self.extension.all2all_run
        self.meet(shape)

    def __del__(self):
        if hasattr(self, "handle"):
            self.extension.all2all_drop(self.handle)

    def run(self, mine):
        x, indices, weights = self.inputs(mine)
        out = torch.empty_like(x)
        tensors = (x.data_ptr(), indices.data_ptr(), weights.data_ptr(), out.data_ptr())
        self.launch(self.handle, *tensors, x.shape[0], self.region.next_epoch() & 0xFFFFFFFF, 0)
        return out

    def inputs(self, mine):
        """x, indices and weights as the kernel takes them: contiguous, x at a multiple of 16 bytes. ValueError where
        something is wrong that it cannot see."""
        x, indices, weights = mine.x, mine.indices, mine.weights
        tokens = x.shape[0]
        for name, tensor, columns, dtype in (
            ("x", x, self.dim, torch.float16),
            ("indices", indices, self.k, torch.int32),
            ("weights", weights, self.k, torch.float32),
        ):
            if tensor.dtype is not dtype or tensor.shape != (tokens, columns):
                raise ValueError(
                    f"all2all: {name} must be {dtype} {[tokens, columns]}, got {tensor.dtype} {list(tensor.shape)}"
                )
            if tensor.get_device() != self.heap.device_index:
                raise ValueError(f"all2all: {name} must be on the group's GPU, {self.heap.device}, got {tensor.device}")
        if tokens > self.max_tokens:
            raise ValueError(f"all2all: {tokens} tokens, but max_num_tokens is {self.max_tokens}")
        return aligned(x), aligned(indices), aligned(weights)


def all2all(data, plans, make_plan):
    """custom_kernel(data), by a plan of `plans` or a new one: make_plan(heap, data)."""
    cfg, mine, rank, world_size = data
    device_index = mine.x.get_device()
    if torch.cuda.current_device() != device_index and device_index >= 0:
        torch.cuda.set_device(device_index)
    heap = symmetric_heap()
    shape = (cfg.num_experts, cfg.experts_per_token, cfg.hidden_dim, cfg.max_num_tokens, cfg.in_dtype, cfg.out_dtype)
    plan = plan_for(plans, (rank, world_size, *shape), heap, {}, lambda: make_plan(heap, data))
    return plan(mine)
