"""The HIP runtime of this process: cdna's libamdhip64, from when the first HIP extension, Python through ctypes, or
C code by its name (rocm_folder.py) asks for it."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from forge.device import hook
from forge.device.fake_rocm import capturing, operators, tags

if TYPE_CHECKING:
    from cdna.hip.compile.toolchain import DeviceCode

_library: ctypes.CDLL | None = None
# Called with the kernels of every source of an extension that is built.
device_code_listeners: list[Callable[[DeviceCode], None]] = []
_factories: Any = None  # keeps what is registered with torch's dispatcher


_dlopen: Callable[..., int] = ctypes._dlopen  # type: ignore[attr-defined]
_find_library = ctypes.util.find_library
STEMS = ("libamdhip64", "libhiprtc")  # ROCm's libraries that the runtime stands for
BY_NAME = os.path.join(os.environ.get("LD_LIBRARY_PATH", "").partition(":")[0], f"{STEMS[0]}.so.7")  # what C code opens


def apply(arch: str) -> None:
    """Let ctypes find the runtime by its name, under which a ROCm build of torch has it loaded."""

    def dlopen(name: Any, mode: int = ctypes.DEFAULT_MODE) -> int:
        file = os.path.basename(os.fsdecode(name)) if isinstance(name, str | bytes | os.PathLike) else ""
        if not file.startswith(STEMS) or ".so" not in file:
            return _dlopen(name, mode)
        load(arch)
        assert _library is not None
        return _dlopen(_library._name, mode)

    def find_library(name: str) -> str | None:
        return f"lib{name}.so" if f"lib{name}" in STEMS else _find_library(name)

    os.environ["CDNA_DEVICES"] = str(tags.device_count())
    ctypes._dlopen = dlopen  # type: ignore[attr-defined]
    ctypes.util.find_library = find_library


def load(arch: str) -> None:
    """Load the runtime, and make torch's current device its own."""
    global _library
    if _library is not None:
        return
    sys.path.insert(0, hook.ROOT)  # cdna may not have been imported yet
    try:
        from cdna.engine.library import let_interrupts_end_launches
        from cdna.hip.host_libraries import runtime_library
        from cdna.memory.torch_memory import watch_torch
    finally:
        sys.path.remove(hook.ROOT)

    let_interrupts_end_launches()  # and load the engine, which logs what the runtime launches, for case_report
    # global, and so the one that a later dlopen("libamdhip64.so") finds
    path = str(runtime_library())
    _library = ctypes.CDLL(path, handle=_dlopen(path, ctypes.RTLD_GLOBAL))
    _library.hipGetErrorString.restype = ctypes.c_char_p
    if os.environ.get("CDNA_CHECKS"):  # kernels get plain addresses: where tensors end, only their allocator knows
        watch_torch()
    _make_gpu_tensors_on_host()
    torch.Tensor.zero_ = _zero
    torch.empty, torch.zeros = _in_device_memory(torch.empty, False), _in_device_memory(torch.zeros, True)
    set_device(tags.current.index)


def _loaded() -> ctypes.CDLL | None:
    """The runtime, if this process has it: C code may have opened it unseen."""
    if _library is None:
        with contextlib.suppress(OSError):
            _dlopen(BY_NAME, os.RTLD_NOLOAD | os.RTLD_NOW)
            load(os.environ[hook.VARIABLE])
    return _library


def set_device(index: int) -> None:
    """Follow torch.cuda.set_device. An error of earlier work is for `synchronize` to tell."""
    if (library := _loaded()) is not None:
        library.hipSetDevice(index)


def synchronize() -> None:
    """Wait for nothing, as all work is done, but raise what went wrong: torch.cuda.synchronize."""
    if (library := _loaded()) is not None:
        _check(library.hipDeviceSynchronize())


def new_stream(index: int) -> int | None:
    """Handle of a new stream on a GPU; None where no extension has been loaded that could use it."""
    if (library := _loaded()) is None:
        return None
    handle = ctypes.c_void_p()
    with _on_gpu(index):
        _check(library.hipStreamCreateWithFlags(ctypes.byref(handle), 1))  # hipStreamNonBlocking, as torch's are
    return handle.value


@contextlib.contextmanager
def _on_gpu(index: int) -> Iterator[None]:
    assert _library is not None
    before = ctypes.c_int()
    _check(_library.hipGetDevice(ctypes.byref(before)))
    _check(_library.hipSetDevice(index))
    try:
        yield
    finally:
        _check(_library.hipSetDevice(before))


def begin_capture(queue: int) -> None:
    """Let the runtime record what is put on a queue, by its handle, for `end_capture`."""
    if (library := _loaded()) is not None:
        _check(library.hipStreamBeginCapture(ctypes.c_void_p(queue), 2))  # hipStreamCaptureModeRelaxed


def end_capture(queue: int) -> Callable[[int], None] | None:
    """What launches everything that has been recorded on the queue it is given; None if nothing was."""
    if _library is None:
        return None
    graph, executable, nodes = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    _check(_library.hipStreamEndCapture(ctypes.c_void_p(queue), ctypes.byref(graph)))
    _check(_library.hipGraphGetNodes(graph, None, ctypes.byref(nodes)))
    if not nodes.value:
        _check(_library.hipGraphDestroy(graph))
        return None
    _check(_library.hipGraphInstantiate(ctypes.byref(executable), graph, None, None, ctypes.c_size_t(0)))
    _check(_library.hipGraphDestroy(graph))
    library = _library

    def launch(on: int) -> None:
        _check(library.hipGraphLaunch(executable, ctypes.c_void_p(on)))

    weakref.finalize(launch, library.hipGraphExecDestroy, executable).atexit = False
    return launch


_torch_zero = torch.Tensor.zero_
LARGE_BYTES = 64 << 20
SHARED_BYTES = 1 << 20


@functools.wraps(_torch_zero)
def _zero(self: torch.Tensor) -> torch.Tensor:
    """Heaps that an extension allocated may be larger than the host's memory: the runtime clears without writing."""
    plain = self.is_contiguous() and tags.real_device(self).type == "cpu"
    if self.nbytes < LARGE_BYTES or capturing.active() or not plain:
        return _torch_zero(self)
    assert _library is not None
    _check(_library.hipMemset(ctypes.c_void_p(self.data_ptr()), 0, ctypes.c_size_t(self.nbytes)))
    return self


def _in_device_memory(factory: Callable[..., Any], clear: bool) -> Callable[..., Any]:
    """Large tensors in memory that hipMalloc gives: other ranks can open it (hipIpcGetMemHandle), as torch's own on a
    GPU. What is made before the first extension is loaded, or by operations, stays where it is."""

    @functools.wraps(factory)
    def make(*args: Any, **kwargs: Any) -> Any:
        made = factory(*args, **kwargs)
        tag = tags.tag_of(made)
        if capturing.active():  # the graph has this memory already
            return made
        plain = made.is_contiguous() and not made.requires_grad and kwargs.get("out") is None
        if tag is None or tag == tags.CPU or made.nbytes < SHARED_BYTES or not plain:
            return made
        address = ctypes.c_void_p()
        assert _library is not None
        with _on_gpu(tag):
            _check(_library.hipMalloc(ctypes.byref(address), ctypes.c_size_t(made.nbytes)))
        memory = (ctypes.c_char * made.nbytes).from_address(address.value or 0)
        weakref.finalize(memory, _library.hipFree, address).atexit = False
        if clear:
            _check(_library.hipMemset(address, 0, ctypes.c_size_t(made.nbytes)))
        with tags.quiet():
            tensor = torch.frombuffer(memory, dtype=torch.uint8).view(made.dtype).view(made.shape)
        return tags.mark(tensor, tag)

    return make


def _check(error: int) -> None:
    if error:
        assert _library is not None
        raise RuntimeError(f"HIP error: {_library.hipGetErrorString(error).decode()}")


def _make_gpu_tensors_on_host() -> None:
    """C++ code asks torch's dispatcher for tensors on DeviceType::CUDA, of which a CPU build knows nothing.

    Every factory (zeros, full, arange, to(device) ...) ends in one of these two. From Python none of them comes here:
    factories.py sees the device first.
    """
    global _factories
    _factories = torch.library.Library("aten", "IMPL", "CUDA")
    for name in ("empty.memory_format", "empty_strided"):
        packet, _, overload = name.partition(".")
        operation = getattr(getattr(torch.ops.aten, packet), overload or "default")
        with warnings.catch_warnings():  # that it replaces one, which older releases of torch say
            warnings.simplefilter("ignore")
            operators.library_impl_as_named(_factories, name, functools.partial(_on_host, operation), "CUDA")


def _on_host(operation: Any, *args: Any, device: Any = None, pin_memory: Any = None, **kwargs: Any) -> Any:
    tag = tags.CPU if device is not None and device.index == tags.HOST_INDEX else tags.target(device)
    made = tags.mark(operation(*args, device=tags.CPU_DEVICE, **kwargs), tag)
    return tags.pin(made) if pin_memory and tag == tags.CPU else made
