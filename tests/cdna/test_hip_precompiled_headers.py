"""What sources begin with is parsed once, and that changes neither what is compiled nor what is said of it."""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cdna.errors import CompileError
from cdna.hip.compile.precompiled_headers import Given, PrecompiledHeaders, includes_of
from cdna.hip.compile.source import HipSource
from cdna.hip.compile.toolchain import find

RUNTIME = "#include <hip/hip_runtime.h>\n"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "text, names",
    [
        (RUNTIME + "#include <vector>\n", ["hip/hip_runtime.h"]),
        ('// #define A\n/* #include "b.h" *//* **/\n\n# include <new>  // c\n' + RUNTIME, ["new", "hip/hip_runtime.h"]),
        (
            "#include <hip/hip_fp16.h>\n#include <stdio.h>\n" + RUNTIME,
            ["hip/hip_fp16.h", "stdio.h", "hip/hip_runtime.h"],
        ),
        ("#include <vector>\n", []),
        ("#define A\n" + RUNTIME, []),
        ("#pragma clang fp contract(off)\n" + RUNTIME, []),
        ("int a;\n" + RUNTIME, []),
        ("/* a */ int a; /* b */\n" + RUNTIME, []),
        ("// a \\\n" + RUNTIME, []),
        ("/* " + RUNTIME + "*/\n", []),
        ('#include "plain.h"\n' + RUNTIME, []),
        ('#include "absent.h"\n' + RUNTIME, []),
        ('#include "hip/hip_runtime.h"\n', ["hip/hip_runtime.h"]),
        ('#include "vector"\n' + RUNTIME, []),
        ('#include "round.h"\n' + RUNTIME, []),
        ('#pragma once\n#include <new>\n#include "deep.h"\n', ["new", "vector", "hip/hip_runtime.h"]),
        ("#include <own/list.h>\n" + RUNTIME, []),
        ("#include <hip/hip_runtime.h> \\\n", []),
    ],
)
def test_the_includes_that_a_source_begins_with(tmp_path: Path, text: str, names: list[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "vector").write_text("")
    (tmp_path / "plain.h").write_text("#include <vector>\n")
    (tmp_path / "deep.h").write_text('#pragma once\n#include <vector>\n#include "in/deep.h"\n')
    (tmp_path / "in/deep.h").write_text("// of the folder in\n#pragma once\n" + RUNTIME)
    (tmp_path / "round.h").write_text('#include "round.h"\n' + RUNTIME)
    source = tmp_path / "mine.hip"
    source.write_text(text)
    assert includes_of(source) == names


@pytest.mark.parametrize(
    "flags, kept, clear",
    [
        (
            ["-std=c++20", "-g", "-Wall", "-mllvm", "-x", "-DA=1", "-I.", "-ffast-math"],
            ["-std=c++20", "-ffast-math"],
            True,
        ),
        (["-O1", "-O3"], [], True),
        (["-O3", "-O1"], ["-O3", "-O1"], True),
        (["-include", "stdio.h", "-isystem", "/a"], ["-include", "stdio.h"], True),
        (["-include", "own.h"], ["-include", "own.h"], False),
        (["-isystem", "a", "-idirafter", "/b"], [], True),
        (["-Xclang", "-include-pch", "-Xclang", "a"], ["-Xclang", "-include-pch", "-Xclang", "a"], False),
    ],
)
def test_flags_with_which_headers_are_parsed_anew(flags: list[str], kept: list[str], clear: bool) -> None:
    given = Given(flags, ["-O3"], "/")
    assert (given.kept, given.clear) == (kept, clear)


class Compiler:
    """Stands for one: its sources include header.h, which holds `text`."""

    def __init__(self, folder: Path, text: str, refuses: bool = False) -> None:
        self.header, self.refuses, self.parsed = folder / "header.h", refuses, 0
        self.header.write_text(text)
        self.source = folder / "source.hip"
        self.source.write_text(RUNTIME)

    def __call__(self, flags: Sequence[str], source: Path, output: Path) -> list[Path]:
        if "-E" not in flags:
            self.parsed += 1
            if self.refuses:
                raise CompileError("no")
        output.write_text(" ".join(flags))
        return [self.header]

    def ahead(self, *user: str) -> bool:
        """Whether a source of these flags gets a precompiled header."""
        return bool(PrecompiledHeaders("", self).flags(self.source, ["-O3"], user, str(self.source.parent)))


def test_the_second_source_has_the_header_made(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path, "")
    assert [compiler.ahead() for _ in range(3)] == [False, True, True] and compiler.parsed == 1
    compiler.header.write_text("int a;")
    assert compiler.ahead() and compiler.parsed == 2
    assert [compiler.ahead("-std=c++20") for _ in range(2)] == [False, True]


def test_a_header_is_made_by_one_thread(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path, "")
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: compiler.ahead(), range(16))) == 15
    assert compiler.parsed == 1


def test_a_refused_header_is_not_asked_for_again(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path, "", refuses=True)
    assert not any(compiler.ahead() for _ in range(4)) and compiler.parsed == 1


def test_a_header_is_parsed_anew_for_macros_that_it_may_mean(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path, "#ifdef DEEP\nint x = WIDE;\n#endif\n")
    assert [compiler.ahead("-DTILE=1"), compiler.ahead("-DTILE=2", "-U", "OTHER")] == [False, True]
    assert [compiler.ahead("-DDEEP=TILE", "-DTILE=3") for _ in range(2)] == [True, True] and compiler.parsed == 2
    assert compiler.ahead("-DDEEP=TILE", "-DTILE=4") and compiler.parsed == 3, "by way of the first"
    assert compiler.ahead("-UWIDE") and compiler.parsed == 4


def test_a_folder_with_a_file_that_a_header_includes_is_looked_in(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path, "#include <detail/a.h>\n")
    (tmp_path / "own/detail").mkdir(parents=True)
    assert [compiler.ahead("-Iown"), compiler.ahead("-Iown")] == [False, True]
    (tmp_path / "own/detail/a.h").write_text("")
    assert not compiler.ahead("-Iown") and not compiler.ahead("-iquote", "own") and compiler.ahead("-I.")
    assert not compiler.ahead("-isystem", "own") and not compiler.ahead("-idirafter", "own")
    (tmp_path / "own/stdio.h").write_text("")
    assert compiler.ahead("-isystem", "own/detail") and [
        compiler.ahead("-include", "stdio.h", "-isystem", folder) for folder in ("own/detail", "own", ".")
    ] == [False, False, True]


def test_what_is_compiled_and_said_stays_the_same(tmp_path: Path, compiler_calls: list[list[str]]) -> None:
    def ahead() -> list[bool]:
        return [
            "-include-pch" in call
            for call in compiler_calls
            if "-E" not in call and "-emit-pch" not in call and "--cuda-device-only" in call
        ]

    source = tmp_path / "mine.hip"

    def compiled(text: str, *flags: str) -> str:
        source.write_text(RUNTIME + text)
        return re.sub(r"__hip_cuid_\w+", "", find().assembly(HipSource(source, "gfx942", flags)))

    kernel = "__global__ void k(float* x) { assert(x); x[threadIdx.x] = sinf(*x) / TILE + __builtin_popcount(MINE); }\n"
    plain = compiled("#include <cassert>\n#define TILE 3\n" + kernel, "-DMINE=5")
    compiled("", "-DMINE=4")
    assert compiled("#include <cassert>\n#define TILE 3\n" + kernel, "-DMINE=5", "-Wall") == plain
    assert ahead() == [False, True, True]
    with pytest.raises(CompileError) as error:
        compiled("\n__global__ void k() { none(); }", "-DMINE=5")
    assert f"{source}:3:23: error: use of undeclared identifier 'none'" in str(error.value)
    assert ahead() == [False, True, True, True, False]
    with pytest.raises(CompileError, match="mine.hip:2"):
        compiled('#error "after " MINE', "-DMINE=5")
