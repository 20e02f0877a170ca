"""The allocator of torch's tensors, which are the GPU's memory here: what the engine has it do."""

import functools

from ..engine.library import engine, is_loaded


@functools.cache
def watch_torch() -> None:
    """Have torch's allocator watched from now on: freed tensors stay a while, so that who goes there is told."""
    engine().lib.cdna_watch_allocator(b"libc10.so", True)


def fill_fresh(on: bool) -> None:
    """Have torch's allocator fill what it gives from now on as memory that nobody has written, or no longer."""
    if on:
        watch_torch()
    if on or is_loaded():
        engine().lib.cdna_fill_fresh(on)


@functools.cache
def align_torch() -> None:
    """Have torch's tensors begin, from now on, where a GPU's allocator begins them: the model of time counts lines."""
    engine().lib.cdna_align_allocator(b"libc10.so")
