"""Judging a submission; `forge.judge(source, ...)`, the package called as a function, is forge.bulk.judge.judge."""

import importlib
import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return importlib.import_module("forge.bulk.judge").judge(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
