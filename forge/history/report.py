"""A report that the leaderboard's judge makes of a run, as popcorn-cli put it with --output: each case with its time.

It names neither the leaderboard nor the submission; popcorn-cli's own lines, where they were redirected as well, do.
Emojis may have been lost on the way (a Windows console): nothing here depends on one.
"""

import dataclasses
import json
import re

from forge.history import popcorn
from forge.history.popcorn import LeaderboardCase, LeaderboardRun, Outside
from forge.task.score import rank_score

_TITLE = re.compile(
    r"^ *\*\*(?P<runner>.+? on .+?)(?P<secret> \(secret\))?(?:\s+\S+ (?:success|failure))?\*\*$", re.MULTILINE
)
# Status lines of a report, by the words that name its modes.
_STATUS = re.compile(r"^> \S+ (?P<what>.*?(?:successful|failed))(?P<why> \([^)]*\))?$", re.MULTILINE)
_MODES = {"test": "test", "benchmark": "benchmark", "profil": "profile", "leaderboard": "leaderboard"}
_SYSTEM = re.compile(r"^\* (?P<key>[A-Z][\w ]*): `(?P<value>.*)`$", re.MULTILINE)
_SECTION = re.compile(r"^## (?P<title>.+?):\n```\n(?P<body>.*?)```", re.MULTILINE | re.DOTALL)
_MEAN = re.compile(r"^ \S+ (?P<mean>\d+(?:\.\d*)?(?:e-?\d+)?)(?: \S+ \S+)? (?P<unit>\S{0,4}s)$")
_SPEC = re.compile(r"^(?:(?P<mark>[^\w\s]\S*) )?(?P<spec>[A-Za-z_]\w*: [^;\n]*(?:; \w+: [^;\n]*)*)$")
_FAILED = " failed testing:"
_HEADING = re.compile(r"^# (?P<what>.+ failed)\n(?P<text>.*?)(?=\n\n## |\Z)", re.MULTILINE | re.DOTALL)
_NAMED = {
    "leaderboard": r"^Submitting to leaderboard: (\S+)$",
    "file": r"^File: (.+)$",
    "number": r"^Submission (\d+) ",
}
MOST_MESSAGE = 300  # characters
CROSS, UNITS_US = "❌", {"ns": 1e-3, "ms": 1e3, "s": 1e6}


def scored(outside: Outside, ranking_by: str) -> Outside:
    """Its runs with what the leaderboard's rule makes of their cases' rounded times, where a run has none."""

    def score_us(run: LeaderboardRun) -> float | None:
        cases = [
            case
            for case in outside.cases
            if (case.mode, case.runner, case.secret) == (run.mode, run.runner, run.secret)
        ]
        means = [case.mean_us for case in cases if case.mean_us]
        whole = run.passed and means and len(means) == len(cases)
        return run.score_us or (rank_score(means, ranking_by) if whole else None)

    return dataclasses.replace(
        outside, runs=tuple(dataclasses.replace(run, score_us=score_us(run)) for run in outside.runs)
    )


def read(text: str, name: str) -> Outside:
    """What popcorn-cli printed, in any of its forms."""
    text = popcorn.cleaned(text)
    shown = re.search(r"^Submission #\d+\n", text, re.MULTILINE)  # whose code may hold what looks like a report
    return popcorn.parse(text, name) if shown or not _TITLE.search(_undone(text)) else _parse(text)


def _parse(text: str) -> Outside:
    named = {key: found[1] for key, form in _NAMED.items() if (found := re.search(form, text, re.MULTILINE))}
    text = _undone(text)
    titles = list(_TITLE.finditer(text))
    runs: list[LeaderboardRun] = []
    cases: list[LeaderboardCase] = []
    messages: list[str] = []
    system: dict[str, str] = {}
    for title, end in zip(titles, [*(one.start() for one in titles[1:]), len(text)]):
        part, runner, secret = text[title.end() : end], title["runner"], title["secret"] is not None
        system = system or {found["key"]: found["value"] for found in _SYSTEM.finditer(part)}
        found_cases = [
            case
            for section in _SECTION.finditer(part)
            for case in _cases(section["title"], section["body"], runner, secret)
        ]
        cases += found_cases
        for status in _STATUS.finditer(part):
            what = status["what"].lower()
            passed = what.endswith("successful")
            mode = next((mode for word, mode in _MODES.items() if word in what), "compile")
            if mode == "compile" and passed:
                continue
            runs.append(LeaderboardRun(mode, runner, passed, secret, None, None))
            if not passed:
                messages.append(f"{mode} on {runner}: {status['what']}{status['why'] or ''}")
        messages += [_one_line(f"{found['what']}: {found['text']}") for found in _HEADING.finditer(part)]
        messages += [_one_line(f"{case.spec}: {case.message}") for case in found_cases if not case.passed]
    number = int(named["number"]) if "number" in named else None
    return Outside(
        number, named.get("leaderboard", ""), named.get("file", ""), True, None, tuple(runs), None,
        tuple(cases), system, tuple(messages),
    )  # fmt: skip


def _undone(text: str) -> str:
    """The reports as the server wrote them: popcorn-cli writes a JSON list of them without brackets, with line feeds in
    place of \\n. What was copied from a screen has lost the quotes."""
    start = re.search(r'^"(?= *\*\*)', text, re.MULTILINE)
    end = text.rfind('"')
    if start is None or end <= start.start():
        return text
    listed = "[" + text[start.start() : end + 1].replace("\n", "\\n") + "]"
    try:
        return "\n\n".join(map(str, json.loads(listed, strict=False)))
    except json.JSONDecodeError:
        return text[start.end() :].replace('\\"', '"')


def _cases(title: str, body: str, runner: str, secret: bool) -> list[LeaderboardCase]:
    mode = "leaderboard" if "Ranked" in title else "benchmark" if "Benchmark" in title else "test"
    if mode == "test" and not re.search(r"\b(tests|Test log)\b", title):
        return []
    cases: list[LeaderboardCase] = []
    lines = body.split("\n")
    for line, after in zip(lines, [*lines[1:], ""]):
        mark, told, mean = line[:1], _SPEC.match(line.rstrip().removesuffix(_FAILED)), _MEAN.match(after)
        if told and mark != ">" and (told["mark"] or mean):
            cases.append(
                LeaderboardCase(mode, runner, secret, told["spec"], mark != CROSS and not line.endswith(_FAILED))
            )
            if mean:
                us = float(mean["mean"]) * UNITS_US.get(mean["unit"], 1.0)  # micro is spelt in several ways
                cases[-1] = dataclasses.replace(cases[-1], mean_us=us)
        elif cases and line.strip() and not cases[-1].passed:
            message = f"{cases[-1].message} {line.removeprefix('> ').strip()}"
            cases[-1] = dataclasses.replace(cases[-1], message=_one_line(message))
    return cases


def _one_line(text: str) -> str:
    words = " ".join(text.replace("```bash", " ").replace("```", " ").split())
    return words if len(words) <= MOST_MESSAGE else f"{words[: MOST_MESSAGE - 1].rpartition(' ')[0]} …"
