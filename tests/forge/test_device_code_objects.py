"""Code objects (ELF) that programs bring: through libamdhip64 in prepared Python processes, and in HIP programs."""

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from forge.device import resolve
from tests.support.compiled_kernels import compiled
from tests.support.limits import ENDS_S
from tests.support.prepared import run_prepared

# What a submission does that carries its kernel: y = exp(x) by 4 workgroups of 256.
SUBMISSION = """
import base64, ctypes, struct, sys
import torch
data = base64.b64decode("{object}")[:{cut}]
hip, module, kernel = ctypes.CDLL("libamdhip64.so"), ctypes.c_void_p(), ctypes.c_void_p()
def call(name, *arguments):
    status = getattr(hip, name)(*arguments)
    if status:
        sys.exit(f"{{name}}: {{status}}")
if len(sys.argv) > 1:
    open(sys.argv[1], "wb").write(data)
    call("hipModuleLoad", ctypes.byref(module), sys.argv[1].encode())
else:
    call("hipModuleLoadData", ctypes.byref(module), data)
call("hipModuleGetFunction", ctypes.byref(kernel), module, b"{name}")
x, y = torch.randn(1000, device="cuda"), torch.zeros(1024, device="cuda")
packed = struct.pack("<QQi", x.data_ptr(), y.data_ptr(), 1000).ljust({bytes}, b"\\0")
buffer, size = ctypes.create_string_buffer(packed), ctypes.c_size_t({bytes})
extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 3)
call("hipModuleLaunchKernel", kernel, 4, 1, 1, 256, 1, 1, 0, None, None, extra)
call("hipDeviceSynchronize")
torch.testing.assert_close(y[:1000], x.exp())
print("right")
"""
KERNARG_BYTES = 40  # of Triton's kernel: two pointers, a number, two pointers to scratch that it does not use


def submission(arch: str = "gfx942", cut: str = "", name: str = "_exp", bytes: int = KERNARG_BYTES) -> str:
    text = base64.b64encode(compiled("exp", arch)[0]).decode()
    return SUBMISSION.format(object=text, cut=cut, name=name, bytes=bytes)


def prepared(program: str, *arguments: str, arch: str = "gfx942") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **resolve(arch, arch).environment()}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=ENDS_S)


def forked(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """The same on gfx942, the code object from a file, in a fork of a prepared process."""
    (folder / "main.py").write_text(program)
    return run_prepared(str(folder / "main.py"), str(folder / "kernel.hsaco"))


@pytest.mark.sampled
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_a_submission_that_carries_a_code_object(arch: str) -> None:
    done = prepared(submission(arch), arch=arch)
    assert done.stdout.startswith("right"), done.stderr


def test_a_code_object_from_a_file(tmp_path: Path) -> None:
    done = forked(tmp_path, submission())
    assert done.stdout.startswith("right"), done.stderr


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"arch": "gfx950"}, "hipModuleLoad: 209", "code for gfx950, and gfx942 was asked for"),
        ({"cut": "3000"}, "hipModuleLoad: 209", "a damaged or truncated ELF file|a truncated ELF file"),
        ({"cut": "2"}, "hipModuleLoad: 209", "is no code object"),
        (
            {"name": "nothing"},
            "hipModuleGetFunction: 500",
            "the module has no kernel nothing; it has 1, the first is _exp",
        ),
        ({"bytes": 8}, "hipModuleLaunchKernel: 1", "_exp takes 40 bytes of arguments, and .* says 8"),
        ({"bytes": 400}, "hipModuleLaunchKernel: 1", "_exp takes 40 bytes of arguments, and .* says 400"),
    ],
)
def test_what_cannot_be_loaded_or_launched_says_so_in_a_line(
    tmp_path: Path, change: dict[str, object], status: str, said: str
) -> None:
    done = forked(tmp_path, submission(**change))  # type: ignore[arg-type]
    lines = done.stderr.strip().splitlines()
    assert lines[-1] == status
    assert len(lines) == 2 and re.search(said, lines[0]), done.stderr
