"""What the host reads of a GPU's tensors, for the check of what nobody has written."""

import os

import torch

from cdna.checks import settings
from forge.device import hook
from forge.device.fake_rocm.tags import CPU, quiet, tag_of


def look(tensor: torch.Tensor, what: str, copies: bool = False) -> None:
    """Have checks that are on look at what the host reads of a GPU's tensor."""
    if tag_of(tensor) not in (None, CPU) and "unwritten" in settings().kinds:  # not in a judge, which imports no more
        from cdna.checks.launch_checks import look_at_read

        with quiet():
            look_at_read(f"a tensor {list(tensor.shape)}", tensor, os.environ[hook.VARIABLE], what, copies)
