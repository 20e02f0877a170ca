"""amd-mixture-of-experts in Triton: a DeepSeek-style layer in five launches, none of which waits for the host.

    y[t] = sum over the top k experts e of softmax(x[t] @ router.T)[e] * down_e(silu(gate_e(x[t])) * up_e(x[t]))
           + the shared expert of x[t]

1. router_kernel   logits, softmax and the k choices of each token, and how many choices each expert got.
2. sort_kernel     a row for each choice, the rows of an expert side by side; tiles of rows of one expert.
3. gate_up_kernel  h[row] = silu(x @ gate) * (x @ up), rows of x gathered by token as they are loaded.
4. down_kernel     out[choice] = h[row] @ down, each row stored at its choice's place.
5. combine_kernel  y[t] = sum of score * out over the choices of t, in fp32, in their order.

The shared expert is one more group that every token chooses, with score 1; one that is n times as wide is n groups.
No weight is copied: the kernels find the matrices through a table of addresses. How many rows an expert gets stays on
the GPU: the grids are upper bounds, and workgroups without a tile end at once.
"""

import functools

import torch
import triton
import triton.language as tl

from kernels.common.launch_options import launch_options, power_of_two_divisor
from kernels.common.workgroup_order import grouped_rows, xcd_contiguous
from kernels.moe.moe_inputs import matrix_table

N_XCD = 8  # MI300X
ROUTER_TOKENS = 16  # tokens of a workgroup in the router and in the sort
ROUTER_K = 256
COMBINE_N = 2048


@triton.jit
def router_kernel(
    x_ptr,  # fp16 [tokens][D_HIDDEN]
    router_ptr,  # fp16 [N_ROUTED][D_HIDDEN]
    group_ptr,  # int32 [tokens][TOP_K + N_SHARED]: the chosen experts, then the shared ones
    score_ptr,  # fp32, likewise
    count_ptr,  # int32 [workgroups][BLOCK_G]: choices of this workgroup's tokens, by group
    n_tokens,
    D_HIDDEN: tl.constexpr,
    N_ROUTED: tl.constexpr,
    N_SHARED: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_G: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    block = tl.program_id(0)
    token = block * BLOCK_T + tl.arange(0, BLOCK_T)
    group = tl.arange(0, BLOCK_G)
    rk = tl.arange(0, BLOCK_K)
    is_token = token < n_tokens
    is_routed = group < N_ROUTED

    # Rows past the end read row 0 instead: they are not stored.
    x = x_ptr + tl.where(is_token, token, 0)[:, None] * D_HIDDEN + rk[None, :]
    router = router_ptr + tl.where(is_routed, group, 0)[None, :] * D_HIDDEN + rk[:, None]
    logits = tl.zeros((BLOCK_T, BLOCK_G), dtype=tl.float32)
    for k in range(0, D_HIDDEN, BLOCK_K):
        logits = tl.dot(tl.load(x + k), tl.load(router + k), logits)

    # The reference rounds logits and scores to fp16, which decides which of them are equal.
    logits = tl.where(is_routed[None, :], logits.to(tl.float16).to(tl.float32), float("-inf"))
    e = tl.exp(logits - tl.max(logits, 1)[:, None])
    score = (e / tl.sum(e, 1)[:, None]).to(tl.float16).to(tl.float32)

    choice = token * (TOP_K + N_SHARED)
    count = tl.where((group >= N_ROUTED) & (group < N_ROUTED + N_SHARED), tl.sum(is_token.to(tl.int32)), 0)
    left = tl.where(is_routed[None, :], score, -1.0)
    for i in tl.static_range(TOP_K):
        best = tl.max(left, 1)
        # Of equal scores the one of the smallest index, as torch.topk takes on a GPU; also where all are NaN.
        chosen = tl.min(tl.where(left == best[:, None], group[None, :], N_ROUTED - 1), 1)
        tl.store(group_ptr + choice + i, chosen, mask=is_token)
        tl.store(score_ptr + choice + i, best, mask=is_token)
        is_chosen = group[None, :] == chosen[:, None]
        left = tl.where(is_chosen, -1.0, left)
        count += tl.sum((is_chosen & is_token[:, None]).to(tl.int32), 0)
    for i in tl.static_range(N_SHARED):
        tl.store(group_ptr + choice + TOP_K + i, tl.full((BLOCK_T,), N_ROUTED + i, tl.int32), mask=is_token)
        tl.store(score_ptr + choice + TOP_K + i, tl.full((BLOCK_T,), 1.0, tl.float32), mask=is_token)
    tl.store(count_ptr + block * BLOCK_G + group, count)


@triton.jit
def sort_kernel(
    group_ptr,  # int32 [choices]
    count_ptr,  # int32 [workgroups][BLOCK_G]
    row_choice_ptr,  # int32 [choices]: by row, which choice it computes
    tile_ptr,  # int32 [1 + tiles][4]: how many tiles; then of each the group, and the group's first tile, row and end
    n_choices,
    CHOICES: tl.constexpr,  # of a workgroup
    BLOCK_C: tl.constexpr,  # CHOICES rounded up to a power of two
    BLOCK_G: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCKS: tl.constexpr,  # of counts, read at a time
):
    block = tl.program_id(0)
    n_blocks = tl.num_programs(0)
    group = tl.arange(0, BLOCK_G)

    total = tl.zeros((BLOCK_G,), dtype=tl.int32)
    before = tl.zeros((BLOCK_G,), dtype=tl.int32)  # of them, in workgroups before this one
    for first in range(0, n_blocks, BLOCKS):
        other = first + tl.arange(0, BLOCKS)
        count = tl.load(count_ptr + other[:, None] * BLOCK_G + group[None, :], mask=other[:, None] < n_blocks, other=0)
        total += tl.sum(count, 0)
        before += tl.sum(tl.where(other[:, None] < block, count, 0), 0)
    end = tl.cumsum(total, 0)

    place = tl.arange(0, BLOCK_C)
    choice = block * CHOICES + place
    is_choice = (place < CHOICES) & (choice < n_choices)
    chosen = tl.load(group_ptr + choice, mask=is_choice, other=-1)
    is_mine = (chosen[:, None] == group[None, :]).to(tl.int32)
    rank = tl.cumsum(is_mine, 0) - is_mine  # among this workgroup's choices of the same group
    row = tl.sum(is_mine * ((end - total + before)[None, :] + rank), 1)
    tl.store(row_choice_ptr + row, choice, mask=is_choice)

    if block == 0:
        n_tiles = tl.cdiv(total, BLOCK_M)
        tile_end = tl.cumsum(n_tiles, 0)
        tl.store(tile_ptr, tl.sum(n_tiles, 0))
        for i in range(tl.max(n_tiles, 0)):
            tile = tile_ptr + 4 * (1 + tile_end - n_tiles + i)
            tl.store(tile, group, mask=i < n_tiles)
            tl.store(tile + 1, tile_end - n_tiles, mask=i < n_tiles)
            tl.store(tile + 2, end - total, mask=i < n_tiles)
            tl.store(tile + 3, end, mask=i < n_tiles)


@triton.jit
def tile_of_workgroup(
    tile_ptr, n_tiles, N_COLUMNS: tl.constexpr, BLOCK_M: tl.constexpr, GROUP_M: tl.constexpr, XCDS: tl.constexpr
):
    """(group, first row, end of the group's rows, tile column) of this workgroup.

    An XCD works on one group after the other, so that its L2 holds that group's weights: GROUP_M tiles down, then the
    next column.
    """
    order = xcd_contiguous(tl.program_id(0), n_tiles * N_COLUMNS, XCDS)
    entry = tile_ptr + 4 * (1 + order // N_COLUMNS)
    group = tl.load(entry)
    first_tile = tl.load(entry + 1)
    first_row = tl.load(entry + 2)
    end_row = tl.load(entry + 3)
    group_tiles = tl.cdiv(end_row - first_row, BLOCK_M)
    tile, column = grouped_rows(order - first_tile * N_COLUMNS, group_tiles, N_COLUMNS, GROUP_M)
    return group, first_row + tile * BLOCK_M, end_row, column


@triton.jit
def matrix_at(address_ptr):
    """Pointer to fp16 from a table of addresses, which are multiples of 16 bytes."""
    return tl.multiple_of(tl.load(address_ptr).to(tl.pointer_type(tl.float16)), 16)


@triton.jit
def gate_up_kernel(
    x_ptr,  # fp16 [tokens][D_HIDDEN]
    matrix_ptr,  # int64 [4][N_GROUPS]: addresses of gate, up and down; the width of a row of gate and up
    tile_ptr,  # int32 [1 + tiles][4]
    row_choice_ptr,  # int32 [rows]
    h_ptr,  # fp16 [rows][D_EXPERT]
    N_GROUPS: tl.constexpr,
    CHOICES: tl.constexpr,  # of a token
    D_HIDDEN: tl.constexpr,
    D_EXPERT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
):
    EVEN_N: tl.constexpr = D_EXPERT % BLOCK_N == 0
    N_COLUMNS: tl.constexpr = (D_EXPERT + BLOCK_N - 1) // BLOCK_N
    n_tiles = tl.load(tile_ptr)
    if tl.program_id(0) >= n_tiles * N_COLUMNS:
        return
    group, first_row, end_row, column = tile_of_workgroup(tile_ptr, n_tiles, N_COLUMNS, BLOCK_M, GROUP_M, XCDS)
    row = first_row + tl.arange(0, BLOCK_M)
    rn = column * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    # Rows past the group's end compute its first row again: they are not stored.
    token = tl.load(row_choice_ptr + tl.where(row < end_row, row, first_row)) // CHOICES
    width = tl.multiple_of(tl.load(matrix_ptr + 3 * N_GROUPS + group).to(tl.int32), 16)
    x = x_ptr + token[:, None] * D_HIDDEN + rk[None, :]
    w = rk[:, None] * width + rn[None, :]
    gate_ptr = matrix_at(matrix_ptr + group) + w
    up_ptr = matrix_at(matrix_ptr + N_GROUPS + group) + w

    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, D_HIDDEN, BLOCK_K):
        a = tl.load(x + k)
        if EVEN_N:
            b_gate = tl.load(gate_ptr)
            b_up = tl.load(up_ptr)
        else:
            b_gate = tl.load(gate_ptr, mask=rn[None, :] < D_EXPERT, other=0.0)
            b_up = tl.load(up_ptr, mask=rn[None, :] < D_EXPERT, other=0.0)
        gate = tl.dot(a, b_gate, gate)
        up = tl.dot(a, b_up, up)
        gate_ptr += BLOCK_K * width
        up_ptr += BLOCK_K * width

    h = (gate / (1.0 + tl.exp(-gate)) * up).to(tl.float16)
    inside = (row[:, None] < end_row) & (rn[None, :] < D_EXPERT)
    tl.store(h_ptr + row.to(tl.int64)[:, None] * D_EXPERT + rn[None, :], h, mask=inside)


@triton.jit
def down_kernel(
    h_ptr,  # fp16 [rows][D_EXPERT]
    matrix_ptr,  # int64 [4][N_GROUPS]
    tile_ptr,  # int32 [1 + tiles][4]
    row_choice_ptr,  # int32 [rows]
    out_ptr,  # fp16 [choices][D_HIDDEN]
    N_GROUPS: tl.constexpr,
    D_HIDDEN: tl.constexpr,
    D_EXPERT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
):
    EVEN_N: tl.constexpr = D_HIDDEN % BLOCK_N == 0
    N_COLUMNS: tl.constexpr = (D_HIDDEN + BLOCK_N - 1) // BLOCK_N
    n_tiles = tl.load(tile_ptr)
    if tl.program_id(0) >= n_tiles * N_COLUMNS:
        return
    group, first_row, end_row, column = tile_of_workgroup(tile_ptr, n_tiles, N_COLUMNS, BLOCK_M, GROUP_M, XCDS)
    row = first_row + tl.arange(0, BLOCK_M)
    rn = column * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    a_row = tl.where(row < end_row, row, first_row) - first_row
    h = h_ptr + first_row.to(tl.int64) * D_EXPERT + a_row[:, None] * D_EXPERT + rk[None, :]
    down_ptr = matrix_at(matrix_ptr + 2 * N_GROUPS + group) + rk[:, None] * D_HIDDEN + rn[None, :]

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, D_EXPERT, BLOCK_K):
        a = tl.load(h + k)
        if EVEN_N:
            b = tl.load(down_ptr)
        else:
            b = tl.load(down_ptr, mask=rn[None, :] < D_HIDDEN, other=0.0)
        acc = tl.dot(a, b, acc)
        down_ptr += BLOCK_K * D_HIDDEN

    choice = tl.load(row_choice_ptr + row, mask=row < end_row, other=0).to(tl.int64)
    inside = (row[:, None] < end_row) & (rn[None, :] < D_HIDDEN)
    tl.store(out_ptr + choice[:, None] * D_HIDDEN + rn[None, :], acc.to(tl.float16), mask=inside)


@triton.jit
def combine_kernel(
    out_ptr,  # fp16 [tokens][CHOICES][D_HIDDEN]
    score_ptr,  # fp32 [tokens][CHOICES]
    y_ptr,  # fp16 [tokens][D_HIDDEN]
    CHOICES: tl.constexpr,
    D_HIDDEN: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    y = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for i in tl.static_range(CHOICES):
        choice = token * CHOICES + i
        out = tl.load(out_ptr + choice * D_HIDDEN + rn, mask=rn < D_HIDDEN, other=0.0)
        y += tl.load(score_ptr + choice) * out.to(tl.float32)
    tl.store(y_ptr + token * D_HIDDEN + rn, y.to(tl.float16), mask=rn < D_HIDDEN)


class Plan:
    """Buffers that a call writes before it reads them, and how large its grids are."""

    def __init__(self, device, n_tokens, top_k, n_routed, n_shared, d_hidden, d_expert, block_m):
        n_groups, choices = n_routed + n_shared, top_k + n_shared
        n_rows = n_tokens * choices

        def empty(*shape, dtype):
            return torch.empty(shape, dtype=dtype, device=device)

        self.block_g = max(16, triton.next_power_of_2(n_groups))
        self.n_blocks = triton.cdiv(n_tokens, ROUTER_TOKENS)
        self.most_tiles = n_rows // block_m + min(n_groups, n_rows)  # a group's last tile may be a small one
        self.group = empty(n_rows, dtype=torch.int32)
        self.score = empty(n_rows, dtype=torch.float32)
        self.count = empty(self.n_blocks, self.block_g, dtype=torch.int32)
        self.row_choice = empty(n_rows, dtype=torch.int32)
        self.tiles = empty(1 + self.most_tiles, 4, dtype=torch.int32)
        self.h = empty(n_rows, d_expert, dtype=torch.float16)
        self.out = empty(n_rows, d_hidden, dtype=torch.float16)


plan_of = functools.lru_cache(maxsize=1)(Plan)  # the last shape's


def moe(x, router, matrices, sizes, config):
    """Launch with the given row of the tuning table.

    x fp16 [tokens, d_hidden]; router fp16 [n_routed, d_hidden]; matrices as matrix_table takes them;
    sizes (n_tokens, top_k, n_routed, n_shared, d_hidden, d_expert). Returns fp16 [tokens, d_hidden].
    """
    n_tokens, top_k, n_routed, n_shared, d_hidden, d_expert = sizes
    choices = top_k + n_shared
    block_m = config["BLOCK_M"]
    plan = plan_of(x.device, *sizes, block_m)
    table = matrix_table(x.device, matrices)
    y = torch.empty((n_tokens, d_hidden), dtype=torch.float16, device=x.device)

    router_kernel[(plan.n_blocks,)](
        x,
        router,
        plan.group,
        plan.score,
        plan.count,
        n_tokens,
        D_HIDDEN=d_hidden,
        N_ROUTED=n_routed,
        N_SHARED=n_shared,
        TOP_K=top_k,
        BLOCK_T=ROUTER_TOKENS,
        BLOCK_G=plan.block_g,
        BLOCK_K=power_of_two_divisor(d_hidden, ROUTER_K),
        **launch_options(waves=4, stages=2),
    )
    sort_kernel[(plan.n_blocks,)](
        plan.group,
        plan.count,
        plan.row_choice,
        plan.tiles,
        n_tokens * choices,
        CHOICES=ROUTER_TOKENS * choices,
        BLOCK_C=triton.next_power_of_2(ROUTER_TOKENS * choices),
        BLOCK_G=plan.block_g,
        BLOCK_M=block_m,
        BLOCKS=64,
        **launch_options(waves=4, stages=1),
    )
    common = {"N_GROUPS": n_routed + n_shared, "D_HIDDEN": d_hidden, "D_EXPERT": d_expert}
    common |= {"BLOCK_M": block_m, "GROUP_M": config["GROUP_M"], "XCDS": N_XCD}
    common |= launch_options(config["num_warps"], config["num_stages"], config["MFMA"])
    gate_up_kernel[(plan.most_tiles * triton.cdiv(d_expert, config["GATE_N"]),)](
        x,
        table,
        plan.tiles,
        plan.row_choice,
        plan.h,
        CHOICES=choices,
        BLOCK_N=config["GATE_N"],
        BLOCK_K=power_of_two_divisor(d_hidden, config["BLOCK_K"]),
        **common,
    )
    down_kernel[(plan.most_tiles * triton.cdiv(d_hidden, config["DOWN_N"]),)](
        plan.h,
        table,
        plan.tiles,
        plan.row_choice,
        plan.out,
        BLOCK_N=config["DOWN_N"],
        BLOCK_K=power_of_two_divisor(d_expert, config["BLOCK_K"]),
        **common,
    )
    combine_kernel[(n_tokens, triton.cdiv(d_hidden, COMBINE_N))](
        plan.out,
        plan.score,
        y,
        CHOICES=choices,
        D_HIDDEN=d_hidden,
        BLOCK_N=COMBINE_N,
        **launch_options(waves=4, stages=1),
    )
    return y
