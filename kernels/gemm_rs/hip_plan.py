"""The host side of amd-gemm-rs in HIP, on every GPU: what a shape's launches are made of."""

from kernels.common.hip_gemm_plan import HipGemmPlan

MAX_RANKS = 64  # one lane each


class GemmRsPlan(HipGemmPlan):
    def __init__(self, heap, a, w, tuning, default, card, launch):
        """launch: the extension's function."""
        ranks, m = heap.world_size, a.shape[0]
        if m % ranks:
            raise ValueError(f"the input's {m} rows do not divide by the world size, {ranks}")
        super().__init__(heap, m, m // ranks, w, tuning, default, card)
        slots_bytes = self.slots_bytes()
        if slots_bytes >= 1 << 31:  # offsets in a call's slots have 31 bits
            raise ValueError(f"the product [{m}, {self.n}] takes 2 GiB or more in bf16")
        if ranks > MAX_RANKS:
            raise ValueError(f"at most {MAX_RANKS} ranks, got {ranks}")
        self.launch = launch
        share_tiles = self.row_tiles * self.column_tiles
        n_tiles = share_tiles * (1 if self.merged else ranks + 1)  # own ones may be half as high
        self.make_memory("gemm-rs", a, w, "a tile of the product", slots_bytes, share_tiles * ranks, n_tiles)
        self.out_rows = self.rows
        self.after = (self.block_m, self.block_n, self.split_k, self.row["GROUP_M"], self.merged)

    def slots_bytes(self):
        """What all ranks store into one rank's memory in a call."""
        return 2 * self.m * self.n8
