"""Whether the trials of an autotuner have added to a tensor: what its call leaves there is then no call's result.

An autotuner's author names such tensors in `reset_to_zero` or `restore_value`. Told is a tensor in which the chosen
configuration's trial and the call that came of it have changed the same elements by the same amounts, beside what
other trials did. A kernel that writes its result anew, whatever was there, changes nothing the second time.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..launch.tensors import extent

MOST_BYTES = 1 << 28  # of a call's tensors together, which are copied for each trial
_TYPES = {
    "torch.float64": "f8", "torch.float32": "f4", "torch.float16": "f2", "torch.bfloat16": "u2", "torch.int64": "i8",
    "torch.int32": "i4", "torch.int16": "i2", "torch.int8": "i1", "torch.uint8": "u1",
}  # fmt: skip
_NEAR = 0.01  # of the largest change: sums are not always in the same order

Contents = dict[str, bytes]


class Trials:
    """Of one call of an autotuner: what its tensors held around the best trial so far, and behind the last."""

    def __init__(self, tuner: Any, arguments: Mapping[str, Any]) -> None:
        hooks = tuner.user_defined_pre_hook or tuner.user_defined_post_hook
        hooks = hooks or any(config.pre_hook for config in tuner.configs)
        named = {*tuner.reset_to_zero, *tuner.restore_value}
        self._tensors = {} if hooks else {n: t for n, t in arguments.items() if n not in named and _is_plain(t)}
        if sum(extent(tensor)[1] for tensor in self._tensors.values()) > MOST_BYTES:
            self._tensors = {}
        self._best: Any = None
        self._before: Contents = {}
        self._after: Contents = {}
        self._last = self._contents()

    def _contents(self) -> Contents:
        return {name: ctypes.string_at(*extent(tensor)) for name, tensor in self._tensors.items()}

    def ended(self, times: Any) -> None:
        before, self._last = self._last, self._contents()
        if self._best is None or times < self._best:
            self._best, self._before, self._after = times, before, self._last

    def added_to(self) -> tuple[str, ...]:
        """Names of such tensors, behind the call."""
        now = self._contents() if self._before else {}
        return tuple(name for name in now if self._is_added(name, now[name]))

    def _is_added(self, name: str, now: bytes) -> bool:
        if self._before[name] == self._after[name] or now == self._after[name]:
            return False
        kind = str(self._tensors[name].dtype)
        before, after, last, result = (
            _numbers(held, kind) for held in (self._before[name], self._after[name], self._last[name], now)
        )
        with np.errstate(all="ignore"):
            by_trial, by_call, apart = after - before, result - last, result - after
            most = float(np.max(np.abs(by_trial)))
            return bool(
                np.isfinite(most)
                and np.all(np.abs(by_call - by_trial) <= _NEAR * most)
                and np.max(np.abs(apart)) > _NEAR * most
            )


def _is_plain(value: Any) -> bool:
    return str(getattr(value, "dtype", "")) in _TYPES and hasattr(value, "untyped_storage") and extent(value)[0] != 0


def _numbers(held: bytes, kind: str) -> np.ndarray:
    size = np.dtype(_TYPES[kind]).itemsize
    numbers = np.frombuffer(held[: len(held) // size * size], _TYPES[kind])
    if kind == "torch.bfloat16":
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    return numbers.astype(np.float64)
