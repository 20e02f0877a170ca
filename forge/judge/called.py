"""In the processes of a folder's own eval.py: what each call of the submission's functions did.

No worker of ours makes these calls. So forge/device/hook.py has the functions wrapped once the submission is imported,
in whichever process that is, and each outermost call is told to the evaluator (forge/commands/own_evaluator.py) as a
worker would: what its kernels executed, what the checks found, what torch did. The call returns once the evaluator has
it: so it stands between the same lines of the eval.py's log.
"""

import contextlib
import functools
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from forge.device import resolve
from forge.device.hook import CALLS
from forge.device.roofline import with_torch
from forge.judge import operations
from forge.judge.messages import Called, Message, Ready, encoder

FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, functools.partial)
OTHERS_S = 60.0  # that a call waits for one in another thread
REFERENCE = "ref"  # how the names of a reference's own solutions begin


def watch_reference(arch: str) -> None:
    """Counts how often the submission enters the reference's solutions: before it can take them."""
    operations.follow_threads()
    _Calls.entered = [
        operations.count_entries(module, name, operations.is_submissions)
        for module in [sys.modules["reference"]]
        for name in vars(module).copy()
        if name.startswith(REFERENCE)
    ]


def watch_submission(arch: str) -> None:
    """Wraps what the eval.py may call of it."""
    operations.follow_threads()
    calls, module = _Calls(arch), sys.modules["submission"]
    for name in calls.names & vars(module).keys():
        if isinstance(function := getattr(module, name), FUNCTIONS):
            setattr(module, name, calls.told(function, module))


class _Calls:
    entered: list[Callable[[], int]] = []

    def __init__(self, arch: str) -> None:
        setup = json.loads(os.environ[CALLS])  # where calls are told, of which functions, and whether for times
        self.socket, self.names, self.count = setup["socket"], set(setup["names"]), setup["count"]
        self.device = resolve(arch, arch)
        self.device.hear_children()
        self.encode, self.running = encoder(), threading.Lock()
        self.before = self.device.case_report().findings  # as it was imported: told with the first call
        self.tell(Ready(fingerprint=self.device.fingerprint()))

    def told(self, function: Callable[..., Any], module: ModuleType) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.running.locked() and operations.is_submissions():  # by the submission itself
                return function(*args, **kwargs)
            name = getattr(function, "__name__", "custom_kernel")
            # One at a time: what kernels did is told of the whole process.
            if not self.running.acquire(timeout=OTHERS_S):  # of an eval.py that has given the other call up
                self.tell(Called(phase=name, unaccounted="another call still ran beside it"))
                return function(*args, **kwargs)
            try:
                with self.watched(name):
                    return function(*args, **kwargs)
            finally:
                self.running.release()

        return call

    @contextlib.contextmanager
    def watched(self, name: str) -> Iterator[None]:
        entered = self.entries()
        self.device.case_report()  # drop what was launched before
        self.device.count_work(self.count)
        card = self.device.roofline() if self.count else None
        try:
            with operations.watch(True, card) as work:
                self.device.watch_products(work.add_product)
                yield
        finally:
            if not torch.cuda.is_current_stream_capturing():
                with contextlib.suppress(Exception):  # a kernel's fault is the eval.py's to meet
                    torch.cuda.synchronize()
            work.entered_reference = self.entries() > entered
            report = with_torch(self.device.case_report(), work.estimates if self.count else [], self.before)
            self.before = ()
            self.tell(Called(phase=name, device_report=report, torch_work=work.told()))

    def entries(self) -> int:
        return sum(count() for count in self.entered)

    def tell(self, message: Message) -> None:
        """Returns once the evaluator has taken it, or is gone."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as line:
            line.connect(self.socket)
            line.sendall(self.encode(message))
            line.shutdown(socket.SHUT_WR)
            line.recv(1)
