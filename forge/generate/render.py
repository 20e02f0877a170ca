"""From a problem's variant to the text of its submission: find it, bundle it, render it with templates/."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jinja2

from forge.generate import rules
from forge.generate.bundle import bundle_python
from forge.generate.flatten import Flattener, entry_declaration, in_quotes
from forge.generate.pysource import GenerationError
from forge.generate.tuning import check_table, table_path
from forge.task.problem import ROOT, ProblemEntry

# Of the generated file's form; raised when a change here or in templates/ changes what is generated.
VERSION = 1

# HIP files that a Python variant takes in are no variants themselves.
_HIP_SOURCE = re.compile(r"\bhip_source\(\s*[\"']([^\"'\n]+)[\"']")


@dataclass(frozen=True)
class Variant:
    name: str  # triton
    path: str  # kernels/fp8_mm/triton.py; relative to the root, with slashes


@dataclass(frozen=True)
class Source:
    path: str
    sha256: str


@dataclass(frozen=True)
class Submission:
    text: str
    variant: Variant
    sources: tuple[Source, ...]


def variants_of(entry: ProblemEntry, root: Path = ROOT) -> dict[str, Variant]:
    """The variants that kernels/<stem>/ holds, by name."""
    folder = root / "kernels" / entry.stem
    variants: dict[str, Variant] = {}
    python = sorted(folder.glob("*.py"))
    parts = {name for path in python for name in _HIP_SOURCE.findall(path.read_text(errors="replace"))}
    for path in sorted([*python, *(p for p in folder.glob("*.hip") if p.name not in parts)]):
        if path.stem.startswith("_") or path.name.endswith("_tuning.py"):
            continue
        variant = Variant(path.stem, path.relative_to(root).as_posix())
        if path.stem in variants:
            raise GenerationError(
                f"{variants[path.stem].path} and {variant.path} are both the variant {path.stem!r}: rename one"
            )
        variants[path.stem] = variant
    return variants


def pick_variant(entry: ProblemEntry, name: str | None, root: Path = ROOT) -> Variant:
    """The named variant, or the problem's default one."""
    variants = variants_of(entry, root)
    wanted = name or entry.variant or ""
    if wanted in variants:
        return variants[wanted]
    if not variants:
        raise GenerationError(
            f"{entry.name} has no kernel yet: kernels/{entry.stem}/ holds no variant "
            "(docs/adding-a-kernel.md says how to write one)"
        )
    has = ", ".join(variants)
    if name:
        raise GenerationError(f"{entry.name} has no variant {name!r}; it has: {has}")
    raise GenerationError(f"task.yml names the default variant {wanted!r} for {entry.name}, which has: {has}")


def generate(entry: ProblemEntry, variant_name: str | None = None, root: Path = ROOT) -> Submission:
    """The submission's text. It depends on nothing but the sources: no time, no absolute path."""
    variant = pick_variant(entry, variant_name, root)
    for value in (entry.name, *entry.gpus):
        if not re.fullmatch(r"\S+", value):
            raise GenerationError(f"task.yml: {value!r} cannot stand in a #!POPCORN line: it has a space in it")
    make = _hip_submission if variant.path.endswith(".hip") else _python_submission
    text, sources = make(entry, variant, root)
    rules.check_finished(text, variant.path)
    return Submission(text, variant, sources)


def _python_submission(entry: ProblemEntry, variant: Variant, root: Path) -> tuple[str, tuple[Source, ...]]:
    bundle = bundle_python(root, variant.path)
    table = table_path(variant.path)
    if table in bundle.sources:
        check_table(root, table)
    elif (root / table).exists():
        raise GenerationError(
            f"{variant.path}: does not use its tuning table {table}: import TUNING and DEFAULT from it"
        )
    rules.check_chunks(bundle.written)
    sources = hashed(bundle.sources, root)
    return _render("python.py.jinja", entry, sources, bundle=bundle), sources


def _hip_submission(entry: ProblemEntry, variant: Variant, root: Path) -> tuple[str, tuple[Source, ...]]:
    flattener = Flattener(root)
    lines = flattener.flatten(variant.path)
    rules.check_chunks(flattener.chunks)
    literal = in_quotes(variant.path, lines)
    if entry.arch is None:
        raise GenerationError(f"task.yml: {entry.name} states no arch, which a HIP kernel is built for")
    sources = hashed(flattener.sources, root)
    text = _render(
        "hip.py.jinja",
        entry,
        sources,
        variant_path=variant.path,
        arch=entry.arch,
        hip_source=literal,
        declaration=entry_declaration(variant.path, lines),
        module_name=f"{entry.stem}_{variant.name}",
    )
    return text, sources


def hashed(paths: Iterable[str], root: Path) -> tuple[Source, ...]:
    return tuple(Source(path, hashlib.sha256((root / path).read_bytes()).hexdigest()) for path in paths)


def _render(template: str, entry: ProblemEntry, sources: tuple[Source, ...], **values: object) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROOT / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )
    text = environment.get_template(template).render(
        problem=entry.name, gpus=entry.gpus, version=VERSION, sources=sources, **values
    )
    return text.rstrip("\n") + "\n"
