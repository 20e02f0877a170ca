"""What popcorn-cli printed of a submission, as data.

Formats, read in gpu-mode/popcorn-cli (src/service/mod.rs, src/cmd) and gpu-mode/kernelbot (src/libkernelbot):
- `popcorn submit --output FILE` since June 2026: JSON of the submission and its runs, behind lines with the geometric
  mean where a leaderboard run has a score.
- The same before that, and in mode profile, and what the Discord bot writes: a report for each GPU, with each case's
  time, rounded (report.py).
- `popcorn submissions show ID`: "Key: value" lines, a list of runs, and the code unless --no-code.
Scores are seconds. What goes to stderr may stand around each: people redirect both.
"""

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

US = 1e6  # of a second
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_ERROR = re.compile(r"^(?:Application error|Error): (.+)", re.MULTILINE)
_RUN = re.compile(
    r"  - (?P<mode>\S+) on (?P<runner>.+): (?P<status>passed|failed) \(score: (?P<score>[^)]*)\)"
    r"(?P<secret> \[secret\])?(?: \((?:started: )?(?P<start>[^()]*?)(?: - (?P<end>[^()]*))?\))?"
)
_LIST_HEAD = re.compile(r"^ID\s+Leaderboard\s+File\s+Time", re.MULTILINE)


class PopcornError(Exception):
    """Not what popcorn-cli prints of a submission. One line."""


@dataclass(frozen=True)
class LeaderboardRun:
    mode: str
    runner: str
    passed: bool
    secret: bool
    score_us: float | None
    time: str | None  # ISO, as the server says it


@dataclass(frozen=True)
class LeaderboardCase:
    """A test or a benchmark of a report."""

    mode: str
    runner: str
    secret: bool
    spec: str
    passed: bool
    mean_us: float | None = None  # as printed: two or three digits
    message: str = ""


@dataclass(frozen=True)
class Outside:
    """A submission as the leaderboard knows it."""

    number: int | None  # None and "" where a report does not say it
    leaderboard: str
    file_name: str
    done: bool
    time: str | None
    runs: tuple[LeaderboardRun, ...]
    code: bytes | None
    cases: tuple[LeaderboardCase, ...] = ()
    system: dict[str, str] = field(default_factory=dict)  # what a report says of its machine: "GPU", "Torch", ...
    messages: tuple[str, ...] = ()  # what went wrong, as a report says it


def cleaned(text: str) -> str:
    return _ANSI.sub("", text).replace("\r\n", "\n")


def parse(text: str, name: str) -> Outside:
    """Of all forms but the report. name: of the file, for messages."""
    text = cleaned(text)
    if shown := re.search(r"^Submission #\d+\n", text, re.MULTILINE):
        return _shown(text[shown.start() :], name)
    if start := re.search(r"^\{", text, re.MULTILINE):
        return _submitted(text[start.start() :], name)
    if error := _ERROR.search(text):
        raise PopcornError(f"{name}: popcorn-cli had an error, and no result: {error[1][:200]}")
    if _LIST_HEAD.search(text):
        raise PopcornError(f"{name}: a list of submissions: import what `popcorn submissions show ID` prints of one")
    raise PopcornError(
        f"{name}: neither what `popcorn submit --output FILE` writes nor what `popcorn submissions show ID` prints"
    )


def _submitted(text: str, name: str) -> Outside:
    try:
        value, _ = json.JSONDecoder().raw_decode(text)  # behind it stands where it was written to
        runs = tuple(_json_run(run) for run in value["runs"])
        number, leaderboard = value["submission_id"], value["leaderboard"]
        if type(number) is not int or not isinstance(leaderboard, str) or not leaderboard:
            raise TypeError("submission_id or leaderboard")
        return Outside(number, leaderboard, str(value["file_name"]), bool(value["done"]), None, runs, None)
    except json.JSONDecodeError as error:
        raise PopcornError(f"{name}: half written: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PopcornError(
            f"{name}: not as `popcorn submit --output FILE` writes it: {error} is missing or odd"
        ) from None


def _json_run(run: dict[str, Any]) -> LeaderboardRun:
    score = run["score"]
    time = run.get("end_time") or run.get("start_time")
    score_us = None if score is None else float(score) * US
    return LeaderboardRun(run["mode"], run["runner"], bool(run["passed"]), bool(run["secret"]), score_us, time)


def _shown(text: str, name: str) -> Outside:
    head, mark, code = text.partition("\nCode:\n" + "-" * 60 + "\n")
    fields = dict(re.findall(r"^(Leaderboard|File|Submitted|Status):\s+(.*)$", head, re.MULTILINE))
    board = re.fullmatch(r"(\S+) \(id: \d+\)", fields.get("Leaderboard", ""))
    number = re.match(r"\s*Submission #(\d+)", head)
    if board is None or number is None or not {"File", "Submitted", "Status"} <= fields.keys():
        raise PopcornError(
            f"{name}: not whole: `popcorn submissions show ID` prints Leaderboard, File, Submitted, Status"
        )
    lines = [line for line in head.splitlines() if line.startswith("  - ")]
    matches = [_RUN.fullmatch(line) for line in lines]
    for line, match in zip(lines, matches):
        if match is None:
            raise PopcornError(f"{name}: not a run as `popcorn submissions show` prints it: {line.strip()!r}")
    return Outside(
        int(number[1]),
        board[1],
        fields["File"],
        fields["Status"] == "done",
        fields["Submitted"],
        tuple(_shown_run(match, name) for match in matches if match),
        code.removesuffix("\n").encode() if mark else None,  # println! ends the code with a line feed of its own
    )


def _shown_run(match: re.Match[str], name: str) -> LeaderboardRun:
    try:
        score_us = None if match["score"] == "-" else float(match["score"]) * US
    except ValueError:
        raise PopcornError(f"{name}: not a score in seconds: {match['score']!r}") from None
    passed, secret = match["status"] == "passed", match["secret"] is not None
    return LeaderboardRun(match["mode"], match["runner"], passed, secret, score_us, match["end"] or match["start"])


def iso_time(text: str | None) -> str | None:
    """A server's time in our spelling; None where it says none, or in no spelling that Python knows."""
    try:
        return datetime.fromisoformat(text or "").isoformat(timespec="seconds")
    except ValueError:
        return None
