"""Samples of public repositories' GPU tests on the emulated card, by `pytest --cdna`: a line a repository, with causes.

    python lab/public_suites.py fla=../flash-linear-attention aiter=../aiter@e404860 --per-file 12

Fetches nothing: give checkouts, each with its commit behind @ where git does not know it. What a suite imports has to
be installed. Of every test file some are taken, or of every test function, drawn by --seed. With --json each suite is a
line as it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
GRACE_S = 60  # for reports after the end of the time


@dataclass(frozen=True)
class Suite:
    repository: str
    tests: tuple[str, ...]  # files and folders, from its root
    paths: tuple[str, ...] = (".",)  # what its tests import lies here
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()  # of its own, to pytest


VLLM = """
attention/test_triton_decode_attention.py attention/test_triton_unified_attention.py attention/test_prefix_prefill.py
attention/test_triton_prefill_attention.py attention/test_merge_attn_states.py attention/test_pack_unpack_triton.py
attention/test_segmented_attention.py attention/test_lightning_attn.py
attention/test_triton_unified_attention_diffkv.py mamba fla quantization/test_awq_triton.py
quantization/test_triton_scaled_mm.py quantization/test_triton_w4a16.py quantization/test_block_fp8.py
quantization/test_per_token_group_quant.py moe/test_count_expert_num_tokens.py
moe/test_silu_mul_per_token_group_quant_fp8_colmajor.py moe/test_triton_moe_ptpc_fp8.py
moe/test_triton_moe_no_act_mul.py test_fused_indexer_q_rope_quant.py test_compressor_kv_cache.py mhc
"""  # the files of its Triton operators: its other kernels are of its compiled extensions

SUITES = {
    "liger": Suite("linkedin/Liger-Kernel", ("test/transformers", "test/chunked_loss"), ("src",)),
    "fla": Suite("fla-org/flash-linear-attention", ("tests/ops", "tests/modules")),
    "aiter": Suite(  # what it imports as build_targets its own build would have put on the path
        "ROCm/aiter", ("op_tests/triton_tests",), (".", "aiter/jit/utils"), environment={"AITER_TRITON_ONLY": "1"}
    ),
    "kernels": Suite("triton-lang/kernels", ("test",)),
    "unsloth": Suite("unslothai/unsloth", ("tests",)),
    "triton": Suite("triton-lang/triton", ("python/test/unit/language",)),
    "flaggems": Suite("FlagOpen/FlagGems", ("tests",), ("src",), options=("--mode", "quick", "--ref", "cpu")),
    "vllm": Suite(
        "vllm-project/vllm",
        tuple(f"tests/kernels/{name}" for name in VLLM.split()),
        environment={"VLLM_TARGET_DEVICE": "rocm", "VLLM_LOGGING_LEVEL": "ERROR"},
    ),
    "lmdeploy": Suite("InternLM/lmdeploy", ("tests/pytorch/kernel",)),
    "mamba": Suite("state-spaces/mamba", ("tests/ops/triton", "tests/modules")),
    "flash_attention": Suite(
        "Dao-AILab/flash-attention",
        ("tests/test_flash_attn_triton_amd.py", "tests/ops", "tests/losses", "tests/test_rotary.py"),
        environment={
            "FLASH_ATTENTION_TRITON_AMD_ENABLE": "TRUE",
            "AITER_TRITON_ONLY": "1",
        },  # beside a checkout of AITER
    ),
    "batch_invariant": Suite("thinking-machines-lab/batch_invariant_ops", ("test_batch_invariance.py",)),
    "conch": Suite("stackav-oss/conch", ("tests",), environment={"CONCH_ENABLE_VLLM": "0"}),
}


@dataclass
class Result:
    """Of one suite."""

    repository: str
    commit: str
    arch: str
    checks: str
    collected: int = 0
    broken_files: dict[str, str] = field(default_factory=dict)  # that could not be collected: why
    chosen: int = 0
    passed: int = 0
    with_launches: int = 0
    skipped: dict[str, int] = field(default_factory=dict)  # reason: how many
    over_time: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # test: cause
    wall_s: float = 0.0

    @property
    def not_run(self) -> int:
        return self.chosen - self.passed - sum(self.skipped.values()) - self.over_time - len(self.failed)

    def line(self) -> str:
        columns = (
            self.repository, self.commit[:12], self.collected, self.chosen, self.passed, sum(self.skipped.values()),
            len(self.failed), self.over_time, self.not_run, len(self.broken_files), f"{self.wall_s:.0f}",
        )  # fmt: skip
        return "| " + " | ".join(map(str, columns)) + " |"


HEADER = (
    "| repository | commit | collected | chosen | passed | skipped | failed | over time | not run "
    "| files not collected | wall s |\n|" + " --- |" * 11
)


def pytest(suite: Suite, checkout: Path, arguments: Iterable[str], budget_s: float, grace_s: float = GRACE_S) -> str:
    """Its output; after `budget_s` it is interrupted, and tells of what it has done."""
    path = [str(ROOT), *(str(checkout / folder) for folder in suite.paths), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, **suite.environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "cdna.pytest_plugin", "-q"]
    command += ["--rootdir", str(checkout), *arguments]  # names of tests begin there
    process = subprocess.Popen(
        command, cwd=checkout, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    for sign, seconds in ((signal.SIGINT, budget_s), (signal.SIGKILL, grace_s)):
        try:
            return process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            if sign == signal.SIGINT:
                process.send_signal(sign)  # xdist ends its workers
            else:
                os.killpg(process.pid, sign)
    return process.communicate()[0]


def collect(suite: Suite, checkout: Path, arch: str) -> tuple[list[str], dict[str, str]]:
    """(node ids, files that could not be collected: why)."""
    arguments = ["--cdna", arch, *suite.options, "--collect-only", "--continue-on-collection-errors", *suite.tests]
    out = pytest(suite, checkout, arguments, 600)
    tests = [line for line in out.splitlines() if "::" in line and not line.startswith(("ERROR", " ", "E "))]
    broken = {}
    for part in re.split(r"^_+ ERROR collecting ", out, flags=re.MULTILINE)[1:]:
        causes = re.findall(r"^E +(.+)", part, re.MULTILINE)
        broken[part.split()[0]] = causes[-1] if causes else "?"
    return tests, broken


def sample(tests: list[str], most: int, per: str, seed: int) -> list[str]:
    """So many at most of what ends before `per`, in an order that mixes them: an early end leaves some of each."""
    groups: dict[str, list[str]] = {}
    for test in tests:
        groups.setdefault(test.partition(per)[0], []).append(test)
    draw = random.Random(seed)
    chosen = [draw.sample(group, min(most, len(group))) for group in groups.values()]
    return [group[i] for i in range(most) for group in chosen if i < len(group)]


def read_report(file: Path, result: Result) -> None:
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        bad = next((found for tag in ("failure", "error") if (found := case.find(tag)) is not None), None)
        skipped = case.find("skipped")
        properties = {one.get("name"): one.get("value") for one in case.iter("property")}
        result.with_launches += int(properties.get("cdna_launches") or 0) > 0
        if bad is not None and "(--cdna-timeout)" in (bad.get("message") or ""):
            result.over_time += 1
        elif bad is not None:
            result.failed[name] = (bad.get("message") or bad.text or "?").strip().splitlines()[0][:300]
        elif skipped is not None:
            reason = (skipped.get("message") or "?").splitlines()[0][:200]
            result.skipped[reason] = result.skipped.get(reason, 0) + 1


def run(suite: Suite, checkout: Path, commit: str, options: argparse.Namespace) -> Result:
    began = time.monotonic()
    result = Result(suite.repository, commit, options.arch, options.checks)
    tests, result.broken_files = collect(suite, checkout, options.arch)
    most, per = (options.per_function, "[") if options.per_function else (options.per_file, "::")
    chosen = sample(tests, most, per, options.seed)
    if options.draw:
        chosen = random.Random(options.seed).sample(chosen, min(options.draw, len(chosen)))
    result.collected, result.chosen = len(tests), len(chosen)
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / suite.repository.replace("/", "+")
    stem.with_suffix(".txt").write_text("\n".join(chosen) + "\n")
    report = stem.with_suffix(".xml")
    report.unlink(missing_ok=True)
    arguments = ["--cdna", options.arch, "--cdna-checks", options.checks, "--cdna-timeout", str(options.timeout)]
    arguments += suite.options
    arguments += ["--cdna-autotune", options.autotune, "-n", str(options.workers), f"--junitxml={report}"]
    # Passed tests are taken from the summary: JUnit XML has those too that were cut off.
    arguments += ["-o", "log_cli=false", "-rp", f"@{stem.with_suffix('.txt')}"]
    if chosen:
        left = max(1.0, options.budget - (time.monotonic() - began))
        # A kernel under way hears of the end when it is over its own time.
        out = pytest(suite, checkout, arguments, left, options.timeout + GRACE_S)
        stem.with_suffix(".log").write_text(out)
        result.passed = len(re.findall(r"^PASSED ", out, re.MULTILINE))
    if report.is_file():
        read_report(report, result)
    result.wall_s = time.monotonic() - began
    return result


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `run` asks, but for the arch."""
    parser.add_argument("--checks", default="all")
    parser.add_argument("--autotune", choices=("all", "first"), default="first")
    parser.add_argument("--per-file", type=int, default=10, help="tests of each file")
    parser.add_argument("--per-function", type=int, metavar="N", help="tests of each function instead")
    parser.add_argument("--draw", type=int, metavar="N", help="of all these so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a test")
    parser.add_argument("--budget", type=float, default=3600, help="seconds for a suite, with its collection")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", default="public_suites", help="for reports and logs")


def checkout_of(given: str, suite: Suite, parser: argparse.ArgumentParser) -> tuple[Path, str]:
    """(folder, commit) of CHECKOUT[@COMMIT]."""
    place, _, commit = given.partition("@")
    checkout = Path(place).resolve()
    if not all((checkout / test).exists() for test in suite.tests):
        parser.error(f"{given}: {checkout} has no {' or no '.join(suite.tests)}")
    if not commit:
        head = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
        commit = subprocess.run(head, capture_output=True, text=True).stdout.strip() or "unknown"
    return checkout, commit


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="+", metavar="NAME=CHECKOUT[@COMMIT]", help=f"names: {', '.join(SUITES)}")
    parser.add_argument("--arch", default=os.environ.get("CDNA_ARCH"), required="CDNA_ARCH" not in os.environ)
    add_options(parser)
    parser.add_argument("--json", type=Path, help="append a line a suite to this file")
    options = parser.parse_args(arguments)
    options.folder = str(Path(options.folder).resolve())
    print(HEADER, flush=True)
    for given in options.suites:
        name, _, place = given.partition("=")
        if name not in SUITES:
            parser.error(f"{given}: no suite is called {name!r}: {', '.join(SUITES)}")
        checkout, commit = checkout_of(place, SUITES[name], parser)
        result = run(SUITES[name], checkout, commit, options)
        print(result.line(), flush=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps({**asdict(result), "not_run": result.not_run}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
