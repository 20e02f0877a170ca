"""HIP sources to assembly, objects and libraries, with what pip brings; and what is said when that fails."""

import ctypes
import io
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdna.__main__ import main
from cdna.binary import kernel_names, resources
from cdna.binary.asm import parse, source_line
from cdna.commands import doctor
from cdna.errors import CompileError, ToolchainError
from cdna.hip.compile import compilers, diagnostics, toolchain, verify
from cdna.hip.compile.build import build
from cdna.hip.compile.precompiled_headers import relevant
from cdna.hip.compile.source import HipSource, ParsedHeader
from cdna.hip.compile.toolchain import Toolchain, control_ir, find

pytestmark = pytest.mark.long

KERNELS = Path(__file__).parents[1] / "support" / "hip" / "kernels.hip"
SCALE = """#include "scale.h"
#include <hip/hip_runtime.h>
__global__ void scale(float* x) { x[threadIdx.x] *= SCALE; }
"""
KERNEL = "#include <hip/hip_runtime.h>\n__global__ void k(float* x) {\n%s\n}\n"


def write(folder: Path, text: str, name: str = "mine.hip") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def assembly(source: Path, *flags: str) -> str:
    return find().assembly(HipSource(source, "gfx942", flags))


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDNA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


# ------------------------------------------------------------ device code


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_kernels_compile_for_both_archs(arch: str) -> None:
    text = find().assembly(HipSource(KERNELS, arch))
    assert resources.read_target(text) == arch
    kernels = {kernel.kernel: kernel for kernel in resources.read_resources(text)}
    assert set(kernels) == {"_Z4axpyILi3EEvPKfPffi", "maths", "lanes", "matrix", "says"}
    assert kernels["matrix"].matrix_instructions == 1 and kernels["matrix"].max_threads == 64
    assert kernels["lanes"].lds_bytes == 256
    places = {source_line(parsed, statement) for parsed in [parse(text)] for statement in parsed.statements}
    assert len(places) > 20 and all(place.startswith(f"{KERNELS}:") for place in places), places
    assert ".amdhsa_code_object_version 5" in text


def test_ziglang_alone_is_enough(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without any compiler, C++ headers or ROCm; libc++ comes from ziglang as well."""
    monkeypatch.setenv("PATH", str(empty_cache))
    compiler = compilers.ziglang()
    assert compiler.cxx_library == "libc++"
    text = Toolchain(compiler).assembly(HipSource(KERNELS, "gfx950", ("-nostdinc",)))
    assert {kernel.kernel for kernel in resources.read_resources(text)} >= {"maths", "lanes"}


def test_flags_reach_the_compiler(tmp_path: Path) -> None:
    source = write(tmp_path, KERNEL % "x[0] = sinf(x[0]) / N + __cplusplus;")
    plain = assembly(source, "-DN=3")
    fast = assembly(source, "-DN=3", "-std=c++20", "-ffast-math", "-O2")
    sizes = [resources.read_resources(text)[0].code_bytes for text in (plain, fast)]
    assert sizes[1] < sizes[0] / 4, "fast mathematics takes the sine instruction"
    assert "v_sin_f32" in fast and "0x48454480" in fast, "202002 as a float: the standard was C++20"


def test_control_constants() -> None:
    def value(text: str, name: str) -> int:
        found = re.search(rf"@__oclc_{name} = .* i\d+ (\d+)$", text, re.MULTILINE)
        assert found
        return int(found[1])

    versions = {arch: value(control_ir(arch), "ISA_version") for arch in ("gfx90a", "gfx942", "gfx950")}
    assert versions == {"gfx90a": 9010, "gfx942": 9402, "gfx950": 9500}
    plain = control_ir("gfx942")
    assert value(plain, "unsafe_math_opt") == 0 and value(plain, "correctly_rounded_sqrt32") == 1
    fast = control_ir("gfx942", ["-ffast-math", "-fno-finite-math-only"])
    assert value(fast, "unsafe_math_opt") == 1 and value(fast, "finite_only_opt") == 0


# ------------------------------------------------------------ cache


def test_a_result_is_kept_until_what_it_came_from_changes(
    tmp_path: Path, empty_cache: Path, compiler_calls: list[list[str]]
) -> None:
    def compilations() -> int:
        return sum(not {"-emit-pch", "-E"} & {*call} for call in compiler_calls)  # these parse headers ahead

    source, header = write(tmp_path, SCALE), write(tmp_path, "#define SCALE 2\n", "scale.h")
    first = assembly(source)
    done = compilations()
    assert assembly(source) == first and compilations() == done
    header.write_text("#define SCALE 5\n")
    assert assembly(source) != first and compilations() == done + 1
    header.write_text("#define SCALE 2\n")
    assert assembly(source) == first and compilations() == done + 1, "known by content"
    assembly(source, "-DOTHER")
    assert compilations() == done + 2


def test_a_parsed_header_outlives_a_new_checkout(
    tmp_path: Path, empty_cache: Path, compiler_calls: list[list[str]]
) -> None:
    header = write(tmp_path, "#pragma once\n#include <hip/hip_runtime.h>\n#define SCALE 3\n", "mine.h")
    path = write(tmp_path, '#include "mine.h"\n__global__ void k(float* x) { *x *= SCALE; }\n')
    source = HipSource(path, "gfx942", include_dirs=(tmp_path,), header=ParsedHeader(header, (f"-I{tmp_path}",)))

    def compiled(name: str) -> str:
        path.write_text(path.read_text() + f"// {name}\n")
        return find().assembly(source)

    first = compiled("first")
    os.utime(header, (1_700_000_000, 1_700_000_000))
    assert parse(compiled("again")).descriptors == parse(first).descriptors
    assert sum("-emit-pch" in call for call in compiler_calls) == 1
    assert sum("-include-pch" in call for call in compiler_calls) == 2


def test_a_header_is_parsed_once_for_flags_that_change_nothing_in_it(
    tmp_path: Path, empty_cache: Path, compiler_calls: list[list[str]]
) -> None:
    """Such flags must be harmless to the compiler as well: it refuses headers that were parsed for other ones."""
    harmless = (
        "-g -w -Wall -lanything -finline-functions -fomit-frame-pointer -funroll-loops -fPIC -DMINE=1 "
        "-munsafe-fp-atomics -Rpass-analysis=kernel-resource-usage -mllvm -amdgpu-early-inline-all=true"
    ).split()
    assert relevant(["-O3", *harmless, "-ffast-math"]) == ["-ffast-math"]
    header = ParsedHeader(write(tmp_path, "#include <hip/hip_runtime.h>\n", "parsed.h"), ())
    plain = HipSource(write(tmp_path, "__global__ void twice(float* x) { *x *= 2; }\n"), "gfx942", header=header)
    for source in (plain, replace(plain, flags=("-O3", *harmless), host_flags=tuple(harmless))):
        assert "twice" in find().assembly(source)
        find().host_object(source, b"none")
    assert sum("-emit-pch" in call for call in compiler_calls) == 2, "once for the device and once for the host"


def test_what_is_compiled_where_a_source_does_not(tmp_path: Path) -> None:
    said = []

    def instead(error: CompileError) -> HipSource | None:
        said.append(str(error))
        return replace(source, flags=("-DN=3",), instead=None) if len(said) == 1 else None

    source = HipSource(write(tmp_path, KERNEL % "x[0] = N;"), "gfx942", instead=instead)
    (code,) = build([source], shared=True).device_code
    assert len(resources.read_resources(code.assembly.read_text())) == len(said) == 1
    with pytest.raises(CompileError, match="undeclared identifier 'N'"):
        build([source], shared=True)


def test_what_a_killed_build_left_is_not_taken_for_a_result(
    tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path, SCALE.replace('#include "scale.h"', "#define SCALE 2"))
    real = toolchain._run

    def killed(command: list[str], *rest: Any) -> None:
        if "-S" not in command:
            return real(command, *rest)
        Path(command[command.index("-o") + 1]).write_text("half of the ass")
        os._exit(9)

    child = os.fork()
    if child == 0:
        monkeypatch.setattr(toolchain, "_run", killed)
        assembly(source)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert "scale" in assembly(source)


def test_another_triton_on_the_path_changes_no_hip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was compiled would be compiled once more, with another version's device library."""
    installed = compilers.triton_files()
    amd = tmp_path / "triton/backends/amd"
    (amd / "lib").mkdir(parents=True)
    (amd / "include").symlink_to(installed.include)
    for file in (tmp_path / "triton/__init__.py", amd / "lib/ocml.bc", amd / "lib/ockl.bc"):
        file.touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert compilers.triton_files() == installed


# ------------------------------------------------------------ host code


def test_the_host_pass_registers_its_kernels_and_holds_the_fat_binary() -> None:
    device = b"the device code " * 4
    host = find().host_object(HipSource(KERNELS, "gfx942"), device)
    symbols = subprocess.run(["nm", str(host)], capture_output=True, text=True).stdout if shutil.which("nm") else ""
    content = host.read_bytes()
    for name in (
        "__hipRegisterFatBinary __hipRegisterFunction __hipRegisterVar __hipUnregisterFatBinary "
        "__hipPushCallConfiguration __hipPopCallConfiguration hipLaunchKernel"
    ).split():
        assert name.encode() in content
        assert not symbols or re.search(rf"^\s+U {name}$", symbols, re.MULTILINE), f"{name} is to be resolved"
    assert device in content


def test_host_code_runs(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        """#include <hip/hip_runtime.h>
#include <string>
extern "C" int length(const char* s) { return (int)std::string(s).size() + dim3(2).x; }
""",
    )
    library = find().link([find().host_object(HipSource(source, "gfx942"), b"none")], shared=True)
    assert ctypes.CDLL(str(library)).length(b"four") == 6


def test_an_undefined_symbol_is_named_when_linking(tmp_path: Path) -> None:
    source = write(tmp_path, "int elsewhere(int);\nint main() { return elsewhere(3); }\n")
    with pytest.raises(ToolchainError, match=r"^linking: undefined: elsewhere\(int\)$"):
        find().link([find().host_object(HipSource(source, "gfx942"), b"none")])


# ------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x[0] = y;", r"mine.hip:3:8: error: use of undeclared identifier 'y': x\[0\] = y;$"),
        ('#line 40 "other.cu"\nx[0] = y;\nz;', r"^other.cu:40:8: error: .*'y'.* \(and 1 more error\)$"),
        ('asm volatile("v_nonsense v0");', r"mine.hip:3: error: invalid instruction: v_nonsense v0$"),
        ("extern __device__ float g(float); x[0] = g(x[1]);", r"mine.hip:3: error: undefined device symbol _Z1gf$"),
        (
            "extern __device__ int elsewhere; static __device__ int* to = &elsewhere; x[0] = *to; to = (int*)x;",
            "error: undefined device symbol elsewhere$",
        ),
        (
            "__shared__ float s[70000]; s[(int)x[0]] = 1; x[0] = s[3];",
            r"mine.hip:2:17: error: local memory \(280000\) exc",
        ),
        ("__builtin_amdgcn_permlane32_swap(1, 2, false, false);", r"mine.hip:3:1: error: .* needs target feature"),
        (
            "constexpr int waves = 256 / warpSize;",
            r"mine.hip:3:15: error: .*; since ROCm 7 .* or say CDNA_HIP_VERSION=6",
        ),
    ],
)
def test_a_compile_error_names_the_users_line(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        assembly(write(tmp_path, KERNEL % body))
    assert "\n" not in str(caught.value)


def test_a_source_for_rocm_6(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint's switch: what is kept of one version is not taken for the other's."""
    body = "static_assert(HIP_VERSION_MAJOR == 6); __shared__ float s[256 / warpSize];\n"
    body += "s[threadIdx.x / warpSize] = x[1]; __syncthreads(); x[0] = s[min(warpSize, 3)];\n"
    body += "float4 all = ((float4*)x)[1]; all.data *= 2; all.y = all.data[0]; ((float4*)x)[1] = all;"
    source = write(tmp_path, KERNEL % body)
    monkeypatch.setenv("CDNA_HIP_VERSION", "6")
    assert resources.read_resources(assembly(source))[0].lds_bytes == 16
    host = write(tmp_path, "#include <hip/hip_runtime.h>\nstatic_assert(256 / warpSize == 4);\n", "host.hip")
    find().host_object(HipSource(host, "gfx942"), b"none")
    monkeypatch.delenv("CDNA_HIP_VERSION")
    with pytest.raises(CompileError, match="HIP_VERSION_MAJOR == 6"):
        assembly(source)
    monkeypatch.setenv("CDNA_HIP_VERSION", "5")
    with pytest.raises(ToolchainError, match="CDNA_HIP_VERSION=5: say 6 or 7"):
        find()


def test_an_error_inside_a_library_is_told_at_the_users_line(tmp_path: Path) -> None:
    said = (
        "In file included from /user/mine.hip:2:\n"
        f"{__file__}:99:5: error: no such thing\n   99 | thing\n"
        "/user/mine.hip:7:3: note: in instantiation of 'x' requested here\n1 error generated.\n"
    )
    told = diagnostics.explain(said, Path("/user/mine.hip"))
    assert told == f"/user/mine.hip:7: error: no such thing (in {__file__}:99:5)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arch": "gfx90a"}, "unknown arch 'gfx90a': the emulated device knows gfx942, gfx950"),
        ({"include_dirs": (Path("/nowhere"),)}, "-I /nowhere: no such folder"),
        ({"flags": ("-fnonsense",)}, "unknown argument: '-fnonsense'"),
        ({"flags": ("-std=c++99",)}, "invalid value 'c++99' in '-std=c++99'"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    source = HipSource(write(tmp_path, "int x;\n"), **{"arch": "gfx942", **arguments})
    with pytest.raises(ToolchainError, match=re.escape(message)):
        find().assembly(source)


def test_a_missing_file() -> None:
    with pytest.raises(ToolchainError, match="^/nowhere/mine.hip: no such file$"):
        assembly(Path("/nowhere/mine.hip"))


def test_no_compiler_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH", "CDNA_HIP_COMPILER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(compilers, "package_dir", lambda name: None)
    monkeypatch.setattr(compilers, "_rocm_roots", lambda: iter(()))
    with pytest.raises(ToolchainError) as caught:
        compilers.choose()
    assert "pip install ziglang triton" in str(caught.value) and "apt-get install clang-22" in str(caught.value)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ('echo "clang version 19.1.7"', "is clang 19.1.7: 20 or later is needed"),
        (
            'case $1 in --version) echo "clang version 21.0.0";; *) echo "x86-64";; esac',
            "built without the AMDGPU target",
        ),
        ("exit 1", "exit code 1"),
    ],
)
def test_a_clang_that_will_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str) -> None:
    write(tmp_path, f"#!/bin/sh\n{script}\n", "clang++-21").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(compilers, "_clangs_on_path", lambda: [str(tmp_path / "clang++-21")])
    with pytest.raises(ToolchainError, match=reason):
        compilers.clang()


def test_newer_clangs_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("clang++", "clang++-20", "clang++-22", "clang-format-22"):
        write(tmp_path, "", name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [Path(path).name for path in compilers._clangs_on_path()] == ["clang++-22", "clang++-20", "clang++"]


def test_a_wanted_compiler_that_is_not_there() -> None:
    with pytest.raises(ToolchainError, match="CDNA_HIP_COMPILER=/nowhere/clang: no such program"):
        compilers.choose("/nowhere/clang")


def test_verify_finds_the_source_line() -> None:
    text = (
        '\t.file\t1 "/a" "b.hip"\nk:\n\t.loc\t1 7 3\n\ts_add_u32 s0, s0, f@rel32@lo+4\n\t.loc\t1 0 3\n\ts_nop 0\n'
        '\t.file\t2 "/usr/include" "math.h"\n\t.loc\t2 4 1 ; /usr/include/math.h:4:1 @[ /a/b.hip:9:2 ]\n'
        "\ts_endpgm\n"
        '\t.file\t3 "/x/triton/language" "standard.py"\n'
        "\t.loc\t3 43 17 ; standard.py:43:17 @[ b.hip:11:27 ]\n\ts_nop 1\n"
    )
    assert verify.source_of_line(text, 4) == verify.source_of_line(text, 6) == "/a/b.hip:7"
    assert verify.source_of_line(text, 9) == "/a/b.hip:9", "inlined from a library: the user's line that called it"
    assert verify.source_of_line(text, 12) == "/a/b.hip:11", "files as Triton's LLVM names them: without folders"
    assert verify.undefined_symbol(text) == "/a/b.hip:7: error: undefined device symbol f"
    assert verify.undefined_symbol(text + "f:\n") is None


# ------------------------------------------------------------ commands


def test_report_of_a_source_and_of_its_assembly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--arch", "gfx950", str(KERNELS)]) == 0
    of_source = capsys.readouterr().out
    file = write(tmp_path, find().assembly(HipSource(KERNELS, "gfx950")), "kernels.s")
    assert main(["report", str(file)]) == 0
    assert capsys.readouterr().out == of_source
    lines = of_source.splitlines()
    assert lines[0] == "compiled for gfx950 (AMD Instinct MI355X); from the compiler's output; nothing was run"
    columns = {line.split()[0]: line.split() for line in lines[2:]}
    assert list(columns) == ["axpy", "maths", "lanes", "matrix", "says"]
    assert columns["matrix"][1] == "64" and columns["matrix"][8:10] == ["8", "1"] and columns["axpy"][1] == "1024"


def test_report_counts_what_the_launch_adds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(KERNELS), "--threads", "128", "--dynamic-lds", "32512"]) == 0
    row = next(line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("lanes"))
    assert (row[1], row[7], row[8]) == ("128", "256/32512", "1"), "two workgroups of two waves on four SIMDs"
    assert main(["report", str(KERNELS), "--dynamic-lds", "65500"]) == 1
    assert "lanes takes 65756 bytes of LDS a workgroup; gfx942 has 65536" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.s", "nothing\n", "a.s: not AMDGCN assembly: it has no .amdgcn_target"),
        ("b.s", '.amdgcn_target "amdgcn-amd-amdhsa--gfx1100"\n', "b.s: unknown arch 'gfx1100'"),
        ("c.txt", "", "c.txt: report reads AMDGCN assembly (.s) and HIP sources (.hip, .cu"),
        ("d.hip", "int host_only() { return 1; }\n", "no kernel"),
    ],
)
def test_report_of_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, message: str
) -> None:
    assert main(["report", str(write(tmp_path, text, name))]) == 2
    said = capsys.readouterr().err
    assert message in said and said.startswith("cdna: ") and said.count("\n") == 1


def test_kernels_own_names() -> None:
    assert kernel_names.short_names(["_Z4axpyPf", "_ZN2ns3sub5scaleEPf", "plain", "_ZN12_GLOBAL__N_15localEv"]) == [
        "axpy",
        "scale",
        "plain",
        "local",
    ]
    twice = ["_Z4axpyILi1EEvPf", "_Z4axpyILi2EEvPf"]
    assert kernel_names.short_names(twice) == ["axpy<1>", "axpy<2>"], "instances of a template stay apart"
    overloads = ["_Z4axpyPf", "_Z4axpyPd"]
    assert kernel_names.short_names(overloads) == ["axpy(float*)", "axpy(double*)"]


def test_doctor_says_what_it_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "engine_library", lambda: Path("/cache/engine.so"))
    monkeypatch.setattr(doctor, "cache_dir", lambda: tmp_path)
    for name in ("3.6.0-cp312-x86_64", "3.5.1-cp311-x86_64", "3.8.0-cp311-x86_64.partial"):
        (tmp_path / "triton" / name).mkdir(parents=True)
    out = io.StringIO()
    assert doctor.doctor(out) == 0
    said = out.getvalue()
    assert re.search(r"^found +ziglang +ziglang [\d.]+, clang 2\d", said, re.MULTILINE)
    assert re.search(r"^works +compile HIP +for gfx942 and gfx950 with ", said, re.MULTILINE)
    assert re.search(r"^found +Triton .*; in the cache: 3.5.1-cp311-x86_64, 3.6.0-cp312-x86_64$", said, re.MULTILINE)


def test_doctor_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "engine_library", lambda: Path("/cache/engine.so"))
    monkeypatch.setattr(compilers, "package_dir", lambda name: None)
    monkeypatch.setenv("CDNA_HIP_COMPILER", "ziglang")
    out = io.StringIO()
    assert doctor.doctor(out) == 1
    assert re.search(r"^MISSING +compile HIP +.*pip install ziglang triton", out.getvalue(), re.MULTILINE)
