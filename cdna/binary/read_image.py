"""A stranger's program image as the assembly file that it was made of: for who looks at its text, and has to know that
this is the text of the code that runs."""

import ctypes
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from ..engine import abi
from ..engine.library import engine
from ..isa import instructions
from .asm import AsmFile, Statement
from .decode import RECORD, Decoder, base_mnemonic, split_operands
from .image import CODE, MAGIC
from .uses import registers_in

_HEAD, _RELOCATION = struct.Struct("<QIIII16s"), struct.Struct("<IIIIq")
_OFFSET = 2 + 5 * 7  # of a record: of a branch, where it goes
_NAMED = 0x6E616D65  # a value that has a name, which an image does not tell


class _Reader:
    def __init__(self, image: bytes) -> None:
        self.image, self.at = memoryview(image), 0

    def take(self, size: int) -> memoryview:
        self.at += size
        return self.image[self.at - size : self.at]

    def words(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self.take(form.size))

    def count(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def text(self) -> str:
        return bytes(self.take(self.count())[:-1]).decode()


def read_image(image: bytes, kernel: int) -> tuple[AsmFile, list[str]]:
    """A kernel's statements and labels, or, where it may call functions, all of the file's; and where each of them
    stands in a source, as the image says. ValueError: the text is not that of the code."""
    reader = _Reader(image)
    magic, size, n_statements, _, accumulation, arch = reader.words(_HEAD)
    if magic != MAGIC or size != RECORD.size:
        raise ValueError("a program image of another version")
    asm, sources, arch = AsmFile(), list[str](), arch.rstrip(b"\0").decode()
    for _ in range(reader.count()):
        reader.take(reader.count())
    reader.take(reader.count() * _RELOCATION.size)
    records = list(RECORD.iter_unpack(reader.take(n_statements * RECORD.size)))
    addresses = [reader.words(_RELOCATION) for _ in range(reader.count())]
    entries, names = list[int](), list[str]()
    info, argument = abi.structure("KernelInfo"), abi.structure("KernelArgument")
    for _ in range(reader.count()):
        one = info.from_buffer_copy(reader.take(ctypes.sizeof(info)))
        entries.append(one.entry)
        names.append(reader.text())
        reader.text()
        reader.take(one.n_arguments * ctypes.sizeof(argument))
    for _ in range(reader.count()):
        reader.text()
        reader.take(12)
    begin, end = entries[kernel], min((one for one in entries if one > entries[kernel]), default=n_statements)
    if any(section == CODE for *_, section, _ in addresses):
        begin, end = 0, n_statements
    asm.labels = {name: at for name, at in zip(names, entries) if begin <= at < end}
    asm.descriptors = {name: {} for name in asm.labels}
    texts = [reader.text() for _ in range(end)]
    for index in range(begin, end):
        text, _, source = texts[index][1:].rpartition("` (")
        mnemonic, _, operands = text.partition(" ")
        asm.statements.append(Statement(mnemonic, operands, index, (0, 0)))
        sources.append(source[:-1])
    _label(asm, records[begin:end], addresses)
    decoder = Decoder(asm, dict(engine().ops[arch]), lambda text: _NAMED << 32 | _NAMED)
    decoder.max_vgpr = accumulation - 1
    for text_says, executed in zip(RECORD.iter_unpack(decoder.decode_all()), records[begin:end], strict=True):
        if not all(one in (other, _NAMED) for one, other in zip(text_says, executed)):
            raise ValueError("a program image whose text is not that of its code")
    asm.labels = {name: at - begin for name, at in asm.labels.items()}
    return asm, sources


def _label(asm: AsmFile, records: Sequence[tuple[int, ...]], addresses: Iterable[tuple[int, ...]]) -> None:
    """Of branches and of addresses of code, as its records have them: by the names in its text."""
    for index, _, _, section, offset in addresses:
        if section == CODE:
            name = split_operands(asm.statements[index].operands)[-1].partition("@")[0]
            asm.labels.setdefault(name, offset)
            asm.functions.append(name)
    for statement, record in zip(asm.statements, records, strict=True):
        known = instructions().get(base_mnemonic(statement.mnemonic))
        *_, last = split_operands(statement.operands) or [""]
        if known is not None and known.unit == "branch" and not registers_in(last):
            asm.labels.setdefault(last, record[_OFFSET])
