"""What a reference.py, and any submission that wants it, may import: seeding, comparing, flushing, MXFP4.

GPU MODE places this file beside reference.py in the run folder, so it depends on torch alone.
The names are those that GPU MODE's own problem sets offer, so a submission written against theirs runs here.
The verdicts are theirs too, down to the dtype in which a tolerance is rounded, and down to what they do not
look at: verbose_allclose takes an output of another dtype. One exception, stricter: a wrong shape that would
broadcast fails.
"""

from __future__ import annotations

import math
import os
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import torch

# Elements compared at a time: a latent cache of 1.2 GB must not need six masks of its own size at once, and most of its
# pieces, which no kernel wrote to, are equal.
COMPARE_CHUNK = 1 << 20
T = TypeVar("T")


def set_seed(seed: int = 42) -> None:
    """Seeds Python's, numpy's and torch's global generators, the one of each GPU included."""
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:  # torch loads it wherever it is installed
        numpy.random.seed(seed)
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
    same_dtype: bool = False,
) -> tuple[bool, list[str]]:
    """Is |received - expected| <= atol + rtol*|expected| everywhere, and if not, where is it worst?

    Returns (True, [largest error]) or (False, [what is wrong, the max_print worst elements, how many more]).
    NaN matches NaN and an infinity matches the same infinity; against anything else they are mismatches.
    The difference is taken in diff_dtype (None: in the tensors' own), the tolerance in expected's dtype:
    in bf16 both are rounded, and a harness that rounds them passes other outputs than one that does not.
    same_dtype: fail what has another dtype than expected, as GPU MODE's own function does not.
    """
    refused = _refuse(received, expected)
    if refused:
        return False, [refused]
    worst = _Worst(max_print, same_dtype)
    largest = 0.0
    for start, got, want in _chunks(received, expected):
        if want.itemsize > 1 and got.dtype == want.dtype and torch.equal(got, want):
            continue
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
    received: torch.Tensor, expected: torch.Tensor, max_print: int = 5, same_dtype: bool = False
) -> tuple[bool, list[str]]:
    """Is every element equal (NaN equals nothing)? Returns (True, []) or (False, [what, where, how many])."""
    refused = _refuse(received, expected)
    if refused:
        return False, [refused]
    worst = _Worst(max_print, same_dtype)
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
def match_allclose(output: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> tuple[bool, str]:
    """As torch.allclose judges, which the multi-GPU problems use: NaN is close to nothing, and it refuses two dtypes.

    Returns (True, "") or (False, what is wrong and where it is worst).
    """
    refused = _refuse(output, expected)
    if refused:
        return False, refused
    if output.dtype == expected.dtype and torch.allclose(output, expected, rtol=rtol, atol=atol):
        return True, ""
    worst = _Worst(5, same_dtype=True)
    for start, got, want in _chunks(output, expected):
        far = ~torch.isclose(got.to(want.dtype), want, rtol=rtol, atol=atol)
        want32 = want.float()
        worst.add(start, far, (got.float() - want32).abs() / (atol + rtol * want32.abs()))
    good, reasons = worst.verdict(output, expected, _beyond(rtol, atol), [])
    return good, "; ".join(reasons)


@torch.no_grad()
def match_fp8(output: torch.Tensor, expected: torch.Tensor, unequal_share: float = 0.01) -> tuple[bool, str]:
    """For outputs quantised to fp8: every element within one step of its type, and all but a share equal.

    Rounding in another order before the quantisation moves some values over a boundary, by one step, seldom:
    0.4% of the elements were measured. Truncating instead of rounding moves half of them.
    """
    info = torch.finfo(expected.dtype)
    step = info.smallest_normal * info.eps  # between subnormals; above them at most eps * |value|
    good, reasons = verbose_allclose(output, expected, rtol=info.eps, atol=step, same_dtype=True)
    if not good:
        return False, "; ".join(reasons)
    unequal = (output.float() != expected.float()).sum().item() / max(1, expected.numel())
    said = f"{unequal:.4%} of the elements are one step off, {unequal_share:.0%} may be"
    return unequal <= unequal_share, said


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


def _chunks(received: torch.Tensor, expected: torch.Tensor) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """(first flat index, received, expected) piece by piece, each piece flat."""
    flat_got, flat_want = received.reshape(-1), expected.reshape(-1)
    for start in range(0, flat_want.numel(), COMPARE_CHUNK):
        end = start + COMPARE_CHUNK
        yield start, flat_got[start:end], flat_want[start:end]


class _Worst:
    """Counts mismatches and remembers the elements that exceed their tolerance most."""

    def __init__(self, keep: int, same_dtype: bool) -> None:
        self.keep = keep
        self.same_dtype = same_dtype
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
        if self.same_dtype and received.dtype != expected.dtype:
            lines.append(f"dtype mismatch: got {_kind(received)}, wanted {_kind(expected)}")
        elif not self.count:
            return True, remarks
        lines.append(f"{self.count} of {expected.numel()} elements {how}")
        for rank, (_, flat) in enumerate(self._found[: max(self.count, 1)]):
            index = _index_of(flat, expected.shape)
            got, want = received[index].item(), expected[index].item()
            lines.append(f"{'worst ' if rank == 0 else ''}at {index}: got {got:.6g}, wanted {want:.6g}")
        if self.count > len(self._found):
            lines.append(f"and {self.count - len(self._found)} more")
        return False, lines


def _index_of(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Of an element, by its number. torch.unravel_index would import sympy."""
    index: list[int] = []
    for size in reversed(shape):
        flat, place = divmod(flat, size)
        index.insert(0, place)
    return tuple(index)


# ---- what a CPU does slowly by itself --------------------------------------------------------------------

# Multiply-adds from which a product of 16-bit numbers is taken in fp32 on a CPU, which many do at an eighth to a
# hundredth of that rate: hours for the larger cases. Where the weight lies the other way round, a sixteenth of that.
SLOW_MACS = 1 << 26


def on_host(x: torch.Tensor) -> bool:
    """Whether its numbers are in the host's memory, as an emulated GPU's are too."""
    return type(x) is torch.Tensor and x.untyped_storage().device.type == "cpu"


def beside(made: Iterable[T], function: Callable[[T], None], threads: int) -> None:
    """Has a CPU's other threads do a function with each of what this one makes, while it makes the next."""
    if threads == 1:
        for one in made:
            function(one)
        return
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(threads - 1) as others:
        for one in made:
            waiting.append(others.submit(function, one))
            if len(waiting) >= threads:
                waiting.popleft().result()
        for left in waiting:
            left.result()
    torch.set_num_threads(threads)  # of threads that begin later: the others had changed it


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x [..., in] @ weight [out, in] transposed, accumulated in fp32 or wider, rounded to their type once."""
    least = SLOW_MACS if weight.is_contiguous() else SLOW_MACS >> 4
    slow = x.dtype in (torch.float16, torch.bfloat16) and x.numel() * weight.size(0) >= least
    if slow and on_host(x):
        return torch.nn.functional.linear(x.float(), weight.float()).to(x.dtype)
    return torch.nn.functional.linear(x, weight)


def fp8_to_f32(x: torch.Tensor) -> torch.Tensor:
    """fp32 of an fp8 type, with the strides of x.float(). torch converts them one by one, on a CPU in up to twice the
    time that looking them up takes."""
    dense = x if x.is_contiguous() or x.dim() != 2 else x.T
    if not on_host(x) or not dense.is_contiguous():
        return x.float()
    values = torch.arange(256, device=x.device, dtype=torch.uint8).view(x.dtype).float()
    out = torch.empty(dense.shape, device=x.device, dtype=torch.float32)
    pieces = (flat.split(COMPARE_CHUNK >> 2) for flat in (out.view(-1), dense.reshape(-1).view(torch.uint8)))
    for there, codes in zip(*pieces):  # which a CPU's cache holds
        there.copy_(values.index_select(0, codes.int()))
    return out if dense is x else out.T


# ---- MXFP4: 32 values of e2m1 to a block, each block with one power of two in e8m0 ------------------------

MX_BLOCK = 32
E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # code 0..7; bit 3 of a code is the sign
# Halfway between neighbours. If ties go to the even code, every second of them still takes the lower code.
E2M1_BOUNDARIES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
MX_CHUNK_BLOCKS = 1 << 14  # blocks quantised at a time: 2 MiB in fp32, which stays in a CPU's cache


@torch.no_grad()
def mxfp4_quantize(x: torch.Tensor, bump_at: float = 1.75, ties: str = "even") -> tuple[torch.Tensor, torch.Tensor]:
    """MXFP4 of x along its last axis. x: [..., k], k a multiple of 32, any float type up to fp32.

    Returns codes uint8 [..., k/2], even k in the low nibble, and scales uint8 [..., k/32], e8m0.
    With 2^E the largest power of two in a block's largest magnitude, the block's scale is 2^(E-2), or 2^(E-1)
    once that magnitude reaches bump_at * 2^E. AMD's aiter has quantisers that bump at 1.75 (its "even" mode)
    and at 1.5, and that round ties to the even code or away from zero: a reference says which it needs.
    """
    if x.shape[-1] % MX_BLOCK:
        raise ValueError(f"MXFP4 blocks need a multiple of {MX_BLOCK} columns, got shape {tuple(x.shape)}")
    blocks = x.reshape(-1, MX_BLOCK)
    codes = torch.empty((len(blocks), MX_BLOCK // 2), dtype=torch.uint8, device=x.device)
    scales = torch.empty(len(blocks), dtype=torch.uint8, device=x.device)
    # A fake tensor (gen_submission.py --check) has no values to keep in a cache, and each piece would take it long.
    step = MX_CHUNK_BLOCKS if type(x) is torch.Tensor else max(1, len(blocks))
    threads = torch.get_num_threads()
    try:
        if on_host(x):  # a piece is done before a CPU's threads have met for each of its steps
            torch.set_num_threads(1)
        for start in range(0, len(blocks), step):
            piece = slice(start, start + step)
            made = _quantize_bf16(blocks[piece], bump_at, ties) if on_host(x) and x.dtype is torch.bfloat16 else None
            codes[piece], scales[piece] = made or _quantize(blocks[piece].float(), bump_at, ties)
    finally:
        torch.set_num_threads(threads)
    return codes.view(*x.shape[:-1], x.shape[-1] // 2), scales.view(*x.shape[:-1], x.shape[-1] // MX_BLOCK)


def _quantize(part: torch.Tensor, bump_at: float, ties: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Of fp32 [blocks, 32]: codes uint8 [blocks, 16], scales uint8 [blocks]."""
    bump = {1.75: 0x200000, 1.5: 0x400000}[bump_at]  # carries into fp32's exponent field from bump_at on
    strict = {"even": E2M1_BOUNDARIES[::2], "away": ()}[ties]
    magnitude = part.abs()
    exponent = (magnitude.amax(dim=1).view(torch.int32) + bump) >> 23
    scale = (exponent - 2).clamp(0, 254).to(torch.uint8)
    magnitude /= e8m0_to_f32(scale)[:, None]
    code = torch.signbit(part).to(torch.uint8) << 3
    for boundary in E2M1_BOUNDARIES:
        code += magnitude > boundary if boundary in strict else magnitude >= boundary
    return code[:, 0::2] | code[:, 1::2] << 4, scale


def _quantize_bf16(part: torch.Tensor, bump_at: float, ties: str) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The same of bf16, in a CPU's integers of two bytes: a third of the time. None where a block is so small or so
    large that its numbers' exponents are no plain ones."""
    bits = part.view(torch.int16)
    magnitude = bits & 0x7FFF  # 8 bits of exponent, 7 below
    largest = magnitude.amax(dim=1).int()
    scale = (largest + {1.75: 0x20, 1.5: 0x40}[bump_at] >> 7) - 2
    if int(scale.amin()) < 8 or int(largest.amax()) >= 0x7F80:
        return None
    magnitude -= (scale - 127 << 7).to(torch.int16)[:, None]  # as bf16 of magnitude / scale
    # From 1 on a code is the exponent and the bit below, 252 less. Below 1 the boundaries are 0.25 and 0.75.
    code = (magnitude >> 6 & 1) + 0x1F if ties == "even" else torch.full_like(magnitude, 0x20)
    code = (code.add_(magnitude) >> 6).sub_(252)
    below = -((0x3F3F - magnitude >> 15) + ((0x3E80 if ties == "even" else 0x3E7F) - magnitude >> 15))
    code = torch.maximum(code, below).clamp_(max=7)
    code |= bits >> 12 & 8
    pairs = code.to(torch.uint8).view(torch.int16)  # of two codes in a byte each
    return (pairs | pairs >> 4).to(torch.uint8), scale.to(torch.uint8)


@torch.no_grad()
def mxfp4_dequantize(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """fp32 [..., k] of codes [..., k/2] and scales [..., k/32], as uint8 or as torch's own types for them."""
    magnitudes = torch.tensor(E2M1_VALUES, device=codes.device)
    values = torch.cat([magnitudes, -magnitudes])
    pairs = torch.stack([values.repeat(16), values.repeat_interleave(16)], dim=1)  # [byte, even or odd k]
    # One gather of eight bytes for each byte of codes: the pair travels as if it were one double.
    packed = codes.view(torch.uint8).reshape(-1).int()
    values = pairs.view(torch.float64).view(-1).index_select(0, packed).view(torch.float32).view(-1, MX_BLOCK)
    values *= e8m0_to_f32(scales.view(torch.uint8)).reshape(-1, 1)
    return values.view(*codes.shape[:-1], 2 * codes.shape[-1])


def e8m0_to_f32(scales: torch.Tensor) -> torch.Tensor:
    """2^(byte-127) of each uint8, in fp32. Byte 0 is the subnormal 2^-127, byte 255 NaN."""
    bits = torch.where(scales == 0, 1 << 22, scales.int() << 23)
    return bits.masked_fill(scales == 255, 0x7FC00000).view(torch.float32)


def shuffle_weight(codes: torch.Tensor) -> torch.Tensor:
    """Weights [..., n, kb] of one-byte elements in the order in which a wave of 64 lanes loads them for MFMA.

    Tiles of 16 rows by 32 bytes; in a tile the first 16 bytes of every row, then the second 16 of every row.
    So two tiles are the 16-byte loads of 64 lanes, lane by lane. Same shape and dtype: the result of aiter's
    shuffle_weight(layout=(16, 16)), with the mark it leaves.
    """
    n, kb = codes.shape[-2:]
    if n % 16 or kb % 32:
        raise ValueError(f"weights shuffle in tiles of 16 rows by 32 bytes, got {n} rows of {kb} bytes")
    tiles = codes.view(torch.uint8).reshape(-1, n // 16, 16, kb // 32, 2, 16)
    shuffled = tiles.permute(0, 1, 3, 4, 2, 5).contiguous().view(codes.shape).view(codes.dtype)
    setattr(shuffled, "is_shuffled", True)  # noqa: B010  aiter's fused_moe picks its kernel by this
    return shuffled


def shuffle_scale(scales: torch.Tensor) -> torch.Tensor:
    """Scales uint8 [rows, kb] in the order in which MFMA takes them, padded to 256 rows and 8 columns: uint8
    [rows up to 256, kb up to 8], aiter's e8m0_shuffle.

    One dword holds rows r, r+16 of columns c, c+4: what lane 16*(c%4) + r%16 of a wave needs for 32 rows by
    256 k. aiter leaves the padding uninitialised; here it is 0, on which no kernel may rely.
    """
    rows, kb = scales.shape
    padded = torch.zeros((-(-rows // 256) * 256, -(-kb // 8) * 8), dtype=torch.uint8, device=scales.device)
    padded[:rows, :kb] = scales
    tiles = padded.view(padded.shape[0] // 32, 2, 16, padded.shape[1] // 8, 2, 4)
    return tiles.permute(0, 3, 5, 2, 4, 1).contiguous().view(padded.shape)
