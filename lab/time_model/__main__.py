"""python -m lab.time_model run --aiter CHECKOUT [--rows N --seed S], then page and errors: see lab/validation.md."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from pathlib import Path

INSTALL = "pip install -c constraints.txt '.[tune,report]'"
try:
    from .choice import tell as choices
    from .errors import tell
    from .objects import objects, table, try_object
    from .page import statistics_of, trace_line, write_page
    from .rows import RowError, choose, of_problems, sets
    from .runner import dask_results_of, read_results, results_of, rows_of, still_to_do, write
except ModuleNotFoundError as lacking:
    sys.exit(f"time_model: {sys.executable} has no module {lacking.name}: {INSTALL}")

RESULTS = Path("time_model.jsonl")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.time_model", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="model rows and append results to a file; rows that it has are not repeated")
    run.add_argument("--family", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    run.add_argument("--part", choices=("calibrate", "holdout"), default="", help="only these rows (default: both)")
    run.add_argument("--rows", type=int, default=0, metavar="N", help="so many, drawn at random (default: all)")
    run.add_argument(
        "--problems", type=int, default=0, metavar="N", help="all kernels of so many shapes, drawn at random"
    )
    run.add_argument("--kernels", type=int, default=0, metavar="N", help="of each of these, the same ones of all")
    run.add_argument("--most-us", type=float, default=math.inf, metavar="US", help="shapes whose slowest takes less")
    run.add_argument("--seed", type=int, default=0, metavar="S", help="of the draw (default: 0)")
    run.add_argument("--whole", action="store_true", help="run every workgroup instead of a sample")
    run.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask scheduler (default: a cluster on this machine)")
    run.add_argument("--workers", type=int, default=os.cpu_count(), metavar="N", help="processes; 0: none but this one")
    page = commands.add_parser("page", help="write a page of what a file of results says")
    page.add_argument("--page", type=Path, metavar="FILE", help="where to; plots go beside it (default: print only)")
    page.add_argument("--part", choices=("calibrate", "holdout"), default="", help="only these rows (default: both)")
    errors = commands.add_parser(
        "errors", help="what cdna's intervals are made of, and whether rows held out lie within"
    )
    errors.add_argument("--write", action="store_true", help="write cdna's file of it")
    choice = commands.add_parser("choice", help="whether the model chooses the fastest of several published kernels")
    choice.add_argument(
        "--origami", type=Path, metavar="FOLDER", help="rocm-origami, unpacked: AMD's model beside ours"
    )
    choice.add_argument("--write", action="store_true", help="write lab/results/time_model_choice.json")
    loads = commands.add_parser("objects", help="load every code object, run those with a reference, append to a file")
    loads.add_argument("--match", default="", metavar="REGEX", help="only paths with this in them")
    for command in (run, loads):
        command.add_argument("--aiter", type=Path, metavar="CHECKOUT", help="a checkout or bare clone of ROCm/aiter")
    for name in (name for name in sets() if name != "aiter"):
        run.add_argument(f"--{name}", type=Path, metavar="CHECKOUT", help=f"of {sets()[name]['repository']}")
    for command in (run, page, errors, choice, loads):
        command.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help=f"(default: {RESULTS})")
    return parser


def _objects(options: argparse.Namespace) -> int:
    from . import compared  # noqa: F401  # here, for nothing else needs torch

    done = {result["key"] for result in read_results(options.results)}
    chosen = [(path, digest) for path, digest in objects(options.aiter) if re.search(options.match, path)]
    todo = ((path, digest) for path, digest in chosen if digest + path not in done)
    tried = ({"key": digest + path} | try_object(options.aiter, path, digest) for path, digest in todo)
    for result in write(tried, options.results):
        told = result.get("why") or (f"error {result['error']:.1e}" if "error" in result else "")
        print(f"{result['seconds']:6.1f} s  {result['path']} {told}", flush=True)
    for row in table([result for result in read_results(options.results) if "path" in result]):
        print(" | ".join(row))
    return 0


def _run(options: argparse.Namespace) -> int:
    checkouts = {name: path for name in sets() if (path := getattr(options, name)) is not None}
    rows = choose(rows_of(checkouts), options.family, options.part)
    rows = choose(
        of_problems(rows, options.problems, options.seed, options.most_us, options.kernels),
        n=options.rows,
        seed=options.seed,
    )
    todo = still_to_do(rows, options.results)
    print(f"{len(rows)} rows, {len(rows) - len(todo)} of them done before", flush=True)
    sample = not options.whole
    if options.workers or options.scheduler:
        results = dask_results_of(todo, checkouts, sample, options.scheduler, options.workers)
    else:
        results = results_of(todo, checkouts, sample)
    for number, result in enumerate(write(results, options.results), start=1):
        told = result.get("error") or (
            f"{result['published_us']:9.2f} us published, {result['modelled_us']:9.2f} modelled, "
            f"{result['modelled_us'] / result['published_us']:.2f}, {result['bound']}"
            + (f"; {result['unrecorded']}" if result.get("unrecorded") else "")
        )
        print(f"{number:5} {result['seconds']:6.1f} s  {result['code']} {result['shape']}: {told}", flush=True)
    return 0


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        if options.command == "objects" and options.aiter is None:
            raise RowError("--aiter: say where a checkout or bare clone of ROCm/aiter lies")
        if options.command == "run" and not any(getattr(options, name) for name in sets()):
            raise RowError(
                "--aiter: say where a checkout or bare clone of ROCm/aiter lies, or of another set's repository"
            )
        if options.command in ("run", "objects"):
            return (_run if options.command == "run" else _objects)(options)
        part = options.part if options.command == "page" else ""
        results = [result for result in read_results(options.results) if part in ("", result["part"])]
        if options.command == "errors" and results:
            print(tell(results, options.write))
            return 0
        if not results:
            raise RowError(f"{options.results}: no results")
        if options.command == "choice":
            print(choices(results, options.origami, options.write))
            return 0
        for statistics in statistics_of(results):
            print(statistics.line())
        if told := trace_line(results):
            print(told)
        if options.page is not None:
            write_page(results, options.page)
    except RowError as error:
        print(f"time_model: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as lacking:
        print(f"time_model: {sys.executable} has no module {lacking.name}: {INSTALL}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
