"""Whether each door gives the verdict that eval.py gives alone: submissions of lab/corpus that deceive, through
`forge judge`, `forge serve` and `forge mcp`.

    python lab/doors.py [--count 20] [--seed 1] [-o results/doors.json] [NAME ...]

All are told to each door at once, in an order by chance. Exit code 1 where a door says otherwise than eval.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from forge.bulk.verdict import read_verdict  # noqa: E402 - from this checkout
from forge.commands.outcome import cause_of  # noqa: E402
from forge.console import aligned  # noqa: E402
from forge.history.document import read_result  # noqa: E402
from lab.verdicts import DEVICE, PROBLEM, Entry, corpus  # noqa: E402

FORGE = [sys.executable, "-m", "forge"]
OPTIONS = ["--problem", str(PROBLEM), "--device", DEVICE, "--trust", "--timeout", "120"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
STATUS = re.compile(r"^(?:submission \w+: )?(passed|doubtful|wrong|crashed|\w+_\w+|invalid|timeout|tampered)\b", re.M)


def alone(entries: list[Entry]) -> dict[str, str]:
    said: dict[str, str] = {}
    for one in entries:
        with tempfile.TemporaryDirectory() as folder:
            (path := Path(folder, "submission.py")).write_text(one.source)
            words = [one.mode, str(PROBLEM), "--submission", str(path), "--device", DEVICE, "--strict", "--trust"]
            words += ["--timeout", "120", *["--replay"] * one.replayed, "--no-history", "--json", f"{folder}/out.json"]
            subprocess.run([*FORGE, "eval", *words], env=ENVIRONMENT, capture_output=True)
            said[one.name] = cause_of(read_result(Path(folder, "out.json"))).status
    return said


def requests_of(entries: list[Entry]) -> list[dict[str, str]]:
    return [{"id": one.name, "source": one.source, "mode": one.mode} for one in entries]


def in_bulk(entries: list[Entry]) -> dict[str, str]:
    lines = "\n".join(map(json.dumps, requests_of(entries)))
    done = subprocess.run(
        [*FORGE, "judge", *OPTIONS, "--workers", "2"], input=lines, env=ENVIRONMENT, capture_output=True, text=True
    )
    return {one.id: one.status for one in map(read_verdict, done.stdout.splitlines())}


def over_http(entries: list[Entry]) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        words = ["serve", *OPTIONS, "--workers", "2", "--port", "0", "--queue", f"{folder}/queue"]
        service = subprocess.Popen([*FORGE, *words], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        try:
            assert service.stderr is not None
            where = service.stderr.readline().partition("http://")[2].partition(",")[0]

            def ask(path: str, body: Any = None) -> Any:
                data = None if body is None else json.dumps(body).encode()
                asked = urllib.request.Request(f"http://{where}{path}", data, {"Content-Type": "application/json"})
                return json.load(urllib.request.urlopen(asked))

            ask("/batch", requests_of(entries))
            said: dict[str, str] = {}
            while len(said) < len(entries):
                time.sleep(1)
                for one in entries:
                    task = {} if one.name in said else ask(f"/tasks/{one.name}")
                    said |= {one.name: task["verdict"]["status"]} if task.get("state") == "done" else {}
            return said
        finally:
            service.terminate()
            service.wait()


def as_tools(entries: list[Entry]) -> dict[str, str]:
    async def converse() -> dict[str, str]:
        from mcp import Client, StdioServerParameters, stdio_client

        server = StdioServerParameters(command=sys.executable, args=["-m", "forge", "mcp", *OPTIONS], env=ENVIRONMENT)
        said: dict[str, str] = {}
        async with Client(stdio_client(server)) as client:
            for one in entries:
                answer = await client.call_tool(one.mode, {"submission": one.source})
                found = STATUS.search("\n".join(str(getattr(part, "text", "")) for part in answer.content))
                said[one.name] = found[1] if found else "no status"
        return said

    return asyncio.run(converse())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    drawn, hostile = random.Random(args.seed), [one for one in corpus() if one.expected != "pass" and not one.replayed]
    if args.names:
        entries = [one for one in corpus() if one.name in args.names]
    else:
        entries = drawn.sample(hostile, min(args.count, len(hostile)))
    said: dict[str, dict[str, str]] = {}
    for name, door in (("alone", alone), ("bulk", in_bulk), ("http", over_http), ("mcp", as_tools)):
        said[name] = door(drawn.sample(entries, len(entries)))
    rows = [(one.name, one.expected, *(said[door].get(one.name, "none") for door in said)) for one in entries]
    print("\n".join(aligned([("submission", "should be", *said), *rows])))
    differ = [row[0] for row in rows if len(set(row[2:])) > 1]
    print(f"{len(rows) - len(differ)} of {len(rows)} have one verdict at every door", *differ)
    if args.output is not None:
        told = {
            "title": "What each door says of submissions that deceive",
            "kind": "emulated",
            "machine": "an emulated MI300X (gfx942)",
            "versions": {name: version(name) for name in ("torch", "triton", "starlette", "mcp")},
            "command": f"python lab/doors.py --count {len(entries)} --seed {args.seed}",
            "columns": ["submission", "should be", *said],
            "rows": rows,
        }
        args.output.write_text(json.dumps(told, indent=1) + "\n")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
