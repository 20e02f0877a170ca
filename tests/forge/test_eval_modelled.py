"""The modelled time of an emulated device: where it is shown, that it is labelled, and that it is no score."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import cdna
from cdna.cards import cards
from cdna.observe.records import LaunchRecord, take_records
from cdna.profile import profiles, text_lines
from forge.commands.texts import modelled_text, profile_lines, time_texts
from forge.commands.torch_profile import torch_lines
from forge.device.report import Kind, ModelledTime, TimesUs, TorchOperation
from forge.device.roofline import Roofline
from forge.judge.operations import watch
from forge.task.harness import CLOCKS
from forge.task.score import score_on
from tests.forge.test_eval_hip import RAW
from tests.support.evaltools import RIGHT, judge, run_command, write_problem
from tests.support.fake_plan import reported
from tests.support.prepared import run_prepared

pytestmark = pytest.mark.long
MI300X = cards()["MI300X"]


@triton.jit
def twice_kernel(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)


DOUBLES = """\
import torch, triton, triton.language as tl

@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

def custom_kernel(x):
    out = torch.empty_like(x)
    double_kernel[lambda meta: (triton.cdiv(len(x), meta["BLOCK"]),)](x, out, len(x))
    return out
"""


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict]:
    done, result = judge(tmp_path_factory.mktemp("modelled"), DOUBLES, "benchmark", "--cases", "0,1")
    assert done.returncode == 0, done.stdout
    return done.stdout, result


def test_benchmark_shows_a_labelled_column_and_no_score(benchmark: tuple[str, dict]) -> None:
    lines = benchmark[0].splitlines()
    head = next(line for line in lines if line.startswith("status"))
    assert "modelled us" in head and "bound" in head and " us " not in re.sub("modelled us|event pair us", "", head)
    time = benchmark[1]["cases"][0]["report"]["modelled"]["cold"]  # this problem's harness flushes the cache
    case = next(line for line in lines if line.startswith("pass"))
    assert (
        f"{time['us']:.4g} ({time['low_us']:.3g}..{time['high_us']:.3g}) " in case and case.split()[-3] == time["bound"]
    )
    adds = CLOCKS["events"]
    assert benchmark[1]["clock"]["name"] == "event pair" and adds.adds_us == benchmark[1]["clock"]["adds_us"]
    assert benchmark[1]["cases"][0]["on_clock_us"] == pytest.approx(time["us"] + adds.adds_us, abs=0.002)
    unsure = "?" * bool(time.get("unsure"))
    assert case.split()[-4] == f"{unsure}{time['us'] + adds.adds_us:.4g}"
    times = [one["report"]["modelled"]["cold"] for one in benchmark[1]["cases"]]
    seen = score_on(adds, [(t["us"], t["low_us"], t["high_us"]) for t in times], benchmark[1]["ranking_by"])
    said = re.search(r"harness's clock \(event pair\) (\S+) us \((.*?)\.\.(.*?)\)", benchmark[0])
    assert said is not None and [float(us) for us in said.groups()] == pytest.approx(seen, rel=0.005)
    assert "score: none" in benchmark[0] and "no measurement and no score" in benchmark[0] and "~" not in case
    assert benchmark[1]["score_us"] is None and benchmark[1]["cases"][0]["stats_ns"] is None


def test_json_carries_the_parts(benchmark: tuple[str, dict]) -> None:
    report = benchmark[1]["cases"][0]["report"]
    assert report["modelled"]["what"].startswith("modelled, not measured")
    for caches in ("cold", "warm"):
        time = report["modelled"][caches]
        parts = time["parts_us"]
        bounds = "launch replay matrix vector LDS L1 L2 fabric HBM atomics links fences write-back"
        assert set(parts) == set(bounds.split())
        longest = max(us for name, us in parts.items() if name not in ("launch", "write-back"))
        assert time["us"] == pytest.approx(
            parts["launch"] + longest + parts["write-back"], abs=0.002
        )  # all are rounded
        # The launch itself has no cycles.
        assert time["clock"] == "boost" and time["cycles"] / time["mhz"] == pytest.approx(parts["replay"], rel=0.01)
    assert report["modelled"]["cold"]["us"] >= report["modelled"]["warm"]["us"]


def test_what_a_first_call_prepares_is_not_reported(benchmark: tuple[str, dict]) -> None:
    """Such as an autotuner's trials, or what warms a graph up."""
    report = benchmark[1]["cases"][0]["report"]
    assert report["kernels"]["double_kernel"]["launches"] == 1
    assert report["modelled"]["warm"]["parts_us"]["launch"] == MI300X.launch_us


def test_profile_says_where_the_time_goes(tmp_path: Path) -> None:
    done, result = judge(tmp_path, DOUBLES, "profile", "--cases", "0")
    report = result["cases"][0]["report"]  # of one call, in which the autotuner tries
    assert report["kernels"]["double_kernel"]["launches"] > 1
    assert report["modelled"]["warm"]["parts_us"]["launch"] == MI300X.launch_us  # trials are not modelled
    work = result["cases"][0]["report"]["kernels"]["double_kernel"]["work"]
    assert work["hbm_write_bytes"] > 0 and work["waves_per_simd"] > 0
    assert all("submission.py:" in line["place"] and line["executed"] for line in work["lines"])
    assert "its own instructions" in done.stdout and "modelled us" in done.stdout
    rules = {advice["rule"] for advice in work["advice"]}
    assert "idle CUs" in rules and " for 304 CUs: " in done.stdout


def test_profile_of_a_submission_in_torch_names_its_operations_by_line(tmp_path: Path) -> None:
    source = "def custom_kernel(x):\n    y = x * 4\n    return y.add(0).div(2)\n"
    done, result = judge(tmp_path, source, "profile", "--cases", "0")
    assert "no Triton or HIP kernel was launched" in done.stdout
    assert "torch's own operations: 3 calls, 6.3" in done.stdout
    assert "submission.py:2  mul" in done.stdout and "submission.py:3  div" in done.stdout
    assert "3 operations take 6.3 us to launch" in done.stdout and "move elements" not in done.stdout


def test_what_torch_profiles_advise() -> None:
    def row(kind: Kind, us: float, calls: int, flops: float = 0, **bytes: int) -> TorchOperation:
        return TorchOperation("submission.py:7", kind[:2], kind, calls, int(flops), us=TimesUs(us), **bytes)

    def advice(*rows: TorchOperation, needed: float | None = None) -> list[str]:
        return [line for line in torch_lines(list(rows), "cold", "gfx942", needed) if "advice" in line]

    assert any(" 5 us move elements" in one for one in advice(row("memory", MI300X.launch_us + 5, 1)))
    (said,) = advice(row("products", 100.0, 1))
    assert "97.9 us at the card's peaks, most at submission.py:7 (pr)" in said and not torch_lines([], "cold", "gfx942")
    # products: more FLOPs than the case needs, more bytes than it reads, and neither
    (said,) = advice(row("products", 100.0, 1, 9e9), needed=3e9)
    assert "9 GFLOP, 3 times what the case needs" in said
    (said,) = advice(row("products", 100.0, 1, 3e9, read_bytes=10**6, written_bytes=10**8), needed=3e9)
    assert "makes 100 MB of 1 MB" in said and "multiply in another order" in said
    assert not advice(row("products", 100.0, 1, 3e9, read_bytes=10**8, written_bytes=10**8), needed=3e9)
    (said,) = advice(row("products", 100.0, 2, 3e9, again_bytes=212 * 10**6), needed=3e9)
    assert said.startswith("  advice     212 MB of the input are read again") and " 40 us of HBM" in said


def test_what_torch_reads_again_is_the_input_alone() -> None:
    x, card = torch.ones(64, 64), Roofline(MI300X)
    with watch(True, card) as work:
        x.sum()
        y = x[:32] * 2  # half of it again
        y.add_(1)
        y.add_(1)
        torch.mm(x, x)
    again = {row.name: row.again_bytes for row in work.estimates}
    assert again == {"sum": 0, "mul": 8192, "add_": 0, "mm": 16384}


def test_tests_and_leaderboard_runs_are_not_counted(tmp_path: Path) -> None:
    for mode in ("test", "leaderboard"):
        done, result = judge(tmp_path / mode, DOUBLES, mode, "--cases", "0")
        assert "modelled us" not in done.stdout and "modelled" not in result["cases"][0]["report"]


TIMES_ITSELF = (
    DOUBLES.split("@triton.autotune")[0]
    + """\
from triton.runtime import driver

@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

def custom_kernel(x):
    out = torch.empty_like(x)
    launch = lambda: double_kernel[(1,)](x, out, len(x), BLOCK=64)
    BENCH(launch)
    launch()
    return out
"""
)


def test_launches_that_a_submission_times_itself_are_in_its_time(tmp_path: Path) -> None:
    bench = "(triton.testing.do_bench if len(x) == 7 else driver.active.get_benchmarker())"
    done, result = judge(tmp_path, TIMES_ITSELF.replace("BENCH", bench), "benchmark", "--cases", "0,1")
    assert done.returncode == 0 and len(result["cases"]) == 2
    for case in result["cases"]:
        assert case["buts"] == []
        assert case["report"]["modelled"]["warm"]["parts_us"]["launch"] > MI300X.launch_us  # of two
        assert case["remarks"] == ["custom_kernel times its own kernels, 1 times: all of that is in its time"]


UNCOUNTED = TIMES_ITSELF.replace("    BENCH(launch)\n    launch()\n", "    HIDE\n        launch()\n    launch()\n")
HIDERS = {
    "counters off": "import cdna.observe.counters\n    cdna.counters.count(False)\n    if True:",
    "a trial": "if True:\n        triton.autotune([triton.Config({})], [])(double_kernel).do_bench(launch, (0.5,))",
    "records taken": "import cdna\n    launch()\n    cdna.stats()\n    if True:",
    "the log off": "from cdna.engine.library import engine\n    engine().lib.cdna_log_set(0)\n    if True:",
}


@pytest.mark.parametrize("way", HIDERS)
def test_no_launch_is_kept_out_of_a_time(way: str, tmp_path: Path) -> None:
    """It is in it, or there is none."""
    done, result = judge(tmp_path, UNCOUNTED.replace("HIDE", HIDERS[way]), "benchmark", "--cases", "0", "--strict")
    (case,) = result["cases"]
    if modelled := case["report"].get("modelled"):
        assert modelled["warm"]["parts_us"]["launch"] > MI300X.launch_us and done.returncode == 0
    else:
        assert done.returncode == 3 and "launches were made of which nothing was counted" in case["buts"][0]


BY_ITS_DATA = DOUBLES.replace('(triton.cdiv(len(x), meta["BLOCK"]),)', "(1 + int(x.abs().sum() * 1e3) % 97,)")


def test_a_time_is_of_the_cases_own_data(tmp_path: Path) -> None:
    """The same file has the same in each run: how many workgroups there are, its data decides."""
    problem = write_problem(tmp_path / "problem")
    (tmp_path / "submission.py").write_text(BY_ITS_DATA)
    us = []
    for number in range(2):
        options = ("--device", "gfx942", "--cases", "0", "--json", f"{number}.json")
        assert run_command("benchmark", problem, *options, cwd=tmp_path).returncode == 0
        us.append(json.loads((tmp_path / f"{number}.json").read_text())["cases"][0]["report"]["modelled"])
    assert us[0] == us[1]


def test_torchs_own_operations_are_estimated_and_marked(tmp_path: Path) -> None:
    """Of seven floats: a launch, and 56 bytes of HBM. A kernel's own time is beside it."""
    done, result = judge(tmp_path, RIGHT, "benchmark", "--cases", "0")
    time = result["cases"][0]["report"]["modelled"]["cold"]
    us = MI300X.launch_us + 28e-3 / MI300X.hbm_read_gb_s + 28e-3 / MI300X.hbm_write_gb_s
    assert time["us"] == pytest.approx(us, abs=0.001) and time["torch_us"] == {"mul": time["us"]}
    assert time["bound"] == "torch" and f"~{time['us']:.4g} " in done.stdout and "no score" in done.stdout
    both = DOUBLES.replace("    return out", "    return out * 1.0")
    time = judge(tmp_path / "both", both, "benchmark", "--cases", "0")[1]["cases"][0]["report"]["modelled"]["cold"]
    assert time["us"] == pytest.approx(time["kernels_us"] + time["torch_us"]["mul"], abs=0.001)
    assert time["kernels_us"] > MI300X.launch_us and time["bound"] != "torch" and time["parts_us"]
    broken = RIGHT.replace("return", "[][int(x[0]) * 0 + 1] = x * 2\n    return")
    done, result = judge(tmp_path / "broken", broken, "benchmark", "--cases", "0", "--no-judge")
    assert result["cases"][0]["status"] == "error" and "roofline" not in done.stdout, done.stdout


def test_operations_at_their_roofline() -> None:
    """Products take the longer of FLOPs and bytes, by their operands' width; views nothing; collectives their links."""
    card, launch_us = Roofline(MI300X), MI300X.launch_us
    x = torch.zeros(256, 512)
    with watch(True, card) as work:
        x.bfloat16() @ x.bfloat16().t()
        x.view(512, 256).t(), torch.empty(9)
    mm = max(2 * 256 * 256 * 512 / card.peak_tflops("f16") * 1e-6, card.moved_us(2 * 256 * 1024, 2 * 256 * 256))
    us = {name: spent.us for (_, name), spent in work.places.items()}
    assert us["mm"].cold == pytest.approx(launch_us + mm)
    assert set(us) == {"mm", "_to_copy"} and us["mm"].warm < us["mm"].cold
    assert card.peak_tflops("f32") == pytest.approx(163.4, rel=1e-3) and card.peak_tflops("fp8") > 2600
    wide = card.operation_us((0, 0), flops=10**12, kind="f32")
    assert wide == pytest.approx(launch_us + 1e12 / card.peak_tflops("f32") * 1e-6)
    once, twice = (card.collective_us(8 << 30, 8, passes) for passes in (1, 2))
    assert once == pytest.approx(launch_us + MI300X.signals_us + 7 * (1 << 30) / MI300X.links_read_gb_s * 1e-3)
    assert twice > 1.9 * once


def test_the_slowest_rank_counts() -> None:
    def of(us: float) -> dict[str, Any]:
        return {"modelled": dict.fromkeys(("cold", "warm"), {"us": us, "bound": "HBM"})}

    ranks = reported(ranks=[of(2.0), of(3.0), {}])
    assert ranks.slowest("cold") == 1 and ranks.modelled_time("cold") == ModelledTime(3.0, "HBM")
    assert reported(kernels={}).modelled_time("cold") is None and reported(ranks=[{}, {}]).modelled_time("cold") is None
    assert profile_lines(ranks, "cold", "gfx942")[0] == "rank 1, the slowest of 3:"


def test_hip_kernels_are_modelled_too(tmp_path: Path) -> None:
    done, result = judge(tmp_path, RAW.replace("PLACE", "i"), "benchmark", "--cases", "0")
    assert done.returncode == 0, done.stdout
    report = result["cases"][0]["report"]
    (name,) = report["kernels"]
    assert "twice" in name and report["kernels"][name]["launches"] == 1
    assert report["kernels"][name]["work"]["hbm_write_bytes"] == 64  # seven floats: half a line
    assert report["modelled"]["cold"]["us"] > 1


BEGINS_LINES = """\
import torch

def custom_kernel(x):
    kept = [torch.empty(3 << 20, dtype=torch.int8, device="cuda") for _ in range(8)]
    places = [one.data_ptr() % 128 for one in kept]
    assert not any(places), places
    return x * 2
"""


def test_large_tensors_begin_a_line_as_a_gpus_do(tmp_path: Path) -> None:
    """Else the model sees twice the lines in rows of 128 bytes, or not, by chance."""
    done, _ = judge(tmp_path, BEGINS_LINES, "benchmark", "--cases", "0", prepared=False)
    assert done.returncode == 0, done.stdout


STRIDED = DOUBLES.replace(
    "out_ptr + i, tl.load(", "out_ptr + i, 0 * tl.load(x_ptr + i * 16 % n, mask=i < n) + tl.load("
)


def test_a_profile_can_be_kept_and_compared(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(STRIDED)
    files = ("--trace", str(tmp_path / "trace.json"), "--html", str(tmp_path / "page.html"))
    done, result = judge(tmp_path, DOUBLES, "profile", "--cases", "0", "--against", str(tmp_path / "other.py"), *files)
    assert done.returncode == 0, done.stdout
    assert "ours is 1." in done.stdout and "| theirs: submission.py:7 " in done.stdout, done.stdout
    kernel = result["cases"][0]["report"]["kernels"]["double_kernel"]
    assert "timeline" not in kernel and kernel["work"]["gains"]
    us = sum(row["us"] for row in kernel["spent"]["cold"])
    assert us == pytest.approx(result["cases"][0]["report"]["modelled"]["cold"]["us"], rel=0.02)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert any(event["ph"] == "X" and "submission.py" in event["args"]["line"] for event in events)
    page = (tmp_path / "page.html").read_text()
    assert 'class="timeline"' in page and 'id="cases"' in page and "<script" not in page


def test_a_time_without_some_lines_says_so() -> None:
    """Where no memory was left to record them: in the column, below it, in the JSON file, in a profile."""
    from forge.device.fake_rocm.work import modelled

    def cold_of(record: LaunchRecord) -> ModelledTime:
        times = modelled([record])
        assert times is not None
        return times.cold

    x = torch.ones(4096)
    with cdna.device("gfx942"), cdna.counting():
        twice_kernel[(4,)](x, BLOCK=1024)
    record = take_records()[-1]
    assert record.counters is not None
    whole = cold_of(record)
    assert not whole.unrecorded and ">" not in modelled_text(whole) and not whole.lacking
    assert modelled_text(whole).endswith(f"{whole.us:.4g} ({whole.low_us:.3g}..{whole.high_us:.3g})")
    record.counters.unrecorded_lines = 256  # as many as were recorded: 128 read, 128 written
    lacking = cold_of(record)
    assert re.fullmatch(rf">\??{lacking.us:.4g} \([\d.]+\.\.\)", modelled_text(lacking))
    said, *unsure = time_texts(lacking)
    assert unsure == [f"? {lacking.unsure}"] * bool(lacking.unsure)
    assert said == f"> {lacking.lacking}" and said.startswith("> 0.5 of the lines that a launch asks for")
    assert any("lacking    0.5 of the lines" in line for line in text_lines(profiles([record])[0]))


def test_tensors_of_an_emulated_gpu_begin_where_a_gpu_would_begin_them(tmp_path: Path) -> None:
    code = "import torch; print([torch.ones(n, device='cuda').data_ptr() % 512 for n in (1, 70, 800, 9000)])"
    (tmp_path / "main.py").write_text(code)
    done = run_prepared(str(tmp_path / "main.py"))
    assert done.stdout == "[0, 0, 0, 0]\n", done.stderr
