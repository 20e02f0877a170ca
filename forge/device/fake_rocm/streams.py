"""torch.cuda.Event and torch.cuda.Stream over work that is finished when its call returns.

Event times are the host's: they order things and are positive, and say nothing about a GPU.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import torch

from cdna.errors import NotEmulated
from forge.device.fake_rocm import capturing, hip, tags

_handles = itertools.count(1)


def index_of(device: Any) -> int:
    """The GPU that a `device` argument of torch.cuda means; the current one for None."""
    if device is None:
        return tags.current.index
    tag = tags.target(device)
    if tag is None or tag == tags.CPU:
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return tag


class Event:
    """torch.cuda.Event."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        self.enable_timing = enable_timing
        self.device = tags.gpu(tags.current.index)
        self.cuda_event = self.event_id = next(_handles)
        self.recorded_ns: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        if not capturing.record(self._record):
            self._record()

    def _record(self) -> None:
        self.recorded_ns = time.perf_counter_ns()

    def wait(self, stream: Stream | None = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        capturing.refuse("Event.synchronize")

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`, on the host's clock."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.recorded_ns is None or end_event.recorded_ns is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event.recorded_ns - self.recorded_ns) / 1e6

    def ipc_handle(self) -> bytes:
        raise NotEmulated("an emulated GPU has no events shared between processes")

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.cuda_event:#x}>"


class GenericEvent(Event):
    """torch.Event, which takes a device first."""

    def __init__(self, device: Any = None, *, enable_timing: bool = False, **kwargs: Any) -> None:
        super().__init__(enable_timing, **kwargs)
        if device is not None:
            self.device = tags.gpu(index_of(device))


class Stream:
    """torch.cuda.Stream. Handle 0 is the default queue of its GPU."""

    device_type = 1  # c10::DeviceType::CUDA

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.device_index = kwargs["device_index"] if "device_index" in kwargs else index_of(device)
        self.device = tags.gpu(self.device_index)
        self.priority = priority
        self._handle: int | None = kwargs.get("stream_id")
        self.stream_id = next(_handles) if self._handle is None else self._handle
        self._entered: list[Stream] = []

    @property
    def cuda_stream(self) -> int:
        """What HIP code takes as hipStream_t; just a number as long as there is no such code in this process."""
        if self._handle is None:
            self._handle = hip.new_stream(self.device_index)
        return self.stream_id if self._handle is None else self._handle

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        pass

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return capturing.active()

    def synchronize(self) -> None:
        capturing.refuse("Stream.synchronize")
        hip.synchronize()

    @classmethod
    def priority_range(cls) -> tuple[int, int]:
        return 0, -1

    def __enter__(self) -> Stream:
        self._entered.append(current_stream(self.device))
        set_stream(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        set_stream(self._entered.pop())

    @property
    def _as_parameter_(self) -> Any:  # for ctypes
        import ctypes

        return ctypes.c_void_p(self.cuda_stream)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, int]:
        return self.device_index, self.stream_id

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """torch.cuda.ExternalStream: a queue that other code made."""

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        super().__init__(device, stream_id=stream_ptr)


class _CurrentStreams(threading.local):
    def __init__(self) -> None:
        self.of_gpu: dict[int, Stream] = {}


_current = _CurrentStreams()


def default_stream(device: Any = None) -> Stream:
    return Stream(device_index=index_of(device), stream_id=0)


def current_stream(device: Any = None) -> Stream:
    return _current.of_gpu.get(index_of(device)) or default_stream(device)


def set_stream(stream: Stream | None) -> None:
    if stream is not None:
        _current.of_gpu[stream.device_index] = stream
        tags.current.index = stream.device_index
        hip.set_device(stream.device_index)


def apply() -> None:
    for module in (torch.cuda, torch.cuda.streams):
        for made in (Event, Stream, ExternalStream):
            setattr(module, made.__name__, made)
    for function in (default_stream, current_stream, set_stream):
        setattr(torch.cuda, function.__name__, function)
    torch.Event = GenericEvent
    torch.Stream = Stream
    torch._C._cuda_getCurrentRawStream = lambda index: current_stream(index).cuda_stream
