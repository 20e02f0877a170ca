"""Emulated GPUs from outside: what a process started with a device's environment() does.

The checks of torch itself are in emulated/: they have to run in such a process, here a fork of one.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from cdna.engine.build import zig_binary
from cdna.hip.compile import compilers
from forge.device import resolve
from tests.support.limits import ENDS_S
from tests.support.prepared import HIP_EXTENSIONS, run_check, run_prepared

pytestmark = pytest.mark.long

EMULATED = Path(__file__).resolve().parents[1] / "support" / "emulated"
Result = subprocess.CompletedProcess[str]


def python(*arguments: str) -> Result:
    """Runs Python in a process that prepares itself for an emulated MI300X."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **resolve("gfx942", "gfx942").environment()}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=ENDS_S)


def forked(file: Path, *arguments: str, cdna_checks: str = "", **more: Any) -> Result:
    """Runs a script in a fork of one that is prepared."""
    with patch.dict(os.environ, {"CDNA_CHECKS": cdna_checks} if cdna_checks else {}):
        return run_prepared(str(file), *arguments, **more)


def code(text: str) -> Result:
    return python("-c", textwrap.dedent(text))


@pytest.mark.timeout(900)  # the first to build with torch's headers parses them
@pytest.mark.parametrize("checks", ["tensors", "runtime", "triton", "hip", "graphs"])
def test_torch(checks: str) -> None:
    gpus = {"runtime": "2", "hip": "2"}.get(checks, "1")
    imports = {"runtime": [HIP_EXTENSIONS], "hip": [HIP_EXTENSIONS]}.get(checks, [])
    file = str(EMULATED / f"checks_{checks}.py")
    run = run_prepared(file, environment={"POPCORN_GPUS": gpus}, imports=imports, timeout=880)
    assert run.returncode == 0, run.stdout + run.stderr


def test_addresses_that_change_hands() -> None:
    run = forked(EMULATED / "checks_addresses.py", cdna_checks="bounds", imports=[HIP_EXTENSIONS])
    assert run.returncode == 0 and " passed" in run.stdout, run.stdout + run.stderr


POINTERS = """
import ctypes, mmap, sys, cdna, numpy as np, torch, triton, triton.language as tl
from torch.utils.cpp_extension import load_inline

older, large = (torch.zeros(n, dtype=torch.int32, device="cuda") for n in (64, 80 << 20))
SOURCE = '''
#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void fill(int* x) { x[threadIdx.x] = 7; if (threadIdx.x > 64) printf("%d", x[0]); }
extern "C" int launch(int* x) { fill<<<1, 64>>>(x); return hipDeviceSynchronize(); }
extern "C" int on_stack() { int x[64] = {}; return launch(x) + x[63]; }
'''
library = ctypes.CDLL(load_inline("raw", "", SOURCE, no_implicit_headers=True, is_python_module=False))
OF_CPP = '''
#include <torch/extension.h>
__global__ void fill(int* x) { x[threadIdx.x] = 7; }
std::vector<int64_t> filled() {  // the last is the host's
  auto ints = torch::dtype(torch::kInt32);
  std::vector<int64_t> found;
  for (auto x : {torch::zeros({64}, ints.device(torch::kCUDA)), torch::zeros({64}, ints.pinned_memory(true)),
                 torch::zeros({64}, ints).to(torch::kCUDA), torch::zeros({64}, ints)}) {
    fill<<<1, 64>>>(x.data_ptr<int>());
    (void)hipDeviceSynchronize();
    found.push_back(x.data_ptr<int>()[63]);
  }
  return found;
}
'''
hip = ctypes.CDLL("libamdhip64.so")

@triton.jit
def fill(x, through: tl.constexpr):
    if through:
        x = tl.load(x)
    tl.store(x.to(tl.int64).to(tl.pointer_type(tl.int32)) + tl.arange(0, 64), 7)  # a low address is an int32

def zeros(n=64, **options):
    return torch.zeros(n, dtype=torch.int32, **options)

def given(call, *rest):
    memory = ctypes.c_void_p()
    assert call(ctypes.byref(memory), ctypes.c_size_t(256), *rest) == 0
    return (ctypes.c_int * 64).from_address(memory.value)

kept = []

def registered():
    array = np.zeros(64, np.int32)
    assert hip.hipHostRegister(ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(256), 0) == 0
    kept.append(array)
    return array

def unregistered():
    array = registered()
    assert hip.hipHostUnregister(ctypes.c_void_p(array.ctypes.data)) == 0
    return array

THE_CARDS = {
    "older": lambda: older, "large": lambda: large, "newer": lambda: zeros(device="cuda"),
    "pinned": lambda: zeros().pin_memory(), "part of pinned": lambda: zeros(128, pin_memory=True)[64:],
    "moved to pinned": lambda: zeros(device="cuda").cpu().pin_memory(), "moved": lambda: zeros().cuda(),
    "shared": lambda: zeros(device="cuda").share_memory_(),
    "a parameter": lambda: torch.nn.Parameter(zeros(device="cuda"), False),
    "hipHostMalloc": lambda: given(hip.hipHostMalloc, 0), "managed": lambda: given(hip.hipMallocManaged, 1),
    "registered": registered,
}
THE_HOSTS = {
    "tensor": zeros, "moved": lambda: zeros(device="cuda").cpu(), "part": lambda: zeros(128)[64:],
    "sum": lambda: zeros() + zeros(), "shared": lambda: zeros().share_memory_(),
    "array": lambda: np.zeros(64, np.int32), "of array": lambda: torch.from_numpy(np.zeros(64, np.int32)),
    "pages": lambda: torch.frombuffer(mmap.mmap(-1, 4096), dtype=torch.int32),
    "ctypes": lambda: (ctypes.c_int * 64)(), "unregistered": unregistered,
}
def address(x):
    if isinstance(x, ctypes.Array):
        return ctypes.addressof(x)
    return x.data_ptr() if isinstance(x, torch.Tensor) else x.ctypes.data

def told(x, way):
    print(f"{way}:", file=sys.stderr, flush=True)
    before = int(x[63])
    if way == "hip":
        assert library.launch(ctypes.c_void_p(address(x))) == 0
    else:
        table = torch.tensor([address(x)], device="cuda")
        try:
            fill[(1,)](table if way == "table" else address(x), way == "table", num_warps=1)
        except cdna.CheckError as error:
            print(error, file=sys.stderr)
    return int(x[63]) == before

if sys.argv[1] == "gone":
    gone = zeros(device="cuda")
    where = gone.data_ptr()
    del gone
    assert library.launch(ctypes.c_void_p(where)) == 0
for way in ("hip", "address", "table"):
    for which, expected in ((THE_CARDS, False), (THE_HOSTS, True)):
        if sys.argv[1] == "gone" or (sys.argv[1] == "unchecked" and expected and way == "hip"):
            continue  # without checks, the device is lost at the first
        for name, make in which.items():
            x = make()
            x[63] = 5
            assert told(x, way) is expected, (way, name)
if sys.argv[1] == "all":
    assert library.on_stack() == 0
    of_cpp = load_inline("of_cpp", "std::vector<int64_t> filled();", OF_CPP, functions=["filled"])
    assert of_cpp.filled() == [7, 7, 7, 0]
    print(len(THE_HOSTS) + 2)
elif sys.argv[1] == "unchecked":
    fill[(1,)](address(older) + 248, False, num_warps=1)  # beyond its end
    assert older[63] == 7 and library.on_stack() != 0
    print(2 * len(THE_HOSTS) + 1)
"""


TENSOR = "in a CPU tensor of 256 bytes"


@pytest.mark.parametrize(
    "checks, says",
    [("report:bounds", f"{TENSOR} (argument 1), which is in the host's memory and not pinned"), ("", TENSOR)],
)
def test_pointers_that_are_not_the_cards(tmp_path: Path, checks: str, says: str) -> None:
    (tmp_path / "main.py").write_text(POINTERS)
    mode = "all" if checks else "unchecked"
    run = forked(tmp_path / "main.py", mode, cdna_checks=checks, imports=[HIP_EXTENSIONS])
    assert run.returncode == 0, run.stderr
    told = re.findall(r"(?m)^(?:cdna: )?fill.*: bounds: writes 4 bytes at .*the card does not reach", run.stderr)
    assert len(told) == int(run.stdout), run.stderr
    assert says in run.stderr and "in the stack of the host's" in run.stderr
    if not checks:
        return
    gone = forked(tmp_path / "main.py", "gone", cdna_checks="report:bounds", imports=[HIP_EXTENSIONS])
    assert gone.returncode == 0 and "which has been freed" in gone.stderr, gone.stderr


def test_collectives() -> None:
    run = forked(EMULATED / "ranks.py", "3", environment={"POPCORN_GPUS": "3"})
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_ends_of_a_large_tensor_that_nobody_has_written(tmp_path: Path) -> None:
    text = "import torch, cdna; x = torch.empty(80 << 20, device='cuda'); x[-4:].tolist(), x[:4].tolist()"
    (tmp_path / "main.py").write_text(f"{text}; print(*cdna.findings(), torch.zeros_like(x)[:4].tolist())")
    run = forked(tmp_path / "main.py", cdna_checks="report:all")
    assert run.stdout.count("reads 4 of the 4 elements") == 2 and run.stdout.endswith("[0.0, 0.0, 0.0, 0.0]\n"), run


@pytest.mark.sampled
@pytest.mark.parametrize(("asked", "environment"), [("", "all"), ('cdna.checks.push("all")', "none")])
@pytest.mark.parametrize(("read", "reader"), [("cpu", "a copy to the host"), ("tolist", "tolist")])
def test_tensors_that_nobody_has_written(tmp_path: Path, asked: str, environment: str, read: str, reader: str) -> None:
    """Where the host reads what a kernel has made of them, and no sooner."""
    (tmp_path / "main.py").write_text(
        textwrap.dedent(f"""
        import sys, cdna, torch, triton, triton.language as tl

        {asked}

        @triton.jit
        def add(x, y, out):
            at = tl.program_id(0) * 64 + tl.arange(0, 64)
            tl.store(out + at, tl.load(x + at) + tl.load(y + at))

        for written in (512, 500):
            x, y = torch.zeros(512, device="cuda"), torch.empty(512, device="cuda")
            y[:written] = 1
            print("of", written, file=sys.stderr)
            add[(8,)](x, y, out := torch.empty_like(y), num_warps=1)
            print(out[:500].cpu().sum().item(), y[0].item(), len(y[:500].tolist()), file=sys.stderr)
            out.{read}()
        """)
    )
    run = forked(tmp_path / "main.py", cdna_checks=environment)
    whole, _, part = run.stderr.partition("of 500\n")
    assert whole.endswith("of 512\n500.0 1.0 500\n"), run.stderr
    assert part.startswith("500.0 1.0 500\n"), run.stderr
    assert f"add on gfx942: unwritten: {reader} reads 12 of the 512 elements of a tensor [512]" in part, run.stderr
    assert "for one, is what this store made of memory that nothing had written" in part, run.stderr
    assert "| tl.store(out + at, tl.load(x + at) + tl.load(y + at))" in part, run.stderr


def test_gfx950_is_an_mi355x(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        textwrap.dedent("""
        import torch
        card = torch.cuda.get_device_properties(0)
        print(card.name, card.gcnArchName, card.multi_processor_count, card.total_memory // 2**30)
        a = torch.ones(16, 32, device="cuda").to(torch.float8_e4m3fn)
        one = torch.ones(1, device="cuda")
        print(torch._scaled_mm(a, a.t(), one, one, out_dtype=torch.float32)[0, 0].item())
        """)
    )
    run = forked(tmp_path / "main.py", arch="gfx950")
    assert run.stdout == "AMD Instinct MI355X gfx950:sramecc+:xnack- 256 287\n32.0\n", run.stderr


def test_what_packages_ask_of_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROCM_PATH", "ROCM_HOME"):
        monkeypatch.delenv(name, raising=False)
    given = resolve("gfx950", "gfx950").environment()
    if "ROCM_PATH" not in given:
        pytest.skip("this machine has a ROCm of its own")

    def ask(command: str) -> str:
        environment = {**os.environ, **given, "POPCORN_GPUS": "2"}
        return subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=True).stdout

    assert ask("rocm_agent_enumerator").split() == ["gfx000", "gfx950", "gfx950"]
    assert ask("hipconfig --version").startswith("7.1.") and ask("hipconfig -R") == given["ROCM_PATH"]
    assert ask("cat $ROCM_PATH/.info/version") == "7.1.0\n"
    assert "LLD" in ask("$ROCM_PATH/llvm/bin/ld.lld --version")
    assert {"ocml.bc", "ockl.bc"} <= set(ask("ls $ROCM_PATH/amdgcn/bitcode").split())
    assert {f"lib{name}.so{n}" for name in ("amdhip64", "hiprtc") for n in ("", ".7")} <= set(
        ask("ls $ROCM_PATH/lib").split()
    )
    shown = ask("rocminfo")
    assert shown.count("amdgcn-amd-amdhsa--gfx950:sramecc+:xnack-") == shown.count("Compute Unit:            256") == 2
    assert "Agent 2" in shown and "Agent 3" in shown and "Agent 4" not in shown
    assert ask("rocm-smi --showproductname").splitlines() == [
        f"GPU[{i}]\t\t: {line}"
        for i in range(2)
        for line in ("Card Series: \t\tAMD Instinct MI355X (emulated)", "GFX Version: \t\tgfx950")
    ]
    with pytest.raises(subprocess.CalledProcessError):
        ask("rocm-smi --showpower")
    smi = "import sys, amdsmi as a; print(sys.path[0], a.amdsmi_get_processor_handles(), a.amdsmi_get_gpu_asic_info(1))"
    assert ask(f"{sys.executable} -c '{smi}'").startswith(" [0, 1] {'market_name': 'AMD Instinct MI355X (emulated)'")
    monkeypatch.setenv("ROCM_HOME", "/there")
    assert "ROCM_PATH" not in resolve("gfx950", "gfx950").environment()


def test_nothing_happens_without_torch() -> None:
    run = code(
        """
        import sys
        assert not {"torch", "triton", "cdna", "forge"} & set(sys.modules)
        assert not [path for path in sys.path if path.endswith("cdna-forge")]
        """
    )
    assert run.returncode == 0 and run.stderr == "", run.stderr


def test_hidden_sitecustomize_still_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And whatever it does, a GPU is there, and this checkout is not."""
    (tmp_path / "sitecustomize.py").write_text("print('theirs', __name__)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert code("import sitecustomize").stdout == "theirs sitecustomize\n"
    (tmp_path / "sitecustomize.py").write_text("1 / 0\n")
    (tmp_path / "main.py").write_text("import torch; print(torch.cuda.is_available()); import kernels\n")
    run = python(str(tmp_path / "main.py"))
    assert run.stdout == "True\n" and "ZeroDivisionError" in run.stderr and "No module named 'kernels'" in run.stderr


def test_pools_and_subprocesses_are_prepared(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        textwrap.dedent(
            """
            import multiprocessing, subprocess, sys
            import torch

            def double(x):
                return x * 2, str(x.device), torch.cuda.get_device_name()

            if __name__ == "__main__":
                for method in ("spawn", "forkserver"):  # Python's own choice from 3.14 on
                    with multiprocessing.get_context(method).Pool(1) as pool:
                        y, *names = pool.apply(double, (torch.ones(2, device="cuda"),))
                    print(y.tolist(), y.device, *names)
                program = "import torch; print(torch.cuda.is_available())"
                print(subprocess.check_output([sys.executable, "-c", program], text=True), end="")
            """
        )
    )
    run = forked(tmp_path / "main.py")
    assert run.stdout == "[2.0, 2.0] cuda:0 cuda:0 AMD Instinct MI300X\n" * 2 + "True\n", run.stderr


@pytest.mark.parametrize("order", ["before", "after", "after a fork"])
def test_prepare_in_this_process(order: str, tmp_path: Path) -> None:
    """As a worker does it, without environment(); twice, and on either side of torch's import."""
    steps = ["import torch", "device.prepare(); device.prepare()"]
    if order == "after a fork":  # what a CUDA build says then, if devices have been counted before
        steps[0] += "; torch.cuda._initialized, torch.cuda._is_in_bad_fork = False, lambda: True"
    program = "; ".join(
        [
            "from forge.device import resolve",
            "device = resolve('gfx950', 'gfx950')",
            *(reversed(steps) if order == "before" else steps),
            "print(torch.ones(2, device='cuda').device, torch.cuda.get_device_name(), device.case_report().empty)",
        ]
    )
    (tmp_path / "main.py").write_text(program)
    if order == "before":
        root = Path(__file__).parents[2]
        run = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=ENDS_S)
    else:
        run = run_check(str(tmp_path / "main.py"))
    assert run.stdout == "cuda:0 AMD Instinct MI355X True\n", run.stderr


OPENED_FROM_C = """
import ctypes
if {torch_first}: import torch
libc = ctypes.CDLL(None)
libc.dlopen.restype = libc.dlsym.restype = ctypes.c_void_p
names = [b"libamdhip64.so", b"libamdhip64.so.7", b"libhiprtc.so", b"libhiprtc.so.7"]
handles = [libc.dlopen(name, 2) for name in names]
assert handles[0] and len(set(handles)) == 1, handles
def call(name, *arguments):
    address = libc.dlsym(ctypes.c_void_p(handles[0]), name)
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)(*arguments)
program, count = ctypes.c_void_p(), ctypes.c_int()
source = b'extern "C" __global__ void fill(int* x) {{ x[0] = 7; }}'
assert call(b"hiprtcCreateProgram", ctypes.byref(program), source, None, 0, None, None) == 0
assert call(b"hiprtcCompileProgram", program, 0, None) == 0
assert call(b"hipGetDeviceCount", ctypes.byref(count)) == 0
import torch
print(count.value, bool(torch.cuda.Stream().cuda_stream))
"""


@pytest.mark.parametrize("torch_first", [False, True])
def test_c_code_opens_the_runtime_by_its_names(torch_first: bool, tmp_path: Path, monkeypatch: Any) -> None:
    """As C code does, without ctypes' search; hipRTC keeps to the folder for temporary files that the process has."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("POPCORN_GPUS", "2")
    run = code(OPENED_FROM_C.format(torch_first=torch_first))
    assert run.stdout == f"{2 if torch_first else 1} True\n", run.stderr
    if torch_first:
        return
    monkeypatch.setenv("TMPDIR", "/no such place")
    run = code(OPENED_FROM_C.format(torch_first=False))
    assert "/no such place/cdna-rtc-" in run.stderr and "set TMPDIR" in run.stderr, run.stderr


def test_a_program_linked_with_rocm_s_library_starts(tmp_path: Path) -> None:
    """It asks for the library by its SONAME, and for versions of symbols."""
    zig = zig_binary()
    if zig is None:
        pytest.skip("needs ziglang")
    (tmp_path / "versions").write_text(
        "hip_4.2 { global: hipGetDeviceCount; };\nhip_6.0 { global: hipExtGetLastError; };"
    )
    (tmp_path / "theirs.c").write_text(
        "int hipGetDeviceCount(int* n) { return 1; }\nint hipExtGetLastError() { return 1; }\n"
    )
    (tmp_path / "main.c").write_text(
        "int hipGetDeviceCount(int*), hipExtGetLastError();\n"
        "int run() { int n = 0; return hipGetDeviceCount(&n) || hipExtGetLastError() || n != 1; }\n"
        '__asm__(".globl _start\\n_start: call run\\nmov %eax, %edi\\nmov $231, %eax\\nsyscall");\n'
    )
    theirs, program = str(tmp_path / "libamdhip64.so.7"), str(tmp_path / "main")
    objects = [str(tmp_path / name) for name in ("theirs.o", "main.o")]
    (libc,) = set(re.findall(r"/\S*/libc[.-]\S+$", Path("/proc/self/maps").read_text(), re.MULTILINE))
    made = ["-shared", "-soname", "libamdhip64.so.7", f"--version-script={tmp_path}/versions", "-o", theirs]
    for command in (
        *(["cc", "-O1", "-fPIC", "-c", one.replace(".o", ".c"), "-o", one] for one in objects),
        # `cc` would link with a run-time library, 40 s of processor time, that is not needed.
        ["ld.lld", *made, objects[0]],
        ["ld.lld", "-dynamic-linker", "/lib64/ld-linux-x86-64.so.2", objects[1], theirs, libc, "-o", program],
    ):
        subprocess.run([zig, *command], check=True, env=compilers.environment(), timeout=ENDS_S)
    assert subprocess.run([program], env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}).returncode == 1
    environment = {**os.environ, **resolve("gfx942", "gfx942").environment()}
    run = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=ENDS_S)
    assert run.returncode == 0 and run.stderr == "", run.stderr
