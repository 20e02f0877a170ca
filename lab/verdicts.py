"""What evaluators make of submissions that deceive, and of honest ones that look odd: lab/corpus.

    python lab/verdicts.py [--official CHECKOUT] [--device cuda] [--jobs N] [-o results/verdicts.json] [NAME ...]

prints a table: kind, what it should be, what eval.py says, and what official evaluators say, on the emulated MI300X.
CHECKOUT: of the organisers' problems, whose eval.py files judge the same problem here; each that docs/harness.md knows
gets a column. What "emulated" stands beside is told from what the emulated device executed, and left out on a GPU.
Exit code 1 where eval.py says otherwise than it should.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from forge.console import EXIT_BUT, EXIT_PASS, aligned  # noqa: E402 - from this checkout
from forge.task.harness import harness_of_eval  # noqa: E402

FOLDER = ROOT / "lab" / "corpus"
PROBLEM = FOLDER / "problem"
DEVICE, TIMEOUT_S = "gfx942", 120
# Behind what an entry should be: a GPU does not count what kernels execute; another mode than test; with --replay.
EMULATED, BENCHMARK, REPLAY = "emulated", "benchmark", "replay"
CASE = "m: 16; n: 32; k: 256; seed: 11\n"
ROWS = ("amd", "amd_202602")  # of official evaluators that judge one GPU


@dataclass(frozen=True)
class Entry:
    name: str
    expected: str  # caught; but (a pass that is doubted); pass
    kind: str
    source: str  # of the submission
    emulated_alone: bool = False
    mode: str = "test"
    replayed: bool = False


def corpus() -> list[Entry]:
    head = (FOLDER / "kernel.py").read_text()
    entries = []
    for path in sorted(FOLDER.glob("*.py")):
        if path.name != "kernel.py":
            first, _, body = path.read_text().partition("\n")
            words, _, kind = first.removeprefix("# ").partition(": ")
            expected, *where = words.split(", ")
            mode = BENCHMARK if BENCHMARK in where else "test"
            entries.append(Entry(path.stem, expected, kind, head + body, EMULATED in where, mode, REPLAY in where))
    return entries


def outcome(exit_code: int) -> str:
    """What a run's exit code under --strict is in this table: what else it says a submission may have written."""
    return {EXIT_PASS: "pass", EXIT_BUT: "but"}.get(exit_code, "caught")


def judged(entry: Entry, device: str) -> tuple[str, str]:
    """(outcome, in words) of eval.py."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "submission.py").write_text(entry.source)
        options = (
            "--device",
            device,
            "--json",
            "out.json",
            "--timeout",
            "60",
            "--strict",
            "--trust",
            *["--replay"] * entry.replayed,
        )
        done = call_eval(entry.mode, PROBLEM, *options, cwd=folder)
        result = json.loads((folder / "out.json").read_text())
    case = result["broken"] or result["cases"][0]
    words = "; ".join(case["buts"]) or case["message"]
    return outcome(done.returncode), f"{case['status']}: {words}" if words else case["status"]


def call_eval(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "eval.py"), *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=3 * TIMEOUT_S)


def officially(entry: Entry, evaluator: Path) -> str:
    """The outcome of an organisers' eval.py."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in (evaluator, evaluator.with_name("utils.py"), PROBLEM / "task.py", PROBLEM / "reference.py"):
            (folder / source.name).write_bytes(source.read_bytes())
        (folder / "submission.py").write_text(entry.source)
        (folder / "cases.txt").write_text(CASE)
        reader, writer = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "forge.device", DEVICE, "--", sys.executable, "eval.py", "test", "cases.txt"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "POPCORN_FD": str(writer)},
            pass_fds=(writer,),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(writer)
        try:
            process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "caught"  # it hangs: no result
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
        os.set_blocking(reader, False)
        with os.fdopen(reader, "rb") as keys:
            said = keys.read() or b""
    return "pass" if b"check: pass" in said else "caught"


def evaluators(checkout: Path) -> dict[str, Path]:
    """The known eval.py files of a checkout, by row."""
    found: dict[str, Path] = {}
    for path in sorted(checkout.rglob("eval.py")):
        row = harness_of_eval(path)
        if row is not None and row.name in ROWS and path.with_name("utils.py").is_file():
            found.setdefault(row.name, path)
    return found


def row_of(entry: Entry, device: str, theirs: dict[str, Path]) -> list[str]:
    ours, words = judged(entry, device)
    official = [officially(entry, path) for path in theirs.values()]
    return [entry.kind, entry.expected, ours, *official, words.replace("|", "/")[:100]]


def written(rows: list[list[str]], columns: list[str], device: str) -> dict[str, object]:
    """The table as lab/measurements.py reads it."""
    from importlib.metadata import version

    where = "this machine's GPU" if device == "cuda" else "an emulated MI300X"
    theirs = [f"of the organisers' {name}" for name in columns[3:-1]]
    return {
        "title": f"Submissions that deceive, and honest ones that look odd: verdicts, on {where}",
        "kind": "measured" if device == "cuda" else "emulated",
        "machine": "one GPU" if device == "cuda" else "an emulated MI300X (gfx942)",
        "versions": {name: version(name) for name in ("torch", "triton")},
        "command": f"python lab/verdicts.py --device {device}{' --official CHECKOUT' if theirs else ''}",
        "columns": columns,
        "rows": rows,
        "notes": [
            "*caught*: another verdict than a pass; *but*: a pass that is doubted, in colour and with an exit code "
            f"under `--strict`. Verdicts of eval.py{''.join(', ' + name for name in theirs)}; "
            "the last column is what eval.py says."
        ],
    }


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--official", metavar="CHECKOUT", type=Path, help="of the organisers' problems")
    parser.add_argument("--device", choices=[DEVICE, "cuda"], default=DEVICE)
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="submissions at once (default: 1)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="the table as a results file")
    parser.add_argument("names", metavar="NAME", nargs="*", help="submissions (default: all)")
    options = parser.parse_args(argv)
    theirs = evaluators(options.official) if options.official else {}
    if options.official and not theirs:
        parser.error(f"{options.official}: no eval.py of {' or '.join(ROWS)} with a utils.py beside it")
    columns, rows = ["submission", "should be", "eval.py", *theirs, "in words"], []
    chosen = [entry for entry in corpus() if not options.names or entry.name in options.names]
    chosen = [entry for entry in chosen if options.device == DEVICE or not entry.emulated_alone]
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda entry: row_of(entry, options.device, theirs), chosen):
            rows.append(row)
            print(aligned([row])[0], file=sys.stderr)
            if options.output:
                options.output.write_text(json.dumps(written(rows, columns, options.device), indent=1) + "\n")
    wrong = sum(row[1] != row[2] for row in rows)
    print("\n".join(aligned([columns, *rows])))
    print(f"{len(rows)} submissions, {wrong} judged otherwise than they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
