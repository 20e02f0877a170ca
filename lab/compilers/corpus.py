"""What a reproducer is, and how its answer is judged.

A reproducer is a function that compiles and launches something small on the card that is there, and gives back what
came out beside what is right. What is right is worked out by NumPy or torch, in a wider type where there is one.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy
import torch

import cdna
from cdna.hip.compile.results import stored
from cdna.hip.compile.source import HipSource
from cdna.hip.compile.toolchain import find
from cdna.launch.module import ObjectKernel


@dataclass(frozen=True)
class Answer:
    """An element is right if it is NaN where NaN is wanted, else equal, or as near as is said."""

    got: torch.Tensor
    want: torch.Tensor
    rtol: float = 0.0
    atol: float = 0.0
    of: torch.Tensor | None = None  # what it was made of, element by element, to be told beside it

    def first_wrong(self) -> str:
        """The first element that is wrong, or ""."""
        got, want = self.got.reshape(-1), self.want.reshape(-1)
        if got.shape != want.shape:
            return f"{got.numel()} elements, {want.numel()} are right"
        wide = torch.float64 if want.is_floating_point() or got.is_floating_point() else torch.int64
        a, b = got.to(wide), want.to(wide)
        same = (a == b) | (a.isnan() & b.isnan())
        if wide == torch.float64:
            same |= (a - b).abs() <= self.atol + self.rtol * b.abs()
            same &= (a != 0) | (b != 0) | (a.signbit() == b.signbit()) | bool(self.rtol or self.atol)
        wrong = (~same).nonzero().reshape(-1)
        if not len(wrong):
            return ""
        at = int(wrong[0])
        made_of = f" of {self.of.reshape(-1)[at].item()}" if self.of is not None else ""
        return f"element {at}{made_of}: {got[at].item()}, right: {want[at].item()} ({len(wrong)} of {len(got)} wrong)"


Answers = Answer | Iterable[Answer]


def first_wrong(answers: Answers) -> str:
    several = [answers] if isinstance(answers, Answer) else answers
    return next(filter(None, (answer.first_wrong() for answer in several)), "")


@dataclass(frozen=True)
class Reproducer:
    name: str
    language: str  # triton or hip
    source: str  # where the fault was told of: a thread, or "found here"
    what: str
    run: Callable[[], Answers]
    digest: str  # of all that it consists of
    archs: tuple[str, ...] = cdna.ARCHS  # that have what it is about


ALL: dict[str, Reproducer] = {}
_arch = ""


def reproducer(
    source: str, language: str = "triton", archs: tuple[str, ...] = cdna.ARCHS
) -> Callable[[Callable[[], Answers]], Callable[[], Answers]]:
    """Registers a function; its docstring says what the fault is."""

    def register(function: Callable[[], Answers]) -> Callable[[], Answers]:
        name = function.__name__
        assert name not in ALL, name
        what = " ".join((inspect.getdoc(function) or "").split())
        ALL[name] = Reproducer(name, language, source, what, function, _digest(function), archs)
        return function

    return register


def _digest(function: Callable[..., Any]) -> str:
    """Of the function's text and of the kernels and functions of its file that it names."""
    texts: dict[str, str] = {}

    def read(one: Any) -> None:
        plain = getattr(one, "fn", one)  # a kernel of Triton's holds the function
        if not isinstance(plain, FunctionType) or plain.__name__ in texts or plain.__module__ != function.__module__:
            return
        texts[plain.__name__] = inspect.getsource(plain)
        for name in plain.__code__.co_names:
            read(plain.__globals__.get(name))

    read(function)
    return hashlib.sha256("".join(texts[name] for name in sorted(texts)).encode()).hexdigest()[:12]


def put_on(arch: str) -> None:
    """Say which card this process compiles for."""
    global _arch
    _arch = arch


def arch() -> str:
    return _arch


def hip(text: str, *flags: str) -> ObjectKernel:
    """The kernel of a HIP source, compiled by the clang of this process."""
    path = stored(text.encode(), ".hip")
    return cdna.load(find().code_object(HipSource(path, _arch, flags))).kernel()


def numbers(array: numpy.ndarray) -> torch.Tensor:
    return torch.from_numpy(numpy.ascontiguousarray(array))
