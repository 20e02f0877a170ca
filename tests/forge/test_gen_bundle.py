"""The bundler: what it takes, in which order, under which names, and what it refuses."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge.generate.pysource import GenerationError
from forge.generate.render import Submission
from tests.support.toy_check import generated

Make = Callable[..., Submission]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Write sources (path: text) below a root of their own and generate from kernels/toy/plain.py."""

    def made(**files: str) -> Submission:
        def path(name: str) -> str:
            return f"{'lab' if name.startswith('hopper__') else 'kernels'}/{name.replace('__', '/')}.py"

        texts = {path(name): text for name, text in files.items()}
        return generated(tmp_path, texts, "plain", "sm_90" if "hopper__toy__plain" in files else None)

    return made


def executed(submission: Submission) -> dict[str, Any]:
    """The module that the file makes, run away from the sources."""
    names: dict[str, Any] = {"__name__": "submission"}
    exec(compile(submission.text, "submission.py", "exec"), names)
    return names


def refused(make: Make, **files: str) -> str:
    with pytest.raises(GenerationError) as error:
        make(**files)
    assert "\n" not in str(error.value)
    return str(error.value)


COMMON = '''"""Helpers."""
import math
import textwrap

# Chosen to be odd.
FACTOR = 3  # a prime


def unused():
    return textwrap.dedent("")


# Twice, then three times.
def six_times(x):
    """x -> 6x; é."""
    return FACTOR * double(x)  # the tail


def double(x):
    return 2 * x


def circle(x):
    return math.pi * x
'''


def test_takes_what_is_used_with_its_words_and_leaves_the_rest(make: Make) -> None:
    text = make(
        common__maths=COMMON,
        toy__plain="from kernels.common.maths import six_times\n\n\n"
        "def custom_kernel(data):\n    return six_times(data)\n",
    ).text
    assert '# Twice, then three times.\ndef six_times(x):\n    """x -> 6x; é."""\n' in text
    assert "    return FACTOR * double(x)  # the tail\n" in text
    assert "# Chosen to be odd.\nFACTOR = 3  # a prime\n" in text
    for absent in ("unused", "textwrap", "circle", "import math", "kernels.common.maths import"):
        assert absent not in text
    assert (
        text.index("FACTOR = 3") < text.index("def six_times") < text.index("def double") < text.index("custom_kernel(")
    )


@pytest.mark.parametrize(
    "variant",
    [
        "from kernels.common.maths import six_times\ndef custom_kernel(d): return six_times(d)",
        "from kernels.common.maths import six_times as f\ndef custom_kernel(d): return f(f(d)) // 6",
        "from ..common.maths import six_times as f\ndef custom_kernel(d): return f(d)",
        "from ..common import maths\ndef custom_kernel(d): return maths.six_times(d)",
        "from kernels.common import maths as m\ndef custom_kernel(d): ü = 'ü'; return m.six_times(d)",
        "import kernels.common.maths\ndef custom_kernel(d): return kernels.common.maths.six_times(d)",
        "import kernels.common.maths as m\ndef custom_kernel(d): return m.double(m.FACTOR * d)",
        "import kernels.common.again as a\ndef custom_kernel(d): return a.sixfold(d)",
        "from kernels.common.again import sixfold as s\ndef custom_kernel(d): return s(d)",
    ],
)
def test_every_way_to_import_comes_to_the_same(make: Make, variant: str) -> None:
    again = "from kernels.common.maths import six_times as sixfold\n"
    assert executed(make(common__maths=COMMON, common__again=again, toy__plain=variant))["custom_kernel"](7) == 42


def test_modules_stand_after_those_they_import_and_each_once(make: Make) -> None:
    submission = make(
        common__base="BASE = 1\n",
        common__left="from kernels.common.base import BASE\nLEFT = BASE + 1\n",
        common__right="from kernels.common.base import BASE\nRIGHT = BASE + 2\n",
        toy__plain="from kernels.common.right import RIGHT\nfrom kernels.common.left import LEFT\n"
        "BOTH = LEFT * RIGHT\n"
        "def custom_kernel(data):\n    return BOTH\n",
    )
    assert executed(submission)["custom_kernel"](None) == 6
    assert submission.text.count("BASE = 1") == 1
    assert [source.path for source in submission.sources] == [
        "kernels/common/base.py",
        "kernels/common/right.py",
        "kernels/common/left.py",
        "kernels/toy/plain.py",
    ]


def test_imports_are_merged_on_top(make: Make) -> None:
    text = make(
        common__a="from __future__ import annotations\nimport os\nfrom math import pi, tau\n"
        "def a(): return pi, os.sep\n",
        common__b="import os\nimport os.path\nfrom math import e, tau\ndef b(): return e, tau, os.path.sep\n",
        toy__plain="import os\nimport torch\nfrom kernels.common.a import a\nfrom kernels.common.b import b\n"
        "def custom_kernel(data): return a(), b(), torch, os\n",
    ).text
    lines = text.splitlines()
    imports = [line for line in lines if line.startswith(("import ", "from "))]
    assert imports == [
        "from __future__ import annotations",
        "import os",
        "import os.path",
        "from math import e, pi, tau",
        "import torch",
    ]
    body = ast.parse(text).body
    assert all(isinstance(node, ast.Import | ast.ImportFrom) for node in body[: len(imports)])


def test_two_spellings_of_one_import_are_one(make: Make) -> None:
    text = make(
        common__a="from os import path\ndef a(): return path\n",
        toy__plain="import os.path as path\nfrom kernels.common.a import a\ndef custom_kernel(d): return a(), path\n",
    ).text
    assert text.count("import ") == 1


def test_a_change_of_a_name_goes_with_the_name(make: Make) -> None:
    names = executed(
        make(
            common__t='TABLE = {}\nOTHER = {}\nTABLE["a"] = 1\nTABLE |= {"b": 2}\nOTHER["x"] = 9\n',
            toy__plain="from kernels.common.t import TABLE\ndef custom_kernel(d): return TABLE\n",
        )
    )
    assert names["custom_kernel"](None) == {"a": 1, "b": 2}
    assert "OTHER" not in names


def test_statements_that_only_act_are_kept(make: Make) -> None:
    names = executed(
        make(
            common__t="TABLE = {}\nTABLE.update(a=1)\nfor i in range(3):\n    TABLE[i] = i\n",
            toy__plain="from kernels.common.t import TABLE\ndef custom_kernel(d): return TABLE\n",
        )
    )
    assert names["custom_kernel"](None) == {"a": 1, 0: 0, 1: 1, 2: 2}


def test_the_main_block_is_dropped_and_comments_of_the_variant_are_kept(make: Make) -> None:
    text = make(
        toy__plain='#!/usr/bin/env python3\n"""About."""\n# Licence of this.\nimport math\n\n# A section.\n\n'
        "def custom_kernel(d):\n    return math.pi\n\n# Between.\n\nX = 1\n\n"
        "if __name__ == '__main__':\n    print(X)\n"
    ).text
    assert "__main__" not in text and "print" not in text
    for kept in ('"""About."""\n# Licence of this.\n', "# A section.\n", "# Between.\n", "X = 1\n"):
        assert kept in text
    assert ast.get_docstring(ast.parse(text)) == "About."


def test_a_string_that_ends_like_a_comment_is_no_comment(make: Make) -> None:
    names = executed(
        make(
            common__t='OTHER = """\n# not a comment"""\ndef f(x): return x\n',
            toy__plain="from kernels.common.t import f\ndef custom_kernel(d): return f(d)\n",
        )
    )
    assert names["custom_kernel"](3) == 3


def test_depends_on_the_sources_alone(make: Make, tmp_path: Path) -> None:
    files = {
        "common__maths": COMMON,
        "toy__plain": "from kernels.common.maths import six_times as f\ndef custom_kernel(d): return f(d)\n",
    }
    first, second = make(**files), make(**files)
    assert first.text == second.text
    assert str(tmp_path) not in first.text
    changed = make(**{**files, "common__maths": COMMON + "# one more\n"})
    assert changed.sources[0].sha256 != first.sources[0].sha256
    assert changed.sources[0].sha256[:16] in changed.text


CLASHES = [  # variant, the second place
    (
        "from kernels.common.a import f\nfrom kernels.common.b import g\ndef custom_kernel(d): f(g(d))",
        "kernels/common/b.py:4",
    ),
    ("from kernels.common.a import f\ndef helper(): pass\ndef custom_kernel(d): return f(d)", "kernels/toy/plain.py:2"),
    (
        "from kernels.common.a import f\nimport math as helper\ndef custom_kernel(d): return f(helper)",
        "kernels/toy/plain.py:2",
    ),
]


@pytest.mark.parametrize(("variant", "second"), CLASHES)
def test_a_name_with_two_meanings_is_refused_with_both_places(make: Make, variant: str, second: str) -> None:
    message = refused(
        make,
        common__a="def helper(): return 1\n\ndef f(x): return helper()\n",
        common__b="def g(x): return helper()\n\n\ndef helper(): return 2\n",
        toy__plain=variant,
    )
    assert "'helper'" in message
    assert "kernels/common/a.py:1" in message and second in message


def test_a_python_builtin_of_one_file_is_not_taken_over_by_another(make: Make) -> None:
    message = refused(
        make,
        common__a="def max(a, b): return 0\n",
        toy__plain="from kernels.common.a import max as m\ndef custom_kernel(d): return m(d, max(d))\n",
    )
    assert message.startswith("kernels/common/a.py:1:") and "'max'" in message and "kernels/toy/plain.py:2" in message


@pytest.mark.parametrize(
    ("variant", "place", "words"),
    [
        ("from kernels.other.x import y\n", 1, "kernels.common"),
        ("from lab.hopper.other.x import y\n", 1, "from its own folder (kernels.toy) only"),
        ("import math\nimport forge.rules\n", 2, "leaderboard"),
        ("from kernels.common.b_gfx950 import y\n", 1, "kernels/common/b_gfx950.py is for gfx950"),
        ("from lab.hopper.common.c import y\n", 1, "lab/hopper/common/c.py is for sm_90, while this file is for"),
        ("from kernels.common.absent import y\n", 1, "kernels/common/absent.py does not exist"),
        ("from kernels.common.a import nothing\ndef custom_kernel(d): return nothing\n", 1, "defines no 'nothing'"),
        ("from kernels.common.a import f, nothing\ndef custom_kernel(d): return f(d)\n", 1, "defines no 'nothing'"),
        ("from kernels.common import a\ndef custom_kernel(d): return a.nothing\n", 2, "defines no 'nothing'"),
        ("from kernels.common import a\ndef custom_kernel(d): return a\n", 2, "as a whole"),
        ("from kernels.common.a import *\n", 1, "import *"),
        ("from math import (\n    pi,\n    *\n)\n", 3, "not valid Python"),
        ("X = 1\nimport math\n", 2, "imports stand at the top"),
        ("def custom_kernel(d):\n    from kernels.common.a import f\n", 2, "at the top of a file"),
        ("def custom_kernel(d):\n    import lab.hopper.common.c\n", 2, "at the top of a file"),
        ("from ....x import y\n", 1, "leaves the repository"),
        ("def custom_kernel(d:\n", 1, "not valid Python"),
        (
            "import kernels.common.a as a\ndef custom_kernel(d):\n    f = 1\n    return a.f(f)\n",
            4,
            "uses for something else",
        ),
        ("import kernels.common.a as a\ndef custom_kernel(d):\n    return (a.\n     f)(d)\n", 3, "over several lines"),
        ("# the stream\ndef custom_kernel(d): pass\n", 1, "stream"),
    ],
)
def test_refusals_name_the_place(make: Make, variant: str, place: int, words: str) -> None:
    others = dict.fromkeys(("other__x", "common__b_gfx950", "hopper__other__x", "hopper__common__c"), "y = 1\n")
    message = refused(make, common__a="def f(x): return x\n", **others, toy__plain=variant)
    assert message.startswith(f"kernels/toy/plain.py:{place}: "), message
    assert words in message


def test_a_circle_of_imports_is_refused(make: Make) -> None:
    message = refused(
        make,
        common__a="from kernels.common.b import b\na = 1\n",
        common__b="from kernels.common.a import a\nb = 1\n",
        toy__plain="from kernels.common.a import a\ndef custom_kernel(d): return a\n",
    )
    assert "kernels/common/a.py -> kernels/common/b.py -> kernels/common/a.py" in message


def test_not_utf8_and_no_custom_kernel(make: Make, tmp_path: Path) -> None:
    assert "defines no custom_kernel" in refused(make, toy__plain="def kernel(d): return d\n")
    (tmp_path / "kernels/toy/plain.py").write_bytes(b"# \xff\ndef custom_kernel(d): return d\n")
    assert "not UTF-8" in refused(make)


# ------------------------------------------------------------ a problem's own folder, and files for one GPU


def test_a_variant_takes_from_its_own_folder(make: Make) -> None:
    submission = make(
        toy__parts="HALF = 21\n\n\ndef twice(x):\n    return 2 * x\n",
        toy__plain_gfx942="from kernels.toy.parts import HALF, twice\n\n\n"
        "def custom_kernel(data):\n    return twice(HALF)\n",
    )
    assert executed(submission)["custom_kernel"](None) == 42
    assert submission.variant.path == "kernels/toy/plain_gfx942.py"  # parts.py is none, for another file takes it in


BOTH = {
    "common__maths": COMMON,
    "hopper__common__loads": "import fractions as f\n\n\ndef load(x):\n    return f.Fraction(x)\n",
    "toy__parts": "from kernels.common.maths import double\n\n\ndef both(x):\n    return double(x)\n",
    "toy__plain_gfx942": '''"""For AMD."""

from kernels.toy.parts import both

# How many.
COUNT = 1
TEXT = r"""
  a
b"""


def load(x):
    """Not
that of the other."""
    return x


def custom_kernel(data):
    return "amd", both(load(data)), COUNT, TEXT
''',
    "hopper__toy__plain": '''"""For the other."""

from kernels.common.maths import six_times
from lab.hopper.common.loads import load
from kernels.toy.parts import both

COUNT = 2


def custom_kernel(data):
    return "other", both(load(data)), six_times(COUNT)
''',
}


def test_a_file_for_two_gpus_has_each_names_in_a_branch(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What both use stands once, above; one name may mean two things, one in each; and strings keep their text."""
    import torch

    submission = make(**BOTH)
    text = submission.text
    top, amd, other = (
        text.partition("if torch.version.hip:")[0],
        text.partition("else:\n")[0],
        text.partition("else:\n")[2],
    )
    for shared in ("def both(x):", "def double(x):", "def six_times(x):"):
        assert shared in top and text.count(shared) == 1
    assert "import fractions as f" in other and "import fractions" not in amd
    assert "\n    # For the other.\n" in other and "\n    # How many.\n    COUNT = 1\n" in amd
    assert ast.get_docstring(ast.parse(text)) == "For AMD."
    monkeypatch.setattr(torch.version, "hip", "7.0")
    assert executed(submission)["custom_kernel"](4) == ("amd", 8, 1, "\n  a\nb")
    monkeypatch.setattr(torch.version, "hip", None)
    assert executed(submission)["custom_kernel"](4) == ("other", 8, 12)
    assert [source.path for source in submission.sources] == [
        "kernels/common/maths.py",
        "kernels/toy/parts.py",
        "kernels/toy/plain_gfx942.py",
        "lab/hopper/common/loads.py",
        "lab/hopper/toy/plain.py",
    ]
    assert submission.text == make(**BOTH).text


def test_a_name_of_both_may_not_be_a_name_of_one(make: Make) -> None:
    clash = BOTH["hopper__toy__plain"] + "\n\ndef double(x):\n    return x\n"
    message = refused(make, **{**BOTH, "hopper__toy__plain": clash})
    assert message.startswith("lab/hopper/toy/plain.py:") and "kernels/common/maths.py" in message
