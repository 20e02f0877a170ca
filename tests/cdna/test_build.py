"""Building the emulated device's engine: on CPUs other than this one, and past a compiler that crashes on this one."""

import importlib.util
import platform
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest

from cdna.engine import build
from cdna.engine.build import ENGINE_DIR, FLAGS, engine_library, find_compiler, sources_of
from cdna.errors import ToolchainError


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDNA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def crashing_compiler(folder: Path, on: str) -> Path:
    """Writes empty objects, and crashes on one option."""
    script = folder / "c++"
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {folder}/calls\n'
        f'for word; do case "$word" in {on}) echo "clang frontend command failed" >&2; exit 133;; esac; done\n'
        'while [ "$1" != -o ]; do shift; done\n'
        'touch "$2"\n'
    )
    script.chmod(0o755)
    return script


@pytest.mark.skipif(platform.machine() != "x86_64", reason="AVX-512 is x86-64's")
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs ziglang")
def test_ldexp_compiles_for_a_cpu_with_avx512(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """clang 22 crashed on it as a vector loop."""
    monkeypatch.delenv("CDNA_CXX", raising=False)
    files = ["-c", str(ENGINE_DIR / "isa" / "valu64.cpp"), "-o", str(tmp_path / "valu64.o")]
    done = subprocess.run([*find_compiler()[0], "-mcpu=x86_64_v4", *FLAGS, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has a second CPU to try")
def test_a_compiler_that_crashes_on_this_cpu_is_asked_for_another(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CDNA_CXX", str(crashing_compiler(own_cache, on="-march=native")))
    assert engine_library().exists()
    said = capfd.readouterr().err
    assert "failed" in said and "-march=native; trying -march=x86-64-v3" in said
    calls = (own_cache / "calls").read_text().splitlines()
    sources = len(list(ENGINE_DIR.rglob("*.cpp")))
    assert sum("-march=x86-64-v3" in call for call in calls) == sources  # no object for this CPU among them


def test_a_compiler_that_always_crashes_is_named(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = crashing_compiler(own_cache, on="-c")
    monkeypatch.setenv("CDNA_CXX", str(compiler))
    with pytest.raises(ToolchainError, match=r"compiling .*\.cpp failed with .*\nclang frontend"):
        engine_library()


V3 = "avx2 bmi1 bmi2 f16c fma abm movbe"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"
ARM = "fp asimd atomics fphp asimdhp asimddp"


@pytest.mark.parametrize(
    "flags, machine, taken",
    [
        (V4, "x86_64", "x86_64_v4"),
        (V3, "x86_64", "x86_64_v3"),
        ("avx", "x86_64", None),
        (V4, "aarch64", None),
        (ARM, "aarch64", "neoverse_n1"),
        (ARM, "riscv64", None),
    ],
)
def test_a_wheels_engine_is_the_best_that_the_cpu_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, machine: str, taken: str | None
) -> None:
    """And no compiler is looked for; where there is none that it can run, one is."""
    for level in (level for levels in build.LEVELS.values() for level in levels):
        (tmp_path / build.prebuilt_name(level)).touch()
    monkeypatch.setattr(build, "PREBUILT", tmp_path)
    monkeypatch.setattr(build, "_cpu_features", lambda: f"flags : fpu {flags}")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(build, "find_compiler", Mock(side_effect=ToolchainError("no compiler")))
    monkeypatch.delenv("CDNA_CXX", raising=False)
    if taken is not None:
        assert engine_library() == (best := tmp_path / build.prebuilt_name(taken))
        best.rename(tmp_path / f"{taken}-of-other-sources.so")
        if taken == "x86_64_v4":
            assert engine_library() == (below := tmp_path / build.prebuilt_name("x86_64_v3"))
            monkeypatch.setenv("CDNA_CXX", str(below))  # what a wheel brings is not asked for then
    with pytest.raises(ToolchainError, match="no compiler"):
        engine_library()


def test_an_object_is_made_of_what_its_source_includes(tmp_path: Path) -> None:
    """And of what that includes, beside it first; what no folder of ours has is the compiler's."""
    files = {
        "a/a.cpp": '#include "a.h"\n#  include <b/b.h>\n#include <vector>\n// #include "other.h"\n',
        "a/a.h": '#include "../b/b.h"\n#include "c.h"\n',
        "a/c.h": "",
        "b/b.h": '#include "a.h"\n#include "a/a.h"\n',
        "b/a.h": "",
        "other.h": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = [path.relative_to(tmp_path).as_posix() for path in sources_of(tmp_path / "a/a.cpp", [tmp_path])]
    assert sorted(found) == ["a/a.cpp", "a/a.h", "a/c.h", "b/a.h", "b/b.h"]
