"""Bundles a variant with everything it takes from kernels.common and from its problem's own folder.

Modules follow each other so that each stands after those it imports; inside one, statements keep their order.
The variant is taken whole, other modules as far as they are used. All names end up in one module, so:
- what an import renamed (`import a as b`, `import module as m` and `m.a`) is written back to its own name;
- a name that two files give two meanings is refused, with both places;
- `NAME = hip_source("file")` becomes that file's text, its local includes taken in (flatten.py).
Two variants, of AMD's GPU and of another, become one file: what both use, then what each has to itself in a branch.
"""

from __future__ import annotations

import ast
import builtins
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from forge.generate.archs import FOLDERS, refuse_other_arch
from forge.generate.flatten import Flattener, in_quotes
from forge.generate.pysource import Chunk, GenerationError, Import, Module, Statement, chunk, error_at, load_module

# Top-level names of this repository that a run folder of the leaderboard does not have.
ABSENT_ON_LEADERBOARD = {"forge", "cdna", "reference", "tests", "gen_submission"}
# The function whose calls stand for HIP source.
HIP_MODULE, HIP_FUNCTION = "kernels.common.hip_source", "hip_source"


@dataclass(frozen=True)
class Section:
    """What is taken from one module."""

    path: str
    about: tuple[str, ...]  # the lines of the module's docstring; () for the variant, whose head stands on top
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class Branch:
    """What only one of two GPUs' variants takes."""

    imports: tuple[str, ...]
    sections: tuple[Section, ...]  # the variant's comes last


@dataclass(frozen=True)
class Bundle:
    head: Chunk | None  # the variant's docstring, and comments above its first import
    imports: tuple[str, ...]  # merged; groups are set apart by an empty line
    sections: tuple[Section, ...]  # the variant's comes last; of two variants, what both take
    branches: tuple[Branch, ...]  # none, or of AMD's variant and of the other
    written: tuple[Chunk, ...]  # all that went into it, as its authors wrote it
    sources: tuple[str, ...]  # paths, in the order of the sections, then HIP files


@dataclass(frozen=True)
class Rename:
    """In one module's text, `node` has to read `name`, which module `origin` defines."""

    node: ast.Name | ast.Attribute
    name: str


@dataclass(frozen=True)
class HipText:
    """What stands in a module instead of a call of hip_source."""

    call: ast.Call
    chunks: tuple[Chunk, ...]  # of the files in it
    sources: tuple[str, ...]
    literal: str


class Bundler:
    def __init__(self, root: Path, variant: str) -> None:
        self.root = root
        self.modules: dict[str, Module] = {}  # by dotted name, in the order in which they will stand
        self.kept: dict[str, list[Statement]] = {}
        self.kept_imports: dict[str, set[Import]] = {}
        self.renames: dict[str, list[Rename]] = {}
        self.hip_texts: dict[str, list[HipText]] = {}
        stem = Path(variant).parent.name
        self.folder = f"kernels.{stem}"
        roots = [folder.replace("/", ".") for folder in ("kernels", *FOLDERS.values())]
        self.may_take = tuple(f"{root}.{part}." for root in roots for part in ("common", stem))
        self.variant = self.load(variant, ())

    # ------------------------------------------------------------ finding modules

    def path_of(self, name: str) -> str | None:
        """The file of one of our modules."""
        base = name.replace(".", "/")
        return next((p for p in (f"{base}.py", f"{base}/__init__.py") if (self.root / p).is_file()), None)

    def load(self, path: str, importers: tuple[str, ...]) -> Module:
        """Load a module and, before it takes its place in the order, those it imports."""
        if path in importers:
            raise GenerationError(f"{path}: imports itself: {' -> '.join((*importers[importers.index(path) :], path))}")
        known = next((m for m in self.modules.values() if m.path == path), None)
        if known:
            return known
        module = load_module(self.root, path)
        for item in module.imports:
            self.refuse_absent(module, item)
            for name in self.local_modules(module, item):
                self.load(self.path_of(name) or "", (*importers, path))
        self.modules[module.name] = module
        self.kept[module.name] = []
        self.kept_imports[module.name] = set()
        self.renames[module.name] = []
        self.hip_texts[module.name] = []
        for item in module.imports:  # Python would refuse an absent name whether it is used or not
            if item.is_ours and item.name and not self.path_of(f"{item.module}.{item.name}"):
                self.definition(module, item.bound, item.line)
        return module

    def refuse_absent(self, module: Module, item: Import) -> None:
        top = item.module.partition(".")[0]
        if top in ABSENT_ON_LEADERBOARD:
            raise error_at(
                module.path,
                item.line,
                f"imports {item.module}, which the leaderboard's machine lacks: "
                "kernels import torch, triton, the standard library, kernels.common and their own folder",
            )

    def local_modules(self, module: Module, item: Import) -> list[str]:
        """Those of our modules that an import loads; [] where it imports somebody else's."""
        if not item.is_ours:
            return []
        submodule = f"{item.module}.{item.name}"
        wanted = submodule if item.name and self.path_of(submodule) else item.module
        path = self.path_of(wanted)
        if not path:
            raise error_at(module.path, item.line, f"no module {wanted}: {wanted.replace('.', '/')}.py does not exist")
        if not f"{wanted}.".startswith(self.may_take):
            raise error_at(
                module.path,
                item.line,
                f"imports {wanted}: a kernel may take from kernels.common and from its own folder ({self.folder}) only",
            )
        refuse_other_arch(module.path, item.line, f"imports {wanted}", path)
        return [wanted]

    # ------------------------------------------------------------ what is needed

    def keep_all(self) -> None:
        self.kept_imports[self.variant.name] |= {i for i in self.variant.imports if not i.is_ours}
        for statement in self.variant.statements:
            self.keep(self.variant, statement)
        for module in reversed(list(self.modules.values())):
            if module is not self.variant and self.kept[module.name]:
                for statement in module.statements:
                    if not statement.binds:  # runs for its effect
                        self.keep(module, statement)

    def keep(self, module: Module, statement: Statement) -> None:
        if statement in self.kept[module.name]:
            return
        self.kept[module.name].append(statement)
        through_modules = self.resolve_module_attributes(module, statement)
        replaced = self.take_hip_source(module, statement)
        for name in sorted(statement.uses - through_modules - replaced):
            self.need(module, name, statement)

    def take_hip_source(self, module: Module, statement: Statement) -> set[str]:
        """Read what `NAME = hip_source("file")` asks for. Returns the name by which it is called."""
        names = {i.bound for i in module.imports if (i.module, i.name) == (HIP_MODULE, HIP_FUNCTION)}
        called = names & statement.uses
        if not called:
            return called
        node = statement.nodes[0]
        match node:
            case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(target=ast.Name(), value=value) if (
                len(statement.nodes) == 1
            ):
                pass
            case _:
                value = None
        match value:
            case ast.Call(func=ast.Name(id=function), args=[ast.Constant(value=str() as file)], keywords=[]) if (
                function in called
            ):
                call = value
            case _:
                line = min(name.lineno for spelled in called for name in _names(statement, spelled))
                raise error_at(
                    module.path,
                    line,
                    f'{HIP_FUNCTION} is replaced by a text, so it stands alone at top level: NAME = hip_source("file")',
                )
        assert isinstance(call, ast.Call)
        flattener = Flattener(self.root)
        path = flattener.find(module.path, file, call.lineno, f'hip_source("{file}")')
        lines = flattener.flatten(path)
        literal = in_quotes(path, lines)
        self.hip_texts[module.name].append(HipText(call, tuple(flattener.chunks), tuple(flattener.sources), literal))
        return called

    def need(self, module: Module, name: str, user: Statement) -> None:
        """Keep whatever binds `name` in `module`; a name that nothing binds is a builtin or a local."""
        for statement in module.bindings(name):
            self.keep(module, statement)
        for item in module.imported(name):
            if not item.is_ours:
                self.kept_imports[module.name].add(item)
                continue
            if item.name is None or self.path_of(f"{item.module}.{item.name}"):
                raise error_at(
                    module.path,
                    user.first_line,
                    f"uses the module {name!r} as a whole, which is not there "
                    "in the generated file: take what you need from it by name",
                )
            origin, original = self.definition(module, name, item.line)
            if original != name:
                self.renames[module.name] += [Rename(node, original) for node in _names(user, name)]
            self.need(origin, original, user)

    def definition(self, module: Module, name: str, line: int, asked: Module | None = None) -> tuple[Module, str]:
        """Which module defines `name` of `module`, and its name there; follows our own imports only."""
        if module.bindings(name):
            return module, name
        for item in module.imported(name):
            if not item.is_ours:
                return module, name
            if item.name is not None and item.module in self.modules:
                return self.definition(self.modules[item.module], item.name, line, asked or module)
        raise error_at((asked or module).path, line, f"{module.path} defines no {name!r}")

    def resolve_module_attributes(self, module: Module, statement: Statement) -> set[str]:
        """Turn `m.a`, where m is one of our modules, into a need for `a`. Returns the names so dealt with."""
        aliases = {}
        for item in module.imports:
            if item.is_ours and (item.name is None or self.path_of(f"{item.module}.{item.name}")):
                target = item.module if item.name is None else f"{item.module}.{item.name}"
                spelled = target if item.bound == item.target else item.bound
                aliases[spelled] = target
        if not aliases:
            return set()
        found = [
            (node, aliases[prefix]) for node in _attributes(statement) if (prefix := ast.unparse(node.value)) in aliases
        ]
        for node, target in found:
            origin, original = self.definition(self.modules[target], node.attr, node.lineno, module)
            if (origin.name, original) == (HIP_MODULE, HIP_FUNCTION):
                raise error_at(
                    module.path,
                    node.lineno,
                    f"import {HIP_FUNCTION} by its name: from {HIP_MODULE} import {HIP_FUNCTION}",
                )
            self.renames[module.name].append(Rename(node, original))
            self.need(origin, original, statement)
        resolved = [ast.unparse(node).partition(".")[0] for node, _ in found]
        names = {spelled.partition(".")[0] for spelled in aliases}
        return {name for name in names if len(list(_names(statement, name))) == resolved.count(name)}

    # ------------------------------------------------------------ putting together

    def used(self) -> list[Module]:
        return [m for m in self.modules.values() if self.kept[m.name] or self.kept_imports[m.name]]

    def take_also(self, other: Bundler) -> None:
        """Keep of the modules that another bundler uses as well what that one keeps of them."""
        for name in self.kept.keys() & other.kept.keys():
            lines = {statement.first_line for statement in other.kept[name]}
            known = {statement.first_line for statement in self.kept[name]}
            self.kept[name] += [s for s in self.modules[name].statements if s.first_line in lines - known]
            self.kept_imports[name] |= other.kept_imports[name]
            self.renames[name] += other.renames[name]

    def imports_of(self, modules: Iterable[Module]) -> list[Import]:
        return [i for m in modules for i in sorted(self.kept_imports[m.name], key=lambda i: i.line)]

    def sections_of(self, modules: Iterable[Module], head: Module | None) -> tuple[Section, ...]:
        """head: the module whose docstring stands on top of the file."""
        return tuple(
            Section(
                m.path,
                () if m is head else tuple((m.docstring or "").splitlines()),
                tuple(self.chunks_of(m, self.edits_of(m, hip=True))),
            )
            for m in modules
        )

    def written(self) -> list[Chunk]:
        """All that is taken, as its authors wrote it."""
        used = self.used()
        lines = {(m.path, i.line): chunk(m, i.line, i.line) for m in used for i in self.kept_imports[m.name]}
        written = [m.head for m in [*(m for m in used if m is not self.variant), self.variant] if m.head]
        written += [lines[key] for key in sorted(lines)]
        written += [c for m in used for c in self.chunks_of(m, self.edits_of(m))]
        return written + [c for m in used for text in self.hip_texts[m.name] for c in text.chunks]

    def sources(self) -> list[str]:
        used = self.used()
        return [*(m.path for m in used), *(p for m in used for text in self.hip_texts[m.name] for p in text.sources)]

    def chunks_of(self, module: Module, edits: dict[int, list[tuple[int, int, str]]]) -> Iterator[Chunk]:
        """The kept statements' lines with the comments above them, adjoining ones as one chunk."""
        lines = module.text.split("\n")
        kept = {id(s) for s in self.kept[module.name]}
        run: list[int] = []  # first and last line of the chunk being gathered
        for statement in module.statements:
            if id(statement) not in kept:
                continue
            first = statement.comment_line
            if module is self.variant and not run:  # sections' titles too, which stand apart
                first = next(n for n in range(module.body_line, first + 1) if lines[n - 1].strip())
            if run and all(not text.strip() or text.startswith("#") for text in lines[run[1] : first - 1]):
                run[1] = statement.last_line
                continue
            if run:
                yield _chunk_of(module.path, lines, run, edits)
            run = [first, statement.last_line]
        if run:
            yield _chunk_of(module.path, lines, run, edits)

    def edits_of(self, module: Module, hip: bool = False) -> dict[int, list[tuple[int, int, str]]]:
        """Renames, and HIP texts if asked for, as (start byte, end byte, new text) by line."""
        edits: dict[int, list[tuple[int, int, str]]] = {}
        for text in self.hip_texts[module.name] if hip else ():
            first, last = text.call.lineno, text.call.end_lineno or 0
            if first != last:
                raise error_at(module.path, first, f"write this call of {HIP_FUNCTION} in one line")
            edits[first] = [(text.call.col_offset, text.call.end_col_offset or 0, text.literal)]
        lines = module.text.split("\n")
        for rename in {(r.node.lineno, r.node.col_offset): r for r in self.renames[module.name]}.values():
            node, line = rename.node, rename.node.lineno
            start, end = node.col_offset, node.end_col_offset or 0
            written = lines[line - 1].encode()[start:end].decode(errors="replace")
            if node.end_lineno != line or written != ast.unparse(node):
                raise error_at(
                    module.path,
                    line,
                    f"cannot write {ast.unparse(node)!r} as {rename.name!r} here (inside "
                    f"an f-string, or over several lines): import {rename.name} by its own name instead",
                )
            taken = {
                n.id if isinstance(n, ast.Name) else n.arg
                for s in self.kept[module.name]
                if s.first_line <= line <= s.last_line
                for part in s.nodes
                for n in ast.walk(part)
                if isinstance(n, ast.Name | ast.arg)
            }
            if rename.name in taken:
                raise error_at(
                    module.path,
                    line,
                    f"{ast.unparse(node)!r} becomes {rename.name!r} in the generated "
                    f"file, which this statement uses for something else: rename the other",
                )
            edits.setdefault(line, []).append((start, end, rename.name))
        return edits

    def refuse_clashes(self) -> None:
        """Every name of the generated file means one thing, whichever module reads it."""
        owners: dict[str, tuple[str, Module, int]] = {}  # name -> (meaning, module, line)
        for module in self.modules.values():
            meanings = [
                (i.bound, i.target, i.line) for i in sorted(self.kept_imports[module.name], key=lambda i: i.line)
            ]
            meanings += [(name, module.name, s.first_line) for s in self.kept[module.name] for name in sorted(s.binds)]
            for name, meaning, line in meanings:
                known = owners.setdefault(name, (meaning, module, line))
                if known[0] != meaning and known[1] is not module:
                    raise error_at(
                        module.path,
                        line,
                        f"defines {name!r}, which {known[1].path}:{known[2]} defines too: "
                        "in one file they would be the same, so rename one of them",
                    )
        for module in self.modules.values():
            own = {i.bound for i in module.imports} | {name for s in module.statements for name in s.binds}
            for statement in self.kept[module.name]:
                for name in sorted(statement.uses - own):
                    if hasattr(builtins, name) and name in owners:
                        _, owner, line = owners[name]
                        raise error_at(
                            owner.path,
                            line,
                            f"defines {name!r}, which is Python's own {name} to "
                            f"{module.path}:{statement.first_line}: rename it",
                        )


def bundle_python(root: Path, variant: str, also: str | None = None) -> Bundle:
    """Bundle the variant at `variant` (relative to root, with slashes), with that of another GPU where asked."""
    bundlers = [Bundler(root, path) for path in (variant, also) if path]
    for bundler in bundlers:
        bundler.keep_all()
    for bundler in bundlers:
        for other in bundlers:
            if other is not bundler:
                bundler.take_also(other)
        bundler.refuse_clashes()
    first, used = bundlers[0], [bundler.used() for bundler in bundlers]
    future = {name for modules in used for m in modules for name in m.future}
    written = tuple(c for bundler in bundlers for c in bundler.written())
    sources = tuple(dict.fromkeys(path for bundler in bundlers for path in bundler.sources()))
    if not also:
        imports = tuple(merged_imports(first.imports_of(used[0]), future))
        sections = first.sections_of(used[0], first.variant)
        return Bundle(first.variant.head, imports, sections, (), written, sources)
    of_both = {m.path for m in used[0]} & {m.path for m in used[1]}
    shared = [m for m in used[0] if m.path in of_both]
    on_top = [Import("torch", "torch", None, 0), *first.imports_of(shared)]
    known = {(i.bound, i.target) for i in on_top}
    branches = []
    for bundler, modules in zip(bundlers, used):
        own = [m for m in modules if m.path not in of_both]
        own_imports = [i for i in bundler.imports_of(own) if (i.bound, i.target) not in known]
        branches.append(Branch(tuple(merged_imports(own_imports, set())), bundler.sections_of(own, first.variant)))
    return Bundle(
        first.variant.head,
        tuple(merged_imports(on_top, future)),
        first.sections_of(shared, None),
        tuple(branches),
        written,
        sources,
    )


def indented(text: str) -> str:
    """Statements four columns further in. What a string goes on with on further lines stays as it is."""
    inside: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text + "\n").readline):
        if token.type not in (tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER):
            inside |= {*range(token.start[0] + 1, token.end[0] + 1)}
    lines = enumerate(text.split("\n"), start=1)
    return "\n".join(line if number in inside or not line else f"    {line}" for number, line in lines)


def merged_imports(imports: list[Import], future: set[str]) -> Iterator[str]:
    """The generated file's import lines: __future__, the standard library, the rest; '' between groups."""
    if future:
        yield f"from __future__ import {', '.join(sorted(future))}"
    # `import triton.language as tl` and `from triton import language as tl` are one: the first stays.
    once = {(i.bound, i.target, i.target == i.bound and i.statement): i for i in reversed(imports)}.values()
    for group in (True, False):
        members = [i for i in once if (i.module.partition(".")[0] in sys.stdlib_module_names) is group]
        plain = sorted({i.statement for i in members if i.name is None})
        named: dict[str, set[str]] = {}
        for item in members:
            if item.name is not None:
                named.setdefault(item.module, set()).add(item.statement.partition(" import ")[2])
        lines = plain + [f"from {module} import {', '.join(sorted(named[module]))}" for module in sorted(named)]
        if lines:
            yield ""
            yield from lines


def _chunk_of(path: str, lines: list[str], run: list[int], edits: dict[int, list[tuple[int, int, str]]]) -> Chunk:
    text = []
    for number in range(run[0], run[1] + 1):
        line = lines[number - 1].encode()
        for start, end, new in sorted(edits.get(number, ()), reverse=True):
            line = line[:start] + new.encode() + line[end:]
        text.append(line.decode())
    return Chunk(path, run[0], "\n".join(text))


def _names(statement: Statement, name: str) -> Iterator[ast.Name]:
    for part in statement.nodes:
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and node.id == name:
                yield node


def _attributes(statement: Statement) -> Iterator[ast.Attribute]:
    """Attribute accesses on plain dotted names."""
    for part in statement.nodes:
        for node in ast.walk(part):
            root = node
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(node, ast.Attribute) and isinstance(root, ast.Name):
                yield node
