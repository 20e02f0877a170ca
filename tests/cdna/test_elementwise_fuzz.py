"""Element-wise arithmetic of Triton kernels beside NumPy and torch: operators, pairs of types, constants.

Constants are those that instructions hold by themselves, in some type or other, and their neighbours. $FORGE_TRITON
says which Triton compiles.
"""

import importlib.util
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cdna

N = 1024  # four elements a work-item: pairs of 16 bits are packed
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
WHOLE = [1, 5, 64, 65, -1, -16, -17, 0x3E22, 0x3800, 0x3C00, 0x3F00, 0x3F80, 0x4000, 0x4080, -0x4000, -0x4080]
BROKEN = [1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 4.0, -4.0, 0.15915494309189535, 1.5, 64.0, -16.0, 0.1]

Values = Any  # NumPy's, or torch's: int64, or float64


@dataclass(frozen=True)
class Operation:
    """`text` of a kernel, where a and b are loaded and z is a constant or b; what it is; how often it may round."""

    text: str
    result: Callable[[Values, Values, Values], Values]
    rounds: int = 1


def quotient(a: Values, b: Values) -> Values:
    """C's, towards zero."""
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


EVERY = [
    Operation("a + z", lambda a, b, z: a + z),
    Operation("a - z", lambda a, b, z: a - z),
    Operation("z - a", lambda a, b, z: z - a),
    Operation("a * z", lambda a, b, z: a * z),
    Operation("tl.maximum(a, z)", lambda a, b, z: np.maximum(a, z)),
    Operation("tl.minimum(a, z)", lambda a, b, z: np.minimum(a, z)),
    Operation("tl.where(a < z, a, b)", lambda a, b, z: np.where(a < z, a, b)),
    Operation("a * z + b", lambda a, b, z: a * z + b, 2),
    Operation("a * b + z", lambda a, b, z: a * b + z, 2),
    Operation("b - a * z", lambda a, b, z: b - a * z, 2),
]
OF_INTEGERS = [
    Operation("a & z", lambda a, b, z: a & z),
    Operation("a | z", lambda a, b, z: a | z),
    Operation("a ^ z", lambda a, b, z: a ^ z),
    Operation("z << (a & 7)", lambda a, b, z: z << (a & 7)),
    Operation("z >> (a & 7)", lambda a, b, z: z >> (a & 7)),
    Operation("(a >> 3) + (z & 15)", lambda a, b, z: (a >> 3) + (z & 15)),
    Operation("a // (z | 1)", lambda a, b, z: quotient(a, z | 1)),
    Operation("a % (z | 1)", lambda a, b, z: a - (z | 1) * quotient(a, z | 1)),
]
OF_FLOATS = [
    Operation("(a / z).to(a.dtype)", lambda a, b, z: a / z, 4),  # of 16 bits it is f32
    Operation("-tl.abs(a) * z", lambda a, b, z: -np.abs(a) * z),
    Operation("tl.minimum(tl.maximum(a * z, 0.0), 1.0)", lambda a, b, z: np.clip(a * z, 0, 1)),
]


def is_float(kind: str) -> bool:
    return kind in FLOATS


def held(values: Values, kind: str) -> Values:
    """What a type makes of values, as int64 or float64."""
    if is_float(kind):
        return torch.from_numpy(np.asarray(values, np.float64)).to(getattr(torch, kind)).double().numpy()
    return np.asarray(values).astype(np.int64).astype(kind).astype(np.int64)


def inputs(source: str, compute: str, rng: np.random.Generator) -> Values:
    """Of the first type, so that the second holds them, and none is zero."""
    if is_float(source):
        values = rng.uniform(0.25, 8, N) * rng.choice([-1, 1], N)
        return held(np.abs(values) + 1 if compute.startswith("uint") else values, source)
    ends = np.iinfo(source)
    low, high = (max(ends.min, -200), min(ends.max, 200)) if is_float(compute) else (ends.min, ends.max)
    values = rng.integers(low, high, N, endpoint=True)
    return np.where(values == 0, 1, values)


def tensor(values: Values, kind: str) -> torch.Tensor:
    if is_float(kind):
        return torch.from_numpy(values).to(getattr(torch, kind))
    return torch.from_numpy(values.astype(kind))


def numbers(result: torch.Tensor) -> Values:
    return result.double().numpy() if result.is_floating_point() else result.numpy().astype(np.int64)


def kernel_of(cases: Sequence[tuple[Operation, Any]], source: str, compute: str, narrows: bool, folder: Path) -> Any:
    """A kernel that stores each case's result in a row of its own; narrows: as the source's type too."""
    text = [
        "import triton",
        "import triton.language as tl",
        "",
        "",
        "@triton.jit",
        "def fuzz(a_ptr, b_ptr, out, back):",
    ]
    text += [f"    i = tl.arange(0, {N})", *(f"    {name} = tl.load({name}_ptr + i).to(tl.{compute})" for name in "ab")]
    for row, (operation, constant) in enumerate(cases):
        text += [f"    z = {'b' if constant is None else f'tl.full(({N},), {constant}, tl.{compute})'}"]
        text += [f"    r = {operation.text}", f"    tl.store(out + {row * N} + i, r)"]
        text += [f"    tl.store(back + {row * N} + i, r.to(tl.{source}))"] * narrows
    file = folder / f"fuzz_{source}_{compute}.py"
    file.write_text("\n".join([*text, ""]))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.fuzz


def differ(got: Values, want: Values, kind: str, slack: Values) -> bool:
    """slack: by how many of the type's roundings of what size floats may differ."""
    if not is_float(kind):
        return bool((got != want).any())
    return bool((np.abs(got - want) > torch.finfo(getattr(torch, kind)).eps * slack).any())


@pytest.mark.sampled
@pytest.mark.parametrize("arch", cdna.ARCHS)
@pytest.mark.parametrize("compute", INTEGERS + FLOATS)
@pytest.mark.parametrize("source", INTEGERS + FLOATS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_elementwise(source: str, compute: str, arch: str, tmp_path: Path) -> None:
    """Loaded as one type, computed in another and stored as both."""
    seed = f"{source} {compute} {arch}"
    rng = np.random.default_rng(list(seed.encode()))
    loaded = [inputs(source, compute, rng) for _ in range(2)]
    a, b = (held(values, compute) for values in loaded)
    narrows = source != compute and is_float(source) == is_float(compute)
    constants = BROKEN if is_float(compute) else [c for c in WHOLE if held(c, compute) == c]
    drawn = random.Random(seed)
    cases = [
        (operation, constant)
        for operation in EVERY + (OF_FLOATS if is_float(compute) else OF_INTEGERS)
        for constant in (None, *drawn.sample(constants, min(4, len(constants))))
    ]
    out = torch.zeros(len(cases), N, dtype=getattr(torch, compute))
    back = torch.zeros(len(cases), N, dtype=getattr(torch, source))
    with cdna.device(arch):
        kernel_of(cases, source, compute, narrows, tmp_path)[(1,)](*(tensor(v, source) for v in loaded), out, back)
    wrong = []
    for (operation, constant), row, narrowed in zip(cases, numbers(out), numbers(back), strict=True):
        z = b if constant is None else held(np.full(N, constant), compute)
        exact = operation.result(a, b, z)
        want = held(exact, compute)
        size = np.max(np.abs([a, b, z, a * z, a * b, exact]), 0) * operation.rounds if is_float(compute) else None
        if differ(row, want, compute, 0 if operation.rounds == 1 else size):
            wrong.append(f"{operation.text}, z = {constant}")
        elif narrows and differ(narrowed, held(row, source), source, np.abs(row)):
            wrong.append(f"({operation.text}).to({source}), z = {constant}")
    assert not wrong
