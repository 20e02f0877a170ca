"""The leaderboard's rules and the tuning table's form: what is refused, and that the source line is named."""

from pathlib import Path

import pytest

from forge.generate import rules
from forge.generate.pysource import Chunk, GenerationError
from forge.generate.tuning import check_table


@pytest.mark.parametrize(
    "line",
    [
        "# on the current stream",
        "hipStream_t queue;",
        'x = "UPSTREAM"',
        "torch.cuda.current_stream()",
        'os.system("pip install aiter")',
        'subprocess.run(["pip", "install", "aiter"])',
        'subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "x"])',
        "os.system('pip3  install x')",
        "import pip._internal",
        'os.system("apt-get install -y rocm")',
        "#!POPCORN gpu MI300",
        "  //!POPCORN leaderboard other",
    ],
)
def test_lines_that_the_leaderboard_refuses(line: str) -> None:
    found = rules.broken_text_rules([Chunk("kernels/toy/a.py", 10, f"x = 1\n{line}\ny = 2")])
    assert len(found) == 1 and found[0].startswith("kernels/toy/a.py:11: "), found


@pytest.mark.parametrize(
    "line",
    [
        "# the main queue",
        "pipeline = install_handlers",
        "# pip is not used",
        "installed = 1",
        "#!/usr/bin/env python3",
        "# !POPCORN",
        "strea = m",
    ],
)
def test_lines_that_it_takes(line: str) -> None:
    assert rules.broken_text_rules([Chunk("a.py", 1, line)]) == []


def test_every_broken_line_is_named_once() -> None:
    chunk = Chunk("a.py", 1, "stream\nfine\nSTREAM # stream")
    with pytest.raises(GenerationError) as error:
        rules.check_chunks([chunk, chunk])
    assert [line.partition(": ")[0] for line in str(error.value).split("\n")] == ["a.py:1", "a.py:3"]


def test_a_call_over_several_lines_is_seen() -> None:
    chunk = Chunk("a.py", 5, 'run(["pip",\n     "install",\n     "aiter"])')
    assert rules.broken_text_rules([chunk])[0].startswith("a.py:5: ")


def test_size_counts_bytes_not_characters() -> None:
    head = "def custom_kernel(data): return data\n"
    room = rules.MAX_BYTES - len(head) - 4  # '#', newline, and one byte below the limit
    rules.check_finished(head + "#" + "é" * (room // 2) + "\n", "a.py")
    with pytest.raises(GenerationError, match=r"a\.py: .*1,000,0\d\d bytes"):
        rules.check_finished(head + "#" + "é" * (room // 2 + 4) + "\n", "a.py")


@pytest.mark.parametrize("text", ["def custom_kernel(data): return data\n", "custom_kernel = print\n"])
def test_custom_kernel_may_be_any_definition(text: str) -> None:
    rules.check_finished(text, "a.py")


GOOD = """# What others get.
DEFAULT = {"BM": 64, "warps": 4}
TUNING = {
    (1, -2): {"BM": 128, "warps": 8},
    (1, 3): {"warps": 8, "BM": 32},
}
COLUMNS = ("m", "n")
"""


def check(tmp_path: Path, text: str) -> None:
    (tmp_path / "t_tuning.py").write_text(text)
    check_table(tmp_path, "t_tuning.py")


def test_a_good_table(tmp_path: Path) -> None:
    check(tmp_path, GOOD)
    check(tmp_path, GOOD.replace("DEFAULT", "DEFAULT: dict[str, int]"))
    check(tmp_path, "DEFAULT = (64, 4)\nTUNING = {'a': (1, 2), 'b': (3, 4)}\n")


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"BM": 128, ', "", 4, "the row of (1, -2) has warps, DEFAULT has BM, warps"),
        ('"BM": 128', '"BN": 128', 4, "has BN, warps"),
        ("(1, 3)", "(1, -2)", 5, "a second row for (1, -2); the first is in line 4"),
        ('{"warps": 8, "BM": 32}', "BEST", 5, "not a literal"),
        ('{"warps": 8, "BM": 32}', "8", 5, "a row must be a dict or a tuple"),
        ("COLUMNS = ", "from x import ", 7, "not valid Python"),
        ('COLUMNS = ("m", "n")', "print(1)", 7, "only assignments"),
        ('COLUMNS = ("m", "n")', "for x in (1, 2): y = x", 7, "only assignments"),
        ('COLUMNS = ("m", "n")', 'TUNING["x"] = 1', 7, "only assignments"),
        ("# What others get.", "import torch", 1, "imports nothing"),
        ("TUNING = {", "TUNING = {**{},", 3, "hides"),
    ],
)
def test_a_bad_table(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    with pytest.raises(GenerationError) as error:
        check(tmp_path, GOOD.replace(old, new))
    assert str(error.value).startswith(f"t_tuning.py:{line}: "), error.value
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["DEFAULT", "TUNING"])
def test_a_table_without_a_part(tmp_path: Path, name: str) -> None:
    with pytest.raises(GenerationError, match=f"defines no {name} "):
        check(tmp_path, GOOD.replace(name, "OTHER"))
