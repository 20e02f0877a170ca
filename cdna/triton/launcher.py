"""What Triton calls for `kernel[grid](...)`: lays out the arguments as the kernel expects them, and launches it."""

import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

from triton.runtime.autotuner import Autotuner

from ..errors import ArgumentOverflow, LaunchError
from ..launch import tensors
from ..launch.program import Kernel
from .versions import interface, value_of_flag

_FORMATS = {
    "i1": "<b",
    "i8": "<b",
    "i16": "<h",
    "i32": "<i",
    "i64": "<q",
    "u1": "<B",
    "u8": "<B",
    "u16": "<H",
    "u32": "<I",
    "u64": "<Q",
    "fp16": "<e",
    "fp32": "<f",
    "f32": "<f",
    "fp64": "<d",
}


_TRIES = (Autotuner._bench.__code__, Autotuner.run.__code__)  # inner one first


def in_autotuner() -> bool:
    """Whether Triton's autotuner tries a configuration, as the frames above say: behind that it launches its choice."""
    frame, left = sys._getframe(1), list(_TRIES)
    while frame is not None and left:
        if frame.f_code is left[0]:
            left.pop(0)
        frame = frame.f_back  # type: ignore[assignment]
    return not left


# What hipModuleLaunchKernel takes: workgroups along x, y and z; work-items along each.
_MOST_GROUPS = (2**31 - 1, 65536, 65536)
_MOST_WORK_ITEMS = 2**32 - 1


def _refuse_too_large(name: str, grid: tuple[int, int, int], block_x: int) -> None:
    size = f"{name}: a grid of {' x '.join(map(str, grid))} programs"
    for axis, programs, most in zip("xyz", grid, _MOST_GROUPS):
        if programs > most:
            raise LaunchError(f"{size}: HIP takes {most} along {axis} at most (hipErrorInvalidValue)")
    if grid[0] * block_x > _MOST_WORK_ITEMS:
        raise LaunchError(
            f"{size} of {block_x} work-items: HIP takes {_MOST_WORK_ITEMS} work-items along x at most, "
            f"{_MOST_WORK_ITEMS // block_x} such programs (hipErrorInvalidValue)"
        )


def _flatten(value: Any, signature: Any) -> Iterator[tuple[Any, str]]:
    """(argument, Triton type) of every run-time argument; constexprs are compiled in."""
    if isinstance(signature, tuple):
        for inner, inner_signature in zip(value, signature):
            yield from _flatten(inner, inner_signature)
    elif signature == "constexpr":
        return
    elif signature.startswith("tensordesc"):
        yield from _expanded(value, signature)
    else:
        yield value, signature


def _expanded(descriptor: Any, signature: str) -> Iterator[tuple[Any, str]]:
    """A host tensor descriptor as the arguments that Triton's AMD lowering takes for it: shape and strides twice."""
    yield descriptor.base, "*" + signature.partition("<")[2].partition("[")[0]
    for size in (*descriptor.shape, *descriptor.strides):
        yield size, "i64"
    for flag in interface().descriptor_flags:
        yield value_of_flag(descriptor, flag), "i1"
    for size in descriptor.shape:
        yield size, "i32"
    for stride in descriptor.strides:
        yield stride, "i64"


def _pack(value: Any, type_name: str) -> bytes:
    if type_name.startswith("*"):
        if value is None:
            return bytes(8)
        pointer = value.data_ptr() if hasattr(value, "data_ptr") else int(value)
        return struct.pack("<Q", pointer)
    if type_name == "bf16":  # the upper half of a float: Triton's launchers, all of them, do not round
        return struct.pack("<f", float(value))[2:]
    if type_name not in _FORMATS:
        raise LaunchError(f"kernel argument of type {type_name} is not supported by the emulated device")
    number = float(value) if _FORMATS[type_name][1] in "efd" else int(value)
    try:
        return struct.pack(_FORMATS[type_name], number)
    except struct.error:  # Triton before 3.7 refuses it too; since then it passes the lower bits
        raise ArgumentOverflow(
            f"{value} is no {type_name}, which the kernel takes: `int` in its signature means i32"
        ) from None


# Kernel -> file of the function that is wanted: Triton makes a launcher before it loads code, which may come from its
# cache, compiled of the same text in another file.
source_files: dict[str, str] = {}


class Launcher:
    """One compiled kernel's launcher."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.signature = list(source.signature.values())
        self.names = list(source.signature)
        self.num_warps = metadata.num_warps
        self.lds_bytes = metadata.shared
        code = getattr(getattr(getattr(source, "fn", None), "fn", None), "__code__", None)
        if code is not None:
            source_files[metadata.name] = code.co_filename

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        kernel: Kernel,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Callable | None,
        exit_hook: Callable | None,
        *args: Any,
    ) -> None:
        left = zip(self.names[len(args) :], self.signature[len(args) :])
        missing = ", ".join(name for name, kind in left if kind != "constexpr")
        if missing:  # Triton 3.7's own launcher reads what lies behind the arguments
            raise LaunchError(
                f"{len(args)} arguments for a kernel of {len(self.names)}, so that {missing} would be missing: "
                "constexprs count, a launch of a compiled kernel passes them too"
            )
        if enter_hook is not None:
            enter_hook(launch_metadata)
        kernarg = bytearray(kernel.kernarg_bytes)
        layout = iter(kernel.arguments)
        given: list[tuple[str, Any, str]] = []
        for name, argument, signature in zip(self.names, args, self.signature):
            for item, type_name in _flatten(argument, signature):
                given.append((name, item, type_name))
                slot = next(layout)
                data = _pack(item, type_name)
                kernarg[slot[".offset"] : slot[".offset"] + len(data)] = data
        kernel.argument_names = [name for name, _, _ in given]
        grid = (int(grid_x), int(grid_y), int(grid_z))
        if min(grid) > 0:
            block_x = 64 * self.num_warps
            _refuse_too_large(kernel.name, grid, block_x)
            kernel.launch(
                grid,
                (block_x, 1, 1),
                bytes(kernarg),
                self.lds_bytes - kernel.static_lds_bytes,
                lambda: tensors.memory_of(given),
                in_autotuner(),
            )
        if exit_hook is not None:
            exit_hook(launch_metadata)
