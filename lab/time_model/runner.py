"""Models rows, one after the other or over processes and machines by Dask. Results go to a file of JSON lines."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cdna
from cdna.cards import Card, cards
from cdna.engine.settings import as_card
from cdna.observe.counters import clear_caches, counting
from cdna.observe.model import modelled_case_us, modelled_time_us
from cdna.observe.records import take_records
from cdna.version import model_version

from .launches import Launch, Memory, launch_of
from .rows import Row, RowError, read, sets
from .sources import TEMPLATES, Files, kernel_of, template_rows
from .traces import FILES, against_trace, read_trace, traced_kernel

Result = dict[str, Any]  # a line of the file


# AITER's test_common.perftest times 101 calls, each with a copy of all arguments. Where the copies fit into the
# memory-side cache with room to spare, they are found there: rows of up to 1.7 MB are faster than HBM can be, rows of
# 2.2 MB are not (f4gemm on MI355X).
ROOM = 0.75
Content = bytes | Files  # a code object, or a source with what it includes, or a trace


def stays_in_memory_side_cache(launch: Launch, card: Card, calls_in_turn: int) -> bool:
    """Whether a timed call finds its arguments in the memory-side cache."""
    call_bytes = sum(slot.bytes for slot in launch.slots if isinstance(slot, Memory))
    return call_bytes * calls_in_turn <= ROOM * card.memory_side_bytes


def rows_of(checkouts: Mapping[str, Path]) -> list[Row]:
    """The rows of the sets of which there is a checkout."""
    rows = []
    for name, about in sets().items():
        if name in checkouts and "times" in about:
            text = blob(checkouts[name], f"{about['commit']}:{about['times']}").decode(errors="replace")
            rows += template_rows(name, about, text)
        elif name in checkouts:
            rows += read(name)
    return rows


def content_of(row: Row, checkouts: Mapping[str, Path]) -> Content:
    """What `model_row` runs; RowError if the checkout has it not."""
    checkout = checkouts[row.set]
    code = blob(checkout, row.blob)
    if row.family == "trace":
        folder = row.code.rpartition("/")[0]
        return ((row.code, code), *((name, blob(checkout, f"{row.source}:{folder}/{name}")) for name in FILES))
    if row.family not in TEMPLATES:
        return code
    headers = [name for entry in sets()[row.set].get("headers", []) for name in _files(checkout, row.source, entry)]
    return ((row.code, code), *((name, blob(checkout, f"{row.source}:{name}")) for name in headers))


@functools.cache
def _files(checkout: Path, commit: str, entry: str) -> list[str]:
    """A file, or with a / at its end all files of a folder."""
    if not entry.endswith("/"):
        return [entry]
    names = git(checkout, "ls-tree", "-r", "--name-only", commit, entry).decode().splitlines()
    if not names:
        raise RowError(f"{checkout}: no folder {entry} at {commit}")
    return names


def blob(checkout: Path, name: str) -> bytes:
    """A file's content by git's hash, from a work tree or a bare repository. RowError if it is not there."""
    return git(checkout, "cat-file", "blob", name)


def git(checkout: Path, *arguments: str) -> bytes:
    """What git says of a work tree or a bare repository; RowError with its last line where it fails."""
    folder = checkout / ".git" if (checkout / ".git").exists() else checkout
    done = subprocess.run(["git", "--git-dir", str(folder), *arguments], capture_output=True)
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().splitlines()[-1]
        raise RowError(f"{checkout}: no {arguments[-2]} {arguments[-1]}: {why}")
    return done.stdout


@functools.lru_cache(maxsize=8)
def _module(content: bytes) -> Any:
    return cdna.load(content)


def model_row(row: Row, content: Content, sample: bool = True) -> Result:
    """Launches the row's kernel and models its time. An error is part of the result: it ends no run."""
    result: Result = {
        "key": row.key,
        "set": row.set,
        "card": row.card,
        "family": row.family,
        "part": row.part,
        "code": row.shape.get("kernel") or row.code.rsplit("/", 1)[-1],
        "shape": row.shape_text,
        "published_us": row.us,
        "model": model_version(),
    }
    started = time.perf_counter()
    try:
        card = cards()[row.card]
        launch = launch_of(row, card)
        about = sets()[row.set]
        trace = None
        kernel: Any
        if isinstance(content, bytes):
            kernel = _module(content).kernel()
        elif row.family == "trace":
            trace = read_trace(dict(content))
            kernel = traced_kernel(row, trace, card.name)
        else:
            kernel = kernel_of(row, content)
        take_records()
        calls_in_turn = int(row.shape.get("calls_in_turn", about["calls_in_turn"]))
        warm = stays_in_memory_side_cache(launch, card, calls_in_turn)
        again = warm and calls_in_turn == 1  # what the call before it left in the caches, the L2s too, is its own
        with as_card(card.name, card.model), counting(sample):
            clear_caches()
            for _ in range(2 if again else 1):
                record = kernel.launch(launch.grid, launch.block, launch.kernarg, launch.lds_bytes)
        warm = warm and not again
        modelled = modelled_time_us(record, warm)
        us = modelled_case_us([record], warm, about["launches"]).us
        fill_us = card.launch_us + 1e-3 * launch.cleared_bytes / card.hbm_write_gb_s if launch.cleared_bytes else 0.0
        assert record.counters is not None
        result |= {
            "modelled_us": round(us + fill_us, 4),
            "bound": modelled.bound,
            "cycles": round(modelled.cycles),
            "mhz": round(modelled.mhz),
            "parts_us": {name: round(us, 4) for name, us in modelled.parts_us.items()},
            "fill_us": round(fill_us, 4),
            "counters": record.counters.summary(),
        }
        if modelled.unrecorded:
            result["unrecorded"] = modelled.lacking
        if trace is not None:
            result |= against_trace(trace, record.counters, modelled, warm)
    except (cdna.CdnaError, RowError, KeyError) as error:
        result["error"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    result["seconds"] = round(time.perf_counter() - started, 3)
    return result


def read_results(file: Path) -> list[Result]:
    """The results of a file, the last of each row. A line that a killed run left unfinished is passed over."""
    latest: dict[str, Result] = {}
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                result = json.loads(line)
            except json.JSONDecodeError:
                continue
            latest[result["key"]] = result
    return list(latest.values())


def still_to_do(rows: Sequence[Row], file: Path) -> list[Row]:
    """Those of which the file has no result of this version of the model."""
    done = {result["key"] for result in read_results(file) if result["model"] == model_version()}
    return [row for row in rows if row.key not in done]


def results_of(rows: Iterable[Row], checkouts: Mapping[str, Path], sample: bool) -> Iterator[Result]:
    """Models rows in this process."""
    for row in rows:
        yield model_row(row, content_of(row, checkouts), sample)


def dask_results_of(
    rows: Iterable[Row], checkouts: Mapping[str, Path], sample: bool, scheduler: str | None, workers: int
) -> Iterator[Result]:
    """Models rows on a Dask cluster, as they are done: the scheduler's at an address, or one of this machine's cores.

    Code travels with the rows: only this process needs the checkouts."""
    try:
        from distributed import Client, LocalCluster, as_completed
    except ImportError:
        raise RowError("Dask is not installed: pip install -c constraints.txt '.[tune]', or --workers 0") from None
    os.environ["CDNA_THREADS"] = "1"
    local = None if scheduler else LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    with Client(scheduler or local) as client:
        tasks = [client.submit(model_row, row, content_of(row, checkouts), sample, key=row.key) for row in rows]
        for task in as_completed(tasks):
            yield task.result()
            task.release()
    if local is not None:
        local.close()


def write(results: Iterable[Result], file: Path) -> Iterator[Result]:
    """Appends each result to the file as it comes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.exists() and not file.read_bytes().endswith(b"\n")
    with file.open("a", encoding="utf-8") as lines:
        if unfinished:
            lines.write("\n")
        for result in results:
            lines.write(json.dumps(result) + "\n")
            lines.flush()
            yield result
