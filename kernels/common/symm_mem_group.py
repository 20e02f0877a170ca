"""A process group for PyTorch's symmetric-memory operators that survives the harness's new groups.

PyTorch keeps a group's symmetric memory by the group's name for as long as the process lives, and a default group is
called the same each time. The harness makes one for every case, maybe with other processes as ranks: what is kept would
point at the former case's memory. So the operators get a group with a name that was never used before.
"""

import os

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

# Read when torch makes its first symmetric memory. These operators copy from peer to peer and use no multicast.
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

_made: dict = {}  # the default group -> name of the group beside it; holds one entry


def symmetric_group_name(device):
    """The name to give to torch.ops.symm_mem; collective on the first call in a process group."""
    world = dist.group.WORLD
    if world not in _made:
        if torch.version.cuda is None or device.type != "cuda" or not torch.cuda.is_available():
            raise RuntimeError("symm_mem operators need a CUDA build of torch: take the variant 'baseline' instead")
        import torch.distributed._symmetric_memory as symmetric_memory

        symmetric_memory._group_name_to_workspace_tensor.clear()
        number = torch.randint(1 << 20, 1 << 40, (1,), device=device, generator=_unseeded(device))
        dist.broadcast(number, 0)
        c10d._world.group_count = int(number.item())  # the next group is named after it
        group = dist.new_group()
        _made.clear()
        _made[world] = group.group_name
    return _made[world]


def _unseeded(device):
    generator = torch.Generator(device=device)
    generator.seed()
    return generator
