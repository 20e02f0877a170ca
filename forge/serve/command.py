"""forge serve: verdicts over HTTP (docs/serve.md)."""

import argparse
import contextlib
import importlib.util
import ipaddress
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from forge.bulk.command import options_of, pass_on
from forge.bulk.judge import Judge
from forge.bulk.verdict import BadRequest
from forge.console import EXIT_BAD_INPUT, EXIT_INTERRUPTED, Parser, UsageError, end_on_signals
from forge.device import NAMES as DEVICE_NAMES
from forge.judge.libc import PR_SET_DUMPABLE, try_prctl

TOKEN = "FORGE_TOKEN"
LOOPBACK = ["localhost", "127.0.0.1", "[::1]", "::1"]
LEAST_TOKEN = 16  # characters
MOST_CONNECTIONS, ENDS_IN_S = 256, 5
EXAMPLES = """\
examples:
  forge serve --problem amd-fp8-mm --workers 2
  curl -H 'Content-Type: application/json' -d '{"id": "1", "source": "..."}' localhost:8942/evaluate?wait=60
  FORGE_TOKEN=$(cat token) forge serve --host 0.0.0.0 --queue /var/lib/forge
"""


def parser() -> Parser:
    p = Parser(
        prog="forge serve",
        description="Judge what comes over HTTP, strictly; what was asked and judged lies in a folder (docs/serve.md).",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLES,
    )
    p.add_argument("--host", default="127.0.0.1", help=f"default: %(default)s; any but loopback needs ${TOKEN}")
    p.add_argument("--port", type=int, default=8942, help="default: %(default)s; 0: one that is free")
    p.add_argument("--queue", type=Path, default=Path("forge-queue"), metavar="FOLDER", help="default: ./%(default)s")
    p.add_argument("--most", type=int, default=10_000, metavar="N", help="so many wait at most (default: %(default)s)")
    p.add_argument(
        "--kept", type=int, default=100_000, metavar="N", help="verdicts that are kept (default: %(default)s)"
    )
    p.add_argument("--problem", default="", help="a leaderboard name, or a folder: of requests that name none")
    p.add_argument("--device", default="auto", choices=DEVICE_NAMES, help="of requests that name none")
    p.add_argument("--workers", type=int, default=1, metavar="N", help="so many at a time (default: %(default)s)")
    p.add_argument("--baseline", default="", metavar="NAME", help="as forge judge takes it")
    pass_on(p)
    return p


def is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"


def token_for(host: str) -> str:
    """$FORGE_TOKEN; it is told to no submission."""
    token = os.environ.pop(TOKEN, "").strip()
    if token and len(token) < LEAST_TOKEN:
        raise UsageError(f"${TOKEN}: shorter than {LEAST_TOKEN} characters")
    if not token and not is_loopback(host):
        raise UsageError(f"--host {host}: others can reach it, so it needs a token in ${TOKEN}")
    return token


def main(argv: Sequence[str]) -> int:
    end_on_signals()
    try:
        args = parser().parse_args(argv)
        missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
        if missing:
            raise UsageError(f"needs {' and '.join(missing)}: pip install 'cdna-forge[serve]'")
        return serve(args, token_for(args.host))
    except (UsageError, BadRequest) as error:
        print(f"forge serve: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def serve(args: argparse.Namespace, token: str) -> int:
    import uvicorn

    from forge.serve.app import Service, application
    from forge.serve.judging import Judging
    from forge.serve.queue import Queue

    try_prctl(PR_SET_DUMPABLE, 0)  # nobody else reads its environment
    for name in ("most", "kept", "workers"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name} {getattr(args, name)}: at least 1")
    judge = Judge(
        args.workers, problem=args.problem, device=args.device, options=options_of(args), baseline=args.baseline
    )
    with Queue(args.queue, args.most, args.kept) as queue:
        try:
            family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
            listening = socket.create_server((args.host.strip("[]"), args.port), family=family)
        except (OSError, OverflowError) as error:
            raise UsageError(f"--host {args.host} --port {args.port}: {error}") from None
        judging = Judging(queue, judge)
        hosts = LOOPBACK if is_loopback(args.host) and not token else []
        app = application(Service(queue, judge, judging, args.workers), hosts, token)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=ENDS_IN_S, lifespan="off", server_header=False,
        )  # fmt: skip
        where = f"{args.host}:{listening.getsockname()[1]}"
        print(f"forge serve: http://{where}, queue {args.queue}", file=sys.stderr, flush=True)
        judging.start()
        try:
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            judging.stopped.set()
            judging.join()
            listening.close()
    return EXIT_INTERRUPTED
