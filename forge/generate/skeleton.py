"""gen_submission.py --new: a file that runs and passes, to begin from. Not a variant: one file, which is yours.

What is right about it is the problem's own definition in torch, taken from reference.py; a kernel in Triton or HIP
copies its result, so that compiling, launching and judging are seen to work before anything is written.
"""

import textwrap

import jinja2

from forge.generate.pysource import GenerationError, Module, Statement, load_module
from forge.generate.submission import refusals
from forge.task.problem import ROOT, Problem

LANGUAGES = ("triton", "hip")
ENTRY = "ref_kernel"


def skeleton(problem: Problem, language: str, arch: str, gpus: tuple[str, ...], description: str) -> str:
    """description: the task.yml's words on what a kernel is given and returns."""
    if language not in LANGUAGES:
        raise GenerationError(f"--new --variant {language}: {' or '.join(LANGUAGES)}")
    reference = problem.source_of("reference.py")
    if reference is None:
        raise GenerationError(f"{problem.directory}: names no reference.py to begin from")
    module = load_module(reference.parent, reference.name)
    taken = needed(module, ENTRY)
    if not taken:
        raise GenerationError(f"{reference}: defines no {ENTRY}, which --new begins with")
    used = set().union(*(statement.uses for statement in taken))
    own = {"import torch", "import triton", "import triton.language as tl"}
    imports = sorted({one.statement for one in module.imports if one.bound in used} - own)
    lines = module.text.split("\n")
    text = _template().render(
        problem=problem.name,
        gpus=gpus,
        arch=arch,
        language=language,
        description=textwrap.dedent(description).strip().replace("\\", "\\\\").replace('"""', "'''"),
        imports=imports,
        definitions=["\n".join(lines[one.comment_line - 1 : one.last_line]) for one in taken],
        future=sorted(module.future),
    )
    if broken := refusals(text.encode()):
        raise GenerationError(f"{reference}: what --new takes from it would be refused: {broken[0]}")
    return text.rstrip("\n") + "\n"


def needed(module: Module, name: str) -> list[Statement]:
    """The statements that define a name and all that they use, in the file's order."""
    found: list[Statement] = []
    names = [name]
    while names:
        for statement in module.bindings(names.pop()):
            if statement not in found:
                found.append(statement)
                names += statement.uses
    return sorted(found, key=lambda statement: statement.first_line)


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROOT / "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )
    return environment.get_template("skeleton.py.jinja")
