"""The commands on what was kept: eval.py history, compare, report, import. Bad input is one line and exit code 2."""

import argparse
import dataclasses
import datetime
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from forge.commands.view import Console
from forge.console import EXIT_BAD_INPUT, EXIT_FAIL, EXIT_INTERRUPTED, EXIT_PASS, Parser, UsageError, aligned, number
from forge.generate.submission import SubmissionError, directives, read_submission
from forge.history import noise, popcorn
from forge.history import report as report_
from forge.history.compare import Side, check_pair, findings_of, lines_of
from forge.history.document import Document, ResultError, read_result, to_json
from forge.history.light import too_fast_there
from forge.history.page import PageError, page_of, write_page
from forge.history.store import Entry, History, HistoryError, sha256
from forge.judge.plan import BAD_INPUT
from forge.task.cases import case_text
from forge.task.problem import ProblemError, find_problem, own_entries
from forge.task.score import geometric_mean, rank_score

SHOWN_RUNS = 20
MOST_PLOTTED = 300
NO_TIME = "-"


# ---------------------------------------------------------------- what eval.py calls


def remember(document: Document, *submissions: bytes) -> None:
    """Keeps a run. What stands in the way is a warning: the run's verdict does not depend on it."""
    try:
        History().keep(document, *submissions)
    except HistoryError as error:
        print(f"eval.py: warning: this run is not in the history: {error}", file=sys.stderr)


def main(argv: list[str]) -> int:
    """One of COMMANDS, and its arguments."""
    try:
        return COMMANDS[argv[0]](argv[1:])
    except (HistoryError, PageError, ResultError, SubmissionError, popcorn.PopcornError, *BAD_INPUT) as error:
        print(f"eval.py: {error}", file=sys.stderr)
        return EXIT_FAIL if isinstance(error, SubmissionError) else EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("eval.py: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def parser_of(command: str, description: str, examples: str) -> Parser:
    return Parser(
        prog=f"eval.py {command}",
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


# ---------------------------------------------------------------- history


def history_parser() -> Parser:
    p = parser_of(
        "history",
        "List the runs that were kept, or show one of them.",
        "  eval.py history amd-fp8-mm          # the last runs of a problem\n"
        "  eval.py history 12                  # one run: its cases, times and findings\n"
        "  eval.py history last -o back.py     # the submission that was judged then",
    )
    p.add_argument("what", metavar="PROBLEM|RUN", nargs="?", help="a problem, or a run: its number, last, last-1, ...")
    p.add_argument("--limit", type=int, default=SHOWN_RUNS, metavar="N", help="how many runs (default: %(default)s)")
    p.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the run's submission there")
    p.add_argument("--json", type=Path, metavar="FILE", help="write the run's results there, as eval.py --json does")
    return p


def history(argv: list[str]) -> int:
    args = history_parser().parse_args(argv)
    kept = History()
    if args.what and _is_run(args.what):
        return show(kept, _entry(kept, args.what), args.output, args.json)
    if args.output or args.json:
        raise UsageError("history: -o and --json go with a run: eval.py history 12 -o submission.py")
    entries = kept.entries(_problem_name(args.what) if args.what else None)
    if not entries:
        print(f"no runs {'of ' + args.what + ' ' if args.what else ''}in {kept.path}")
        return EXIT_PASS
    heads = ("run", "time", "problem", "mode", "device", "verdict", "us", "times", "submission")
    shown = entries[-max(1, args.limit) :]
    print("\n".join(aligned([heads, *map(_cells, shown)], frozenset({0, 6}))))
    if len(shown) < len(entries):
        print(f"{len(entries) - len(shown)} earlier ones: --limit {len(entries)}")
    print(f"us: by the problem's ranking over the cases that ran; kept in {kept.path}")
    return EXIT_PASS


def _cells(entry: Entry) -> tuple[str, ...]:
    return (
        str(entry.id), entry.time[:19].replace("T", " "), entry.problem, entry.mode, entry.device, entry.verdict,
        number(entry.score_us, 5) or NO_TIME, entry.times, (entry.submission or NO_TIME)[:12],
    )  # fmt: skip


def show(kept: History, entry: Entry, submission_to: Path | None, json_to: Path | None) -> int:
    text = kept.submission(entry.submission) if entry.submission else None
    if submission_to is not None:
        if text is None:
            raise HistoryError(f"run {entry.id}: its submission is not in the history")
        _write(submission_to, text)
    document = None if entry.times == "leaderboard" else kept.document(entry.id)
    if json_to is not None:
        _write(json_to, kept.text(entry.id) if document is None else to_json(document).encode())
    print(f"run {entry.id}: {entry.problem} {entry.mode} on {entry.device}, {entry.time}: {entry.verdict}")
    if entry.submission:
        print(f"submission {entry.submission[:12]}" + ("" if text is not None else ", not in the history"))
        for line in (text or b"").decode("utf-8", "replace").splitlines():
            if (words := line.split()) and words[0] == "#" and len(words) == 3 and len(words[1]) == 16:
                print(f"  source {words[1]} {words[2]}")  # as templates/submission.py.jinja lists them
    if document is None:
        print("\n".join(_outside_lines(kept.outside(entry.id))))
    else:
        rows = [("case", "", "status", f"us {entry.times}")]
        for case in document.cases:
            us = number(document.us_of(case), 5) or NO_TIME
            rows.append((str(case.index), case_text(case.spec), case.status.value, us))
        print("\n".join(aligned(rows, frozenset({0, 3}))))
        print("\n".join(f"check: {text}" for text in findings_of(document)) or "no findings")
    return EXIT_PASS


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


def _is_run(word: str) -> bool:
    return word.isdecimal() or word == "last" or word.removeprefix("last-").isdecimal()


def _entry(kept: History, word: str, problem: str | None = None) -> Entry:
    entries = kept.entries(problem)
    if word.startswith("last"):
        back = int(word.partition("-")[2] or 0)
        if back >= len(entries):
            raise HistoryError(f"{word}: the history has {len(entries)} runs ({kept.path})")
        return entries[-1 - back]
    found = [entry for entry in entries if entry.id == int(word)]
    if not found:
        raise HistoryError(f"no run {word} in the history ({kept.path}); eval.py history lists them")
    return found[0]


def _problem_name(word: str) -> str:
    """The leaderboard's name; a name that only the history knows is taken as it is."""
    try:
        return find_problem(word).name
    except ProblemError:
        if History().entries(word):
            return word
        raise


# ---------------------------------------------------------------- compare


def compare_parser() -> Parser:
    p = parser_of(
        "compare",
        "Two runs of one problem beside each other: times, bounds, counters, findings, versions, changed lines.",
        "  eval.py compare 12 15                # what was modelled is compared exactly\n"
        "  eval.py compare last-1 last --all-lines\n"
        "  eval.py compare before.json after.json\n"
        "  eval.py compare 12 15 --rounds 8     # measure both again, in turns: real or noise?",
    )
    for name in ("A", "B"):
        p.add_argument(name.lower(), metavar=name, help="a run's number, last, last-1, ..., or a file of --json")
    p.add_argument("--all-lines", action="store_true", help="every line that changed between the submissions")
    p.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help=f"measure both on this machine's GPU N times in turns, {noise.FEWEST_ROUNDS} to {noise.MOST_ROUNDS};"
        f" {noise.TEST}",
    )
    p.add_argument("--device", default="auto", help="with --rounds: rocm or cuda (default: the machine's)")
    p.add_argument("--cases", default="all", metavar="CHOICE", help="with --rounds: as eval.py benchmark takes it")
    return p


def compare(argv: list[str]) -> int:
    args = compare_parser().parse_args(argv)
    if args.rounds is not None and not noise.FEWEST_ROUNDS <= args.rounds <= noise.MOST_ROUNDS:
        raise UsageError(f"compare: --rounds {args.rounds}: {noise.FEWEST_ROUNDS} to {noise.MOST_ROUNDS}")
    kept = History()
    a, b = (_side(kept, word) for word in (args.a, args.b))
    check_pair(a, b)
    for line in lines_of(a, b, args.all_lines):
        print(line)
    if args.rounds is not None:
        for line in rounds(a, b, args.rounds, args.device, args.cases):
            print(line, flush=True)
    return EXIT_PASS


def _side(kept: History, word: str) -> Side:
    if word.endswith(".py"):
        raise UsageError(
            f"compare: {word} is a submission, not a run: eval.py benchmark PROBLEM --submission {word} --against OTHER"
        )
    if _is_run(word) and not Path(word).exists():
        entry = _entry(kept, word)
        if entry.times == "leaderboard":
            raise ResultError(f"run {entry.id} is an imported result: it has a score and no cases to compare")
        document, name = kept.document(entry.id), f"run {entry.id}"
    else:
        document, name = read_result(Path(word)), word
    return Side(name, document, kept.submission(document.fingerprint.submission_sha256))


def rounds(a: Side, b: Side, count: int, device: str, cases: str) -> Iterator[str]:
    """Both submissions benchmarked `count` times in turns, and what the test says."""
    from forge.commands.against import Other, Pair, PairView
    from forge.commands.planning import eval_parser, make_plan
    from forge.judge.process_tree import adopt_orphans
    from forge.judge.results import Run

    if a.submission is None or b.submission is None:
        raise HistoryError("--rounds: needs both submissions, and the history has not both")
    sides = [(a.name, a.submission), (b.name, b.submission)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission.py"
        path.write_bytes(a.submission)
        problem = a.document.problem
        known = any(entry.name == problem.name for entry in own_entries())
        options = ["--submission", str(path), "--device", device, "--cases", cases, "--no-accuracy"]
        words = ["benchmark", problem.name if known else problem.directory, *options]
        plan, own_eval = make_plan(eval_parser().parse_args(words))
    if plan.device.emulated:
        raise UsageError("--rounds: this machine has no GPU to measure on; modelled times are compared exactly without")
    if own_eval is not None:
        raise UsageError("--rounds: the folder's own eval.py judges, one submission at a time")
    adopt_orphans()
    yield f"{count} rounds in turns on {plan.device.label}; {noise.TEST}"
    times: dict[str, tuple[list[float], list[float]]] = {case.spec: ([], []) for case in plan.cases}
    for turn in range(count):
        (_, first), (name, second) = sides if turn % 2 == 0 else reversed(sides)
        pair = Pair(
            dataclasses.replace(plan, submission=first, back_to_back=False),
            Other(name, second),
            Run(plan.mode, [], timed=True),
        )
        pair.evaluate(PairView(Console(quiet=True), pair, show_output=False))
        for ours, theirs in zip(pair.run.cases, pair.their_run.cases):
            if ours.stats is None or theirs.stats is None:
                lost = ours if ours.stats is None else theirs
                raise UsageError(f"--rounds: round {turn}: {case_text(lost.spec)}: {lost.status.value}: {lost.message}")
            both = (ours, theirs) if turn % 2 == 0 else (theirs, ours)
            for side, result in zip(times[ours.spec], both):
                side.append(result.stats.mean_us if result.stats else 0.0)
    for spec, (a_us, b_us) in times.items():
        yield f"{case_text(spec)}: {noise.verdict(a_us, b_us)}"
    a_all, b_all = ([geometric_mean(us) for us in zip(*(pair[side] for pair in times.values()))] for side in (0, 1))
    yield f"all cases together: {noise.verdict(a_all, b_all)} (single cases' p are not corrected for their number)"


# ---------------------------------------------------------------- report


def report_parser() -> Parser:
    p = parser_of(
        "report",
        "Write a run as one self-contained HTML page: cases, roofline, counters, findings, and the problem's history.",
        "  eval.py report                       # the last run, into report.html\n"
        "  eval.py report amd-fp8-mm -o fp8.html\n"
        "  eval.py report out.json              # a file of eval.py --json",
    )
    p.add_argument(
        "what",
        metavar="RUN|PROBLEM|FILE",
        nargs="?",
        default="last",
        help="a run's number, last, a problem (its last run), or a file of --json (default: last)",
    )
    p.add_argument(
        "-o", "--output", type=Path, default=Path("report.html"), metavar="FILE", help="default: %(default)s"
    )
    return p


def report(argv: list[str]) -> int:
    args = report_parser().parse_args(argv)
    kept = History()
    if args.what.endswith(".json"):
        document = read_result(Path(args.what))
    else:
        runs = [entry for entry in _runs(kept, args.what) if entry.times != "leaderboard"]
        if not runs:
            raise HistoryError(f"report: no run of {args.what} in the history ({kept.path})")
        document = kept.document(runs[-1].id)
    name = document.problem.name
    matrix = "none"
    if any(entry.name == name for entry in own_entries()):
        floors = find_problem(name).floors
        matrix = floors.matrix if floors else "none"
    text = kept.submission(document.fingerprint.submission_sha256)
    write_page(args.output, page_of(document, matrix, _alike(kept, name, document), text))
    print(f"{args.output}: {name} {document.mode}, {document.fingerprint.time}")
    return EXIT_PASS


def _alike(kept: History, problem: str, document: Document) -> list[Entry]:
    """The problem's last runs over the same cases: scores over others cannot stand in one line with its own."""
    specs = {case.spec for case in document.cases}
    official = not document.not_official
    return [
        entry
        for entry in kept.entries(problem)[-MOST_PLOTTED:]
        if (entry.times == "leaderboard" and official)
        or (entry.times != "leaderboard" and {case.spec for case in kept.document(entry.id).cases} == specs)
    ]


def _runs(kept: History, word: str) -> list[Entry]:
    return [_entry(kept, word)] if _is_run(word) else kept.entries(_problem_name(word))


# ---------------------------------------------------------------- import


def import_parser() -> Parser:
    p = parser_of(
        "import",
        "Keep what the leaderboard said, as popcorn-cli printed it, beside modelled and measured times.",
        "  popcorn-cli submit submission.py --mode leaderboard --no-tui --output there.txt\n"
        "  eval.py import there.txt --submission submission.py\n"
        "  popcorn-cli submissions show 1234 > there.txt && eval.py import there.txt   # knows its code\n"
        "  eval.py import report.txt amd-fp8-mm --submission submission.py  # the judge's report: each case's time",
    )
    p.add_argument("file", type=Path, metavar="FILE", help="- for standard input")
    p.add_argument("problem", metavar="PROBLEM", nargs="?", help="default: the leaderboard that the file names")
    p.add_argument("--submission", type=Path, metavar="FILE", help="what was submitted, where the file has no code")
    return p


def import_(argv: list[str]) -> int:
    args = import_parser().parse_args(argv)
    outside = report_.read(_text_of(args.file), str(args.file))
    if not outside.done:
        print("warning: not done there yet: import it again later", file=sys.stderr)
    named = args.submission and directives(read_submission(args.submission)).leaderboard
    problem = outside.leaderboard or (args.problem and _problem_name(args.problem)) or named
    if not problem:
        raise UsageError(
            f"import: {args.file} does not say of which leaderboard it is: eval.py import {args.file} PROBLEM"
        )
    if args.problem is not None and _problem_name(args.problem) != problem:
        print(f"warning: {args.file} is of {problem}, not of {args.problem}: kept as {problem}", file=sys.stderr)
    text = outside.code
    if args.submission is not None:
        given = read_submission(args.submission)
        if text is not None and given.strip() != text.strip():
            raise UsageError(f"import: {args.submission} is not the code that {args.file} shows")
        text = given
    if text is not None and (named := directives(text).leaderboard) not in (None, problem):
        print(f"warning: the submission's header names {named}, and it was submitted to {problem}", file=sys.stderr)
    outside = report_.scored(outside, _ranking_by(problem))
    ranked = [run for run in outside.runs if run.mode in ("benchmark", "leaderboard") and run.score_us is not None]
    ranked.sort(key=lambda run: (run.mode == "benchmark", run.secret))
    score_us = ranked[0].score_us if ranked else None
    times = [run.time for run in outside.runs] + [outside.time]
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    entry = Entry(
        id=0,
        time=next(filter(None, map(popcorn.iso_time, times)), now),
        problem=problem,
        mode=",".join(dict.fromkeys(run.mode for run in outside.runs)) or "none",
        verdict="pass" if outside.runs and all(run.passed for run in outside.runs) else "fail",
        device=",".join(dict.fromkeys(run.runner for run in outside.runs)) or "none",
        times="leaderboard",
        score_us=score_us,
        submission=None if text is None else sha256(text),
        outside=f"{problem}#{outside.number or f'report {sha256(repr(outside).encode())[:12]}'}",
    )
    kept = History()
    number_ = kept.keep_outside(entry, outside, text)
    which, file = f" {outside.number}" if outside.number else "", f", {outside.file_name}" if outside.file_name else ""
    print(f"run {number_}: submission{which} of {problem}{file}")
    print("\n".join(_outside_lines(outside)))
    for line in _too_fast(problem, outside):
        print(f"warning: {line}")
    submission = _entry(kept, str(number_)).submission
    if submission is None:
        print("it has no code, so it stands alone: --submission FILE says what was submitted")
        return EXIT_PASS
    print("\n".join(beside(kept, problem, submission)))
    return EXIT_PASS


def _too_fast(problem: str, outside: popcorn.Outside) -> list[str]:
    try:
        return too_fast_there(find_problem(problem), outside)
    except ProblemError:
        return []


def _ranking_by(problem: str) -> str:
    try:
        return find_problem(problem).ranking_by
    except ProblemError:
        return "geom"


def _outside_lines(outside: popcorn.Outside) -> list[str]:
    rows = [("mode", "on", "verdict", "", "us")]
    for run in outside.runs:
        verdict = "pass" if run.passed else "fail"
        secret = "secret" if run.secret else "public"
        rows.append((run.mode, run.runner, verdict, secret, number(run.score_us, 6) or NO_TIME))
    ran_on = ", ".join(f"{key} {outside.system[key]}" for key in ("GPU", "Torch", "Runtime") if outside.system.get(key))
    return [*aligned(rows, frozenset({4})), *([f"there: {ran_on}"] if ran_on else []), *outside.messages]


def beside(kept: History, problem: str, submission: str) -> list[str]:
    """Predicted, measured here, measured there: each submission's last of each, with one score a device."""
    labels = {"modelled": "predicted (modelled)", "measured": "measured here", "leaderboard": "measured there"}
    latest: dict[tuple[str, str, str], Entry] = {}
    for entry in kept.entries(problem, submission):
        if entry.score_us is not None:
            latest[entry.times, entry.device, entry.mode] = entry
    rows = [
        (
            labels[entry.times],
            entry.device,
            entry.mode,
            number(_score_us(kept, entry), 6),
            f"run {entry.id}",
            _cases(kept, entry),
        )
        for entry in sorted(latest.values(), key=lambda entry: list(labels).index(entry.times))
    ]
    missing = [label for kind, label in labels.items() if kind not in {key[0] for key in latest}]
    lines = aligned([("", "on", "mode", "us", "", ""), *rows], frozenset({3})) if rows else []
    lines += [f"{label}: nothing of this submission in the history" for label in missing]
    return lines + _cases_beside(kept, list(latest.values()))


def _cases_beside(kept: History, entries: list[Entry]) -> list[str]:
    """The same case by case, where the leaderboard's report tells its cases."""
    times: dict[str, dict[frozenset[str], float]] = {}
    specs: dict[frozenset[str], str] = {}
    for entry in entries:
        if entry.times == "leaderboard":
            # ranked ones last: where there are both, they count
            cases = sorted(kept.outside(entry.id).cases, key=lambda case: case.mode)
            found = {case.spec: case.mean_us for case in cases if case.mean_us and not case.secret}
        else:
            found = _predicted_us(kept.document(entry.id))
        for spec, us in found.items():
            key = frozenset(field.strip() for field in spec.split(";"))  # a report may have another order
            specs[key] = spec
            times.setdefault(entry.times, {})[key] = us
    there = times.get("leaderboard", {})
    if len(there.keys() & (times.get("modelled", {}).keys() | times.get("measured", {}).keys())) == 0:
        return []
    kinds = [kind for kind in ("modelled", "measured", "leaderboard") if kind in times]
    heads = {"modelled": "predicted us", "measured": "here us", "leaderboard": "there us"}
    rows = [("case", *(heads[kind] for kind in kinds))]
    for key in there:
        rows.append((case_text(specs[key]), *(number(times[kind].get(key), 5) or NO_TIME for kind in kinds)))
    return aligned(rows, frozenset(range(1, len(kinds) + 1)))


def _predicted_us(document: Document) -> dict[str, float]:
    """By the cases' spec lines: measured, or what the leaderboard's clock would show as far as that is known."""
    on_clock = {case.spec: case.on_clock_us for case in document.cases if case.ran and case.on_clock_us}
    return document.times_us | on_clock


def _score_us(kept: History, entry: Entry) -> float | None:
    if entry.times != "modelled":
        return entry.score_us
    document = kept.document(entry.id)
    return rank_score(list(_predicted_us(document).values()), document.ranking_by)


def _cases(kept: History, entry: Entry) -> str:
    if entry.times == "leaderboard":
        return "the leaderboard's cases"
    document = kept.document(entry.id)
    on_clock = document.clock and any(case.on_clock_us for case in document.cases)
    clock = f", as its {document.clock.name} would show them" if document.clock and on_clock else ""
    return f"{len(document.cases)} cases{clock}" + ", not the leaderboard's" * bool(document.not_official)


def _text_of(path: Path) -> str:
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return data.decode(
            "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        )  # PowerShell's > writes these
    except OSError as error:
        raise UsageError(f"import: {path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"import: {path}: not text, so not what popcorn-cli prints") from None


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "history": history,
    "compare": compare,
    "report": report,
    "import": import_,
}
