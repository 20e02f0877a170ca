"""Problems: the repository's task.yml and the folders it names, or any folder in GPU MODE's format.

Loading imports neither torch nor triton and reads only what is asked for: `load_sets` the file at the top,
`find_problem` that file and one folder. A mistake in a file is a ProblemError of one line: which file, what.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from msgspec import Meta, Struct, ValidationError, convert

ROOT = Path(__file__).resolve().parents[2]
SUBMISSION_SOURCE = "@SUBMISSION@"
DEFAULT_TIMEOUT_S = 180  # kernelbot's own, for a task.yml that states none
MATRIX_KINDS = ("fp8", "f16", "fp4", "none")
RANKINGS = ("geom", "mean", "last")
MODES = ("test", "benchmark", "leaderboard", "profile")

# A task.yml's keys: GPU MODE's, then ours. Others pass unless they look like one of these misspelt.
TASK_KEYS = (
    "files lang description config templates libraries tests benchmarks test_timeout benchmark_timeout "
    "ranked_timeout ranking_by multi_gpu gpus seed "
    "smoke spread sampled precision floors published"
).split()

# GPU names of the leaderboard -> instruction set. A folder outside this repository states only the former.
ARCH_OF_GPU = {"MI300": "gfx942", "MI300X": "gfx942", "MI355X": "gfx950"}

Above0 = Annotated[float, Meta(gt=0)]
Place = Annotated[int, Meta(ge=0)]
S = TypeVar("S", bound=Struct)
Case = dict[str, Any]  # a folder may state anything that YAML has


class ProblemError(Exception):
    """Something about a problem's files that its author or the user has to change. One line."""


@dataclass(frozen=True)
class ProblemEntry:
    """What the top task.yml says about a problem."""

    name: str  # leaderboard name: amd-fp8-mm
    stem: str  # fp8_mm: names kernels/<stem>/, reference/<stem>/ and the tests
    directory: Path
    gpus: tuple[str, ...]  # as the leaderboard spells them: MI300, MI300x8, MI355X
    arch: str | None  # gfx942, gfx950; None for a GPU we have no emulated device of
    harness: str | None  # a row of forge/task/harness.py; None: look at the folder's own eval.py
    variant: str | None  # what gen_submission.py takes when none is named
    # By variant, the fastest first, which is the default: the geometric mean of the benchmark cases.
    modelled_us: Mapping[str, float] = field(default_factory=dict, kw_only=True)


@dataclass(frozen=True)
class ProblemSet:
    name: str
    problems: tuple[ProblemEntry, ...]


@dataclass(frozen=True)
class TaskFile:
    """A line of a task.yml's `files`: `source` is copied to `name` in the run folder; None: submission."""

    name: str
    source: Path | None


@dataclass(frozen=True)
class Timeouts:
    test_s: float = DEFAULT_TIMEOUT_S
    benchmark_s: float = DEFAULT_TIMEOUT_S
    ranked_s: float = DEFAULT_TIMEOUT_S

    def of_mode(self, mode: str) -> float:
        return {"test": self.test_s, "leaderboard": self.ranked_s}.get(mode, self.benchmark_s)


class Floors(Struct, frozen=True):
    """Expressions over a case's keys, for forge/task/score.py. None: the problem does not state that floor."""

    flops: str | int | None = None
    matrix: str = "none"
    hbm_bytes: str | int | None = None
    link_bytes: str | int | None = None

    def __post_init__(self) -> None:
        if self.matrix not in MATRIX_KINDS:
            raise ValueError(f"'matrix' must be one of {', '.join(MATRIX_KINDS)}, found {self.matrix!r}")


class Precision(Struct, frozen=True):
    """How exact an honest kernel is, for problems whose tolerance hides what is missing. Places are of the input.

    A probe is a call on larger numbers without a bias, so that all of the output depends on the input; or on what
    reference.py's probe(data) makes of an input, with a limit of its own.
    """

    rel_l2: Above0 | None = None  # relative L2 error beyond which a result is doubted; None: not stated
    input: Place | None = None  # the tensor that is `scale` times as large in a probe
    bias: Place | None = None  # the tensor that is zero in a probe
    scale: Above0 = 1.0
    probe_rel_l2: Above0 | None = None  # of a probe that reference.py makes

    def __post_init__(self) -> None:
        if self.probe_rel_l2 is not None and self.input is None:
            raise ValueError("'probe_rel_l2' asks for 'input': the tensor whose share of the output is looked at")

    @property
    def probes(self) -> bool:
        """Whether a call beside the official ones is judged by its error alone."""
        changed = self.scale != 1 or self.bias is not None or self.probe_rel_l2 is not None
        return self.input is not None and changed


class Published(Struct, frozen=True):
    """Times somebody published, one per benchmark case, None where that case has none; or the score of all alone."""

    by: str
    us: tuple[Above0 | None, ...] = ()
    all_us: Above0 | None = None
    source: str = ""
    clock: str = ""


@dataclass(frozen=True)
class Problem(ProblemEntry):
    """A problem with its folder read and checked."""

    files: tuple[TaskFile, ...]
    world_size: int  # ranks: the N of MI300xN, or the largest world_size among the cases
    tests: tuple[Case, ...] = ()
    benchmarks: tuple[Case, ...] = ()
    smoke: tuple[Case, ...] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    ranking_by: str = "geom"
    multi_gpu: bool = False
    precision: Precision = Precision()
    floors: Floors | None = None
    published: tuple[Published, ...] = ()
    # Of large cases on an emulated device. False: what its kernels compute decides what others do, so that all of them
    # is emulated; "products": so do kernels that multiply nothing, or little.
    sampled: bool | str = True
    spread: tuple[str, ...] = ()  # case keys that count over all ranks: each rank has a world_size-th of them
    known_as: Path | None = None  # this repository's folder of the same problem, for one that is an owner's

    def source_of(self, name: str) -> Path | None:
        """The file that becomes `name` in the run folder, or None if the task has none of that name."""
        return next((f.source for f in self.files if f.name == name), None)


# ---------------------------------------------------------------- reading


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ProblemError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(f"{path}: cannot be read: {error}") from None


def _parsed(path: Path, text: str) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one, where built, is six times faster
    try:
        return yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise ProblemError(f"{path}:{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ProblemError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None


_parsed_once = functools.lru_cache(maxsize=8)(_parsed)  # of what is asked for many times; not to be changed


class _Reader:
    """Takes typed values out of one mapping of one file, and knows how to name the place in an error."""

    def __init__(self, path: Path, value: Any, where: str = "") -> None:
        self.path, self.where = path, where
        if not isinstance(value, dict):
            raise self.error(f"expected a mapping of keys, found {_kind(value)}")
        self.values: dict[str, Any] = value

    def error(self, what: str) -> ProblemError:
        return ProblemError(f"{self.path}: {self.where + ': ' if self.where else ''}{what}")

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        value = self.values.get(key)
        if value is None:
            if default is ...:
                raise self.error(f"missing key '{key}'")
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            names = " or ".join(_NAMES[k] for k in (kind if isinstance(kind, tuple) else (kind,)))
            raise self.error(f"'{key}' must be {names}, found {_kind(value)}")
        return value

    def reader(self, key: str) -> _Reader:
        """The mapping under a key."""
        return _Reader(self.path, self.get(key, dict), f"{self.where} {key}".strip())

    def numbers(self, key: str) -> dict[str, float]:
        """The numbers of a mapping, the smallest first; none where it is not there."""
        found = {name: self.reader(key).get(name, (int, float)) for name in self.get(key, dict, {})}
        return dict(sorted(found.items(), key=lambda one: one[1]))

    def struct(self, key: str, kind: type[S], default: S | None) -> S | None:
        """What is under a key, as this type has it."""
        return default if self.values.get(key) is None else self.reader(key).whole(kind)

    def whole(self, kind: type[S]) -> S:
        if unknown := set(self.values) - set(kind.__struct_fields__):
            raise self.error(f"unknown key '{min(unknown)}' (known: {', '.join(kind.__struct_fields__)})")
        try:
            return convert(self.values, kind)
        except ValidationError as error:
            raise self.error(str(error)) from None

    def readers(self, key: str, default: Any = ...) -> list[_Reader]:
        """The mappings of a list of mappings."""
        at = f"{self.where} " if self.where else ""
        return [_Reader(self.path, v, f"{at}{key}[{i}]") for i, v in enumerate(self.get(key, list, default))]


_NAMES: dict[type, str] = {
    str: "a text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
}


def _kind(value: Any) -> str:
    return "nothing" if value is None else _NAMES.get(type(value), type(value).__name__) + f" ({value!r:.40})"


def _seconds(task: _Reader, key: str) -> float:
    value = float(task.get(key, (int, float), DEFAULT_TIMEOUT_S))
    if value <= 0:
        raise task.error(f"'{key}' must be more than 0 seconds, found {value:g}")
    return value


def _cases(task: _Reader, key: str, default: Any = ...) -> tuple[Case, ...]:
    cases = []
    for case in task.readers(key, default):
        for name, value in case.values.items():
            if not isinstance(name, str):
                raise case.error(f"case keys are words, found {_kind(name)}")
            if not isinstance(value, (int, str, list)):  # bool is an int
                raise case.error(f"'{name}' must be an integer, a word or true/false, found {_kind(value)}")
        if not case.values:
            raise case.error("an empty case")
        cases.append(dict(case.values))
    if default is ... and not cases:
        raise task.error(f"'{key}' lists no case")
    return tuple(cases)


def _files(task: _Reader, directory: Path) -> tuple[TaskFile, ...]:
    files = []
    for entry in task.readers("files"):
        name, source = entry.get("name", str), entry.get("source", str)
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise entry.error(f"'name' must stay inside the run folder, found {name!r}")
        if source == SUBMISSION_SOURCE:
            files.append(TaskFile(name, None))
            continue
        path = (directory / source).resolve()
        # The evaluator brings its own eval.py, so a folder copied alone may point at one that stayed behind.
        if not path.is_file() and name != "eval.py":
            raise entry.error(f"source {source!r} is not a file ({path})")
        files.append(TaskFile(name, path))
    if not any(f.source is None for f in files):
        raise task.error(f"'files' has no entry with source \"{SUBMISSION_SOURCE}\"")
    if not any(f.name == "reference.py" for f in files):
        raise task.error("'files' has no reference.py")
    return tuple(files)


def _published(task: _Reader, benchmarks: int) -> tuple[Published, ...]:
    rows = [(reader, reader.whole(Published)) for reader in task.readers("published", [])]
    for reader, row in rows:
        if len(row.us) != (0 if row.all_us else benchmarks):
            raise reader.error(f"'us' has {len(row.us)} times for {benchmarks} benchmarks (null for none)")
    return tuple(row for _, row in rows)


def _spread(task: _Reader, case: Case) -> tuple[str, ...]:
    keys = task.get("spread", list, [])
    for key in keys:
        if not isinstance(case.get(str(key)), int):
            raise task.error(f"'spread' names case keys that are integers, found {key!r}")
    return tuple(str(key) for key in keys)


def _read_folder(entry: ProblemEntry) -> Problem:
    path = entry.directory / "task.yml"
    task = _Reader(path, copy.deepcopy(_parsed_once(path, _text_of(path))))
    for key in task.values:
        close = _closest(str(key), TASK_KEYS, cutoff=0.8)
        if close and key not in TASK_KEYS:
            raise task.error(f"unknown key '{key}'; did you mean '{close}'?")
    language = task.get("lang", str)
    if language != "py":
        raise task.error(f"lang is {language!r}; only Python problems (lang: py) can be evaluated")
    tests, benchmarks, smoke = _cases(task, "tests"), _cases(task, "benchmarks"), _cases(task, "smoke", [])
    gpus = entry.gpus or tuple(str(gpu) for gpu in task.get("gpus", list, []))
    ranking_by = task.get("ranking_by", str, "last")
    if ranking_by not in RANKINGS:
        raise task.error(f"'ranking_by' must be one of {', '.join(RANKINGS)}, found {ranking_by!r}")
    ranks = [case["world_size"] for case in tests + benchmarks if isinstance(case.get("world_size"), int)]
    return Problem(
        name=entry.name,
        stem=entry.stem,
        directory=entry.directory,
        gpus=gpus,
        arch=entry.arch or _arch_of(gpus),
        harness=entry.harness,
        variant=entry.variant,
        modelled_us=entry.modelled_us,
        files=_files(task, entry.directory),
        tests=tests,
        benchmarks=benchmarks,
        smoke=smoke,
        timeouts=Timeouts(*(_seconds(task, f"{mode}_timeout") for mode in ("test", "benchmark", "ranked"))),
        ranking_by=ranking_by,
        multi_gpu=task.get("multi_gpu", bool, False),
        world_size=max([_ranks_of(gpus), *ranks]),
        precision=task.struct("precision", Precision, Precision()) or Precision(),
        floors=task.struct("floors", Floors, None),
        published=_published(task, len(benchmarks)),
        sampled=_sampled(task),
        spread=_spread(task, benchmarks[0]),
    )


def _sampled(task: _Reader) -> bool | str:
    return "products" if task.values.get("sampled") == "products" else bool(task.get("sampled", bool, True))


def _ranks_of(gpus: tuple[str, ...]) -> int:
    """MI300x8 -> 8."""
    found = [re.fullmatch(r".+x(\d+)", gpu) for gpu in gpus]
    return max([1, *(int(match[1]) for match in found if match)])


def _arch_of(gpus: tuple[str, ...]) -> str | None:
    bases = [re.sub(r"x\d+$", "", gpu) for gpu in gpus]
    return next((ARCH_OF_GPU[base] for base in bases if base in ARCH_OF_GPU), None)


# ---------------------------------------------------------------- finding


def read_top(root: Path = ROOT) -> _Reader:
    """The repository's task.yml."""
    path = root / "task.yml"
    return _Reader(path, _parsed_once(path, _text_of(path)))


def load_sets(root: Path = ROOT) -> tuple[ProblemSet, ...]:
    """The sets of the repository's task.yml, in its order. Reads no problem folder."""
    path = root / "task.yml"
    return _sets_in(path, _text_of(path))


@functools.lru_cache(maxsize=8)  # of what is asked for many times
def _sets_in(path: Path, text: str) -> tuple[ProblemSet, ...]:
    top, root = _Reader(path, _parsed_once(path, text)), path.parent
    sets = []
    for group in top.readers("sets"):
        entries = []
        for row in group.readers("problems"):
            directory = (root / row.get("directory", str)).resolve()
            modelled_us = row.numbers("modelled_us")
            entries.append(
                ProblemEntry(
                    name=row.get("name", str),
                    stem=directory.name,
                    directory=directory,
                    gpus=tuple(str(gpu) for gpu in row.get("gpus", list)),
                    arch=row.get("arch", str),
                    harness=row.get("harness", str),
                    variant=next(iter(modelled_us), None) or row.get("variant", str),
                    modelled_us=modelled_us,
                )
            )
        sets.append(ProblemSet(group.get("name", str), tuple(entries)))
    names = [entry.name for group in sets for entry in group.problems]
    for name in names:
        if names.count(name) > 1:
            raise top.error(f"two problems are named {name!r}")
    return tuple(sets)


def own_entry(problem: ProblemEntry) -> ProblemEntry | None:
    """This repository's entry of the same leaderboard name: an owner's folder of a problem has no kernels beside it."""
    return next((entry for entry in own_entries() if entry.name == problem.name), None)


def _as_known(problem: Problem, root: Path) -> Problem:
    """An owner's folder of a problem that is here as well: what we state of it, and that folder does not."""
    entry = next((entry for entry in own_entries(root) if entry.name == problem.name), None)
    ours = None if entry is None else _read_folder(entry)
    if ours is None or ours.tests[0].keys() != problem.tests[0].keys():  # of another size, or another year
        return problem
    return replace(
        problem,
        precision=ours.precision if problem.precision == Precision() else problem.precision,
        floors=problem.floors or ours.floors,
        smoke=problem.smoke or ours.smoke,
        spread=problem.spread or ours.spread,
        published=problem.published or (ours.published if ours.benchmarks == problem.benchmarks else ()),
        sampled=ours.sampled if problem.sampled is True else problem.sampled,
        known_as=ours.directory,
    )


def own_entries(root: Path = ROOT) -> list[ProblemEntry]:
    """All problems of the repository; none where forge is installed without it, and judges folders alone."""
    sets = load_sets(root) if (root / "task.yml").is_file() else ()
    return [entry for group in sets for entry in group.problems]


def find_problem(name_or_path: str | Path, root: Path = ROOT) -> Problem:
    """A problem by leaderboard name, by stem, or by the path of a folder in GPU MODE's format."""
    wanted = str(name_or_path)
    entries = own_entries(root)
    for entry in entries:
        if wanted in (entry.name, entry.stem):
            return _read_folder(entry)
    directory = Path(wanted).expanduser()
    if directory.name == "task.yml" and directory.is_file():
        directory = directory.parent
    directory = directory.resolve()
    if directory.is_dir():
        if not (directory / "task.yml").is_file():
            raise ProblemError(f"{directory}: no task.yml here, so this is not a problem folder")
        for entry in entries:
            if directory == entry.directory:
                return _read_folder(entry)
        return _as_known(_read_folder(_outside_entry(directory)), root)
    raise ProblemError(_unknown(wanted, [entry.name for entry in entries]))


def set_rows_of(directory: Path) -> Iterator[tuple[_Reader, _Reader]]:
    """(set, row) of an owner's folder in the set files two folders up, where their repository has them."""
    short = f"{directory.parent.name}/{directory.name}"
    for path in sorted(directory.parent.parent.glob("*.yaml")):
        # Most set files do not mention this folder: looking at the text first spares parsing them.
        if path.is_file() and short in path.read_text(errors="replace"):
            group = _Reader(path, _parsed(path, _text_of(path)))
            for row in group.readers("problems", []):
                if (path.parent / row.get("directory", str)).resolve() == directory:
                    yield group, row


def _outside_entry(directory: Path) -> ProblemEntry:
    """An owner's folder: its set file tells name and GPUs."""
    name = directory.name
    gpus: tuple[str, ...] = ()
    for _, row in set_rows_of(directory):
        name, gpus = row.get("name", str), tuple(str(gpu) for gpu in row.get("gpus", list, []))
    return ProblemEntry(name, directory.name, directory, gpus, _arch_of(gpus), harness=None, variant=None)


def _closest(word: str, known: list[str], cutoff: float) -> str | None:
    if word in known:
        return word
    import difflib  # only for words that are not known: importing it would cost every run 5 ms

    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=cutoff)), None)


def _unknown(wanted: str, names: list[str]) -> str:
    close = _closest(wanted, names, cutoff=0.5)
    hint = f"did you mean {close!r}?" if close else f"known: {', '.join(names)}"
    return f"unknown problem {wanted!r}: neither a leaderboard name nor a folder with a task.yml; {hint}"


def description_of(problem: Problem) -> str:
    """What the task.yml says of what a kernel is given and returns."""
    path = problem.directory / "task.yml"
    text: str = _Reader(path, _parsed(path, _text_of(path))).get("description", str, "")
    return text
