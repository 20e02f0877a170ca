"""The service's pages: what may be asked, by whom, and what is answered. No submission runs in this process."""

import asyncio
import hashlib
import hmac
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request as Asked
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from forge.bulk.command import decoded
from forge.bulk.judge import Judge
from forge.bulk.verdict import BadRequest, Request, refused, to_line
from forge.device import NAMES as DEVICE_NAMES
from forge.generate.submission import MOST_BYTES
from forge.judge.plan import BAD_INPUT
from forge.serve.judging import Judging
from forge.serve.queue import Full, Queue, Task
from forge.task.problem import own_entries

MOST_BODY_BYTES, MOST_BATCH_BYTES, MOST_BATCH = MOST_BYTES + (1 << 20), 64 << 20, 10_000
MOST_WAIT_S, LOOKS_EVERY_S, RETRY_S = 60.0, 0.1, "10"


class TooLarge(Exception):
    """A body that is not read."""


def answer(status: int, value: Any, **headers: str) -> Response:
    return Response(msgspec.json.encode(value) + b"\n", status, {**headers, "Content-Type": "application/json"})


def refusal(error: BaseException, name: str = "?", key: str = "") -> msgspec.Raw:
    """The record of what is no task: as `forge judge` writes it."""
    return msgspec.Raw(to_line(refused(Request(id=name or "?"), error, key)).strip())


class OnlyWithToken:
    """Who asks for more than whether the service is there has to know the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.digest = app, hashlib.sha256(token.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/health":
            said = dict(scope["headers"]).get(b"authorization", b"")
            kind, _, token = said.partition(b" ")
            good = hmac.compare_digest(hashlib.sha256(token.strip()).digest(), self.digest)
            if kind.lower() != b"bearer" or not good:
                words = refusal(BadRequest("wrong token: it goes into a header 'Authorization: Bearer TOKEN'"))
                return await answer(401, words, **{"WWW-Authenticate": "Bearer"})(scope, receive, send)
        await self.app(scope, receive, send)


class Service:
    """The handlers of one service."""

    def __init__(self, queue: Queue, judge: Judge, judging: Judging, workers: int) -> None:
        self.queue, self.judge, self.judging, self.workers = queue, judge, judging, workers
        self.refused = 0
        self.problems = {entry.name for entry in own_entries()} | {judge.asked["problem"]}

    async def evaluate(self, asked: Asked) -> Response:
        name = "?"
        try:
            said = decoded(await body_of(asked, MOST_BODY_BYTES))
            name = str(said.get("id") or secrets.token_hex(8))
            (task,) = self.queue.add([self.order_of({**said, "id": name})])
            if isinstance(task, BadRequest):
                return self.refuse(409, task, name)
            return await self.told(task, asked)
        except Exception as error:
            return self.failed(error, name)

    async def batch(self, asked: Asked) -> Response:
        """A record each, in their order: a task, or why there is none."""
        try:
            lines = lines_of(await body_of(asked, MOST_BATCH_BYTES))
            records: list[Any] = []
            orders, places, ids = [], [], set()
            for line in lines:
                name = "?"
                try:
                    said = decoded(bytes(line))
                    name = str(said.get("id") or secrets.token_hex(8))
                    if name in ids:
                        raise BadRequest(f"another submission has the id {name!r}")
                    ids.add(name)
                    orders.append(self.order_of({**said, "id": name}))
                    places.append(len(records))
                    records.append(None)
                except (BadRequest, *BAD_INPUT) as error:
                    self.refused += 1
                    records.append(refusal(error, name))
            for place, order, task in zip(places, orders, self.queue.add(orders)):
                told = refusal(task, order.request.id) if isinstance(task, BadRequest) else task
                self.refused += isinstance(task, BadRequest)
                records[place] = told
            return answer(202, records)
        except Exception as error:
            return self.failed(error, "?")

    def order_of(self, said: dict[str, Any]) -> Any:
        """A client names none of the service's files, and no folder: what a problem's reference.py says runs here."""
        if "file" in said:
            raise BadRequest("a service takes 'source', the text of a submission, not 'file'")
        if (problem := said.get("problem", "")) and problem not in self.problems:
            raise BadRequest(f"unknown problem {problem!r}: known: {', '.join(sorted(filter(None, self.problems)))}")
        if (device := said.get("device", "auto")) not in DEVICE_NAMES:
            raise BadRequest(f"unknown device {device!r}: choose one of {', '.join(DEVICE_NAMES)}")
        return self.judge.order_of(said)

    async def task(self, asked: Asked) -> Response:
        name = asked.path_params["name"]
        try:
            task = self.queue.get(name)
            if task is None:
                return self.refuse(404, BadRequest("no such task"), name)
            return await self.told(task, asked)
        except Exception as error:
            return self.failed(error, name)

    async def told(self, task: Task, asked: Asked) -> Response:
        """After so long as ?wait=S says, if it is not done before."""
        try:
            wait_s = min(MOST_WAIT_S, float(asked.query_params.get("wait", 0)))
        except ValueError:
            raise BadRequest("wait=S: S is a number of seconds") from None
        ends = time.monotonic() + wait_s
        now: Task | None = task
        while now is not None and now.state != "done" and time.monotonic() < ends:
            await asyncio.sleep(LOOKS_EVERY_S)
            now = self.queue.get(task.id)
        now = now or task
        return answer(200 if now.state == "done" else 202, now)

    def failed(self, error: Exception, name: str) -> Response:
        if isinstance(error, TooLarge):
            return self.refuse(413, BadRequest(str(error)), name, Connection="close")
        if isinstance(error, (Full, sqlite3.Error)):
            full = error if isinstance(error, Full) else f"the queue's disk: {error}"
            return self.refuse(503, BadRequest(str(full)), name, **{"Retry-After": RETRY_S})
        if isinstance(error, (BadRequest, *BAD_INPUT)):
            return self.refuse(400, error, name)
        raise error

    def refuse(self, status: int, error: BaseException, name: str, **headers: str) -> Response:
        self.refused += 1
        return answer(status, refusal(error, name), **headers)

    async def health(self, asked: Asked) -> Response:
        trouble = self.judging.trouble or ("" if self.judging.is_alive() else "nobody judges")
        counts = Counter[str]()
        try:
            counts = self.queue.counts()
        except sqlite3.Error as error:
            trouble = trouble or str(error)
        said = {"status": "trouble" if trouble else "ok", "queued": counts["queued"]}
        return answer(503 if trouble else 200, {**said, "running": counts["running"], "workers": self.workers})

    async def metrics(self, asked: Asked) -> Response:
        counts, judging = self.queue.counts(), self.judging
        lines = ["# TYPE forge_tasks gauge"]
        lines += [f'forge_tasks{{state="{state}"}} {counts[state]}' for state in ("queued", "running", "done")]
        lines += ["# TYPE forge_verdicts_total counter"]
        lines += [f'forge_verdicts_total{{status="{status}"}} {n}' for status, n in sorted(judging.statuses.items())]
        for kind, name, value in (
            ("counter", "forge_judging_seconds_total", judging.seconds),
            ("counter", "forge_refused_requests_total", self.refused),
            ("gauge", "forge_workers", self.workers),
            ("gauge", "forge_queue_capacity", self.queue.most),
        ):
            lines += [f"# TYPE {name} {kind}", f"{name} {value:g}"]
        return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


async def body_of(asked: Asked, most: int) -> bytes:
    """No more of it is read than it may have. JSON says that no form of a page somewhere has sent it."""
    kind = asked.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/json", "application/jsonl", "application/x-ndjson"):
        raise BadRequest("what is asked is JSON: say so in a header 'Content-Type: application/json'")
    too_large = TooLarge(f"larger than {most >> 20} MiB")
    if int(asked.headers.get("content-length") or 0) > most:
        raise too_large
    read = bytearray()
    async for part in asked.stream():
        read += part
        if len(read) > most:
            raise too_large
    return bytes(read)


def lines_of(body: bytes) -> Sequence[bytes | msgspec.Raw]:
    """Of a list of requests, {"submissions": [...]}, or of lines."""
    lines: Sequence[bytes | msgspec.Raw] = [line for line in body.split(b"\n") if line.strip()]
    if len(lines) != 1 or body.lstrip()[:1] == b"[" or b'"submissions"' in body[:64]:
        try:
            lines = msgspec.json.decode(body, type=list[msgspec.Raw] | dict[str, list[msgspec.Raw]])
            lines = lines["submissions"] if isinstance(lines, dict) else lines
        except (msgspec.DecodeError, KeyError, RecursionError) as error:
            if body.lstrip()[:1] == b"[":
                raise BadRequest(f"no list of requests: {error}") from None
    if len(lines) > MOST_BATCH:
        raise BadRequest(f"{len(lines)} submissions: at most {MOST_BATCH} at a time")
    return lines


def application(service: Service, hosts: list[str], token: str) -> Starlette:
    routes = [
        Route("/evaluate", service.evaluate, methods=["POST"]),
        Route("/batch", service.batch, methods=["POST"]),
        Route("/tasks/{name:path}", service.task),
        Route("/health", service.health),
        Route("/metrics", service.metrics),
    ]
    guards = [Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)] if hosts else []
    guards += [Middleware(OnlyWithToken, token=token)] if token else []
    return Starlette(routes=routes, middleware=guards)
