"""Registers that Triton kernels spill."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def no_spills(kernel: str) -> Iterator[None]:
    """Inside, each Triton kernel of that name that is compiled, or taken from the cache, keeps to its vector
    registers. (Scalars that shapes of no multiple of 16 cost may go to lanes of these.)"""
    from triton import knobs

    def told(*, metadata: dict[str, Any], metadata_group: dict[str, str], **_: Any) -> None:
        if metadata["name"] == kernel:
            (text,) = (Path(file).read_text() for name, file in metadata_group.items() if name.endswith(".amdgcn"))
            spilled.update(re.findall(r"\.vgpr_spill_count: +[1-9]\d*", text))

    spilled: set[str] = set()
    with knobs.compilation.scope():
        knobs.compilation.listener = told
        yield
    assert not spilled, (kernel, spilled)
