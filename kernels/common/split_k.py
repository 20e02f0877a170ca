"""Host side of split-K sums: where slices leave their partial sums and count who has arrived."""

import torch

# device -> (partial sums, arrival counters); nothing in it carries over from a call's inputs to the next call
_split_k_workspace: dict = {}


def split_k_workspace(device, n_partial, n_tiles):
    """fp32 [>= n_partial] and int32 zeros [>= n_tiles] on the device, kept and grown across calls.

    A kernel leaves the counters zero. Two kernels that use them must not run at the same time.
    """
    partial, arrived = _split_k_workspace.get(device, (None, None))
    if partial is None or partial.numel() < n_partial or arrived.numel() < n_tiles:
        partial = torch.empty(n_partial, dtype=torch.float32, device=device)
        arrived = torch.zeros(n_tiles, dtype=torch.int32, device=device)
        _split_k_workspace[device] = (partial, arrived)
    return partial, arrived
