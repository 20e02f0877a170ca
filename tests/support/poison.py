"""Memory of tensors that nothing has written."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Inside, torch.empty gives NaN and large integers. (torch.use_deterministic_algorithms, which does it too, imports
    torch._inductor: longer than torch's own import.)"""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("error")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
