"""The process behind `gen_submission.py --check`.

Reads a Request from standard input, and tells what findings.py describes on the file descriptor that this names.
"""

import gc
import os
import sys
from pathlib import Path

import msgspec
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from forge.compile_report.checker import Checker, run_check
from forge.compile_report.fake_gpu import pretend_gpu
from forge.compile_report.findings import Findings, Progress, Request
from forge.task import json_lines


def main() -> None:
    gc.freeze()  # what has been imported stays
    gc.enable()
    request = json_lines.decode(sys.stdin.read(), Request)
    channel = os.fdopen(request.descriptor, "wb")

    def tell(told: Progress | Findings) -> None:
        channel.write(msgspec.json.encode(told) + b"\n")
        channel.flush()

    sys.path.insert(0, os.getcwd())  # the run folder: submission.py beside reference.py, task.py and utils.py
    if request.ranks > 1:
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=request.ranks)
    if "cpp_extension" in Path("submission.py").read_text(encoding="utf-8"):
        from forge.compile_report.hip_checker import check_with_hip  # takes cdna's engine and the HIP toolchain

        return tell(check_with_hip(request, tell))
    with pretend_gpu(request.arch):
        checker = Checker(request.arch, tell)
        run_check(checker, request.cases)
        tell(checker.found())
