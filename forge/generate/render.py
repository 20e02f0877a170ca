"""From a problem's variant to the text of its submission: find it, bundle it, render it with templates/."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jinja2

from forge.generate import rules
from forge.generate.archs import FOLDERS, check_also, name_and_arch
from forge.generate.bundle import bundle_python, indented
from forge.generate.flatten import Flattener, entry_declaration, in_quotes
from forge.generate.pysource import GenerationError
from forge.generate.tuning import check_table, table_path
from forge.task.problem import ROOT, ProblemEntry

# Of the generated file's form; raised when a change here or in templates/ changes what is generated.
VERSION = 1

# Files of a problem's folder that another one there takes in are no variants themselves.
_HIP_SOURCE = re.compile(r"\bhip_source\(\s*[\"']([^\"'\n]+)[\"']")
_OWN_MODULE = r"\bkernels\.{stem}\.(\w+)|\bfrom\s+\.(\w+)\s+import\b"


@dataclass(frozen=True)
class Variant:
    name: str  # triton: as it is asked for, whatever the GPU
    path: str  # kernels/fp8_mm/triton_gfx942.py; relative to the root, with slashes


@dataclass(frozen=True)
class Source:
    path: str
    sha256: str


@dataclass(frozen=True)
class Submission:
    text: str
    variant: Variant
    sources: tuple[Source, ...]
    also: Variant | None = None  # the same variant for another GPU, which is in the text as well


def kernel_files(stem: str, root: Path) -> list[str]:
    """Files of kernels/<stem>/ that may be variants, of whatever GPU."""
    folder = root / "kernels" / stem
    python = sorted(p for p in folder.glob("*.py") if not p.stem.startswith("_"))
    texts = [path.read_text(errors="replace") for path in python]
    modules = re.compile(_OWN_MODULE.format(stem=stem))
    parts = {name for text in texts for name in _HIP_SOURCE.findall(text)}
    parts |= {f"{a or b}.py" for text in texts for a, b in modules.findall(text)}
    files = [*python, *sorted(folder.glob("*.hip"))]
    return [p.relative_to(root).as_posix() for p in files if p.name not in parts and not p.stem.endswith("_tuning")]


def variants_of(entry: ProblemEntry, root: Path = ROOT) -> dict[str, Variant]:
    """The variants that kernels/<stem>/ holds for the problem's GPU, by name."""
    variants: dict[str, Variant] = {}
    for path in kernel_files(entry.stem, root):
        name, arch = name_and_arch(path)
        if arch not in (None, entry.arch):
            continue
        if name in variants:
            raise GenerationError(
                f"{variants[name].path} and {path} are both the variant {name!r} for {entry.arch}: rename one"
            )
        variants[name] = Variant(name, path)
    return variants


def pick_variant(entry: ProblemEntry, name: str | None, root: Path = ROOT) -> Variant:
    """The named variant, or the problem's default one."""
    variants = variants_of(entry, root)
    wanted = name or entry.variant or ""
    if wanted in variants:
        return variants[wanted]
    for path in kernel_files(entry.stem, root):
        of_name, arch = name_and_arch(path)
        if of_name == wanted:
            raise GenerationError(
                f"{entry.name} runs on {entry.arch}, and its variant {wanted!r} is for {arch} ({path}): "
                f"write kernels/{entry.stem}/{wanted}_{entry.arch}.py"
            )
    if not variants:
        raise GenerationError(
            f"{entry.name} has no kernel yet: kernels/{entry.stem}/ holds no variant for {entry.arch} "
            "(docs/adding-a-kernel.md says how to write one)"
        )
    has = ", ".join(variants)
    if name:
        raise GenerationError(f"{entry.name} has no variant {name!r}; it has: {has}")
    raise GenerationError(f"task.yml names the default variant {wanted!r} for {entry.name}, which has: {has}")


def also_variant(entry: ProblemEntry, variant: Variant, also: str, root: Path = ROOT) -> Variant | None:
    """The same variant for another GPU; None where one file serves every GPU."""
    check_also(also)
    if name_and_arch(variant.path)[1] is None:
        return None
    path = f"{FOLDERS[also]}/{entry.stem}/{variant.name}.py"
    if not (root / path).is_file():
        raise GenerationError(
            f"--also {also}: {entry.name} has no {path}: its variant {variant.name!r} is for AMD alone"
        )
    return Variant(variant.name, path)


def also_for(entry: ProblemEntry, variant_name: str | None, arch: str, root: Path = ROOT) -> str | None:
    """What generate() is to be asked for so that the variant runs on a GPU of `arch`, if it can."""
    if arch not in FOLDERS:
        return None
    variant = pick_variant(entry, variant_name, root)
    return arch if (root / FOLDERS[arch] / entry.stem / f"{variant.name}.py").is_file() else None


def generate(
    entry: ProblemEntry, variant_name: str | None = None, root: Path = ROOT, also: str | None = None
) -> Submission:
    """The submission's text. It depends on nothing but the sources: no time, no absolute path.

    also: an arch of archs.FOLDERS, on which the text is to run as well.
    """
    variant = pick_variant(entry, variant_name, root)
    other = also_variant(entry, variant, also, root) if also else None
    for value in (entry.name, *entry.gpus):
        if not re.fullmatch(r"\S+", value):
            raise GenerationError(f"task.yml: {value!r} cannot stand in a #!POPCORN line: it has a space in it")
    if variant.path.endswith(".hip"):
        text, sources = _hip_submission(entry, variant, root)
    else:
        text, sources = _python_submission(entry, variant, other, root)
    rules.check_finished(text, variant.path)
    return Submission(text, variant, sources, other)


def _python_submission(
    entry: ProblemEntry, variant: Variant, also: Variant | None, root: Path
) -> tuple[str, tuple[Source, ...]]:
    bundle = bundle_python(root, variant.path, also.path if also else None)
    for path in (one.path for one in (variant, also) if one):
        table = table_path(path)
        if table in bundle.sources:
            check_table(root, table)
        elif (root / table).exists():
            raise GenerationError(f"{path}: does not use its tuning table {table}: import TUNING and DEFAULT from it")
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
    environment.filters["indented"] = indented
    text = environment.get_template(template).render(
        problem=entry.name, gpus=entry.gpus, version=VERSION, sources=sources, **values
    )
    return text.rstrip("\n") + "\n"
