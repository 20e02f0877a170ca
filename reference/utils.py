"""What every reference.py, and any submission that wants it, may import: seeding, comparing, cache flushing.

GPU MODE places this file beside reference.py in the run folder, so it depends on torch and numpy alone.
The names are those that GPU MODE's own problem sets offer, so a submission written against theirs runs here.
The verdicts are theirs too, down to the dtype in which a tolerance is rounded, with two exceptions, both
stricter: an output of the wrong dtype fails, and so does one of a wrong shape that would broadcast.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

# Elements compared at a time: a latent cache of 1.2 GB must not need six masks of its own size at once.
COMPARE_CHUNK = 1 << 26


def set_seed(seed: int = 42) -> None:
    """Seeds Python's, numpy's and torch's global generators, the one of each GPU included."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def get_device(use_cuda: bool = True) -> torch.device:
    """The GPU, or the CPU where there is none (said on stdout) or none is wanted."""
    if not use_cuda:
        return torch.device("cpu")
    for kind, present in (("cuda", torch.cuda.is_available), ("mps", torch.backends.mps.is_available)):
        if present():
            return torch.device(kind)
    print("get_device: torch sees no GPU here, using the CPU")
    return torch.device("cpu")


def clear_l2_cache() -> None:
    """Writes 256 MiB on the current device, more than the L2 and Infinity Cache of an MI300X hold."""
    torch.empty(32 << 20, dtype=torch.int64, device="cuda").fill_(42)


def clear_l2_cache_large() -> None:
    """Fills 62.5 GiB with random floats: the flush of the MI355X problems, which needs a card that large."""
    torch.randn((16000, 1024, 1024), device="cuda")


class DisableCuDNNTF32:
    """Context in which convolutions round as fp32 does and take the same algorithm each time."""

    def __enter__(self) -> DisableCuDNNTF32:
        self._before = (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic)
        torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = False, True
        return self

    def __exit__(self, *exc: object) -> None:
        torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = self._before


class DeterministicContext(DisableCuDNNTF32):
    """The same, and an operator without a deterministic algorithm raises instead of running."""

    def __enter__(self) -> DeterministicContext:
        self._workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
        self._algorithms = torch.are_deterministic_algorithms_enabled()
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True)
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        torch.use_deterministic_algorithms(self._algorithms)
        if self._workspace is None:
            del os.environ["CUBLAS_WORKSPACE_CONFIG"]
        else:
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = self._workspace


# ---- comparing -------------------------------------------------------------------------------------------


@torch.no_grad()
def verbose_allclose(
    received: torch.Tensor,
    expected: torch.Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    max_print: int = 5,
    diff_dtype: torch.dtype | None = torch.float32,
) -> tuple[bool, list[str]]:
    """Is |received - expected| <= atol + rtol*|expected| everywhere, and if not, where is it worst?

    Returns (True, [largest error]) or (False, [what is wrong, the max_print worst elements, how many more]).
    NaN matches NaN and an infinity matches the same infinity; against anything else they are mismatches.
    The difference is taken in diff_dtype (None: in the tensors' own), the tolerance in expected's dtype:
    in bf16 both are rounded, and a harness that rounds them passes other outputs than one that does not.
    """
    refused = _refuse(received, expected)
    if refused:
        return False, [refused]
    worst = _Worst(max_print)
    largest = 0.0
    for start, got, want in _chunks(received, expected):
        diff = (got - want).abs() if diff_dtype is None else (got.to(diff_dtype) - want.to(diff_dtype)).abs()
        # abs() of the one-byte floats does not exist
        scale = want.float() if want.is_floating_point() and want.itemsize == 1 else want
        tolerance = atol + rtol * scale.abs()
        got32, want32 = got.float(), want.float()
        odd = torch.logical_xor(got32.isnan(), want32.isnan())
        odd |= torch.logical_xor(got32.isposinf(), want32.isposinf())
        odd |= torch.logical_xor(got32.isneginf(), want32.isneginf())
        excess = torch.where(odd, math.inf, diff.float() / tolerance.float())
        worst.add(start, odd | (diff > tolerance), excess)
        largest = max(largest, diff.float().nan_to_num(0.0, math.inf).max().item())
    return worst.verdict(received, expected, _beyond(rtol, atol), [f"largest |got - wanted| {largest:.6g}"])


@torch.no_grad()
def verbose_allequal(
    received: torch.Tensor, expected: torch.Tensor, max_print: int = 5
) -> tuple[bool, list[str]]:
    """Is every element equal (NaN equals nothing)? Returns (True, []) or (False, [what, where, how many])."""
    refused = _refuse(received, expected)
    if refused:
        return False, [refused]
    worst = _Worst(max_print)
    for start, got, want in _chunks(received, expected):
        worst.add(start, torch.ne(got, want), (got.float() - want.float()).abs())
    return worst.verdict(received, expected, "are not equal", [])


def match_reference(
    data: Any,
    output: torch.Tensor,
    reference: Callable[[Any], torch.Tensor],
    rtol: float = 1e-05,
    atol: float = 1e-08,
    tol_err_ratio: float = 0.0,
) -> tuple[bool, str]:
    """A task's check_implementation in its usual form: is output what reference(data) returns?

    tol_err_ratio > 0 lets that share of the elements miss the tolerance, counted by torch.isclose.
    """
    expected = reference(data)
    good, reasons = verbose_allclose(output, expected, rtol=rtol, atol=atol)
    if not good and tol_err_ratio > 0.0 and not _refuse(output, expected) and output.dtype == expected.dtype:
        misses = ~torch.isclose(output, expected, rtol=rtol, atol=atol)
        ratio = (misses.sum() / output.numel()).item()
        if ratio <= tol_err_ratio:
            return True, f"{ratio:.6f} of the elements miss the tolerance, {tol_err_ratio:g} may"
    return good, "; ".join(reasons)


def make_match_reference(
    reference: Callable[[Any], torch.Tensor], **tolerances: float
) -> Callable[[Any, torch.Tensor], tuple[bool, str]]:
    """A check_implementation(data, output) that compares with reference at the given tolerances."""

    def check_implementation(data: Any, output: torch.Tensor) -> tuple[bool, str]:
        return match_reference(data, output, reference, **tolerances)

    return check_implementation


@torch.no_grad()
def match_allclose(
    output: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float
) -> tuple[bool, str]:
    """As torch.allclose judges, which the multi-GPU problems use: NaN is close to nothing.

    Returns (True, "") or (False, what is wrong and where it is worst).
    """
    refused = _refuse(output, expected)
    if refused:
        return False, refused
    if output.dtype == expected.dtype and torch.allclose(output, expected, rtol=rtol, atol=atol):
        return True, ""
    worst = _Worst(5)
    for start, got, want in _chunks(output, expected):
        far = ~torch.isclose(got.to(want.dtype), want, rtol=rtol, atol=atol)
        want32 = want.float()
        worst.add(start, far, (got.float() - want32).abs() / (atol + rtol * want32.abs()))
    good, reasons = worst.verdict(output, expected, _beyond(rtol, atol), [])
    return good, "; ".join(reasons)


def _refuse(received: object, expected: torch.Tensor) -> str:
    """Why received cannot be compared with expected at all; empty if it can."""
    wanted = f"wanted {_kind(expected)}"
    if not isinstance(received, torch.Tensor):
        return f"output is of type {type(received).__name__}, {wanted}"
    if received.shape != expected.shape:
        return f"shape mismatch: got {_kind(received)}, {wanted}"
    if received.device != expected.device:
        return f"device mismatch: got {received.device}, wanted {expected.device}"
    return ""


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _beyond(rtol: float, atol: float) -> str:
    return f"differ by more than {atol:g} + {rtol:g}*|wanted|"


def _chunks(
    received: torch.Tensor, expected: torch.Tensor
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """(first flat index, received, expected) piece by piece, each piece flat."""
    flat_got, flat_want = received.reshape(-1), expected.reshape(-1)
    for start in range(0, flat_want.numel(), COMPARE_CHUNK):
        end = start + COMPARE_CHUNK
        yield start, flat_got[start:end], flat_want[start:end]


class _Worst:
    """Counts mismatches and remembers the elements that exceed their tolerance most."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.count = 0
        self._found: list[tuple[float, int]] = []  # (excess, flat index)

    def add(self, start: int, mismatched: torch.Tensor, excess: torch.Tensor) -> None:
        """mismatched: bool [n]; excess: float [n], larger is worse; start: the flat index of element 0."""
        count = int(mismatched.count_nonzero().item())
        self.count += count
        # 0/0, NaN against a number: worst of all where it is a mismatch, nothing where it is not
        ranked = torch.where(mismatched, excess.nan_to_num(math.inf, math.inf), excess.nan_to_num(0.0, 0.0))
        values, places = ranked.topk(min(self.keep, max(count, 1)))
        self._found += [(value, start + place) for value, place in zip(values.tolist(), places.tolist())]
        self._found = sorted(self._found, key=lambda found: (-found[0], found[1]))[: self.keep]

    def verdict(
        self, received: torch.Tensor, expected: torch.Tensor, how: str, remarks: list[str]
    ) -> tuple[bool, list[str]]:
        """(True, remarks), or (False, the count of mismatches and the worst elements: index, got, wanted)."""
        lines = []
        if received.dtype != expected.dtype:
            lines.append(f"dtype mismatch: got {_kind(received)}, wanted {_kind(expected)}")
        elif not self.count:
            return True, remarks
        lines.append(f"{self.count} of {expected.numel()} elements {how}")
        for rank, (_, flat) in enumerate(self._found[: max(self.count, 1)]):
            index = tuple(int(i) for i in np.unravel_index(flat, tuple(expected.shape)))
            got, want = received[index].item(), expected[index].item()
            lines.append(f"{'worst ' if rank == 0 else ''}at {index}: got {got:.6g}, wanted {want:.6g}")
        if self.count > len(self._found):
            lines.append(f"and {self.count - len(self._found)} more")
        return False, lines
