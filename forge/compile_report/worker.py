"""The process behind `gen_submission.py --check`.

Reads a request from standard input, writes one JSON document a line to the file descriptor that it names:
{"progress"} many times, then what findings.py describes.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from forge.compile_report.checker import Checker, run_check
from forge.compile_report.fake_gpu import pretend_gpu


def main() -> None:
    gc.freeze()  # what has been imported stays
    gc.enable()
    request = json.load(sys.stdin)
    channel = os.fdopen(request["descriptor"], "w")

    def send(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    sys.path.insert(0, os.getcwd())  # the run folder: submission.py beside reference.py, task.py and utils.py
    if request["ranks"] > 1:
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=request["ranks"])
    if "cpp_extension" in Path("submission.py").read_text(encoding="utf-8"):
        from forge.compile_report.hip_checker import check_with_hip  # takes cdna's engine and the HIP toolchain

        send(check_with_hip(request, send).document())
        return
    with pretend_gpu(request["arch"]):
        checker = Checker(request["arch"], send)
        run_check(checker, request["cases"])
        send(checker.found().document())
