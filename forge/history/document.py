"""The results document: what `eval.py --json` writes, the history keeps, and compare and report read (docs/history.md).

`python -m forge.history.document` prints the JSON schema that follows from its types."""

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from forge.device.base import Fingerprint
from forge.device.report import ModelledTime
from forge.judge.compilers import Compilers
from forge.judge.results import CaseResult, Verdict
from forge.task.harness import HARNESSES, Clock
from forge.task.problem import Published

SCHEMA = 2
EARLIER = (1,)  # that can be read as well
Mode = Literal["test", "benchmark", "leaderboard", "profile"]
Ranking = Literal["geom", "mean", "last"]
Name = Annotated[str, Meta(min_length=1)]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class ResultError(Exception):
    """Not a results file of a version that is known here. One line."""


class ProblemSaid(Struct, frozen=True):
    """What was judged."""

    name: Name
    directory: str = ""
    gpus: tuple[str, ...] = ()


class DeviceSaid(Struct, frozen=True):
    """Where it ran."""

    name: str
    arch: str
    emulated: bool  # times of the cases are modelled, not measured


class PublishedScore(Published, frozen=True, kw_only=True):
    """Over the same cases."""

    score_us: float


class MadeWith(Fingerprint, frozen=True, kw_only=True):
    """Versions and hashes: of the device, of what was judged and of what judged."""

    submission_sha256: Sha256
    evaluator_sha256: str  # of forge's sources
    time: str  # ISO, UTC
    release: str = ""  # such as "0.1.0, commit 12df46fc12"
    compilers: Compilers = Compilers()
    platform: str = ""
    cores: int | None = None


class Against(Struct, frozen=True, kw_only=True):
    """The submission that --against named, in the same run."""

    name: str
    verdict: str
    cases: tuple[CaseResult, ...]
    fingerprint: MadeWith
    score_us: float | None = None
    broken: CaseResult | None = None
    warnings: list[str] = []
    ratios: tuple[dict[str, int | float | None], ...] = ()  # a case: how many times as long it takes, by clock
    geometric_means: dict[str, float | None] = {}  # of the ratios


class Document(Struct, frozen=True, kw_only=True):
    """A run, whole. Times are in nanoseconds (`*_ns`) or microseconds (`*_us`)."""

    schema: Literal[2] = 2
    mode: Mode
    verdict: Verdict
    problem: ProblemSaid
    harness: str
    device: DeviceSaid
    fingerprint: MadeWith
    cases: tuple[CaseResult, ...]
    command: list[str] = []
    exit_code: int = 0
    error: str | None = None  # what ended the command before its time
    score_us: Annotated[float, Meta(gt=0)] | None = None  # the leaderboard's number, of what passed and was measured
    clock: Clock | None = None  # the harness's, around a timed call
    ranking_by: Ranking = "geom"
    published: tuple[PublishedScore, ...] = ()
    seed: int | None = None
    timeout_s: float = 0.0
    notes: list[str] = []  # known before
    warnings: list[str] = []  # what only the run showed
    buts: list[str] = []  # why all of its passes are to be doubted
    unconfined: list[str] = []  # what the machine lacks to keep a submission apart
    elapsed_s: float = 0.0
    broken: CaseResult | None = None  # in which the submission did not load
    not_official: str = ""  # how the cases differ from the leaderboard's
    against: Against | UnsetType = UNSET

    def modelled(self, case: CaseResult) -> ModelledTime | None:
        """What the model says of a case, with the caches as the harness leaves them."""
        harness = HARNESSES.get(self.harness)
        return case.modelled_time("cold" if harness is None else harness.caches)

    def us_of(self, case: CaseResult) -> float | None:
        """A passed case's modelled time on an emulated device, elsewhere the harness's mean; None if it has none."""
        time = self.modelled(case) if self.device.emulated else None
        us = time.us if time else case.stats.mean_us if case.stats else None
        return us if case.ran else None

    @property
    def times_us(self) -> dict[str, float]:
        """By the cases' spec lines; measured or modelled, never both."""
        return {case.spec: us for case in self.cases if (us := self.us_of(case)) is not None}

    @property
    def kind(self) -> str:
        """Of the times: measured, modelled or none."""
        return "none" if not self.times_us else "modelled" if self.device.emulated else "measured"


class NotRun(Struct, frozen=True, kw_only=True):
    """Of a command that ended before anything was judged."""

    schema: Literal[2] = 2
    verdict: Literal["not run"] = "not run"
    command: list[str]
    exit_code: int
    error: str
    cases: tuple[()] = ()


def to_json(document: Struct) -> str:
    return json.dumps(finite(msgspec.to_builtins(document)), indent=2) + "\n"


def finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    return [finite(part) for part in value] if isinstance(value, (list, tuple)) else value


def read_document(text: bytes | str, name: str) -> Document:
    """What `to_json` wrote, this version's or an earlier one's; ResultError names the first place, of `name`, that is
    not as it should be."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{name}: not JSON, or half written: {error}") from None
    version = value.get("schema") if isinstance(value, dict) else None
    if isinstance(version, int) and version not in (*EARLIER, SCHEMA):
        known = " and ".join(map(str, (*EARLIER, SCHEMA)))
        raise ResultError(
            f"{name}: results of schema {version}, and this forge reads {known}: make it again with this one"
        )
    try:
        if isinstance(value, dict) and value.get("verdict") == "not run":
            raise ResultError(f"{name}: holds no run: eval.py had ended before: {value.get('error')}")
        if version in EARLIER:
            value = {**_from_version_1(value), "schema": SCHEMA}
        return msgspec.convert(value, Document, strict=False)  # infinities are words
    except (ValueError, TypeError, RecursionError) as error:
        raise ResultError(f"{name}: not a results file of eval.py --json: {error}") from None


def read_result(path: Path) -> Document:
    try:
        return read_document(path.read_bytes(), str(path))
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror or error}") from None


def _from_version_1(value: Any) -> Any:
    """There ranks had keys, and the share of lines that a time lacks was told in words."""
    if isinstance(value, list):
        return [_from_version_1(part) for part in value]
    if not isinstance(value, dict):
        return value
    value = {key: _from_version_1(part) for key, part in value.items()}
    if ranks := [value.pop(f"rank {rank}") for rank in range(len(value)) if f"rank {rank}" in value]:
        value["ranks"] = ranks
    if isinstance(words := value.get("unrecorded"), str):
        value["unrecorded"] = float(words.partition(" ")[0])
    return value


# ---------------------------------------------------------------- the schema


def schema() -> dict[str, Any]:
    """In JSON Schema, draft 2020-12."""
    (run, not_run), parts = msgspec.json.schema_components([Document, NotRun], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Results of eval.py --json, version {SCHEMA}",
        "description": "A key that is not listed may be there; one that is keeps its meaning within a version.",
        "anyOf": [run, not_run],
        "$defs": _with_infinities(parts),
    }


def _with_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        made = {key: _with_infinities(part) for key, part in value.items()}
        return {"anyOf": [made, {"enum": ["inf", "-inf", "nan"]}]} if made.get("type") == "number" else made
    return [_with_infinities(part) for part in value] if isinstance(value, list) else value


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
