"""Lines of JSON between processes of ours: with infinities, which a case may hold and msgspec writes as null."""

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def encode(value: Any) -> bytes:
    return json.dumps(msgspec.to_builtins(value)).encode() + b"\n"


def decode(line: str | bytes, kind: type[T]) -> T:
    """ValueError where the line is no JSON, or nothing of that kind."""
    return msgspec.convert(json.loads(line), kind)
