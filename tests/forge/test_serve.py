"""The service through HTTP: one clear record for whatever comes, and nothing lost when it ends."""

import http.client
import importlib.util
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import forge.__main__ as one
from forge.bulk.judge import Judge
from forge.bulk.verdict import BadRequest, Verdict
from forge.console import EXIT_BAD_INPUT, EXIT_INTERRUPTED, UsageError
from forge.serve.command import TOKEN, is_loopback, token_for
from forge.serve.queue import ATTEMPTS, Full, Queue
from lab.verdicts import PROBLEM
from tests.support.evaltools import names_itself, processes_named, start
from tests.support.limits import ENDS_S

pytestmark = pytest.mark.long
needs_serve = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("starlette", "uvicorn")),
    reason="needs starlette and uvicorn (pip install 'cdna-forge[serve]')",
)
RIGHT = (PROBLEM.parent / "kernel.py").read_text() + "custom_kernel = product\n"
SECRET = "a token of the tests"


class Service:
    """A service of its own, and what it answers."""

    def __init__(self, queue: Path, token: str = SECRET) -> None:
        words = ["--queue", str(queue), "--port", "0", "--problem", str(PROBLEM), "--device", "gfx942", "--trust"]
        words = ["-m", "forge", "serve", *words, "--most", "8"]
        self.process = start(*words, stderr=subprocess.PIPE, env={TOKEN: token})
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        self.port = int(line.partition(",")[0].rpartition(":")[2])

    def ask(self, method: str, path: str, body: Any = None, token: str = SECRET, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ENDS_S)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", **headers}
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if "json" in answer.headers.get("content-type", "") else text.decode()

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(ENDS_S)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("serve") / "queue")
    yield service
    if service.process.poll() is None:
        service.end()


@needs_serve
def test_a_verdict_and_the_same_again(service: Service) -> None:
    status, task = service.ask("POST", "/evaluate?wait=60", {"id": "a/1", "source": RIGHT})
    while task["state"] != "done":
        status, task = service.ask("GET", "/tasks/a/1?wait=60")
    assert (status, task["verdict"]["status"], task["verdict"]["reward"]["right_share"]["value"]) == (200, "passed", 1)
    assert service.ask("POST", "/evaluate", {"id": "a/1", "source": RIGHT})[1] == task
    status, record = service.ask("POST", "/evaluate", {"id": "a/1", "source": RIGHT + "#"})
    assert (status, record["message"]) == (409, "another submission has the id 'a/1'")
    status, text = service.ask("GET", "/metrics")
    assert 'forge_verdicts_total{status="passed"} 1' in text and "# TYPE forge_tasks gauge" in text


@needs_serve
@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b'{"id": "half', 400, "no request: "),
        (b"[1]", 400, "no request: "),
        (b"[" * 200_000, 400, "no request: "),
        ({"source": "x", "problem": "amd-fp8-nm"}, 400, "unknown problem 'amd-fp8-nm'"),
        ({"source": "x", "problem": str(PROBLEM.parent)}, 400, "unknown problem"),
        ({"source": "x", "device": "gfx9"}, 400, "unknown device"),
        ({"source": "x", "mode": "tst"}, 400, "tst"),
        ({"source": "x", "options": ["--trust"]}, 400, "unknown field"),
        ({"file": "/etc/passwd"}, 400, "takes 'source'"),
        ({"id": "only"}, 400, "either source or file"),
        ({"source": 5}, 400, "Expected"),
    ],
)
def test_what_is_no_request_is_one_record(service: Service, body: Any, status: int, message: str) -> None:
    found, record = service.ask("POST", "/evaluate", body)
    assert (found, record["status"], record["blame"]) == (status, "invalid", "request")
    assert message in record["message"], record


@needs_serve
def test_each_of_a_batch_has_its_record(service: Service) -> None:
    bad = "def custom_kernel(x:\n"
    lines = [{"id": "b1", "source": bad}, {"id": "b1", "source": "x"}, {"id": "b2", "problem": "none", "source": "x"}]
    body = b"\n".join([*(json.dumps(line).encode() for line in lines), b'{"half', b""])
    for form in (body, [{**line, "id": "l" + line["id"]} for line in lines]):
        status, records = service.ask("POST", "/batch", form)
        assert status == 202 and [record.get("state", record.get("status")) for record in records][:3] == [
            "queued", "invalid", "invalid",
        ]  # fmt: skip
        assert len(records) == (4 if form is body else 3)
    assert service.ask("GET", "/tasks/b1?wait=60")[1]["verdict"]["status"] == "invalid"
    status, record = service.ask("POST", "/batch", [{"id": f"many{n}", "source": bad} for n in range(9)])
    assert status == 503 and "8 submissions wait already" in record["message"]
    assert service.ask("GET", "/tasks/many0")[0] == 404  # none of them was taken


@needs_serve
def test_a_wrong_token_another_site_and_a_form_get_nothing(service: Service) -> None:
    status, record = service.ask("GET", "/tasks/a", token="wrong")
    assert (status, record["message"].partition(":")[0]) == (401, "wrong token")
    assert service.ask("GET", "/health", token="")[0] == 200
    status, record = service.ask("POST", "/evaluate", {"source": "x"}, **{"Content-Type": "text/plain"})
    assert status == 400 and "Content-Type: application/json" in record["message"]
    assert [service.ask("GET", path)[0] for path in ("/tasks/nobody", "/nowhere")] == [404, 404]


@needs_serve
@pytest.mark.parametrize("told", [True, False])
def test_a_gigabyte_is_not_read(service: Service, told: bool) -> None:
    def peak_kib() -> int:
        return int(re.findall(r"VmHWM:\s*(\d+)", Path(f"/proc/{service.process.pid}/status").read_text())[0])

    before_kib = peak_kib()  # with what other requests have left
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=ENDS_S)
    connection.putrequest("POST", "/evaluate")
    length = ("Content-Length", str(1 << 30)) if told else ("Transfer-Encoding", "chunked")
    for key, value in (("Content-Type", "application/json"), ("Authorization", f"Bearer {SECRET}"), length):
        connection.putheader(key, value)
    connection.endheaders()
    sent, part = 0, b" " * (1 << 20)
    try:
        while sent < (1 << 30):
            connection.send(part if told else b"100000\r\n" + part + b"\r\n")
            sent += len(part)
    except OSError:
        pass  # it closes its end
    assert sent < 200 << 20
    assert peak_kib() - before_kib < 100 << 10
    assert service.ask("GET", "/health")[0] == 200


@needs_serve
def test_a_service_that_is_killed_goes_on_and_one_that_is_asked_to_end_leaves_nothing(tmp_path: Path) -> None:
    name = f"serve{os.getpid()}"
    waits = f"{names_itself(name)}\nimport time\ndef custom_kernel(data):\n    time.sleep(1000)\n"
    first = Service(tmp_path / "queue")
    for number, source in ((1, waits), (2, RIGHT)):
        assert first.ask("POST", "/evaluate", {"id": str(number), "source": source})[0] == 202
    while not processes_named(name):
        time.sleep(0.1)
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    again = Service(tmp_path / "queue")
    states = [again.ask("GET", f"/tasks/{number}")[1]["state"] for number in (1, 2)]
    assert states[1] == "queued" and states[0] in ("queued", "running")
    deadline = time.monotonic() + ENDS_S / 2
    while again.ask("GET", "/tasks/1")[1]["state"] != "running" or not processes_named(name):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert again.end() == EXIT_INTERRUPTED
    while processes_named(name):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    with Queue(tmp_path / "queue", 8, 8) as queue:
        assert queue.counts() == {"queued": 2}


# ---------------------------------------------------------------- the queue


def test_a_queue_is_bounded_and_gives_up_what_ends_the_service_each_time(tmp_path: Path) -> None:
    judge = Judge(problem="amd-fp8-mm")
    order = judge.order_of({"id": "a", "source": "x"})
    with Queue(tmp_path, 2, 1) as queue:
        with pytest.raises(UsageError, match="another service has it"), Queue(tmp_path, 2, 1):
            pass
        with pytest.raises(Full):
            queue.add([judge.order_of({"id": name, "source": "x"}) for name in "abc"])
        assert queue.add([order])[0] == queue.add([order])[0]
        assert isinstance(queue.add([judge.order_of({"id": "a", "source": "y"})])[0], BadRequest)
        assert queue.take() == order and queue.take() is None
        queue.give_back()
    for _ in range(ATTEMPTS):
        with Queue(tmp_path, 2, 1) as queue:
            assert queue.take() == order
    with Queue(tmp_path, 2, 1) as queue:
        assert queue.take() is None
        task = queue.get("a")
        assert task is not None and task.state == "done" and b"the service ended 3 times" in bytes(task.verdict)
        queue.add([judge.order_of({"id": "b", "source": "x"})])
        queue.end(Verdict(id="b", status="passed"))
        assert queue.get("a") is None and queue.get("b") is not None  # one is kept


def test_a_queue_of_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "tasks.db").write_text("mine" * 500)
    with pytest.raises(UsageError, match="cannot be used"), Queue(tmp_path, 2, 1):
        pass
    assert (tmp_path / "tasks.db").read_text() == "mine" * 500


def test_who_can_be_reached_needs_a_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1", "a.org")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    monkeypatch.setenv(TOKEN, "short")
    with pytest.raises(UsageError, match="shorter"):
        token_for("127.0.0.1")
    monkeypatch.setenv(TOKEN, SECRET)
    assert token_for("0.0.0.0") == SECRET and TOKEN not in os.environ and token_for("localhost") == ""
    monkeypatch.chdir(tmp_path)
    assert one.main(["serve", "--host", "0.0.0.0"]) == EXIT_BAD_INPUT
    assert "needs a token in $FORGE_TOKEN" in capsys.readouterr().err


def test_a_header_names_no_folder() -> None:
    with Judge() as judge, pytest.raises(BadRequest, match="its header names leaderboard"):
        judge.judge(f"#!POPCORN leaderboard {PROBLEM}\n{RIGHT}")
