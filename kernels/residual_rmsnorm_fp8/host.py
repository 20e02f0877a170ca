"""What every variant of residual-rmsnorm-fp8 does on the host: checks its inputs, registers the PyTorch operator."""

import torch

from kernels.common.fp8_checks import check_quantisation
from kernels.common.tensor_checks import check_on_gpu, check_tensor

WIDEST_ROW = 32768  # elements


def check_inputs(x, residual, weight, scale, clear, fp8, fp8_types):
    """ValueError unless residual_rmsnorm_fp8 takes these, with a type of out among fp8_types."""
    check_on_gpu("x", x)
    rows, hidden = x.shape if x.dim() == 2 else (0, 0)
    if rows < 1 or hidden < 8 or hidden % 8 or hidden > WIDEST_ROW:
        raise ValueError(
            f"x must have the shape [rows, hidden] with hidden a multiple of 8 up to {WIDEST_ROW}, got {list(x.shape)}"
        )
    check_tensor("x", x, x.shape, torch.float16, device=x.device)
    check_tensor("residual", residual, x.shape, torch.float16, device=x.device)
    check_tensor("weight", weight, (hidden,), torch.float16, device=x.device)
    check_quantisation(scale, fp8, fp8_types, clear, x.device)


def register_operator(residual_rmsnorm_fp8):
    """torch.ops.cdna_forge.residual_rmsnorm_fp8: this function for models, torch.compile and graphs."""

    @torch.library.custom_op("cdna_forge::residual_rmsnorm_fp8", mutates_args={"residual", "clear"})
    def operator(
        x: torch.Tensor,
        residual: torch.Tensor,
        weight: torch.Tensor,
        scale: torch.Tensor,
        eps: float,
        clear: torch.Tensor | None = None,
        fp8: torch.dtype = torch.float8_e4m3fnuz,
    ) -> torch.Tensor:
        return residual_rmsnorm_fp8(x, residual, weight, scale, eps, clear, fp8)

    @operator.register_fake
    def fake(x, residual, weight, scale, eps, clear=None, fp8=torch.float8_e4m3fnuz):
        return torch.empty_like(x, dtype=fp8)
