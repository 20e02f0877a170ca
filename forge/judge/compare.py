"""How far an output is from the reference: relative L2 error and the worst element. Runs in the referee.

This stands beside the problem's own check_implementation: some official tolerances are so wide that an output of zeros
passes, and a relative L2 error of 1 says so.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from forge.judge.results import Accuracy, Worst
from forge.judge.wrong_output import SLACK, pattern_of

# Elements compared at a time: in float64 they fit a core's cache, and on a GPU they are worth some launches.
CHUNK_ELEMENTS, GPU_CHUNK_ELEMENTS = 2**16, 2**24
SLOW_REFERENCE_S = 5.0  # a reference slower than this is not run again in float64
LARGE_INPUT_BYTES = 2**30  # nor is one whose input would need eight times this
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
PRODUCTS = (
    *(torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.mm, torch.Tensor.mm),
    *(torch.bmm, torch.Tensor.bmm, torch.nn.functional.linear),
)
PLAUSIBLE_REL_L2 = 0.05  # between the reference and itself in float64; beyond, the dtypes are part of its meaning


def copy_data(data: Any, kind: str, device: str | None = None) -> Any:
    """A problem's input with its tensors copied: "tensors" in tuples, lists and dicts (to `device`, if one is named),
    "deep", or "none"."""
    if kind == "none":
        return data
    if kind == "deep":
        return copy.deepcopy(data)
    return _map_tensors(data, lambda tensor: tensor.clone() if device is None else tensor.clone().to(device))


def _map_tensors(data: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(data, torch.Tensor):
        return change(data)
    if isinstance(data, tuple):
        return tuple(_map_tensors(item, change) for item in data)
    if isinstance(data, list):
        return [_map_tensors(item, change) for item in data]
    if isinstance(data, dict):
        return {key: _map_tensors(item, change) for key, item in data.items()}
    return data


def tensors_of(output: Any, path: str = "output") -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of an output, with a name such as output[1]['k']."""
    if isinstance(output, torch.Tensor):
        yield path, output
    elif isinstance(output, (tuple, list)):
        for i, item in enumerate(output):
            yield from tensors_of(item, f"{path}[{i}]")
    elif isinstance(output, dict):
        for key, item in output.items():
            yield from tensors_of(item, f"{path}[{key!r}]")


def foreign_objects(output: Any, path: str = "output") -> list[str]:
    """One phrase for each object in place of a tensor that torch would let decide how it compares."""
    if type(output) in (torch.Tensor, torch.nn.Parameter):
        return []
    if isinstance(output, (tuple, list)):
        return [text for i, item in enumerate(output) for text in foreign_objects(item, f"{path}[{i}]")]
    if isinstance(output, dict):
        return [text for key, item in output.items() for text in foreign_objects(item, f"{path}[{key!r}]")]
    if isinstance(output, torch.Tensor) or hasattr(type(output), "__torch_function__"):
        return [f"{path} is a {type(output).__name__}, not a plain torch.Tensor"]
    return []


def describe_output(output: Any) -> str:
    """float32[4, 8] on cuda:0; (float32[4], NoneType)."""
    if isinstance(output, torch.Tensor):
        return f"{_short(output.dtype)}{list(output.shape)} on {output.device}"
    if isinstance(output, (tuple, list)):
        return f"({', '.join(map(describe_output, output))})"
    return type(output).__name__


@torch.no_grad()
def accuracy_of(got: Any, wanted: Any, reference: str, **known: bool) -> Accuracy:
    """Compares two outputs of the same structure, tensor by tensor, in float64; the worst tensor's error counts.
    known: of the problem, as pattern_of takes it."""
    pairs, problem = _pair(got, wanted)
    if problem:
        return Accuracy(None, reference, problem=problem)
    rel_l2, worst, worst_gap = 0.0, None, -1.0
    right = count = 0
    for where, mine, theirs in pairs:
        error_sum, wanted_sum, most = 0.0, 0.0, 0.0
        flat_mine, flat_theirs = mine.detach().reshape(-1), theirs.detach().reshape(-1)
        for start, piece in _pieces(flat_theirs):
            a, b = (_exact(flat[piece]) for flat in (flat_mine, flat_theirs))
            same = (a == b) | (a.isnan() & b.isnan())
            gap = torch.where(same, 0.0, (a - b).abs()).nan_to_num(math.inf, math.inf)
            wanted_sum += float(b[b.isfinite()].abs().square().sum())
            error_sum += float(gap.square().sum())
            largest = float(gap.max())
            most = max(most, largest)
            if largest > worst_gap:
                worst_gap, flat = largest, start + int(gap.argmax())
                index = _unravel(flat, theirs.shape)
                worst = Worst(where, index, *(float(_exact(one[flat]).real) for one in (flat_mine, flat_theirs)))
        if wanted_sum > 0:
            # Digits beyond these hang on how many threads shared the sums, here and in the reference.
            rel_l2 = max(rel_l2, float(f"{math.sqrt(error_sum / wanted_sum):.6g}"))
        elif error_sum > 0:
            rel_l2 = math.inf
        slack = SLACK * math.sqrt(wanted_sum / flat_theirs.numel())
        right += flat_theirs.numel() if most <= slack else _right_of(flat_mine, flat_theirs, slack)
        count += flat_theirs.numel()
    share = right / count
    if worst_gap <= 0 or worst is None:
        return Accuracy(rel_l2, reference, right_share=share)
    farthest = next((mine, theirs) for where, mine, theirs in pairs if where == worst.where)
    comparable = rel_l2 > PLAUSIBLE_REL_L2 and not any(one.is_complex() for one in farthest)
    pattern = pattern_of(*farthest, **known) if comparable else ""
    return Accuracy(rel_l2, reference, worst, pattern, right_share=share)


def _right_of(flat_mine: torch.Tensor, flat_theirs: torch.Tensor, slack: float) -> int:
    """How many elements are what is wanted, but for what wrong_output.py takes for rounding."""
    right = 0
    for _, piece in _pieces(flat_theirs):
        a, b = (_exact(flat[piece]) for flat in (flat_mine, flat_theirs))
        right += int((((a - b).abs() <= slack + SLACK * b.abs()) | (a == b) | (a.isnan() & b.isnan())).sum())
    return right


@torch.no_grad()
def share_of(got: Any, wanted: Any, without: Any) -> tuple[float, float]:
    """How much of what the input adds to an output is there, by least squares, and that number's standard error.

    `without`: the reference's output where the input is zero. An error that rounding makes has no part in the first:
    it does not go with the input.
    """
    pairs, problem = _pair(got, wanted)
    base = dict(tensors_of(without))
    added_sum = both_sum = mine_sum = 0.0
    count = 0
    for where, mine, theirs in pairs:
        flats = [one.detach().reshape(-1) for one in (mine, theirs, base[where])]
        for _, piece in _pieces(flats[0]):
            a, b, zero = (_exact(flat[piece]).real for flat in flats)
            mine_sum += float((a - zero).square().sum())
            both_sum += float(((a - zero) * (b - zero)).sum())
            added_sum += float((b - zero).square().sum())
            count += a.numel()
    if problem or not added_sum:
        return 1.0, 0.0
    share = both_sum / added_sum
    return share, math.sqrt(max(mine_sum - share * both_sum, 0.0) / added_sum / count)


class _ZeroProducts(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in PRODUCTS and len(args) == 2 and not kwargs and args[0].ndim == args[1].ndim > 1:
            one, other = args[0], args[1].mT if func is torch.nn.functional.linear else args[1]
            alike = one.dtype == other.dtype in FLOATS and one.shape[:-2] == other.shape[:-2]
            fits = alike and one.shape[-1] == other.shape[-2] and one.untyped_storage().device.type == "cpu"
            if fits and (_zero(one, other) or _zero(other, one)):
                return one.new_zeros((*one.shape[:-1], other.shape[-1]))
        return func(*args, **(kwargs or {}))


def zero_products() -> TorchFunctionMode:
    """Within it the CPU leaves out matrix products of zeros with finite numbers, which take as long as any others."""
    return _ZeroProducts()


def _zero(one: torch.Tensor, other: torch.Tensor) -> bool:
    return not bool(one.any()) and bool(other.isfinite().all())


def _pieces(flat: torch.Tensor) -> Iterator[tuple[int, slice]]:
    elements = CHUNK_ELEMENTS if flat.untyped_storage().device.type == "cpu" else GPU_CHUNK_ELEMENTS
    return ((start, slice(start, start + elements)) for start in range(0, flat.numel(), elements))


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _pair(got: Any, wanted: Any) -> tuple[list[tuple[str, torch.Tensor, torch.Tensor]], str]:
    mine, theirs = dict(tensors_of(got)), dict(tensors_of(wanted))
    if not theirs:
        return [], "the reference returns no tensor"
    if mine.keys() != theirs.keys():
        return [], f"tensors returned: {', '.join(mine) or 'none'}; wanted: {', '.join(theirs)}"
    for where, tensor in theirs.items():
        if mine[where].shape != tensor.shape:
            return [], f"{where} has shape {list(mine[where].shape)}, wanted {list(tensor.shape)}"
        if tensor.numel() == 0:
            return [], f"{where} is empty"
    return [(where, mine[where].to(theirs[where].device), theirs[where]) for where in theirs], ""


def _unravel(flat: int, shape: torch.Size) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        flat, place = divmod(flat, size)
        index.append(place)
    return tuple(reversed(index))


def dtype_differences(got: Any, wanted: Any) -> list[str]:
    """One phrase for each tensor of another dtype than the reference's: most official checks do not look."""
    mine, theirs = dict(tensors_of(got)), dict(tensors_of(wanted))
    return [
        f"{where} is {_short(mine[where].dtype)}, the reference returns {_short(tensor.dtype)}"
        for where, tensor in theirs.items()
        if where in mine and mine[where].dtype != tensor.dtype
    ]


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Noted:
    """A reference, and what it returned for one input: a check calls it, and what comes after need not once more."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.awaited = self.output = None
        self.versions: list[int] = []
        self.seconds = 0.0
        self.known: Callable[[Any], tuple[Any, float]] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        awaited, started = bool(args) and args[0] is self.awaited, time.monotonic()
        if awaited and self.known is not None:
            output, self.seconds = self.known(args[0])
        else:
            output = self.function(*args, **kwargs)
            self.seconds = time.monotonic() - started if awaited else self.seconds
        if awaited:
            self.output, self.versions = output, self._versions(output)
        return output

    def wait_for(self, data: Any, known: Callable[[Any], tuple[Any, float]] | None = None) -> None:
        """known: what it makes of that input, and how long it took, where that is known without calling it."""
        self.awaited, self.output, self.known = data, None, known

    def take(self) -> Any:
        """The output, if it was called for that input, and nobody has written to what it returned."""
        output, self.awaited, self.output = self.output, None, None
        return output if self._versions(output) == self.versions else None

    @staticmethod
    def _versions(output: Any) -> list[int]:
        return [-1 if tensor.is_inference() else tensor._version for _, tensor in tensors_of(output)]


def best_reference(
    ref_kernel: Callable[[Any], Any],
    make_data: Callable[[], Any],
    slow_s: float = SLOW_REFERENCE_S,
    known: tuple[Any, float] | None = None,
) -> tuple[Any, Any, str]:
    """(reference output, the same in higher precision if possible, "float64" or "reference"). known: the first, and how
    long it took, where it has been computed.

    A reference is a function of its input's dtypes, so running it on float64 copies of the floating-point
    inputs gives its value without its rounding. Where that fails, or changes the result by more than rounding
    could (the reference views bits, or quantises), its own output serves.
    """
    started = time.monotonic()
    plain = ref_kernel(make_data()) if known is None else known[0]
    if (time.monotonic() - started if known is None else known[1]) > slow_s:
        return plain, plain, "reference"
    data = make_data()
    if sum(t.nbytes for _, t in tensors_of(data)) > LARGE_INPUT_BYTES:
        return plain, plain, "reference"
    try:
        _map_tensors(data, lambda tensor: _to_float64(tensor.reshape(-1)[:1]))  # of none, if not of all
        exact = ref_kernel(_map_tensors(data, _to_float64))
    except Exception:  # a dtype that an operator of the reference does not take
        return plain, plain, "reference"
    difference = accuracy_of(exact, plain, "reference").rel_l2
    if difference is None or not difference < PLAUSIBLE_REL_L2:
        return plain, plain, "reference"
    return plain, exact, "float64"


def _to_float64(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor.clone()
