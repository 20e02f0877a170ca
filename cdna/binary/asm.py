"""AMDGCN assembly text, as LLVM prints it, to statements: instructions, labels, data, kernel descriptors.

Understands what the AMDGPU backend emits for Triton and HIP kernels; debug sections are skipped, `.loc`
gives each instruction its source line.
"""

from __future__ import annotations

import ast
import contextlib
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import yaml

from ..errors import UnsupportedInstruction


@dataclass(frozen=True)
class Statement:
    """One instruction as text: mnemonic, operand text, and where it stands."""

    mnemonic: str
    operands: str
    asm_line: int
    source: tuple[int, int]  # (.file number, line), (0, 0) unknown


@dataclass
class Datum:
    """A labelled block of a data section: bytes, and the places where addresses of symbols go."""

    data: bytearray = field(default_factory=bytearray)
    relocations: list[tuple[int, int, str]] = field(default_factory=list)  # (offset, bytes, expression)


@dataclass
class AsmFile:
    """A parsed assembly file."""

    target: str = ""
    statements: list[Statement] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # code label -> statement index
    functions: list[str] = field(default_factory=list)  # labels that .type says are one, kernels among them
    data_labels: dict[str, tuple[str, int]] = field(default_factory=dict)  # data label -> (section, offset)
    sections: dict[str, Datum] = field(default_factory=dict)
    descriptors: dict[str, dict[str, int]] = field(default_factory=dict)  # kernel -> .amdhsa_ keys
    metadata: dict[str, dict] = field(default_factory=dict)  # kernel -> entry of amdhsa.kernels
    files: dict[int, str] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)  # .set name, value
    sizes: dict[str, int] = field(default_factory=dict)  # .size of data
    lds_symbols: dict[str, int] = field(default_factory=dict)  # .amdgpu_lds name -> LDS address


_DATA_SIZES = {
    ".byte": 1,
    ".short": 2,
    ".hword": 2,
    ".value": 2,
    ".long": 4,
    ".int": 4,
    ".word": 4,
    ".quad": 8,
}
_SKIPPED_SECTIONS = re.compile(r"\.(debug|AMDGPU|note|comment|eh_frame|llvm|symtab|strtab)")
_NAME = re.compile(r"(?<![\w.$])[A-Za-z_.$][\w.$]*")
_LABEL = re.compile(r"^([\w.$@]+):\s*(.*)$")
_PLACE = re.compile(r"([^\s:\[][^:\[]*):(\d+):\d+")
# Folders of headers and modules that come with the compiler, with HIP or with Triton.
_LIBRARY = re.compile(
    r"/(backends/amd/include|cdna/hip/(include|libraries)|lib/clang/\d+|ziglang/lib|triton/language"
    r"|rocm[^/]*/include)/|^/usr/(include|lib)/"
)
INLINE_ASSEMBLY = re.compile(r"(?<=;#ASMSTART\n).*?(?=^\s*;+#ASMEND)", re.DOTALL | re.MULTILINE)
_DIRECTIVE = re.compile(r"^\s*\.\w+(?![\w.$]*:)", re.MULTILINE)
# What an assembler works out, or bytes, in code: LLVM writes none of it there (but .fill, behind what is executed).
_ASSEMBLER_S = re.compile(
    r"\.(rept?|irpc?|endr|macro|endm|endmacro|exitm|purgem|altmacro|if\w*|else\w*|endif|include|incbin|org|octa|float"
    r"|double|zero|skip|space|asci[iz]|string|2byte|4byte|8byte)$"
)
_COMMENT = re.compile(r"\s*(;|//).*$")
_COMMENT_OR_STRING = re.compile(r'("(?:[^"\\]|\\.)*")|\s*(?:;|//).*$')


def _unescape(text: str) -> bytes:
    return bytes(text, "latin-1").decode("unicode_escape").encode("latin-1")


def has_directives(text: str) -> bool:
    """Whether inline assembly in it has what an assembler works out: repetitions, macros, symbols, bytes."""
    return "#ASMSTART" in text and any(_DIRECTIVE.search(block) for block in INLINE_ASSEMBLY.findall(text))


def arch_in(target: str) -> str:
    """ "gfx942" of "amdgcn-amd-amdhsa--gfx942:sramecc+", and of "amdgpu9.42-amd-amdhsa-unknown-gfx942", as newer
    compilers (Triton 3.9's) write it; "" where there is none."""
    found = re.search(r"-(gfx\w+)", target)
    return found[1] if found else ""


def parse(text: str) -> AsmFile:
    """Parse a whole assembly file."""
    out = AsmFile()
    lines = text.split("\n")
    section, in_code, source = ".text", True, (0, 0)
    descriptor: dict[str, str] | None = None
    descriptors: dict[str, dict[str, str]] = {}
    expressions: dict[str, str] = {}
    places: dict[str, tuple[int, int] | None] = {}
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        line = _COMMENT.sub("", line) if '"' not in line else _COMMENT_OR_STRING.sub(r"\1", line)
        line = line.strip()
        if not line or line[0] == ";":
            continue
        label = _LABEL.match(line)
        if label and not line.startswith("s_"):
            name, line = label.groups()
            if in_code:
                out.labels[name] = len(out.statements)
            elif section:
                out.data_labels[name] = (section, len(out.sections[section].data))
            if not line:
                continue
        if line[0] != ".":
            if in_code:
                mnemonic, _, operands = line.partition(" ")
                out.statements.append(Statement(mnemonic, operands.strip(), number, source))
            continue
        directive, _, rest = line.replace("\t", " ").partition(" ")
        rest = rest.strip()
        if directive == ".loc":
            parts = rest.split()
            if int(parts[1]):
                chain = lines[number - 1].partition(";")[2]
                if chain not in places:
                    places[chain] = _user_place(out, chain)
                source = places[chain] or (int(parts[0]), int(parts[1]))
        elif directive == ".file":
            found = re.match(r'(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?', rest)
            if found:
                folder, name = found.group(2), found.group(3)
                absolute = name is not None and name.startswith("/")
                out.files[int(found.group(1))] = name if absolute else f"{folder}/{name}" if name else folder
        elif directive in (".text", ".data", ".bss", ".section", ".rodata"):
            section = rest.split(",")[0].strip() if directive == ".section" else directive
            in_code = section.startswith(".text")
            if _SKIPPED_SECTIONS.match(section):
                section = ""
            elif not in_code:
                out.sections.setdefault(section, Datum())
        elif directive == ".amdhsa_kernel":
            descriptor = descriptors.setdefault(rest, {})
        elif directive == ".end_amdhsa_kernel":
            descriptor = None
        elif directive.startswith(".amdhsa_") and descriptor is not None:
            descriptor[directive[len(".amdhsa_") :]] = rest
        elif directive == ".amdgcn_target":
            out.target = rest.strip('"')
        elif directive == ".amdgpu_metadata":
            end = next(i for i in range(number, len(lines)) if lines[i].strip() == ".end_amdgpu_metadata")
            document = yaml.load("\n".join(lines[number:end]), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            number = end + 1
            for kernel in document.get("amdhsa.kernels", []):
                # Not .name: YAML takes a kernel called `off` for a truth value.
                out.metadata[kernel[".symbol"].removesuffix(".kd")] = kernel
        elif directive == ".amdgpu_lds":  # dynamic LDS: begins after the static, which the compiler has laid out
            out.lds_symbols[rest.split(",")[0].strip()] = 0
        elif directive == ".size" and section and not in_code:
            name, _, size = rest.partition(",")
            if size.strip().isdigit():
                out.sizes[name.strip()] = int(size)
        elif directive == ".type" and rest.endswith("@function"):
            out.functions.append(rest.partition(",")[0].strip())
        elif directive == ".set":
            name, _, value = rest.partition(",")
            expressions[name.strip()] = value
        elif in_code and (directive in _DATA_SIZES or _ASSEMBLER_S.match(directive)):
            place = source_line(out, Statement(directive, rest, number, source))
            raise UnsupportedInstruction(f"{place}: `{directive}` in code, which takes an assembler")
        elif section and not in_code:
            _data_directive(out, section, directive, rest, number)
    for name, value in expressions.items():
        with contextlib.suppress(ValueError):  # over symbols nobody reads
            out.symbols[name] = _evaluate(value, expressions)
    for name, keys in descriptors.items():
        out.descriptors[name] = {key: _evaluate(value, expressions) for key, value in keys.items()}
    return out


def _user_place(out: AsmFile, comment: str) -> tuple[int, int] | None:
    """Where the user's code called what was inlined from a library's; None if it is not that.

    LLVM's comment on a .loc has the chain of calls, the innermost first: `; math.h:9:3 @[ mine.hip:5:7 ]`, with files
    as the .file directives have them or without their folders.
    """
    chain = _PLACE.findall(comment) if "@[" in comment else []
    if len(chain) < 2:
        return None
    places = [(_file_number(out, file), int(line)) for file, line in chain]
    if not _LIBRARY.search(out.files[places[0][0]]):
        return None
    return next((place for place in places if not _LIBRARY.search(out.files[place[0]])), places[-1])


def _file_number(out: AsmFile, file: str) -> int:
    for number, name in out.files.items():
        if name == file or name.endswith(f"/{file}"):
            return number
    number = -1 - len(out.files)  # one that no .file directive gives
    out.files[number] = file
    return number


# What LLVM leaves to be worked out of a file's last symbols where a kernel calls what it does not know by name
# (AMDGPUMCExpr.cpp).
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "max": max,
    "or": lambda *values: int(any(values)),
    "alignto": lambda value, to: -(-value // to) * to,
    "totalnumvgprs": lambda agprs, vgprs: -(-vgprs // 4) * 4 + agprs if agprs else vgprs,
}
_OPERATIONS: dict[type, Callable[..., int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Invert: operator.invert,
    ast.USub: operator.neg,
}


def _evaluate(text: str, expressions: Mapping[str, str]) -> int:
    """The number that an expression over symbols stands for; ValueError where it is none."""
    try:
        return int(text, 0)
    except ValueError:
        pass
    names: list[str] = []

    def name(found: re.Match[str]) -> str:
        names.append(found[0])
        return f"_{len(names) - 1}"

    def value(node: ast.AST) -> int:
        match node:
            case ast.Expression(body):
                return value(body)
            case ast.Constant(int(number)):
                return number
            case ast.Name(place):
                symbol = names[int(place[1:])]
                if symbol in expressions:
                    return _evaluate(expressions[symbol], expressions)
            case ast.BinOp(left, operation, right) if type(operation) in _OPERATIONS:
                return _OPERATIONS[type(operation)](value(left), value(right))
            case ast.UnaryOp(operation, operand) if type(operation) in _OPERATIONS:
                return _OPERATIONS[type(operation)](value(operand))
            case ast.Call(ast.Name(place), arguments) if names[int(place[1:])] in _FUNCTIONS:
                return _FUNCTIONS[names[int(place[1:])]](*map(value, arguments))
        raise ValueError(f"not a number: {text}")

    try:
        return value(ast.parse(_NAME.sub(name, text.strip()), mode="eval"))
    except (SyntaxError, RecursionError, TypeError, ArithmeticError):
        raise ValueError(f"not a number: {text}") from None


def _data_directive(out: AsmFile, section: str, directive: str, rest: str, number: int) -> None:
    block = out.sections[section]
    if directive in _DATA_SIZES:
        size = _DATA_SIZES[directive]
        for item in rest.split(","):
            try:
                block.data += (int(item, 0) & (1 << 8 * size) - 1).to_bytes(size, "little")
            except ValueError:
                block.relocations.append((len(block.data), size, item.strip()))
                block.data += bytes(size)
    elif directive in (".zero", ".skip", ".space"):  # so many bytes, and which
        count, _, value = rest.partition(",")
        block.data += bytes([int(value or "0", 0) & 255]) * int(count, 0)
    elif directive in (".ascii", ".asciz", ".string"):
        block.data += _unescape(rest.strip()[1:-1]) + (b"" if directive == ".ascii" else b"\0")
    elif directive in (".p2align", ".balign"):
        amount = int(rest.split(",")[0], 0)
        alignment = 1 << amount if directive == ".p2align" else amount
        block.data += bytes(-len(block.data) % alignment)
    elif directive in (".comm", ".lcomm", ".fill") or _ASSEMBLER_S.match(directive):
        raise UnsupportedInstruction(f"assembly line {number}: data directive {directive} is not supported")


def source_line(asm: AsmFile, statement: Statement) -> str:
    """`file:line` of an instruction, or its assembly line where there is no debug information."""
    number, line = statement.source
    return f"{asm.files[number]}:{line}" if number in asm.files and line else f"assembly line {statement.asm_line}"
