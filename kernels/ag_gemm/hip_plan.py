"""The host side of amd-ag-gemm in HIP, on every GPU: what a shape's launches are made of."""

from kernels.common.hip_gemm_plan import HipGemmPlan, flag_bytes_for
from kernels.common.rank_plan import place_bytes_for


class AgGemmPlan(HipGemmPlan):
    def __init__(self, heap, a, w, tuning, default, card, launch):
        """launch: the extension's function."""
        ranks, rows = heap.world_size, a.shape[0]
        super().__init__(heap, rows * ranks, rows, w, tuning, default, card)
        self.launch = launch
        row, merged = self.row, self.merged
        gathered_bytes = 2 * self.m * self.k8
        n_chunks = (1 if merged else self.row_tiles) * ranks
        # Of one destination; each flags each chunk.
        senders = -(-row["SENDERS"] // (ranks if merged else max(1, ranks - 1)))
        senders = min(senders, flag_bytes_for(place_bytes_for(gathered_bytes)) // 4 // n_chunks)
        n_tiles = self.row_tiles * self.column_tiles * (1 if merged else ranks)
        self.make_memory("ag-gemm", a, w, "rows of the input", gathered_bytes, n_chunks * senders, n_tiles)
        self.out_rows = self.m
        tile = (self.block_m, self.block_n, self.split_k)
        self.after = (*tile, row["GROUP_M"], row["BAND"], senders, merged)
