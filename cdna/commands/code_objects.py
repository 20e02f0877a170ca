"""`python -m cdna dump` and `python -m cdna launch`: what a code object holds, and one launch of a kernel of it."""

import argparse
import re
from pathlib import Path
from typing import Any, TextIO

from .. import checks
from ..binary.elf import CodeObject, read
from ..binary.statements import instructions_of
from ..errors import LaunchError
from ..launch.module import ObjectKernel, load
from ..observe.counters import counting
from ..observe.records import findings, take_records
from ..profile import profiles, text_lines
from .parser import ARGUMENTS

_TENSOR = re.compile(r"(\w+)\[(\d+(?:x\d+)*)\](?:=(\S+))?")
_NUMBER = re.compile(r"(i8|i16|i32|i64|f32|f64|u32|u64)=(\S+)")
_DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}


def prepared(file: Path, arguments: argparse.Namespace) -> tuple[ObjectKernel, list[Any]]:
    """The kernel that the options name, and its arguments' values."""
    kernel = load(file, arguments.arch).kernel(arguments.kernel)
    return kernel, [_value(text, arguments.seed + number) for number, text in enumerate(arguments.arg)]


def dump(file: Path, arch: str | None, out: TextIO) -> int:
    """Prints kernels, their arguments and all instructions, with source lines where the file has them."""
    code = read(_content(file), arch)
    print(f"{file}: {code.arch}, code object v{code.version}, {len(code.code)} bytes of code", file=out)
    for name, entry in sorted(code.metadata.items()):
        print(f"\nkernel {name}: {entry.get('.vgpr_count')} VGPRs, {entry.get('.sgpr_count')} SGPRs", file=out)
        for argument in entry.get(".args", []):
            label = argument.get(".name", argument[".value_kind"])
            print(f"  {argument['.offset']:4}  {argument['.size']:3} bytes  {label}", file=out)
    _print_code(code, out)
    return 0


def _print_code(code: CodeObject, out: TextIO) -> None:
    labels = {symbol.address: symbol.name for symbol in code.symbols if symbol.is_function}
    decoded = instructions_of(code)
    for address, instruction in decoded:
        if instruction.target is not None:
            labels.setdefault(address + instruction.target, f"L_{address + instruction.target:x}")
    line: tuple[str, int] | None = None
    print(file=out)
    for address, instruction in decoded:
        if address in labels:
            print(f"{labels[address]}:", file=out)
        if address in code.lines and code.lines[address] != line:
            line = code.lines[address]
            print(f"  ; {line[0]}:{line[1]}" if line[1] else "  ; of no known line", file=out)
        text = str(instruction)
        if instruction.target is not None:
            text = f"{text.rpartition(' ')[0]} {labels[address + instruction.target]}"
        print(f"  {address:8x}  {text}", file=out)


def launch(arguments: argparse.Namespace, out: TextIO) -> int:
    """Launches the kernel and prints what it executed, its modelled time, findings, and what became of the tensors."""
    kernel, values = prepared(arguments.file, arguments)
    take_records()
    with counting(), checks.use(arguments.checks, raises=False):
        kernel(arguments.grid, arguments.block, *values, lds_bytes=arguments.lds)
    for profile in profiles(take_records()):
        print("\n".join(text_lines(profile)), file=out)
    for number, value in enumerate(values):
        if hasattr(value, "data_ptr"):
            print(f"  argument {number}: {_summary(value)}", file=out)
            if arguments.save is not None:
                _save(value, arguments.save, number)
    found = findings()
    for finding in found:
        print(f"finding: {finding}", file=out)
    return 1 if found else 0


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise LaunchError(f"{file}: {error.strerror}") from None


def _value(text: str, seed: int) -> Any:
    """One argument from its text; LaunchError says what is understood."""
    import torch

    if text == "null":
        return None
    if text.startswith("pad=") and text[4:].isdigit():
        return bytes(int(text[4:]))
    if text.endswith(".npy"):
        return _from_file(Path(text))
    if number := _NUMBER.fullmatch(text):
        try:
            return float(number[2]) if number[1][0] == "f" else int(number[2], 0)
        except ValueError:
            raise LaunchError(f"argument {text!r}: {number[2]!r} is no number") from None
    tensor = _TENSOR.fullmatch(text)
    if tensor is None or tensor[1] not in _DTYPES:
        raise LaunchError(f"argument {text!r} is not understood: {ARGUMENTS}")
    dtype, shape = getattr(torch, _DTYPES[tensor[1]]), [int(size) for size in tensor[2].split("x")]
    fill = tensor[3] or "zeros"
    if fill == "randn":
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    if fill == "arange":
        return torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
    if fill == "nan":
        return torch.full(shape, float("nan")).to(dtype)
    if fill in ("zeros", "ones", "empty"):
        return getattr(torch, fill)(shape, dtype=dtype)
    raise LaunchError(
        f"argument {text!r}: a tensor is filled with randn, zeros, ones, nan, arange or empty, not {fill!r}"
    )


def _from_file(path: Path) -> Any:
    import numpy as np
    import torch

    try:
        return torch.from_numpy(np.load(path))
    except (OSError, ValueError, TypeError) as error:
        raise LaunchError(f"{path}: {error}") from None


def _save(tensor: Any, folder: Path, number: int) -> None:
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    plain = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
    np.save(folder / f"arg{number}.npy", plain.numpy())


def _summary(tensor: Any) -> str:
    name, shape = str(tensor.dtype).rpartition(".")[2], "x".join(map(str, tensor.shape))
    wide = tensor.double()
    n_nan = int(wide.isnan().sum())
    told = wide[~wide.isnan()]
    spread = f"from {told.min().item():.6g} to {told.max().item():.6g}" if told.numel() else "no number"
    return f"{name}[{shape}], {spread}" + (f", {n_nan} NaN" if n_nan else "")
