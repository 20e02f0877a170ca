"""A kernel's Python source as the bundler sees it: top-level statements, what each binds, uses and imports.

Nothing is ever unparsed: what reaches the generated file is the author's own lines, comments included.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

OURS = {"kernels", "lab"}  # the top-level packages that kernels lie in


class GenerationError(Exception):
    """Why no submission can be generated. One line; starts with `path:line:` where a place is to blame."""


def error_at(path: str, line: int, message: str) -> GenerationError:
    return GenerationError(f"{path}:{line}: {message}")


@dataclass(frozen=True)
class Chunk:
    """Consecutive whole lines of one source file."""

    path: str  # relative to the repository's root, with slashes
    line: int  # where `text` begins, counted from 1
    text: str  # no newline at its end


@dataclass(eq=False)
class Statement:
    """A top-level statement, or several that share a line."""

    nodes: list[ast.stmt]
    comment_line: int  # of the comments right above, where there are any
    first_line: int  # of the first decorator, where there is one
    last_line: int
    binds: set[str]
    uses: set[str]  # names it reads, at any depth; a function's own locals are not told apart


@dataclass(frozen=True)
class Import:
    """One name that an import at the top of a file binds."""

    bound: str  # the name in this file
    module: str  # dotted, absolute
    name: str | None  # of `from module import name`
    line: int

    @property
    def is_ours(self) -> bool:
        return self.module.partition(".")[0] in OURS

    @property
    def target(self) -> str:
        """What the name stands for: `import a.b` binds the package a, `import a.b as c` the module a.b."""
        if self.name is not None:
            return f"{self.module}.{self.name}"
        return self.bound if self.module.startswith(self.bound + ".") else self.module

    @property
    def statement(self) -> str:
        if self.name is None:
            return f"import {self.module}" + (f" as {self.bound}" if self.target == self.module != self.bound else "")
        return f"from {self.module} import {self.name}" + (f" as {self.bound}" if self.name != self.bound else "")


@dataclass
class Module:
    path: str  # relative to the root, with slashes
    name: str  # dotted: kernels.common.swizzle
    text: str
    docstring: str | None = None
    head: Chunk | None = None  # the same as it is written, and comments above the first import
    body_line: int = 1  # the first one below head and imports
    statements: list[Statement] = field(default_factory=list)  # without imports, docstring and main block
    imports: list[Import] = field(default_factory=list)
    future: set[str] = field(default_factory=set)  # names imported from __future__

    def bindings(self, name: str) -> list[Statement]:
        return [s for s in self.statements if name in s.binds]

    def imported(self, name: str) -> list[Import]:
        return [i for i in self.imports if i.bound == name]


def load_module(root: Path, path: str) -> Module:
    """Read and parse `path` (relative to root). Any reason why it cannot be bundled is a GenerationError."""
    try:
        text = (root / path).read_text(encoding="utf-8")
        tree = ast.parse(text, path)
    except OSError as error:
        raise GenerationError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise GenerationError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from None
    except SyntaxError as error:
        raise error_at(path, error.lineno or 1, f"not valid Python: {error.msg}") from None
    package = Path(path).parent.parts
    name = ".".join(package if path.endswith("__init__.py") else (*package, Path(path).stem))
    module = Module(path, name, text)
    body = tree.body
    module.docstring = ast.get_docstring(tree)
    if module.docstring is not None:
        module.body_line = (body[0].end_lineno or 1) + 1
        body = body[1:]
    head_end = body[0].lineno if body and isinstance(body[0], ast.Import | ast.ImportFrom) else module.body_line
    head = chunk(module, 1, head_end - 1)
    module.head = head if head.text.strip() else None
    above = module.body_line - 1  # where the last statement ended
    for nodes in _by_shared_lines(body):
        if all(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes):
            if module.statements:
                raise error_at(
                    path,
                    nodes[0].lineno,
                    "imports stand at the top of the generated file, so this one would run before the "
                    "statements above it: move it above them, or into a function",
                )
            for node in nodes:
                _read_import(module, package, node)
            module.body_line = (nodes[-1].end_lineno or 1) + 1
        elif not _is_main_block(nodes[0]):
            module.statements.append(_statement(module, nodes, above))
        above = nodes[-1].end_lineno or 1
    return module


def chunk(module: Module, first_line: int, last_line: int) -> Chunk:
    return Chunk(module.path, first_line, "\n".join(module.text.split("\n")[first_line - 1 : last_line]).rstrip())


def _by_shared_lines(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """`a = 1; b = 2` cannot be sliced by line: such statements stay together."""
    group: list[ast.stmt] = []
    for node in body:
        if group and node.lineno > (group[-1].end_lineno or 0):
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _is_main_block(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.left, ast.Name)
        and node.test.left.id == "__name__"
    )


def _read_import(module: Module, package: tuple[str, ...], node: ast.stmt) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            module.imports.append(Import(bound, alias.name, None, alias.lineno))
        return
    assert isinstance(node, ast.ImportFrom)
    if node.module == "__future__":
        module.future |= {alias.name for alias in node.names}
        return
    if node.level > len(package):
        raise error_at(module.path, node.lineno, "relative import leaves the repository")
    base = package[: len(package) - node.level + 1] if node.level else ()
    source = ".".join((*base, node.module) if node.module else base)
    for alias in node.names:
        if alias.name == "*":
            raise error_at(module.path, node.lineno, f"name what you take from {source}: 'import *' cannot be merged")
        module.imports.append(Import(alias.asname or alias.name, source, alias.name, alias.lineno))


def _statement(module: Module, nodes: list[ast.stmt], above: int) -> Statement:
    """`above` is the last line that belongs to an earlier statement."""
    binds: set[str] = set()
    uses: set[str] = set()
    for node in nodes:
        binds |= _bound_at_top(node)
        uses |= _used_names(node)
        _refuse_inner_imports_of_ours(module.path, node)
    decorated = getattr(nodes[0], "decorator_list", [])
    first_line = min([nodes[0].lineno, *(d.lineno for d in decorated)])
    lines = module.text.split("\n")
    comment_line = first_line
    while comment_line > above + 1 and lines[comment_line - 2].startswith("#"):
        comment_line -= 1
    return Statement(nodes, comment_line, first_line, nodes[-1].end_lineno or first_line, binds, uses)


def _bound_at_top(node: ast.stmt) -> set[str]:
    """The module's names that a top-level statement defines or changes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    bound: set[str] = set()
    todo: list[ast.AST] = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(part.name)
            continue
        if isinstance(part, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue  # these have a scope of their own
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            bound.add(part.id)
        elif isinstance(part, ast.Subscript | ast.Attribute) and not isinstance(part.ctx, ast.Load):
            bound |= _root_name(part)  # TABLE["x"] = 1 belongs to TABLE
        elif isinstance(part, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name.partition(".")[0] for alias in part.names}
        elif isinstance(part, ast.ExceptHandler) and part.name:
            bound.add(part.name)
        todo.extend(ast.iter_child_nodes(part))
    return bound


def _root_name(node: ast.expr) -> set[str]:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _used_names(node: ast.AST) -> set[str]:
    used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    for part in ast.walk(node):  # annotations may be written as texts
        annotation = getattr(part, "annotation", None) or getattr(part, "returns", None)
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                used |= _used_names(ast.parse(annotation.value, mode="eval"))
            except SyntaxError:
                pass  # just a text
    return used


def _refuse_inner_imports_of_ours(path: str, node: ast.stmt) -> None:
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            names = [alias.name for alias in part.names]
        elif isinstance(part, ast.ImportFrom):
            names = ["kernels"] if part.level else [part.module or ""]
        else:
            continue
        if any(name.partition(".")[0] in OURS for name in names):
            raise error_at(
                path,
                part.lineno,
                "our own modules are imported at the top of a file, where the bundler "
                "finds them: move this import there",
            )
