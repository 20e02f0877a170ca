"""AMDGCN assembly text, as LLVM prints it, to statements: instructions, labels, data, kernel descriptors.

Understands what the AMDGPU backend emits for Triton and HIP kernels; debug sections are skipped, `.loc`
gives each instruction its source line.
"""

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
    asm_line: int  # of a code object: the address
    source: tuple[int, int]  # (.file number, line), (0, 0) unknown

    def __str__(self) -> str:
        return f"{self.mnemonic} {self.operands}".rstrip()


@dataclass
class Datum:
    """A labelled block of a data section: bytes, and the places where addresses of symbols go."""

    data: bytearray = field(default_factory=bytearray)
    relocations: list[tuple[int, int, str]] = field(default_factory=list)  # (offset, bytes, expression)


@dataclass
class AsmFile:
    """A parsed assembly file."""

    target: str = ""
    linked: bool = False  # a code object, whose instructions have addresses
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
    gaps: set[int] = field(default_factory=set)  # statements behind which are bytes that are no known instruction


_DATA_SIZES = {".byte": 1, ".short": 2, ".hword": 2, ".value": 2, ".long": 4, ".int": 4, ".word": 4, ".quad": 8}
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
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self.out, self.lines, self.number = AsmFile(), text.split("\n"), 0  # of the next line
        self.section, self.in_code, self.source = ".text", True, (0, 0)
        self.descriptor: dict[str, str] | None = None
        self.descriptors: dict[str, dict[str, str]] = {}
        self.expressions: dict[str, str] = {}
        self.places: dict[str, tuple[int, int] | None] = {}

    def parse(self) -> AsmFile:
        out = self.out
        while self.number < len(self.lines):
            line = self.lines[self.number]
            self.number += 1
            line = _COMMENT.sub("", line) if '"' not in line else _COMMENT_OR_STRING.sub(r"\1", line)
            line = line.strip()
            if not line or line[0] == ";":
                continue
            label = _LABEL.match(line)
            if label:
                name, line = label.groups()
                if self.in_code:
                    out.labels[name] = len(out.statements)
                elif self.section:
                    out.data_labels[name] = (self.section, len(out.sections[self.section].data))
                if not line:
                    continue
            if line[0] != ".":
                if self.in_code:
                    mnemonic, _, operands = line.partition(" ")
                    out.statements.append(Statement(mnemonic, operands.strip(), self.number, self.source))
                continue
            directive, _, rest = line.replace("\t", " ").partition(" ")
            known = _DIRECTIVES.get(directive)
            if known:
                known(self, rest.strip())
            else:
                self._other(directive, rest.strip())
        for name, value in self.expressions.items():
            with contextlib.suppress(ValueError):  # over symbols nobody reads
                out.symbols[name] = _evaluate(value, self.expressions)
        for name, keys in self.descriptors.items():
            out.descriptors[name] = {key: _evaluate(value, self.expressions) for key, value in keys.items()}
        return out

    def _loc(self, rest: str) -> None:
        parts = rest.split()
        if int(parts[1]):
            chain = self.lines[self.number - 1].partition(";")[2]
            if chain not in self.places:
                self.places[chain] = _user_place(self.out, chain)
            self.source = self.places[chain] or (int(parts[0]), int(parts[1]))

    def _file(self, rest: str) -> None:
        found = re.match(r'(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?', rest)
        if found:
            folder, name = found.group(2), found.group(3)
            absolute = name is not None and name.startswith("/")
            self.out.files[int(found.group(1))] = name if absolute else f"{folder}/{name}" if name else folder

    def _section(self, rest: str) -> None:
        self.section = rest.split(",")[0].strip()
        self.in_code = self.section.startswith(".text")
        if _SKIPPED_SECTIONS.match(self.section):
            self.section = ""
        elif not self.in_code:
            self.out.sections.setdefault(self.section, Datum())

    def _kernel(self, rest: str) -> None:
        self.descriptor = self.descriptors.setdefault(rest, {})

    def _end_of_kernel(self, rest: str) -> None:
        self.descriptor = None

    def _target(self, rest: str) -> None:
        self.out.target = rest.strip('"')

    def _metadata(self, rest: str) -> None:
        ends = (i for i in range(self.number, len(self.lines)) if self.lines[i].strip() == ".end_amdgpu_metadata")
        end = next(ends)
        text = "\n".join(self.lines[self.number : end])
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self.number = end + 1
        for kernel in document.get("amdhsa.kernels", []):
            # Not .name: YAML takes a kernel called `off` for a truth value.
            self.out.metadata[kernel[".symbol"].removesuffix(".kd")] = kernel

    def _dynamic_lds(self, rest: str) -> None:
        self.out.lds_symbols[rest.split(",")[0].strip()] = 0  # behind the static, which the compiler has laid out

    def _set(self, rest: str) -> None:
        name, _, value = rest.partition(",")
        self.expressions[name.strip()] = value

    def _other(self, directive: str, rest: str) -> None:
        if directive.startswith(".amdhsa_") and self.descriptor is not None:
            self.descriptor[directive[len(".amdhsa_") :]] = rest
        elif directive == ".size" and self.section and not self.in_code:
            name, _, size = rest.partition(",")
            if size.strip().isdigit():
                self.out.sizes[name.strip()] = int(size)
        elif directive == ".type" and rest.endswith("@function"):
            self.out.functions.append(rest.partition(",")[0].strip())
        elif self.in_code and (directive in _DATA_SIZES or _ASSEMBLER_S.match(directive)):
            place = source_line(self.out, Statement(directive, rest, self.number, self.source))
            raise UnsupportedInstruction(f"{place}: `{directive}` in code, which takes an assembler")
        elif self.section and not self.in_code:
            _data_directive(self.out, self.section, directive, rest, self.number)


def _named_section(name: str) -> Callable[[_Parser, str], None]:
    return lambda parser, rest: parser._section(name)


_DIRECTIVES: dict[str, Callable[[_Parser, str], None]] = {
    ".loc": _Parser._loc,
    ".file": _Parser._file,
    ".section": _Parser._section,
    **{name: _named_section(name) for name in (".text", ".data", ".bss", ".rodata")},
    ".amdhsa_kernel": _Parser._kernel,
    ".end_amdhsa_kernel": _Parser._end_of_kernel,
    ".amdgcn_target": _Parser._target,
    ".amdgpu_metadata": _Parser._metadata,
    ".amdgpu_lds": _Parser._dynamic_lds,
    ".set": _Parser._set,
}


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
    """`file:line` of an instruction, or its assembly line or address where there is no debug information."""
    number, line = statement.source
    if number in asm.files and line:
        return f"{asm.files[number]}:{line}"
    return f"address {statement.asm_line:#x}" if asm.linked else f"assembly line {statement.asm_line}"
