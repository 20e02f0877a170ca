"""`python -m cdna check`: waits and hazards of all kernels of files, on every path. Nothing is launched."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import msgspec

from ..binary.all_paths import KernelPaths, look_at
from ..binary.asm import AsmFile, parse
from ..binary.elf import is_code_object, read
from ..binary.statements import statements_of
from ..checks import VARIABLE
from ..errors import CdnaError, UnsupportedInstruction
from ..hip.compile.source import HipSource
from ..hip.compile.toolchain import find
from ..observe.records import findings
from ..sarif import sarif, write
from .report import assembly_of

PROVEN, NAMED, UNDECIDED = 0, 1, 3  # exit codes: docs/exit-codes.md


def check(arguments: argparse.Namespace, source_of: Callable[[Any, Path], HipSource], out: TextIO) -> int:
    """Print what is said of each kernel, write the files that were asked for; the exit code."""
    looked: dict[str, list[KernelPaths]] = {}
    missed: dict[str, list[str]] = {}
    for file in arguments.files:
        name = str(file)
        programs, why = _programs(source_of(arguments, file), arguments)
        looked[name] = [kernel for asm in programs for kernel in look_at(asm, arguments.steps)]
        missed[name] = [f"the script ended before its end, and what it would launch then: {why}"] if why else []
        if not looked[name]:
            told = "; ".join(missed[name]) or "no kernel in it"
            raise CdnaError(f"{file}: {told}; of a leaderboard's submission: gen_submission.py PROBLEM --check-file")
    code = _print(looked, missed, out)
    for option, path, document in (
        ("--json", arguments.json, _document(looked, missed, code)),
        ("--sarif", arguments.sarif, _sarif(looked, missed)),
    ):
        if path is not None:
            try:
                path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            except OSError as error:
                raise CdnaError(f"{option} {path}: {error.strerror}") from None
    return code


def _programs(source: HipSource, arguments: argparse.Namespace) -> tuple[list[AsmFile], str]:
    """The programs in a file, and why there may be more."""
    file = source.path
    if not file.is_file():
        raise CdnaError(f"{file}: no such file")
    if file.suffix == ".py":
        from ..triton.compile_only import compiled_by

        return compiled_by(file, source.arch)
    try:
        if is_code_object(file):
            return [statements_of(read(file.read_bytes(), arguments.arch))], ""
        _, text = assembly_of(source)
        try:
            return [parse(text)], ""
        except UnsupportedInstruction:  # inline assembly that takes an assembler
            if file.suffix == ".s":
                raise
            return [statements_of(read(find().code_object(source)))], ""
    except CdnaError as error:
        raise CdnaError(str(error) if str(error).startswith(str(file)) else f"{file}: {error}") from None


def _print(looked: dict[str, list[KernelPaths]], missed: dict[str, list[str]], out: TextIO) -> int:
    kernels = [kernel for of_file in looked.values() for kernel in of_file]
    for kernel in kernels:
        print("\n".join(kernel.lines()), file=out)
    for file, texts in missed.items():
        for text in texts:
            print(f"cdna: {file}: not looked at: {text}", file=sys.stderr)
    verdicts = [kernel.verdict for kernel in kernels]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in ("proven", "named", "undecided"))
    print(f"{len(kernels)} kernels: {counts}", file=out)
    if "named" in verdicts:
        return NAMED
    return UNDECIDED if "undecided" in verdicts or any(missed.values()) else PROVEN


def _document(looked: dict[str, list[KernelPaths]], missed: dict[str, list[str]], code: int) -> dict[str, Any]:
    kernels = [
        {"file": file, "verdict": kernel.verdict, **msgspec.to_builtins(kernel)}
        for file, of_file in looked.items()
        for kernel in of_file
    ]
    return {"schema": 1, "command": "cdna check", "exit_code": code, "kernels": kernels, "not_looked_at": missed}


def _sarif(looked: dict[str, list[KernelPaths]], missed: dict[str, list[str]]) -> dict[str, Any]:
    findings = {id(one): (file, one) for file, of in looked.items() for kernel in of for one in kernel.findings}
    notes = {file: list(texts) for file, texts in missed.items()}
    for file, of in looked.items():
        for kernel in of:
            notes[file] += [f"{kernel.kernel}: {why}: {len(at)} times" for why, at in kernel.undecided.items()]
    return sarif(findings.values(), notes)


def seen_to(path: Path, file: str) -> Callable[[], int]:
    """For the end of a program that runs in this process: writes what checks have found; 1 if that fails it."""
    try:
        write(path, (), {file: ["the program did not come to its end"]})
    except OSError as error:
        raise CdnaError(f"--sarif {path}: {error.strerror}") from None

    def at_end() -> int:
        found = findings()
        write(path, ((file, one) for one in found))
        return int(bool(found) and not os.environ.get(VARIABLE, "").startswith("report:"))

    return at_end
