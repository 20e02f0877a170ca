"""AMDGPU code objects: ELF files (.co, .hsaco), and bundles that hold one for each arch.

Sources: LLVM's AMDGPUUsage, "ELF Code Object", "Code Object Metadata" and "Kernel Descriptor"; clang's
ClangOffloadBundler, "Bundled Binary File Layout".
"""

import io
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import NoteSection, SymbolTableSection

from ..cards import ARCHS, cards
from ..errors import CdnaError

_BUNDLE, _COMPRESSED = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
_MACHINE_AMDGPU = 224
_NOTE_METADATA = 32  # NT_AMDGPU_METADATA
_ABI_VERSIONS = {2: 4, 3: 5, 4: 6}  # EI_ABIVERSION -> code object version
_DESCRIPTOR_BYTES = 64
_RELATIVE64, _ABS64 = 13, 3  # R_AMDGPU_*
_LZ_ZLIB, _LZ_ZSTD = 0, 1


class CodeObjectError(CdnaError):
    """What keeps a file from being loaded as a code object."""


@dataclass(frozen=True)
class Symbol:
    name: str
    address: int
    size: int
    is_function: bool


@dataclass
class CodeObject:
    """One code object. Addresses are those of the file, before it is loaded."""

    arch: str
    version: int
    code_address: int
    code: bytes
    data: dict[str, tuple[int, bytes]]  # section -> (address, bytes)
    symbols: list[Symbol]
    metadata: dict[str, dict[str, Any]]  # kernel -> its entry of amdhsa.kernels
    descriptors: dict[str, bytes]  # kernel -> its 64 bytes
    relocations: dict[int, int] = field(default_factory=dict)  # address of a 64-bit pointer -> what it points to
    lines: dict[int, tuple[str, int]] = field(
        default_factory=dict
    )  # from an address on: (file, line); ("", 0): unknown


def is_code_object(file: Path) -> bool:
    """By its name or its first bytes; it may still be a broken one."""
    with file.open("rb") as stream:
        start = stream.read(len(_BUNDLE))
    return file.suffix in (".co", ".hsaco") or start.startswith((b"\x7fELF", _COMPRESSED, _BUNDLE))


def unbundle(content: bytes, arch: str | None = None) -> bytes:
    """The ELF file of `arch` in a bundle; `content` as it is where it is no bundle.

    Without `arch` the bundle's only entry for a GPU, or CodeObjectError names those there are.
    """
    if content.startswith(_COMPRESSED):
        content = _decompress(content)
    if not content.startswith(_BUNDLE):
        return content
    try:
        (count,) = struct.unpack_from("<Q", content, len(_BUNDLE))
        at = len(_BUNDLE) + 8
        found: dict[str, bytes] = {}
        for _ in range(min(count, 1024)):
            offset, size, length = struct.unpack_from("<QQQ", content, at)
            target = content[at + 24 : at + 24 + length].decode("ascii")
            at += 24 + length
            if target.startswith("hip") and size:
                found[target.rpartition("-")[2].partition(":")[0]] = content[offset : offset + size]
    except (struct.error, UnicodeDecodeError):
        raise CodeObjectError("a truncated bundle: its table of entries ends before its count says") from None
    if arch is None and len(found) == 1:
        return next(iter(found.values()))
    if arch not in found:
        wanted = f"none for {arch}" if arch else "several archs: say which"
        raise CodeObjectError(f"the bundle has {wanted}; it holds {', '.join(sorted(found)) or 'no GPU code'}")
    return found[arch]


def _decompress(content: bytes) -> bytes:
    """A bundle that clang compressed: header, then zlib or zstd data."""
    try:
        version, method = struct.unpack_from("<HH", content, 4)
        header = {1: 20, 2: 24, 3: 32}[version]
    except (struct.error, KeyError):
        raise CodeObjectError("a compressed bundle of a version that is not known (1 to 3 are)") from None
    if method == _LZ_ZSTD:
        raise CodeObjectError("a bundle compressed with zstd: decompress it first (clang-offload-bundler --unbundle)")
    if method != _LZ_ZLIB:
        raise CodeObjectError(f"a bundle compressed by method {method}, which is not known")
    try:
        return zlib.decompress(content[header:])
    except zlib.error as error:
        raise CodeObjectError(f"a compressed bundle that is damaged: {error}") from None


def read(content: bytes, arch: str | None = None) -> CodeObject:
    """The code object in `content`, an ELF file or a bundle. CodeObjectError says what is wrong with it."""
    content = unbundle(content, arch)
    if not content.startswith(b"\x7fELF"):
        raise CodeObjectError(f"not an ELF file and no bundle: it begins with {content[:4]!r}")
    try:
        return _read(content, arch)
    except (ELFError, struct.error, ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise CodeObjectError(f"a damaged or truncated ELF file: {error or type(error).__name__}") from None


def _read(content: bytes, wanted: str | None) -> CodeObject:
    elf = ELFFile(io.BytesIO(content))
    if elf["e_machine"] not in ("EM_AMDGPU", _MACHINE_AMDGPU):
        raise CodeObjectError(f"an ELF file for {elf['e_machine']}, not for an AMD GPU")
    mach = elf["e_flags"] & 0xFF
    arch = next((card.name for card in cards().values() if card.elf_machine == mach), None)
    if arch is None:
        raise CodeObjectError(f"code for an arch that is not emulated (EF_AMDGPU_MACH {mach:#x}); {_known()} are")
    if wanted is not None and wanted != arch:
        raise CodeObjectError(f"code for {arch}, and {wanted} was asked for")
    abi = elf["e_ident"]["EI_ABIVERSION"]
    if abi not in _ABI_VERSIONS:
        raise CodeObjectError(f"ABI version {abi} of a code object is not known: 2, 3 and 4 (versions 4 to 6) are")
    text = elf.get_section_by_name(".text")
    if text is None:
        raise CodeObjectError("no .text section: there is no code in it")
    if text["sh_offset"] + text["sh_size"] > len(content):
        raise CodeObjectError("a truncated ELF file: its code ends behind the file")
    data: dict[str, tuple[int, bytes]] = {}
    symbols: dict[str, Symbol] = {}
    relocations: dict[int, int] = {}
    metadata: dict[str, dict[str, Any]] = {}
    for section in elf.iter_sections():
        allocated = section["sh_flags"] & 2
        if allocated and section.name != ".text" and section["sh_type"] in ("SHT_PROGBITS", "SHT_NOBITS"):
            data[section.name] = (section["sh_addr"], section.data())
        if isinstance(section, SymbolTableSection):
            for symbol in section.iter_symbols():
                if symbol.name and symbol["st_shndx"] != "SHN_UNDEF":
                    function = symbol["st_info"]["type"] == "STT_FUNC"
                    symbols[symbol.name] = Symbol(symbol.name, symbol["st_value"], symbol["st_size"], function)
        if isinstance(section, NoteSection):
            for note in section.iter_notes():
                if note["n_type"] in (_NOTE_METADATA, "NT_AMDGPU_METADATA"):
                    metadata = _kernels(note["n_desc"] if isinstance(note["n_desc"], bytes) else note["n_descdata"])
        if isinstance(section, RelocationSection):
            relocations.update(_relocations(elf, section))
    descriptors = {}
    for name, kernel in symbols.items():
        if name.endswith(".kd"):
            descriptors[name.removesuffix(".kd")] = _at(data, kernel.address, _DESCRIPTOR_BYTES)
    return CodeObject(
        arch,
        _ABI_VERSIONS[abi],
        text["sh_addr"],
        text.data(),
        data,
        list(symbols.values()),
        metadata,
        descriptors,
        relocations,
        _lines(elf),
    )


def _known() -> str:
    return " and ".join(ARCHS)


def _kernels(note: bytes) -> dict[str, dict[str, Any]]:
    document = msgspec.msgpack.decode(note)
    return {kernel[".symbol"].removesuffix(".kd"): kernel for kernel in document.get("amdhsa.kernels", [])}


def _relocations(elf: ELFFile, section: RelocationSection) -> dict[int, int]:
    symbols: Any = elf.get_section(section["sh_link"])
    found = {}
    for relocation in section.iter_relocations():
        kind, place, addend = relocation["r_info_type"], relocation["r_offset"], relocation.entry.get("r_addend", 0)
        if kind == _RELATIVE64:
            found[place] = addend
        elif kind == _ABS64:
            symbol = symbols.get_symbol(relocation["r_info_sym"])
            if symbol["st_shndx"] == "SHN_UNDEF":
                raise CodeObjectError(f"symbol {symbol.name} is defined nowhere in the file")
            found[place] = symbol["st_value"] + addend
        elif kind:
            raise CodeObjectError(f"relocation of type {kind} at {place:#x} is not known")
    return found


def _at(data: dict[str, tuple[int, bytes]], address: int, size: int) -> bytes:
    for start, content in data.values():
        if start <= address and address + size <= start + len(content):
            return content[address - start : address - start + size]
    raise CodeObjectError(f"nothing in the file at {address:#x}, where a kernel descriptor should be")


def _lines(elf: ELFFile) -> dict[int, tuple[str, int]]:
    """Source lines from DWARF; empty where there are none. Code that is given line 0 is of the line before it."""
    if not elf.has_dwarf_info():
        return {}
    found: dict[int, tuple[str, int]] = {}
    dwarf = elf.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        files, folders = program["file_entry"], program["include_directory"]
        base = 0 if program["version"] >= 5 else 1
        for entry in program.get_entries():
            state = entry.state
            if state is not None and state.end_sequence:
                found.setdefault(state.address, ("", 0))
            if state is None or state.end_sequence or not state.line or not 0 <= state.file - base < len(files):
                continue
            file = files[state.file - base]
            name = file.name.decode(errors="replace")
            if not name.startswith("/") and 0 <= file.dir_index - (1 - min(base, 1) if base else 0) < len(folders) + 1:
                index = file.dir_index if base == 0 else file.dir_index - 1
                if 0 <= index < len(folders):
                    name = f"{folders[index].decode(errors='replace')}/{name}"
            found[state.address] = (name, state.line)
    return found
