"""What sources begin with, parsed once: headers take nine tenths of a small source's compilation.

A source's beginning is what the compiler is told to include before it, and then its own first lines, or those of a
header beside it, as long as they are includes of such headers, up to hip/hip_runtime.h. A precompiled header of exactly
that changes nothing but the time: the source includes the same again, and these headers guard themselves. It serves
every source that begins so, compiled with the same flags but for macros whose names occur nowhere in those headers, and
for folders that hold none of the files that they include. The first such source is compiled as it is; the second one
has the header made.
"""

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ...errors import CompileError
from .results import Results, digest_of, results_folder, stored

# Headers that may be included twice: of the C and C++ libraries, and HIP's.
_GUARDED = re.compile(r"hip/\w+\.h|[a-z_]+|(?:assert|ctype|errno|float|inttypes|limits|math|std\w+|string|time)\.h")
_FIRST_LINE = re.compile(
    r"(?:\s|//[^\n\\]*(?=\n)|/\*(?:[^*]|\*(?!/))*\*/|^#pragma once(?=\n))*"
    r"^[ \t]*#[ \t]*include[ \t]*([<\"])([\w./-]+)[>\"][ \t]*(?=\n|//[^\n\\]*\n)",
    re.MULTILINE,
)
_RUNTIME = "hip/hip_runtime.h"
_SEEN, _REFUSED = "seen", "refused"  # what is known of a header
_WORD = re.compile(r"[A-Za-z_]\w*")
_INCLUDED = re.compile(r'^[ \t]*#.*?[<"]([\w./+-]+)[>"]', re.MULTILINE)
# They lead the compiler to headers as -I does.
_PATH_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")

# Flags that change neither what a header means nor what the compiler demands of a precompiled one. (Host code is
# compiled with -fPIC anyway.)
_HARMLESS = re.compile(
    r"-g\w*|-W.*|-w|-v|-l.*|-fPIC|-fno-gpu-rdc|-munsafe-fp-atomics|-f(no-)?unroll-loops|"
    r"-f(no-)?inline-functions|-f(no-)?omit-frame-pointer|"
    r"-f(no-)?slp-vectorize|-fgpu-inline-threshold=.*|-ftemplate-backtrace-limit=.*|-Rpass.*"
)
_TAKES_NEXT = ("-mllvm", "-I", "-isystem", "-iquote", "-idirafter", "-D", "-U", "-include", "-Xclang", "-x")


def options(flags: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """A user's compiler flags, each with its value where that is another word or follows -I, -D or -U."""
    words = iter(flags)
    for word in words:
        if word in _TAKES_NEXT:
            yield word, next(words, "")
        elif word[:2] in ("-I", "-D", "-U"):
            yield word[:2], word[2:]
        else:
            yield (word,)


def is_harmless(option: tuple[str, ...]) -> bool:
    """Whether one of `options` changes neither what a header means nor what a precompiled one must be made with."""
    return option[0] == "-mllvm" or bool(_HARMLESS.fullmatch(option[0]))


def relevant(flags: Sequence[str]) -> list[str]:
    """Those of a user's flags with which a library's header has to be parsed anew.

    Macros and folders are meant for the user's own headers; -O3 is the default of device code.
    """
    harmless = ("-O3", "-I", "-D", "-isystem", "-iquote", "-idirafter", "-include")
    return [
        word for option in options(flags) if not is_harmless(option) and option[0] not in harmless for word in option
    ]


def includes_of(source: Path, above: tuple[Path, ...] = ()) -> list[str]:
    """The headers with which a source begins, up to hip/hip_runtime.h; none if it begins otherwise.

    A header of the user's beside the source may be what begins with them. above: what included the source.
    """
    names: list[str] = []
    text, place = source.read_text(errors="replace"), 0
    while found := _FIRST_LINE.match(text, place):
        quoted, name = found.groups()
        beside = source.parent / name
        if quoted == '"' and beside.is_file():
            rest = [] if beside in above else includes_of(beside, (*above, source))
            return names + rest if rest else []
        if not _GUARDED.fullmatch(name):
            break
        names.append(name)
        if name == _RUNTIME:
            return names
        place = found.end()
    return []


class Given:
    """A user's compiler flags, sorted by what they mean to headers."""

    def __init__(self, flags: Sequence[str], own: Sequence[str], folder: str) -> None:
        self.kept: list[str] = []  # with which a header must be parsed
        self.macros: list[tuple[str, str]] = []  # -D or -U, and what follows it
        self.folders: list[Path] = []  # looked in besides the library's
        self.clear = True  # whether the rest is as said
        levels = [flag for flag in flags if flag.startswith("-O")]  # the last one counts
        for option in options(flags):
            match option:
                case (level,) if level in levels and levels[-1] in own:
                    pass
                case ("-D" | "-U" as kind, text):
                    self.macros.append((kind, text))
                case ("-I" | "-iquote" | "-isystem" | "-idirafter", path):
                    self.folders.append(Path(folder, path))
                case _ if not is_harmless(option):
                    self.kept += option
                    included = option[0] == "-include"
                    self.clear &= bool(_GUARDED.fullmatch(option[-1])) if included else "-pch" not in option[-1]


class PrecompiledHeaders:
    """One compiler's precompiled headers. compiled(flags, source, output): compiles; the files that were read."""

    def __init__(self, identity: str, compiled: Callable[[list[str], Path, Path], list[Path]]) -> None:
        self.identity = digest_of(identity, *(os.environ.get(name, "") for name in _PATH_VARIABLES))
        self.compiled = compiled

    def flags(self, source: Path, own: Sequence[str], user: Sequence[str], folder: str) -> list[str]:
        """Compiler flags that give the beginning of a source at once; none if it is to be compiled as it is.

        own: flags that all sources get; user: the user's, with paths relative to `folder`.
        """
        given = Given(user, own, folder)
        if not given.clear:
            return []
        names = includes_of(source)
        header = stored("".join(f"#include <{name}>\n" for name in names).encode(), ".hip")
        flags = [*own, *given.kept]
        with self._turn(header, flags) as known:
            if known == _SEEN and (macros := self._macros(header, flags, given)) is not None:
                if not macros:
                    return self._included(header, flags)
                return self.named(header, [*flags, *macros])
        return []

    @contextlib.contextmanager
    def _turn(self, header: Path, flags: Sequence[str]) -> Iterator[str]:
        """What is known of a header: "", _SEEN by an earlier source, or _REFUSED; held by one process at a time."""
        with open(results_folder() / f"{digest_of(self.identity, *flags, str(header))}.header", "a+") as state:
            fcntl.flock(state, fcntl.LOCK_EX)  # released by the system if this process is killed
            state.seek(0)
            known = state.read()
            try:
                yield known
                if not known:
                    state.write(_SEEN)
            except CompileError:
                state.truncate(0)
                state.write(_REFUSED)

    def _macros(self, header: Path, flags: Sequence[str], given: Given) -> list[str] | None:
        """Those of the user's macros that the header may mean; None where a folder may hold one of its files."""
        macros: list[str] = []
        while given.macros or given.folders:
            words, included = self._vocabulary(header, [*flags, *macros])
            included += [name for told, name in zip(given.kept, given.kept[1:]) if told == "-include"]
            if any((folder / name).exists() for folder in given.folders for name in included):
                return None
            words.update(*map(_WORD.findall, macros))
            meant = [kind + text for kind, text in given.macros if not words.isdisjoint(_WORD.findall(text)[:1])]
            if meant == macros:
                break
            macros = meant
        return macros

    def named(self, header: Path, flags: Sequence[str]) -> list[str]:
        """Compiler flags that give a header at once; none where it cannot be parsed with these flags.

        The first source has it made, and those that ask meanwhile wait for it.
        """
        with self._turn(header, flags) as known:
            return [] if known == _REFUSED else self._included(header, flags)
        return []  # it has just been refused

    def _included(self, header: Path, flags: Sequence[str]) -> list[str]:
        return ["-Xclang", "-include-pch", "-Xclang", str(self._parsed(header, flags))]

    def _parsed(self, header: Path, flags: Sequence[str]) -> Path:
        """A precompiled header. Templates are instantiated once, here."""
        command = [
            *flags,
            "-S",
            "-Xclang",
            "-emit-pch",
            "-Xclang",
            "-fpch-instantiate-templates",
            "-Xclang",
            "-fno-pch-timestamp",
        ]  # its name tells what it was made of; a fresh checkout is no change
        return Results(digest_of(self.identity, *command, str(header)), ".pch").get(
            lambda output: self.compiled(command, header, output)
        )

    def _vocabulary(self, header: Path, flags: Sequence[str]) -> tuple[set[str], list[str]]:
        """The words of all files that a header includes, and the names by which these include others."""

        def build(output: Path) -> Iterable[Path]:
            files = self.compiled([*flags, "-E"], header, output)
            text = "\n".join(file.read_text(errors="replace") for file in files)
            output.write_text(json.dumps([sorted({*_WORD.findall(text)}), sorted({*_INCLUDED.findall(text)})]))
            return files

        result = Results(digest_of(self.identity, *flags, str(header)), ".words").get(build)
        words, included = json.loads(result.read_text())
        return set(words), included
