"""trimul in HIP: the triangle multiplicative update in four launches, with operands and intermediates in fp16.

1. weight_kernel    weights to fp16, x's norm and the sigmoids' base in them
2. project_kernel   layer norm of x, left, right and gate
3. triangle_kernel  product[i, j] = left[i] * right[j] over k, for each channel
4. output_kernel    layer norm of the product, times gate, projected back

Their headers say how, docs/kernels/trimul.md why.
"""

import functools

import torch

from kernels.common.hip_extension import load_extension
from kernels.common.hip_source import hip_source
from kernels.common.packed_arguments import argument_packer
from kernels.common.tensor_checks import round_up
from kernels.trimul.hip_gfx942_tuning import DEFAULT, TUNING
from kernels.trimul.trimul_inputs import HIDDEN, PROJECTIONS, table_key, trimul_inputs

HIP_SOURCE = hip_source("trimul_gfx942.hip")
WIDTHS = (128, 256, 384, 768)  # of x that kernels are compiled for


@functools.cache
def extension():
    return load_extension("trimul_hip", HIP_SOURCE, functions=["trimul"])


pack_args = argument_packer(HIP_SOURCE, "TrimulArgs")


class Plan:
    """Buffers that a call writes before it reads them, by their names in TrimulArgs."""

    def __init__(self, device, batch, n, dim):
        def empty(*shape, dtype=torch.float16):
            return torch.empty(shape, dtype=dtype, device=device)

        width = next(width for width in WIDTHS if width >= dim)
        pitch = round_up(n, 64) + 64  # whole lines, and not a power of two of them
        self.buffers = {name: empty(batch, n, HIDDEN * pitch + 64) for name in ("left", "right", "gate", "product")}
        self.buffers |= {
            "bias": empty(len(PROJECTIONS), HIDDEN, dtype=torch.float32),
            "weight": empty(len(PROJECTIONS), HIDDEN, width),
            "weight_out": empty(width, HIDDEN),
        }
        self.fields = {name: buffer.data_ptr() for name, buffer in self.buffers.items()}
        self.fields |= {"batch": batch, "n": n, "dim": dim, "width": width, "pitch": pitch}


plan_of = functools.lru_cache(maxsize=1)(Plan)  # the last shape's


def tuning_row(data):
    """The row that custom_kernel(data) uses."""
    return TUNING.get(table_key(data[0].shape[1]), DEFAULT)


def custom_kernel(data):
    """x fp32 [batch, n, n, dim], mask, weights by name and config as the problem hands them over -> fp32 like x."""
    x, mask, weights, shape = trimul_inputs(data)
    plan = plan_of(x.device, *shape)
    out = torch.empty_like(x)
    tensors = {"x": x, "mask": mask, "out": out, **weights}
    address, size, _owner = pack_args(
        **{name: tensor.data_ptr() for name, tensor in tensors.items()},
        **plan.fields,
        mask_is_int64=int(mask.dtype == torch.int64),
        project_tiles=0,
        output_tiles=0,
    )
    extension().trimul(address, size, tuning_row(data)["TILE"])
    return out
