"""What a worker says of an output, whose bytes lie in the exchange: its parts, each container before what it holds. So
nothing nests, however deep the output does. No torch."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Size = Annotated[int, Meta(ge=0, lt=1 << 62)]


class _Part(Struct, frozen=True, tag=True, tag_field="is", forbid_unknown_fields=True):
    pass


class Tensor(_Part, frozen=True):
    dtype: str  # float32, ...
    shape: Annotated[tuple[Size, ...], Meta(max_length=64)]
    strides: tuple[Size, ...]  # in elements
    device: str  # cpu, cuda:0, ...
    start: Size  # of its bytes in the exchange
    input: int = -1  # the number of the input's storage that it lies in


class Container(_Part, frozen=True):
    kind: Literal["tuple", "list", "dict"]
    count: Size  # of the parts that it holds, not those in them
    keys: tuple[str | int, ...] = ()  # of a dict


class Value(_Part, frozen=True):
    value: bool | int | float | str | None


class Other(_Part, frozen=True):
    """None of torch's or Python's own plain objects."""

    name: str  # its type's


Part = Tensor | Container | Value | Other


class Output(Struct, frozen=True, forbid_unknown_fields=True):
    parts: tuple[Part, ...] = ()
    changed: tuple[tuple[Size, Size], ...] = ()  # storages of the input: number, and where its bytes begin
    unfit: str = ""  # why nothing could be compared with it

    @property
    def inputs(self) -> set[int]:
        """The numbers of the input's storages that it lies in."""
        return {part.input for part in self.parts if isinstance(part, Tensor)} - {-1}
