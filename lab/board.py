"""Every problem's variants side by side: modelled times of all official benchmark cases, into lab/results/board.json,
and their means into task.yml, whose fastest variant is the default.

    python -m lab.board [PROBLEM ...] [--workers N] [--rows FILE] [--minutes M] [--peer PROBLEM:NAME=FILE ...]

A case of a variant is one row of FILE, with its submission's and the model's hash: what is there is not modelled again,
so an interrupted run goes on, and a changed kernel or model is modelled anew. Nothing is judged here (--no-judge):
the tests do that. A peer is anybody's submission.py, unmodified.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from forge import problems  # noqa: E402 - from this checkout
from forge.device.release import model  # noqa: E402
from forge.generate.render import generate, variants_of  # noqa: E402
from forge.history.document import Document, read_result  # noqa: E402
from forge.task.cases import spec_of  # noqa: E402
from forge.task.problem import find_problem  # noqa: E402

TABLE = ROOT / "lab" / "results" / "board.json"
OF_NVIDIA = "symm_mem"  # a variant that no emulated card runs
COLUMNS = ["problem", "submission", "modelled, us", "best published, us", "light, us", "cases, us", "model"]


@dataclass(frozen=True)
class Entry:
    problem: str
    name: str
    source: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]


def entries(options: argparse.Namespace) -> Iterator[Entry]:
    for one in problems():
        if not options.problems or one.name in options.problems:
            for variant in variants_of(one):
                if variant not in ("baseline", OF_NVIDIA):  # torch's own: what it cannot be below is no time
                    yield Entry(one.name, variant, generate(one, variant).text)
    for peer in options.peer:
        place, _, file = peer.partition("=")
        problem, _, name = place.partition(":")
        yield Entry(problem, name, Path(file).read_text())


def rows_of_this_model(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """By submission and case."""
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [row for row in map(json.loads, lines) if row["model"] == model()]
    return {(row["submission"], row["case"]): row for row in rows}


def modelled(entry: Entry, index: int) -> dict[str, Any] | str:
    """A row; what eval.py said where it has no time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "submission.py").write_text(entry.source)
        device = find_problem(entry.problem).arch or ""
        words = ["benchmark", entry.problem, "--device", device, "--cases", str(index), "--no-judge"]
        words += ["--json", "out.json", "--no-history", "--no-accuracy"]
        command = [sys.executable, str(ROOT / "eval.py"), *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        report = read_result(folder / "out.json")
    case = report.cases[0] if isinstance(report, Document) and report.cases else None
    if not isinstance(report, Document) or case is None or (time_us := report.modelled(case)) is None:
        return case.message if case and case.message else (done.stderr.splitlines() or ["no time"])[-1]
    compilers = report.fingerprint.compilers
    return {
        "problem": entry.problem, "name": entry.name, "submission": entry.digest, "case": case.spec,
        "us": time_us.us, "bound": time_us.bound, "share": case.share,
        "light_us": case.floor.light_us if case.floor else None, "torch": report.fingerprint.torch,
        "compilers": {key: text for key in ("triton", "hip") if (text := getattr(compilers, key))},
        "model": report.fingerprint.model, "elapsed_s": round(report.elapsed_s, 1),
    }  # fmt: skip


def run(found: Sequence[Entry], options: argparse.Namespace) -> None:
    """Largest first: of many workers none is left with one of them."""
    done, ends = rows_of_this_model(options.rows), time.monotonic() + 60 * options.minutes
    left = [
        (entry, index, math.prod(value for value in case.values() if isinstance(value, int) and value > 0))
        for entry in found
        for index, case in enumerate(find_problem(entry.problem).benchmarks)
        if (entry.digest, spec_of(case)) not in done
    ]

    def one(work: tuple[Entry, int, int]) -> tuple[str, dict[str, Any] | str]:
        name = f"{work[0].problem}/{work[0].name}/{work[1]}"
        return name, modelled(work[0], work[1]) if time.monotonic() < ends else "not begun"

    with ThreadPoolExecutor(options.workers) as pool, options.rows.open("a") as out:
        for future in as_completed([pool.submit(one, work) for work in sorted(left, key=lambda work: -work[2])]):
            name, row = future.result()
            if isinstance(row, str):
                print(f"{name}: {row}", file=sys.stderr, flush=True)
            else:
                out.write(json.dumps(row) + "\n")
                out.flush()
                print(f"{name}: {row['us']:.4g} us, {row['bound']} ({row['elapsed_s']} s)", flush=True)


def mean_us(times: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, times)) / len(times))


def with_means(text: str, found: Sequence[Entry], rows: dict[tuple[str, str], dict[str, Any]]) -> str:
    """task.yml with the means of those problems of which all variants have all times; the fastest is the default."""
    for name in dict.fromkeys(entry.problem for entry in found):
        problem = find_problem(name)
        ours = variants_of(problem)
        times = {
            entry.name: [
                rows[key]["us"] for case in problem.benchmarks if (key := (entry.digest, spec_of(case))) in rows
            ]
            for entry in found
            if entry.problem == name and entry.name in ours
        }
        if all(len(us) == len(problem.benchmarks) for us in times.values()):
            told = ", ".join(f"{variant}: {mean_us(us):.4g}" for variant, us in times.items())
            place = re.compile(rf"(^ +name: {name}\n(?: +\w+: .*\n)*?) +(?:variant|modelled_us): .*\n", re.MULTILINE)
            text = place.sub(rf"\1        modelled_us: {{{told}}}\n", text)
    return text


def cells(entry: Entry, rows: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    """Of the table; the mean only where all cases are there."""
    problem = find_problem(entry.problem)
    found = [rows.get((entry.digest, spec_of(case))) for case in problem.benchmarks]
    times = [one["us"] for one in found if one]
    whole = len(times) == len(found)
    lights = [one["light_us"] for one in found if one and one["light_us"]]
    published = [mean_us([us for us in one.us if us]) for one in problem.published if one.us and None not in one.us]
    return [
        entry.problem,
        f"{entry.name}{' (default)' if entry.name == problem.variant else ''}",
        f"{mean_us(times):.4g}" if whole else f"{len(times)} of {len(found)} cases",
        f"{min(published):.4g}" if published else "-",
        f"{mean_us(lights):.3g}" if whole and len(lights) == len(found) else "-",
        ", ".join(f"{one['us']:.4g}" if one else "-" for one in found),
        ", ".join(sorted({one["model"] for one in found if one})) or "-",
    ]


def table(found: Sequence[Entry], rows: dict[tuple[str, str], dict[str, Any]]) -> dict[str, object]:
    made_by: dict[str, set[str]] = {"torch": {row["torch"] for row in rows.values()}}
    for row in rows.values():
        for compiler, version in row["compilers"].items():
            made_by.setdefault(compiler, set()).add(version)
    versions = {name: ", ".join(sorted(those)) for name, those in sorted(made_by.items())}
    return {
        "title": "The boards: every variant, all official benchmark cases",
        "kind": "modelled",
        "machine": "an emulated MI300X (gfx942) or MI355X (gfx950), eight of them where the leaderboard has eight",
        "versions": versions,
        "command": "python -m lab.board",
        "columns": COLUMNS,
        "rows": [cells(entry, rows) for entry in found],
        "notes": [
            "Geometric means, as the leaderboards rank. Of large cases a sample of the workgroups is emulated. "
            "Published times are those of reference/*/task.yml, on their authors' clocks: they hold launches, and "
            "some the host's time, which a modelled time does not. Compare rows of this table with each other."
        ],
    }


def beside_others(made: dict[str, Any]) -> dict[str, object] | None:
    """With the rows that TABLE has of problems which were not asked for; each row names its model. None: other versions
    have made those."""
    before, asked = json.loads(TABLE.read_text()), {row[0] for row in made["rows"]}
    kept = [row for row in before["rows"] if row[0] not in asked]
    if kept and before["versions"] != made["versions"]:
        return None
    order = [one.name for one in problems()]
    return {**made, "rows": sorted(made["rows"] + kept, key=lambda row: order.index(row[0]))}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", help="a leaderboard's name (default: all)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="cases at a time (default: 1)")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="M", help="begin none after so long")
    parser.add_argument(
        "--rows", type=Path, default=ROOT / "build" / "board.jsonl", metavar="FILE", help="what is done"
    )
    parser.add_argument(
        "--peer", action="append", default=[], metavar="PROBLEM:NAME=FILE", help="anybody's file beside ours"
    )
    options = parser.parse_args(argv)
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    found = list(entries(options))
    run(found, options)
    rows, sets = rows_of_this_model(options.rows), ROOT / "task.yml"
    made = table(found, rows)
    sets.write_text(with_means(sets.read_text(), found, rows))
    if whole := beside_others(made):
        TABLE.write_text(json.dumps(whole, indent=1) + "\n")
    else:
        print(f"{TABLE.name} stays: its other problems' rows are of other versions of the compilers", file=sys.stderr)
    for line in made["rows"]:  # type: ignore[attr-defined]
        print(" | ".join(line))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
