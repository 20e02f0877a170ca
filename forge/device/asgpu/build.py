"""torch.utils.cpp_extension: building HIP sources at run time."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from torch.utils import cpp_extension

DEVICE_SUFFIXES = (".cu", ".hip", ".cuh")


def apply(arch: str) -> None:
    for name in ("load_inline", "load"):
        setattr(cpp_extension, name, _host_only(getattr(cpp_extension, name), arch))


def _host_only(original: Callable[..., Any], arch: str) -> Callable[..., Any]:
    """Plain C++ builds as ever; GPU code is refused."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def build(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        sources = given.get("sources", [])
        sources = [sources] if isinstance(sources, str) else sources
        if (
            given.get("cuda_sources")
            or given.get("with_cuda")
            or any(str(source).endswith(DEVICE_SUFFIXES) for source in sources)
        ):
            raise NotImplementedError(
                f"{original.__name__}({given.get('name')!r}): HIP kernels cannot run on the emulated {arch} "
                "yet, only Triton kernels can; run this submission with --device rocm on an AMD GPU"
            )
        return original(*args, **kwargs)

    return build
