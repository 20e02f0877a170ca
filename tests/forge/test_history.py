"""What is kept of runs, and the commands on it: history, compare, report, import."""

import copy
import json
import math
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from forge.commands import history, planning
from forge.commands.against import Pair
from forge.history import noise, popcorn, report
from forge.history.compare import SHOWN_LINES
from forge.history.document import Document, read_document, read_result, schema, to_json
from forge.history.page import _parts_plot
from forge.history.store import VERSION, History, HistoryError, history_path
from forge.judge.results import CaseResult, Stats, Status
from tests.forge.test_eval_command import USES_TRITON
from tests.support.evaltools import RIGHT, ROOT, judge, run_command, write_problem
from tests.support.fake_plan import FakeDevice

CODE = b"#!POPCORN leaderboard amd-fp8-mm\n#!POPCORN gpu MI300\ndef custom_kernel(data):\n    return data\n"


LINE = {"place": "kernel.py:9", "executed": 40, "cycles": {"vector": 160}, "conflict_cycles": 7}
ADVICE = {"rule": "idle CUs", "text": "1 workgroup for 304 CUs", "place": ""}
WORK = {"cycles": {"vector": 160}, "lines": [LINE], "advice": [ADVICE]}


def case(spec: str = "n: 7; seed: 1", us: float | None = 4.0, **values: Any) -> dict[str, Any]:
    kernels = {"double": {"launches": 1, "by_unit": {"vector": 40}, "work": WORK}}
    modelled = {"us": us, "bound": "latency", "parts_us": {"launch": 1.0, "latency": us}}
    report = {"kernels": kernels} | ({"modelled": {"cold": modelled, "warm": modelled}} if us else {})
    return {"index": 0, "spec": spec, "status": "pass", "stats_ns": None, "report": report} | values


def document(name: str = "toy", submission: bytes = CODE, **values: Any) -> dict[str, Any]:
    return {
        "schema": 2,
        "mode": "benchmark",
        "verdict": "pass",
        "problem": {"name": name},
        "harness": "amd",
        "device": {"name": "gfx942", "arch": "gfx942", "emulated": True},
        "cases": [case()],
        "fingerprint": {
            "submission_sha256": history.sha256(submission),
            "evaluator_sha256": "e",
            "model": "m",
            "time": "2026-01-02T03:04:05+00:00",
        },
    } | values


def typed(value: dict[str, Any]) -> Document:
    return read_document(json.dumps(value), "a test's")


def keep(store: History, value: dict[str, Any], *submissions: bytes) -> int:
    return store.keep(typed(value), *submissions)


def measured(us: float) -> dict[str, Any]:
    stats = {"runs": 3, "mean": us * 1e3, "std": 1.0, "err": 1.0, "best": 1.0, "worst": 9.0}
    device = {"name": "rocm", "arch": "gfx942", "emulated": False}
    return document(device=device, cases=[case(stats_ns=stats, us=None)])


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return History()


def run(*words: str | Path) -> int:
    return history.main([str(word) for word in words])


def line_of(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """The one line of a command with bad input."""
    assert run(*words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("eval.py: "), lines
    return lines[0]


# ---------------------------------------------------------------- keeping


def test_a_run_is_kept_with_its_submission_and_its_counters(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    write_problem(tmp_path / "problem")
    (tmp_path / "submission.py").write_text(USES_TRITON)
    words = ("benchmark", tmp_path / "problem", "--device", "gfx942")
    done = run_command(*words, cwd=tmp_path, XDG_DATA_HOME=data)
    assert done.returncode == 0, done.stdout + done.stderr
    store = History(tmp_path / "data" / "cdna-forge" / "history.sqlite")
    (entry,) = store.entries("problem")
    assert (entry.mode, entry.verdict, entry.times, entry.device) == ("benchmark", "pass", "modelled", "gfx942")
    assert entry.score_us and entry.submission and store.submission(entry.submission) == USES_TRITON.encode()
    kept_document = store.document(entry.id)
    assert kept_document.cases[0].device_report.kernels["double"].wave_instructions > 0

    assert run_command(*words, "--no-history", cwd=tmp_path, XDG_DATA_HOME=data).returncode == 0
    assert len(store.entries()) == 1


def test_a_failing_run_is_kept_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    done, _ = judge(tmp_path, "def custom_kernel(x):\n    return x\n")
    assert done.returncode == 1
    assert [entry.verdict for entry in History().entries()] == ["fail"]


def test_a_submission_is_kept_once(kept: History) -> None:
    assert [keep(kept, document(), CODE), keep(kept, document(), CODE)] == [1, 2]
    with sqlite3.connect(kept.path) as connection:
        assert connection.execute("SELECT count(*) FROM submissions").fetchone() == (1,)


# ---------------------------------------------------------------- files that are not as they should be


def spoilt(kind: str, path: Path) -> bytes:
    """A history that cannot be used; its bytes."""
    keep(History(path), document(), CODE)
    if kind == "half":
        path.write_bytes(path.read_bytes()[:5000])
    elif kind == "text":
        path.write_text("no database\n" * 100)
    else:
        with sqlite3.connect(path) as connection:
            pragma = f"user_version = {VERSION + 1}" if kind == "version" else "application_id = 7"
            connection.execute(f"PRAGMA {pragma}")
        connection.close()
    return path.read_bytes()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("half", "cannot be used as the history"),
        ("text", "file is not a database"),
        ("version", f"a history of version {VERSION + 1}, and this forge reads version {VERSION}"),
        ("other", "a database of another program"),
    ],
)
def test_a_history_that_cannot_be_used_is_one_line_and_left_as_it_is(
    kept: History, capsys: pytest.CaptureFixture[str], kind: str, text: str
) -> None:
    before = spoilt(kind, kept.path)
    assert text in line_of(capsys, "history")
    history.remember(typed(document()), CODE)  # as eval.py does at its end
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and said[0].startswith("eval.py: warning: this run is not in the history") and text in said[0]
    assert kept.path.read_bytes() == before


def test_a_history_in_a_folder_that_cannot_be_written(kept: History) -> None:
    kept.path.parent.parent.write_text("a file where the folder should be")
    with pytest.raises(HistoryError, match="cannot be written"):
        keep(kept, document(), CODE)


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert history_path() == Path("/data/cdna-forge/history.sqlite")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert history_path() == Path("/home/me/.local/share/cdna-forge/history.sqlite")


# ---------------------------------------------------------------- the schema


def test_what_eval_writes_is_as_the_schema_says(tmp_path: Path) -> None:
    _, result = judge(tmp_path, RIGHT, "test")
    said = jsonschema.Draft202012Validator(schema())
    said.validate(result)
    options = ("--device", "gfx942", "--against", "reference", "--json", "a.json")
    done = run_command("benchmark", tmp_path / "problem", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "a.json").read_text()
    said.validate(json.loads(text))
    assert to_json(read_result(tmp_path / "a.json")) == text and json.loads(text)["against"]["name"] == "reference"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": 3}, "results of schema 3, and this forge reads 1 and 2"),
        ({"verdict": "fine"}, "Invalid enum value 'fine' - at `$.verdict`"),
        ({"cases": [{"index": 0}]}, "missing required field `spec` - at `$.cases[0]`"),
        ({"cases": [case(status="lucky")]}, "$.cases[0].status"),
        ({"cases": [case(report={"ranks": 3})]}, "$.cases[0].report.ranks"),
        ({"fingerprint": {}}, "$.fingerprint"),
        ({"schema": 1, "cases": [case(report={"modelled": {"cold": {"unrecorded": "much"}}})]}, "could not convert"),
    ],
)
def test_a_results_file_that_fails_its_schema(
    kept: History, capsys: pytest.CaptureFixture[str], change: dict[str, Any], text: str
) -> None:
    Path("a.json").write_text(json.dumps(document()))
    Path("b.json").write_text(json.dumps(document() | change))
    assert text in line_of(capsys, "compare", "a.json", "b.json")
    assert text in line_of(capsys, "report", "b.json")
    Path("c.json").write_text(json.dumps(document())[:200])
    assert "not JSON, or half written" in line_of(capsys, "report", "c.json")


def test_every_key_of_the_schema_is_documented() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "history.md").read_text()
    listed = set(re.findall(r"`([a-z0-9_]+)`", text))
    parts = schema()["$defs"]
    assert parts["Document"]["properties"].keys() | parts["CaseResult"]["properties"].keys() <= listed


def test_a_document_of_version_1_is_read(kept: History, capsys: pytest.CaptureFixture[str]) -> None:
    """Its ranks had keys, and what a time lacks was told in words."""
    ranks = [case(us=us)["report"] for us in (3.0, 5.0)]
    ranks[1]["modelled"]["cold"]["unrecorded"] = "0.5 of the lines that a launch asks for could not be recorded"
    report = {f"rank {rank}": one for rank, one in enumerate(ranks)}
    before = document(schema=1, cases=[case(report=report, accuracy={"rel_l2": "inf"})])
    read = typed(before)
    (one,) = read.cases
    assert [len(part.kernels) for part in one.device_report.by_rank] == [1, 1] and one.accuracy is not None
    time = one.modelled_time("cold")
    assert time is not None and (time.us, time.unrecorded, one.accuracy.rel_l2) == (5.0, 0.5, math.inf)
    assert time.lacking.startswith("0.5 of the lines")
    written = json.loads(to_json(read))
    assert written["schema"] == 2 and written["cases"][0]["accuracy"]["rel_l2"] == "inf"
    assert len(written["cases"][0]["report"]["ranks"]) == 2 and typed(written) == read
    keep(kept, before, CODE)
    assert run("history", "1") == 0 and re.search(r"n=7 seed=1 +pass +5", capsys.readouterr().out)


# ---------------------------------------------------------------- history and compare


def test_runs_are_listed_and_shown(kept: History, capsys: pytest.CaptureFixture[str]) -> None:
    keep(kept, document(), CODE)
    keep(kept, document("other"), b"2")
    assert run("history") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[3] for line in lines[1:3]] == ["toy", "other"]
    assert run("history", "toy") == 0 and "other" not in capsys.readouterr().out
    assert run("history", "last-1", "-o", "back.py", "--json", "back.json") == 0
    assert Path("back.py").read_bytes() == CODE and read_result(Path("back.json")) == typed(document())
    assert "no run 9 in the history" in line_of(capsys, "history", "9")
    assert "the history has 2 runs" in line_of(capsys, "compare", "last", "last-2")


def test_an_empty_history_says_so(kept: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("history") == 0 and str(kept.path) in capsys.readouterr().out
    assert not kept.path.exists()


def test_modelled_runs_are_compared_exactly(kept: History, capsys: pytest.CaptureFixture[str]) -> None:
    faster = document(submission=CODE + b"# faster\n", cases=[case(us=3.0)])
    faster["cases"][0]["report"]["kernels"]["double"]["by_unit"]["vector"] = 30
    finding = {"text": "race in LDS"}
    slower = document()
    slower["cases"][0]["report"]["findings"] = [finding]
    keep(kept, slower, CODE)
    keep(kept, faster, CODE + b"# faster\n")
    assert run("compare", "1", "2") == 0
    text = capsys.readouterr().out
    assert "0.75" in text and "1 of 1 cases differ" in text
    assert re.search(r"vector instructions +40 +30", text) and "only A has the finding: race in LDS" in text
    assert "+# faster" in text and "0 only in A, 1 only in B" in text


def test_all_lines_that_changed_are_shown_where_asked_for(kept: History, capsys: pytest.CaptureFixture[str]) -> None:
    longer = CODE + b"# one more\n" * 99
    keep(kept, document(), CODE)
    keep(kept, document(submission=longer), longer)
    for words, shown in (((), SHOWN_LINES - 1), (("--all-lines",), 99)):  # after the line that says where
        assert run("compare", "1", "2", *words) == 0
        text = capsys.readouterr().out
        assert text.count("  +# one more") == shown and ("more: --all-lines shows them" in text) == (not words)


def test_a_difference_is_real_only_beyond_the_models_own_error(
    kept: History, capsys: pytest.CaptureFixture[str]
) -> None:
    def timed(us: float) -> dict[str, Any]:
        one = case(us=us)
        for time in one["report"]["modelled"].values():
            time |= {"low_us": 0.9 * us, "high_us": 1.2 * us, "pair": [0.08, 0.3]}
        return document(cases=[one])

    for number, (us, real) in enumerate([(4.0, False), (3.8, False), (3.6, True)]):
        keep(kept, timed(us), CODE)
        if number:
            assert run("compare", "1", str(number + 1)) == 0
            text = capsys.readouterr().out
            assert f"{us / 4} ± 8.0%" in text and f"{int(real)} of 1 cases differ by more than the model's own" in text


@pytest.mark.parametrize("key", ["triton", "model"])
def test_what_the_model_alone_changed_is_said(kept: History, capsys: pytest.CaptureFixture[str], key: str) -> None:
    keep(kept, document(), CODE)
    newer = copy.deepcopy(document(cases=[case(us=5.0)]))
    newer["fingerprint"][key] = "9.9"
    keep(kept, newer, CODE)
    assert run("compare", "1", "2") == 0
    text = capsys.readouterr().out
    assert f"not by the kernels alone: {key} changed as well" in text and "same, byte for byte" in text


def test_the_model_is_known_by_all_that_makes_times(tmp_path: Path) -> None:
    """An edit of a command leaves it; one of a card, of the engine or of torch's roofline makes another."""
    for package in ("cdna", "forge"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))

    def model() -> str:
        asks = "from forge.device import resolve; print(resolve('gfx942', 'gfx942').fingerprint().model)"
        return subprocess.run([sys.executable, "-c", asks], cwd=tmp_path, capture_output=True, text=True).stdout

    known = {model()}
    (tmp_path / "forge" / "commands" / "view.py").write_text("# another command\n")
    assert known == {model()} and known != {""}
    engine = min((tmp_path / "cdna" / "engine" / "time").glob("*.cpp"))
    parts = tmp_path / "cdna" / "cards" / "MI300X.toml", tmp_path / "forge" / "device" / "roofline.py", engine
    for count, file in enumerate(parts, 2):
        file.write_text(file.read_text() + "\n")
        known.add(model())
        assert len(known) == count, file
    engine.rename(engine.with_name("moved.cpp"))
    assert model() not in known | {""}


def test_modelled_and_measured_have_no_ratio(kept: History, capsys: pytest.CaptureFixture[str]) -> None:
    keep(kept, document(), CODE)
    keep(kept, measured(8.0), CODE)
    assert run("compare", "1", "2") == 0
    text = capsys.readouterr().out
    assert "no ratio: A's times are modelled, B's are measured" in text and not re.search(r"4 +8 +2", text)


def test_single_measured_runs_are_not_called_real(kept: History, capsys: pytest.CaptureFixture[str]) -> None:
    keep(kept, measured(4.0), CODE)
    keep(kept, measured(8.0), CODE)
    assert run("compare", "1", "2") == 0
    text = capsys.readouterr().out
    assert "B / A 2.0000" in text and "--rounds 6" in text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("1", "2"), "run 1 is of toy, and run 2 of other: compare two runs of one problem"),
        (("1", "3"), "have no case in common"),
        (("1", "submission.py"), "submission.py is a submission, not a run"),
        (("1", "1", "--rounds", "5"), "--rounds 5: 6 to 16"),
    ],
)
def test_what_cannot_be_compared(
    kept: History, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    for one in (document(), document("other"), document(cases=[case("n: 8; seed: 1")])):
        keep(kept, one, CODE)
    assert text in line_of(capsys, "compare", *words)


def test_real_or_noise() -> None:
    quiet = noise.verdict([10.0, 10.1, 9.9, 10.0, 10.2, 9.8], [11.0, 11.2, 10.8, 11.1, 11.0, 10.9])
    assert quiet.real and math.isclose(quiet.p, 2 / 64) and math.isclose(quiet.ratio, 1.1, rel_tol=0.01)
    loud = noise.verdict([10.0, 12.0, 9.0, 11.0, 10.0, 9.5], [11.0, 10.0, 10.0, 10.5, 9.0, 10.5])
    assert not loud.real and 0.1 < loud.p <= 1
    assert noise.sign_flip_p([0.0] * 6) == 1


def test_rounds_take_turns_and_each_side_keeps_its_times(
    kept: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU's times stand in for a GPU: which submission is first changes from round to round, its times go with it."""
    first: list[bytes] = []

    def evaluate(pair: Pair, listener: Any) -> None:
        first.append(pair.plan.submission)
        for side, run_of in ((pair.plan.submission, pair.run), (pair.other.submission, pair.their_run)):
            us = (8.0 if side == CODE else 4.0) + 0.01 * len(first)
            stats = Stats(3, us * 1e3, 1.0, 1.0, us * 1e3, us * 1e3, us * 1e3)
            run_of.cases += [CaseResult(c.index, c.spec, Status.PASS, stats=stats) for c in pair.plan.cases]

    monkeypatch.setattr(Pair, "evaluate", evaluate)
    gpu: Any = FakeDevice(emulated=False)
    gpu.label = "a GPU"
    monkeypatch.setattr(planning, "resolve", lambda *_: gpu)
    faster = CODE + b"# faster\n"
    for text in (CODE, faster):
        keep(kept, document("amd-fp8-mm", text, cases=[case("m: 64; n: 64; k: 128; seed: 6635")]), text)
    assert run("compare", "1", "2", "--rounds", "6", "--device", "rocm", "--cases", "0") == 0
    said = capsys.readouterr().out
    assert first == [CODE, faster] * 3
    assert "0.50" in said.splitlines()[-1] and "real" in said.splitlines()[-1] and "noise" not in said.splitlines()[-1]


def test_rounds_need_a_gpu(kept: History, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        keep(kept, document("amd-fp8-mm", cases=[case("m: 64; n: 64; k: 128; seed: 6635")]), CODE)
    assert run("compare", "1", "2", "--rounds", "6", "--device", "gfx942") == 2
    assert capsys.readouterr().err.startswith("eval.py: --rounds: this machine has no GPU to measure on")


# ---------------------------------------------------------------- report


def page(kept: History, tmp_path: Path) -> Path:
    for us in (5.0, 4.0):
        floor = {"flops": 1e9, "hbm_bytes": 1e6, "light_us": 0.5, "bound": "memory"}
        cases = [case("m: 64; n: 64; k: 128; seed: 6635", us, floor=floor), case("m: 96; n: 1; k: 1; seed: 2", us * 2)]
        keep(kept, document("amd-fp8-mm", cases=cases, notes=["a <note>"]), CODE)
    keep(kept, document("amd-fp8-mm", cases=[case(us=77.0)]), CODE)  # of other cases: not in the same line
    assert run("report", "2", "-o", tmp_path / "report.html") == 0
    return tmp_path / "report.html"


def test_the_page_holds_everything_itself(kept: History, tmp_path: Path) -> None:
    text = page(kept, tmp_path).read_text()
    assert text.count("<svg") == 4  # light, roofline, parts, history
    assert not re.search(r"<(?:script|link|iframe|img)\b|\bsrc=|@import|url\((?!#)", text)
    assert not re.search(r"href=\"(?!#|data:)", text)
    assert "<td>2026-01-02" in text and text.partition('id="history"')[2].partition("</table>")[0].count("<tr>") == 3
    assert "kernel.py:9" in text and "vector 160" in text and "1 workgroup for 304 CUs" in text
    assert "a &lt;note&gt;" in text and "modelled from what the kernels executed, not measured" in text


def test_the_page_of_what_went_wrong(kept: History, tmp_path: Path) -> None:
    """No case, a wrong one, a sample, a kernel with a long name: each is told, and none is as wide as its name."""
    name = "void " + "very::" * 60 + "long<int>(float*)"
    long = case("; ".join(f"key{i}: {i}" for i in range(30)))
    long["report"]["kernels"] = {name: long["report"]["kernels"]["double"]}
    wrong = case("n: 9", None, status="fail", message="values differ\n<b>", accuracy={"pattern": "a row late"})
    sample = case("n: 10", status="sampled", buts=["a sample: 3 of 9 workgroups"], remarks=["odd"])
    pages = []
    for cases in ([], [long, wrong, sample]):
        keep(kept, document(cases=cases, verdict="fail"), CODE)
        assert run("report", "last", "-o", tmp_path / "page.html") == 0
        pages.append((tmp_path / "page.html").read_text())
    assert "No case ran." in pages[0] and "No case ran." not in pages[1]
    assert "values differ\n&lt;b&gt;\npattern: a row late" in pages[1] and 'class="fail">fail' in pages[1]
    assert 'class="but">sampled' in pages[1] and "but a sample: 3 of 9 workgroups\nodd" in pages[1]
    assert name.replace("<", "&lt;").replace(">", "&gt;") in pages[1] and "overflow-wrap: anywhere" in pages[1]
    plot = pages[1].partition("<h2>What the model sums up</h2>")[2].partition("</svg>")[0]
    assert "key3: 3" not in plot and "…" in plot


def test_a_submission_in_torch_alone_has_no_parts_to_plot() -> None:
    """Its modelled time is torch's roofline: no unit of a kernel is in it."""
    time = {"us": 5.2, "bound": "torch", "parts_us": {}, "torch_us": {"mul": 5.2}}
    case = {"index": 0, "spec": "n: 1", "status": "pass", "report": {"modelled": {"cold": time, "warm": time}}}
    assert _parts_plot(typed(document(cases=[case]))) == ""


def test_a_report_of_nothing(kept: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the history has 0 runs" in line_of(capsys, "report")
    assert "no run of amd-fp8-mm" in line_of(capsys, "report", "amd-fp8-mm")
    keep(kept, document(), CODE)
    assert "cannot be written" in line_of(capsys, "report", "-o", "no/such/folder/page.html")


# ---------------------------------------------------------------- import


def run_there(mode: str, score: float | None, secret: bool = False) -> dict[str, Any]:
    times = {"start_time": "2026-03-20T10:01:00+00:00", "end_time": "2026-03-20T10:02:00+00:00"}
    return {"mode": mode, "passed": True, "runner": "MI300", "score": score, "secret": secret, **times}


RUNS = [run_there("test", None), run_there("leaderboard", 3.6e-6, True), run_there("leaderboard", 3.5e-6)]
RESULT = {"done": True, "file_name": "submission.py", "leaderboard": "amd-fp8-mm", "runs": RUNS, "submission_id": 4711}
SUBMITTED = (
    "Geomean score (public) on MI300: 0.0000035 s\nGeomean score (secret) on MI300: 0.0000036 s\n\n"
    + json.dumps(RESULT, indent=2)
)
SHOWN = f"""\
Submission #4711
============================================================
Leaderboard:    amd-fp8-mm (id: 399)
File:           submission.py
User ID:        12
Submitted:      2026-03-20T10:00:00.123456+00:00
Status:         done

Runs:
  - test on MI300: passed (score: -) (2026-03-20T10:00:00+00:00 - 2026-03-20T10:01:00+00:00)
  - leaderboard on MI300: passed (score: 0.0000035) (2026-03-20T10:01:00+00:00 - 2026-03-20T10:02:00+00:00)
  - leaderboard on MI300: passed (score: 0.0000036) [secret] (started: 2026-03-20T10:01:00+00:00)

Code:
------------------------------------------------------------
{CODE.decode()}
"""


def test_both_formats_say_the_same() -> None:
    submitted, shown = popcorn.parse(SUBMITTED, "a"), popcorn.parse(SHOWN, "b")
    assert (submitted.number, submitted.leaderboard) == (shown.number, shown.leaderboard) == (4711, "amd-fp8-mm")
    assert sorted(run.score_us or 0.0 for run in submitted.runs) == sorted(run.score_us or 0.0 for run in shown.runs)
    assert [run.secret for run in shown.runs] == [False, False, True]
    assert shown.code == CODE and submitted.code is None
    assert popcorn.parse(SHOWN.partition("\nCode:")[0], "c").code is None  # --no-code


def test_predicted_measured_here_measured_there(kept: History, capsys: pytest.CaptureFixture[str]) -> None:
    keep(kept, document("amd-fp8-mm", not_official=""), CODE)
    keep(kept, measured(8.0) | {"problem": {"name": "amd-fp8-mm"}}, CODE)
    Path("there.txt").write_text(SHOWN)
    assert run("import", "there.txt") == 0
    text = capsys.readouterr().out
    assert re.search(r"predicted \(modelled\) +gfx942 +benchmark +4 ", text)
    assert re.search(r"measured here +rocm +benchmark +8 ", text)
    assert re.search(r"measured there +MI300 +test,leaderboard +3\.5 ", text)
    # the same again, without the code: it stays one run and keeps its submission
    Path("there.json").write_text(SUBMITTED)
    assert run("import", "there.json") == 0 and "measured there" in capsys.readouterr().out
    assert [entry.times for entry in kept.entries()] == ["modelled", "measured", "leaderboard"]
    assert "run 3 is an imported result" in line_of(capsys, "compare", "1", "3")


def test_an_import_without_code_needs_the_submission(kept: History, capsys: pytest.CaptureFixture[str]) -> None:
    Path("there.json").write_text(SUBMITTED)
    assert run("import", "there.json", "amd-gemm-rs") == 0
    said = capsys.readouterr()
    assert "is of amd-fp8-mm, not of amd-gemm-rs" in said.err and "--submission FILE" in said.out
    Path("mine.py").write_bytes(CODE.replace(b"fp8-mm", b"gemm-rs"))
    assert run("import", "there.json", "--submission", "mine.py") == 0
    said = capsys.readouterr()
    assert "header names amd-gemm-rs, and it was submitted to amd-fp8-mm" in said.err
    assert "predicted (modelled): nothing of this submission" in said.out


def judged(runner: str, ranked: tuple[str, str], quoted: bool = True) -> str:
    """A report as popcorn-cli writes it to its file: a JSON string whose line feeds are line feeds."""
    first, second = ("k: 128; m: 64; n: 64; seed: 1", "k: 7168; m: 64; n: 1536; seed: 2")
    text = f"""**{runner} ✅ success**
> ✅ Testing successful
> ✅ Benchmarking successful
> ✅ Leaderboard run successful

Running on:
* GPU: `AMD Instinct MI300X`
* CPU: `a "fast" one`
* Device count: `1`
* Runtime: `ROCm`
* Torch: `2.10.0+rocm7.1`


## ✅ Passed 1/1 tests:
```
✅ {first}
> within 1e-3
```

## Benchmarks:
```
{first}
 ⏱ 9.10 ± 0.010 µs
 ⚡ 8.90 µs 🐌 9.40 µs

{second}
 ⏱ 2.10 ± 0.100 ms
 ⚡ 2.00 ms 🐌 2.30 ms
```

## Ranked Benchmark:
```
{first}
 ⏱ {ranked[0]}

{second}
 ⏱ {ranked[1]}
 ⚡ 60.0 µs 🐌 70.0 µs
```"""
    return json.dumps(text, ensure_ascii=False).replace("\\n", "\n") if quoted else text


STDERR = (
    "Submitting to leaderboard: amd-fp8-mm\nGPU: MI300\nMode: leaderboard\nFile: mine.py\n\nWaiting for results...\n"
)
REPORTED = ",".join(
    judged(*words)
    for words in (
        ("MI300 on GitHub", ("4.00 ± 0.010 µs", "64.0 ± 0.50 µs")),
        ("MI300 on GitHub (secret)", ("5.00 ± 0.010 µs", "80.0 ± 0.50 µs")),
    )
)


@pytest.mark.parametrize("around", ["", STDERR])
@pytest.mark.parametrize("shape", ["file", "screen", "crlf", "no emojis"])
def test_a_judges_report_tells_each_cases_time(around: str, shape: str) -> None:
    """popcorn-cli wrote it until June 2026, and Discord's bot does."""
    text = around + REPORTED + "\n\nResults written to: there.txt\n"
    if shape == "screen":
        text = around + judged("MI300 on GitHub", ("4.00 ± 0.010 µs", "64.0 ± 0.50 µs"), quoted=False)
    if shape == "no emojis":
        text = re.sub("[✅⏱⚡🐌]", "?", text).replace("±", "+-").replace("µ", "┬╡")
    outside = report.read(text.replace("\n", "\r\n") if shape == "crlf" else text, "a")
    assert (outside.leaderboard, outside.number) == ("amd-fp8-mm" if around else "", None)
    assert outside.system["CPU"] == 'a "fast" one' and outside.messages == ()
    public = [run for run in report.scored(outside, "geom").runs if not run.secret]
    assert [(run.mode, run.passed, run.runner) for run in public] == [
        (mode, True, "MI300 on GitHub") for mode in ("test", "benchmark", "leaderboard")
    ]
    assert public[2].score_us == pytest.approx(16)
    cases = [(case.mode, case.mean_us) for case in outside.cases if not case.secret]
    assert cases == [("test", None), ("benchmark", 9.1), ("benchmark", 2100), ("leaderboard", 4), ("leaderboard", 64)]
    assert len(outside.runs) == (3 if shape == "screen" else 6)


FAILED = """\
"**MI300 on GitHub ❌ failure**
> ❌ Testing failed
> ❌ Benchmarks missing

Running on:
* GPU: `AMD Instinct MI300X`
# Testing failed
Command ```bash
python eval.py test```
ran successfully in 9.00 seconds, but did not pass all tests.


## Test log:
```
✅ k: 128; m: 64; n: 64; seed: 1
❌ k: 7168; m: 64; n: 1536; seed: 2
> 17 elements differ
> first: (0, 3)
```"
"""
CRASHED = """\
**MI300 on GitHub ❌ failure**
> ❌ Running tests failed (timeout)

# Running failed
Command ```bash
python eval.py
```
**timed out** after 9.00 seconds."""
UNBUILT = """\
**MI300 on GitHub ❌ failure**
> ❌ Compilation failed
# Compilation failed
Command ```bash
>hipcc```
exited with code **1**.

## Compiler stderr:
```
a.hip:3: error```"""


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (FAILED, "test", "k: 7168; m: 64; n: 1536; seed: 2: 17 elements differ first: (0, 3)"),
        (CRASHED, "test", "test on MI300 on GitHub: Running tests failed (timeout)"),
        (UNBUILT, "compile", "Compilation failed: Command >hipcc exited with code **1**."),
    ],
)
def test_a_report_of_what_failed_says_what(
    kept: History, capsys: pytest.CaptureFixture[str], text: str, mode: str, said: str
) -> None:
    Path("there.txt").write_text(text)
    assert run("import", "there.txt", "amd-fp8-mm") == 0
    assert said in capsys.readouterr().out
    assert [(entry.mode, entry.verdict, entry.score_us) for entry in kept.entries()] == [(mode, "fail", None)]


def test_cases_predicted_and_measured_there_stand_beside_each_other(
    kept: History, capsys: pytest.CaptureFixture[str]
) -> None:
    predicted = document("amd-fp8-mm", not_official="")
    predicted["cases"][0]["spec"] = "m: 64; n: 64; k: 128; seed: 1"  # another order than the report's
    predicted["cases"][0]["on_clock_us"] = 13.3
    predicted["clock"] = {"name": "host clock", "text": "", "adds_us": 9.3}
    keep(kept, predicted, CODE)
    Path("mine.py").write_bytes(CODE)
    Path("there.txt").write_text(REPORTED, encoding="utf-16")  # as PowerShell redirects
    assert "does not say of which leaderboard" in line_of(capsys, "import", "there.txt")
    for _ in range(2):  # the same again stays one run
        assert run("import", "there.txt", "amd-fp8-mm", "--submission", "mine.py") == 0
    said = capsys.readouterr().out
    assert re.search(r"k=128 m=64 n=64 seed=1 +13\.3 +4$", said, re.MULTILINE), said
    assert re.search(r"k=7168 m=64 n=1536 seed=2 +- +64$", said, re.MULTILINE), said
    assert "1 cases, as its host clock would show them" in said
    assert "there: GPU AMD Instinct MI300X, Torch 2.10.0+rocm7.1, Runtime ROCm" in said
    assert [entry.times for entry in kept.entries()] == ["modelled", "leaderboard"]
    assert run("history", "2") == 0


@pytest.mark.parametrize("text", [REPORTED, FAILED, CRASHED, UNBUILT, SUBMITTED, SHOWN])
def test_a_text_that_is_cut_or_has_an_odd_letter_is_read_or_refused(text: str) -> None:
    draw = random.Random(1)
    for _ in range(200):
        first, last = sorted(draw.randrange(len(text)) for _ in range(2))
        odd = chr(draw.randrange(32, 0x3000))
        try:
            read = report.read(
                draw.choice([text[:first], text[:first] + text[last:], text[:first] + odd + text[first:]]), "a"
            )
        except popcorn.PopcornError as error:
            assert "\n" not in str(error)
        else:
            assert all((run.score_us or 1) > 0 for run in report.scored(read, "geom").runs)


def test_a_result_stands_among_what_popcorn_cli_wrote_to_stderr(kept: History) -> None:
    text = (
        f"{STDERR}Submission 4711 accepted. Waiting for results...\n\nResults written to: a\n\n{SUBMITTED}\nSaved: b\n"
    )
    assert popcorn.parse(text, "a") == popcorn.parse(SUBMITTED, "a")
    shown = SHOWN.replace("- test on", "- profile.0 on")
    assert popcorn.parse(f"\x1b[1mnote\x1b[0m\n{shown}", "b").runs[0].mode == "profile.0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            STDERR + "Application error: Server returned status 429: wait an hour\n",
            "popcorn-cli had an error, and no result: Server",
        ),
        ("hello\n", "neither what `popcorn submit --output FILE` writes"),
        ("", "neither what"),
        (SUBMITTED[:400], "half written"),
        (SUBMITTED.replace('"runs"', '"walks"'), "'runs' is missing or odd"),
        (SHOWN.replace("Leaderboard:", "Board:"), "not whole"),
        (SHOWN.replace("(score: -)", "score 3"), "not a run as `popcorn submissions show` prints it"),
        (SHOWN.replace("(score: -)", "(score: fast)"), "not a score in seconds: 'fast'"),
        ("ID       Leaderboard          File                 Time\n", "a list of submissions"),
        (json.dumps({"a": 1}), "is missing or odd"),
    ],
)
def test_an_import_of_something_else(
    kept: History, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    Path("there.txt").write_text(text)
    assert message in line_of(capsys, "import", "there.txt")
    assert kept.entries() == []
