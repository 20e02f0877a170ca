"""HIP variants: local includes become one source whose messages name our files; a host side builds it."""

import ast
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from forge.generate.pysource import GenerationError
from forge.generate.render import Submission
from tests.support.toy_check import generated

KERNEL = """#include <hip/hip_runtime.h>
#include "shapes.h"  // shared
# include "tiles.h"
/*
#include "never.h"
*/
// #include "never.h"
#include "shapes.h"

__global__ void scale(float* x) { x[threadIdx.x] *= FACTOR * '\\n'; }

torch::Tensor custom_kernel(torch::Tensor x,
                            torch::Tensor y) {
    return x;
}
"""
SHAPES = "#pragma once\n#define SIZE 64\n"
TILES = (
    '#ifndef TILES_H\n#define TILES_H\n#include "shapes.h"\n'
    "#if SIZE > 1\n#define FACTOR 2\n#endif\n#endif  // TILES_H\n"
)

Make = Callable[..., Submission]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(kernel: str = KERNEL, shapes: str = SHAPES, tiles: str = TILES) -> Submission:
        texts = {"toy/hip.hip": kernel, "common/shapes.h": shapes, "toy/tiles.h": tiles}
        return generated(tmp_path, {f"kernels/{name}": text for name, text in texts.items()})

    return made


def literal(submission: Submission, name: str) -> str:
    for node in ast.parse(submission.text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return str(ast.literal_eval(node.value))
    raise AssertionError(f"no {name} in\n{submission.text}")


def test_includes_are_taken_in_once_between_line_directives(make: Make) -> None:
    source = literal(make(), "HIP_SOURCE")
    assert source.count("#define SIZE 64") == source.count("#define FACTOR 2") == 1
    assert '#include "shapes.h"' not in source and '#include "tiles.h"' not in source
    assert source.count('#include "never.h"') == 2  # in comments, where nobody takes them in
    assert "#include <hip/hip_runtime.h>" in source
    assert "TILES_H" not in source.replace("#endif  // TILES_H", "") and "#pragma once" not in source


def test_the_compiler_names_our_files_and_lines(make: Make, tmp_path: Path) -> None:
    """The preprocessor's own idea of file and line, for every line of the flattened source."""
    source = literal(make(), "HIP_SOURCE").replace("#include <hip/hip_runtime.h>", "")
    done = subprocess.run(["g++", "-E", "-xc++", "-"], input=source, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no g++ to preprocess with: {done.stderr}")
    at, line = "", 0
    for text in done.stdout.splitlines():
        if text.startswith("# "):
            line, at = int(text.split()[1]), text.split()[2].strip('"')
            continue
        if text.strip():
            original = (tmp_path / at).read_text().splitlines()[line - 1]
            assert original.replace("FACTOR", "2").split() == text.split(), f"{at}:{line}"
        line += 1


def test_host_side(make: Make) -> None:
    submission = make()
    assert literal(submission, "HIP_DECLARATION") == ("torch::Tensor custom_kernel(torch::Tensor x, torch::Tensor y);")
    for part in ('"--offload-arch=gfx942"', 'functions=["custom_kernel"]', "verbose=True", "*data"):
        assert part in submission.text
    assert [s.path for s in submission.sources] == [
        "kernels/toy/hip.hip",
        "kernels/common/shapes.h",
        "kernels/toy/tiles.h",
    ]
    assert submission.text == make().text


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ('"tiles.h"', '"absent.h"', "kernels/toy/hip.hip:3: ", "no such file in kernels/toy/ or kernels/common/"),
        ('# include "tiles.h"', '#if 1\n#include "tiles.h"\n#endif', "kernels/toy/hip.hip:4: ", "inside an #if"),
        ("// shared", "// stream", "kernels/toy/hip.hip:2: ", "stream"),
        ("torch::Tensor custom_kernel", "void custom_kernel", "kernels/toy/hip.hip: ", "defines no host function"),
        ("return x", 'return """\'\'\'"""', "kernels/toy/hip.hip: ", "no Python text can hold"),
    ],
)
def test_refusals_name_the_place(make: Make, old: str, new: str, place: str, words: str) -> None:
    assert old in KERNEL
    with pytest.raises(GenerationError) as error:
        make(kernel=KERNEL.replace(old, new))
    assert str(error.value).startswith(place) and words in str(error.value)


def test_rules_name_the_included_file(make: Make) -> None:
    with pytest.raises(GenerationError, match=r"^kernels/toy/tiles\.h:5: 'STREAM'"):
        make(tiles=TILES.replace("FACTOR 2", "STREAM 2"))
