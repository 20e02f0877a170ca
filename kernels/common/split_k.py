"""Sum of an output tile's slices of K, taken by several workgroups, without a second launch."""

import torch
import triton
import triton.language as tl

ON_AMD = tl.constexpr(torch.version.hip is not None)


@triton.jit
def workgroup_stores_complete():
    """By the whole workgroup. On AMD a barrier alone does not wait for stores under way: each wave waits for its."""
    if ON_AMD:
        tl.inline_asm_elementwise(
            "s_waitcnt vmcnt(0)\n\ts_mov_b32 $0, 0", "=s", [], dtype=tl.int32, is_pure=False, pack=1
        )
    tl.debug_barrier()


@triton.jit
def store_sum_of_slices(
    acc,  # fp32 tile: this slice's part of the sum
    c_ptr,
    partial_ptr,  # fp32 [SPLIT_K][slice_elements], unused where SPLIT_K is 1
    arrived_ptr,  # int32 [tiles], zero between launches
    offset,  # of the tile's elements in a slice of partial
    inside,  # which of them to store
    slice_elements,
    tile,
    part,  # which slice this is
    SPLIT_K: tl.constexpr,
    c_offset=None,  # of them in c, where that is laid out otherwise
):
    """Stores acc to c, or, of SPLIT_K slices, their sum once the last one has arrived.

    That adds all in slice order, so the result does not depend on who is last.
    """
    c = c_ptr + (offset if c_offset is None else c_offset)
    if SPLIT_K == 1:
        tl.store(c, acc.to(c_ptr.dtype.element_ty), mask=inside)
    else:
        # Write-through, so that workgroups on other XCDs find the partial sums in memory.
        tl.store(partial_ptr + part * slice_elements + offset, acc, mask=inside, cache_modifier=".wt")
        workgroup_stores_complete()
        if tl.atomic_add(arrived_ptr + tile, 1, sem="acq_rel", scope="gpu") == SPLIT_K - 1:
            tl.debug_barrier()
            total = tl.zeros_like(acc)
            # The atomic has dropped what this CU and XCD had cached. A ".cv" load would wait for the one before it.
            for other in range(SPLIT_K):
                total += tl.load(partial_ptr + other * slice_elements + offset, mask=inside, other=0.0)
            tl.store(c, total.to(c_ptr.dtype.element_ty), mask=inside)
            tl.store(arrived_ptr + tile, 0)


# device -> (partial sums, arrival counters); nothing in it carries over from a call's inputs to the next call
_split_k_workspace: dict = {}


def split_k_workspace(device, n_partial, n_tiles):
    """fp32 [>= n_partial] and int32 zeros [>= n_tiles] on the device, kept and grown across calls."""
    partial, arrived = _split_k_workspace.get(device, (None, None))
    if partial is None or partial.numel() < n_partial or arrived.numel() < n_tiles:
        partial = torch.empty(n_partial, dtype=torch.float32, device=device)
        arrived = torch.zeros(n_tiles, dtype=torch.int32, device=device)
        _split_k_workspace[device] = (partial, arrived)
    return partial, arrived
