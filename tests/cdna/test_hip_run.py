"""`python -m cdna run`: whole HIP programs, each of which checks itself and returns 0 (tests/support/hip/*.hip)."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hip_programs import PROGRAMS, ROOT, cdna, run, run_built
from tests.support.limits import ENDS_S

pytestmark = pytest.mark.long


WITH_CHECKS = ["saxpy", "grid_sync", "calls", "assembler", "initial_values"]


@pytest.mark.parametrize("name", [*WITH_CHECKS, "memory_calls", "ipc_events", "rtc"])
def test_program(name: str) -> None:
    """It checks itself, and all checks find nothing in it."""
    checks = {"CDNA_CHECKS": "all"} if name in WITH_CHECKS else {}
    done = run("--arch", "gfx950" if name == "saxpy" else "gfx942", PROGRAMS / f"{name}.hip", **checks)
    assert done.returncode == 0 and not (checks and done.stderr), done.stdout + done.stderr


HANGS = """\
#include <hip/hip_runtime.h>
#include <cstdio>
template <int STEP> __global__ void spin(volatile int* flag) {
  flag[1] = 1;
  while (!*flag) flag += STEP;
}
int main() {
  volatile int* flag;
  hipHostMalloc((void**)&flag, 8);
  flag[0] = flag[1] = 0;
  spin<0><<<1, 64>>>(flag);
  while (!flag[1]) {}
  puts("runs");
  fflush(stdout);
  return hipDeviceSynchronize();
}
"""


def test_a_program_that_hangs_says_in_which_kernel_by_its_sources_name(tmp_path: Path) -> None:
    (tmp_path / "hangs.hip").write_text(HANGS)
    command = [sys.executable, "-m", "cdna", "run", str(tmp_path / "hangs.hip")]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "runs\n"
    process.terminate()
    _, told = process.communicate(timeout=ENDS_S)
    assert "void spin<0>(int volatile*) on gfx942: 0 of 1 workgroups have ended" in told and "_Z" not in told


def test_openmp_in_host_code(tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text("""
        #include <hip/hip_runtime.h>
        #include <omp.h>
        __global__ void add(int* x, int y) { *x += y; }
        int main() {
          int *x, sum = 0;
          if (hipMallocManaged(&x, sizeof *x)) return 2;
          *x = 1;
        #pragma omp parallel for reduction(+ : sum)
          for (int i = 0; i < 10; i++) sum += i;
          add<<<1, 1>>>(x, sum);
          return hipDeviceSynchronize() || *x != 46 || omp_get_num_threads() != 1;
        }
    """)
    done = run("-fopenmp", tmp_path / "main.hip")
    assert done.returncode == 0, done.stdout + done.stderr


def test_hip_runtime_includes_what_it_did_before_hip_7(tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text("""
        #include <hip/hip_runtime.h>
        __global__ void hello() { printf("hello\\n"); }
        int main() {
          hello<<<1, 1>>>();
          std::unique_ptr<int> code(new int(hipDeviceSynchronize()));
          assert(*code == 0);
          std::thread([&] { fprintf(stdout, "%d\\n", *code); }).join();
          return *code;
        }
    """)
    done = run(tmp_path / "main.hip")
    assert done.returncode == 0 and done.stdout == "hello\n0\n", done.stdout + done.stderr


def test_a_librarys_header_is_named(tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text("#include <hip/hip_runtime.h>\n#include <hipfft/hipfft.h>\nint main() {}\n")
    done = run(tmp_path / "main.hip")
    assert done.returncode == 2 and "main.hip:2:10: error: 'hipfft/hipfft.h' file not found" in done.stderr
    assert "hipFFT is not part of the emulated device" in done.stderr


@pytest.mark.parametrize("seed", ["0", "3"])
def test_kernels_that_wait_for_the_host_or_another_queue(seed: str) -> None:
    done = run_built(PROGRAMS / "asynchrony.hip", "spin", CDNA_ORDER_SEED=seed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "memory access fault" in done.stderr  # the last kernel's


@pytest.mark.parametrize("checks", ["none", "all"])
def test_memory_from_kernels(checks: str) -> None:
    if "ziglang" not in cdna("doctor").stdout.split("works    compile HIP")[1].split("\n")[0]:
        pytest.skip("clang's own wrapper headers call the device library's heap, which is not set up here")
    done = run_built(PROGRAMS / "heap.hip", CDNA_CHECKS=checks)
    assert done.returncode == 0, done.stdout + done.stderr


MAIN = """
#include <hip/hip_runtime.h>
#include <cstdio>
extern __device__ int shared_value;
__device__ int twice(int x);
__global__ void first(int* out) { out[0] = twice(shared_value); }
void launch_second(int* out);
int main(int count, char** words) {
  int *out, value = 20;
  if (hipHostMalloc(&out, 64, 0) || hipMemcpyToSymbol(HIP_SYMBOL(shared_value), &value, sizeof value)) return 3;
  first<<<1, 1>>>(out);
  launch_second(out);
  if (hipDeviceSynchronize()) return 4;
  printf("%d %d %d %s\\n", out[0], out[1], count, words[count - 1]);
}
"""
OTHER = """
#include <hip/hip_runtime.h>
__device__ int shared_value = 5;
__device__ __attribute__((noinline)) int twice(int x) { return 2 * x; }
__global__ void second(int* out) { out[1] = shared_value + 1; }
void launch_second(int* out) { second<<<1, 1>>>(out); }
"""


def test_several_sources(tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text(MAIN)
    (tmp_path / "other.hip").write_text(OTHER)
    both = (tmp_path / "main.hip", tmp_path / "other.hip")
    done = run("-fgpu-rdc", "--counters", *both, "--", "-x", "word")
    assert done.returncode == 0 and done.stdout == "40 21 3 word\n", done.stdout + done.stderr
    done = run(*both)  # device code of each source for itself
    assert done.returncode == 2 and "main.hip:" in done.stderr and "undefined device symbol" in done.stderr
    (tmp_path / "other.hip").write_text(OTHER.replace("int twice", "int thrice"))
    done = run("-fgpu-rdc", *both)
    assert done.returncode == 2 and "undefined device symbol _Z5twicei" in done.stderr
    apart = MAIN.replace("extern ", "").replace("__device__ int twice(int x);", "").replace("twice(shared_value)", "7")
    (tmp_path / "main.hip").write_text(apart)
    done = run(*both)
    assert done.returncode == 0 and done.stdout.startswith("7 6 1 "), done.stdout + done.stderr


def test_the_program_may_lie_beside_its_files(tmp_path: Path) -> None:
    """And what it starts opens the runtime by its names."""
    opened = "import ctypes; [ctypes.CDLL(name) for name in ('libamdhip64.so', 'libhiprtc.so.7')]"
    (tmp_path / "main.hip").write_text(f"""
        #include <unistd.h>
        #include <cstdio>
        #include <cstdlib>
        int main() {{
          char path[500] = "";
          if (readlink("/proc/self/exe", path, 499) < 0 || puts(path) < 0) return 1;
          return std::system("{sys.executable} -c \\"{opened}\\"") ? 2 : 0;
        }}
    """)
    done = run("-o", tmp_path / "program", tmp_path / "main.hip")
    assert done.returncode == 0 and done.stdout == f"{tmp_path}/program\n", done.stderr
    done = run("-o", tmp_path / "none" / "program", tmp_path / "main.hip")
    assert done.returncode == 2 and "cannot write" in done.stderr


def test_counters() -> None:
    for define, code in (("-DRIGHT", 0), ("-DWRONG", 1)):
        done = run("--counters", define, PROGRAMS / "saxpy.hip")
        assert done.returncode == code, done.stderr
        kernel = "saxpy(float, float const*, float*, int)"
        assert f"{kernel}: 8x1x1 workgroups of 256x1x1" in done.stderr
        assert "  modelled   " in done.stderr and "HBM 80,128/40,064" in done.stderr
        assert ("saxpy.hip" in done.stdout and "not so" in done.stdout) == bool(code)


def test_lanes_and_printf() -> None:
    flags = ("-std=c++20", "-Wall", "-munsafe-fp-atomics", "-ffast-math")
    done = run(*flags, PROGRAMS / "lanes.hip", CDNA_CHECKS="all")
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    assert done.stdout == "".join(f"lane {i} says hello and {i / 4:.2f}\n" for i in range(3))


@pytest.mark.sampled
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_host_side(arch: str) -> None:
    done = run("--arch", arch, PROGRAMS / "host_side.hip", CDNA_DEVICES="2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "this computer's, not the card's" in done.stderr


def test_with_nothing_but_pip(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    (tmp_path / "main.hip").write_text("""
        #include <hip/hip_runtime.h>
        __global__ void twice(int* x) { x[threadIdx.x] *= 2; }
        int main() {
          int* x;
          if (hipMallocManaged(&x, 64 * sizeof *x)) return 2;
          for (int i = 0; i < 64; i++) x[i] = i;
          twice<<<1, 64>>>(x);
          if (hipDeviceSynchronize()) return 3;
          for (int i = 0; i < 64; i++) if (x[i] != 2 * i) return 1;
          printf("done\\n");
        }
    """)
    done = run(tmp_path / "main.hip", PATH=str(tmp_path), CDNA_HIP_COMPILER="ziglang")  # no g++
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr
    assert "building the C++ library" not in done.stderr


@pytest.mark.slow(reason="builds zig's libc++")
def test_the_cxx_library_is_built_where_a_program_needs_it(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    (tmp_path / "main.hip").write_text("""
        #include <hip/hip_runtime.h>
        #include <iostream>
        #include <stdexcept>
        int main() {
          try { throw std::runtime_error("thrown"); } catch (const std::exception& error) { std::cout << error.what(); }
        }
    """)
    alone = {"PATH": str(tmp_path), "CDNA_HIP_COMPILER": "ziglang", "CDNA_CACHE_DIR": str(tmp_path)}
    for building in (True, False):
        done = run(tmp_path / "main.hip", **alone)
        assert done.returncode == 0 and done.stdout == "thrown", done.stdout + done.stderr
        assert ("building the C++ library (once per machine, two minutes" in done.stderr) == building


def test_module(tmp_path: Path) -> None:
    code = tmp_path / "kernels.co"
    done = cdna("compile", PROGRAMS / "module_kernels.hip", "-o", code)
    assert done.returncode == 0 and code.read_bytes().startswith(b"\x7fELF"), done.stderr
    done = cdna("dump", code)
    assert done.returncode == 0 and "kernel scale: " in done.stdout, done.stderr
    given = [word for value in ("i8=1", "pad=16", "f64[64]=ones", "i16=4") for word in ("--arg", value)]
    done = cdna("launch", code, "--grid", "1", "--block", "64", *given)
    assert done.returncode == 0, done.stderr
    done = run(PROGRAMS / "module.hip", "--", code)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "machine.co").write_bytes(b"\x7fELF" + bytes(100))
    done = run(PROGRAMS / "module.hip", "--", tmp_path / "machine.co")
    assert done.returncode == 3 and "machine.co: a damaged or truncated ELF file" in done.stderr


FAULTS = {
    1: ["memory access fault", "store_at", "beyond.hip:5", "workgroup (0, 0, 0), wave 0", "past the end", "4096 bytes"],
    2: ["memory access fault", "store_at", "beyond.hip:5", "byte 12 of 4096", "freed"],
    3: ["insist", "Device-side assertion `x[0] == 12345' failed", "beyond.hip:6"],
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_says_what_and_where(kind: int) -> None:
    done = run_built(PROGRAMS / "beyond.hip", str(kind))
    assert done.returncode == 7, done.stdout + done.stderr  # the program saw hipErrorLaunchFailure, and went on
    for part in FAULTS[kind]:
        assert part in done.stderr


@pytest.mark.parametrize(("checks", "code"), [("all", 1), ("report:all", 0)])
def test_findings_as_sarif_of_a_program_that_looks_at_no_error(checks: str, code: int, tmp_path: Path) -> None:
    source, sarif = tmp_path / "ignores.hip", tmp_path / "found.sarif"
    source.write_text("""#include <hip/hip_runtime.h>
__global__ void fill(int* x) { x[threadIdx.x] = 1; }
int main() {
  int* x;
  if (hipMalloc(&x, 100 * sizeof(int))) return 2;
  fill<<<1, 128>>>(x);
  (void)hipDeviceSynchronize();
}
""")
    done = cdna("run", "--checks", checks, "--sarif", str(sarif), str(source))
    assert done.returncode == code, done.stderr
    (found,) = json.loads(sarif.read_text())["runs"]
    (result,) = found["results"]
    assert (result["ruleId"], result["properties"]["certainty"]) == ("bounds", "seen")
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 2}
    assert not found["invocations"][0]["toolExecutionNotifications"]


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        ("0", "which lanes go on depends on a local variable|stores what was computed from a local variable"),
        ("1", "stores what was computed from a local variable"),
        ("2", "stores what was computed from a local variable .*lane 32"),
        ("3", ""),
    ],
)
def test_local_variables_that_nothing_has_written(kernel: str, what: str) -> None:
    """Without optimisation; with it, clang has decided what they are, and nothing is said of correct code either."""
    done = run("-O0", PROGRAMS / "uninitialised.hip", "--", kernel, CDNA_CHECKS="report:all")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(what, done.stderr, re.DOTALL) if what else not done.stderr
    if kernel == "3":
        done = run("-O3", PROGRAMS / "uninitialised.hip", "--", kernel, CDNA_CHECKS="all")
        assert done.returncode == 0 and not done.stderr, done.stderr


def test_compile_errors_name_the_users_line(tmp_path: Path) -> None:
    source = tmp_path / "typo.hip"
    source.write_text("#include <hip/hip_runtime.h>\n__global__ void f(int* x) {\n  x[0] = y;\n}\nint main() {}\n")
    done = run(source)
    assert done.returncode == 2
    assert f"{source}:3:" in done.stderr and "'y'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_call_that_is_not_there_is_named(tmp_path: Path) -> None:
    source = tmp_path / "interop.hip"
    source.write_text("#include <hip/hip_runtime.h>\nint main() {\n  return hipConfigureCall(1, 1, 0, 0);\n}\n")
    done = run(source)
    assert done.returncode == 2
    assert "hipConfigureCall is not part of the emulated runtime" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_missing_file_and_wrong_number_of_devices() -> None:
    done = run("no_such.hip")
    assert done.returncode == 2 and "no_such.hip" in done.stderr and "Traceback" not in done.stderr
    done = run(PROGRAMS / "saxpy.hip", CDNA_DEVICES="0")
    assert done.returncode == 2 and "CDNA_DEVICES=0" in done.stderr
