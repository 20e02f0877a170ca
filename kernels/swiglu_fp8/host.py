"""What every variant of swiglu-fp8 does on the host: checks its inputs, registers the PyTorch operator."""

import torch

from kernels.common.fp8_checks import check_quantisation
from kernels.common.tensor_checks import check_on_gpu, check_tensor

WIDEST_ROW = 32768  # outputs


def check_inputs(gate_up, scale, clear, fp8, fp8_types):
    """(rows, n); ValueError unless swiglu_fp8 takes these, with a type of out among fp8_types."""
    check_on_gpu("gate_up", gate_up)
    rows, columns = gate_up.shape if gate_up.dim() == 2 else (0, 0)
    n = columns // 2
    if rows < 1 or n < 8 or columns % 16 or n > WIDEST_ROW:
        raise ValueError(
            f"gate_up must have the shape [rows, 2 * n] with n a multiple of 8 up to {WIDEST_ROW}, "
            f"got {list(gate_up.shape)}"
        )
    check_tensor("gate_up", gate_up, gate_up.shape, torch.float16, device=gate_up.device)
    check_quantisation(scale, fp8, fp8_types, clear, gate_up.device)
    return rows, n


def register_operator(swiglu_fp8):
    """torch.ops.cdna_forge.swiglu_fp8: this function for models, torch.compile and graphs."""

    @torch.library.custom_op("cdna_forge::swiglu_fp8", mutates_args={"clear"})
    def operator(
        gate_up: torch.Tensor,
        scale: torch.Tensor,
        clear: torch.Tensor | None = None,
        fp8: torch.dtype = torch.float8_e4m3fnuz,
    ) -> torch.Tensor:
        return swiglu_fp8(gate_up, scale, clear, fp8)

    @operator.register_fake
    def fake(gate_up, scale, clear=None, fp8=torch.float8_e4m3fnuz):
        return gate_up.new_empty((gate_up.shape[0], gate_up.shape[1] // 2), dtype=fp8)
