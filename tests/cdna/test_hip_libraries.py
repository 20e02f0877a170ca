"""Our own headers of ROCm's libraries, and what is said about what they lack. The programs check themselves."""

import re
from pathlib import Path

import pytest

from cdna import hip
from cdna.errors import CompileError
from cdna.hip.compile.diagnostics import explain
from cdna.hip.compile.source import HipSource
from cdna.hip.compile.toolchain import find
from tests.support.hip_programs import PROGRAMS, run


@pytest.mark.parametrize("name", ["ck", "hipcub"])
def test_program_without_a_finding(name: str) -> None:
    done = run(PROGRAMS / f"{name}.hip", CDNA_CHECKS="all")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_file_is_here_for_somebody() -> None:
    folder = Path(hip.__file__).parent / "libraries"
    rows = re.findall(r"^\| (`.*`) \| (\S.*) \|$", (folder / "README.md").read_text(), re.MULTILINE)
    named = [file for files, _ in rows for file in re.findall("`(.*?)`", files)]
    there = [file.relative_to(folder).as_posix() for file in folder.rglob("*.*") if file.name != "README.md"]
    assert sorted(there) == sorted(file for file in named if not file.startswith("../"))
    assert all((folder / file).is_file() for file in named)


def test_hipblaslt() -> None:
    done = run(PROGRAMS / "hipblaslt.hip")
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("cdna: hipBLASLt: ")]
    assert said[0] == "cdna: hipBLASLt: A is 256 bytes long, and its allocation ends after 240"
    assert "hipDataType 3" in said[1] and "A is 9 x 8, B 8 x 8" in said[2] and "hipblasLtEpilogue_t 192" in said[3]


def test_what_a_library_lacks_is_named(tmp_path: Path) -> None:
    source = tmp_path / "mine.hip"
    source.write_text("#include <hipcub/hipcub.hpp>\nusing T = hipcub::BlockMergeSort<int, 64, 1>;\n")
    with pytest.raises(CompileError, match="device has of hipCUB is without BlockMergeSort: give the library's"):
        find().assembly(HipSource(source, "gfx942"))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("use of undeclared identifier 'hipblasLtMatrixTransform'", "has of hipBLASLt is without hipblasLtMatrixT"),
        ("no type named 'UserArguments' in namespace 'hipblaslt_ext'", "has of hipBLASLt is without UserArguments:"),
        ("no member named 'Copy' in 'hipcub::BlockScan<int, 64>'", "has of hipCUB is without Copy:"),
        ("no template named 'GridwiseGemm' in namespace 'ck'", "has of Composable Kernel is without GridwiseGemm:"),
        (
            "'hipcub/device/device_copy.hpp' file not found",
            "; hipCUB is, without this header, part of the emulated device",
        ),
        ("'hiprand/hiprand_kernel.h' file not found", "; hipRAND is not part of the emulated device"),
        ("'rocprim/rocprim.hpp' file not found", "; rocPRIM is not part of the emulated device"),
        ("use of undeclared identifier 'rocprim'", "undeclared identifier 'rocprim'"),
    ],
)
def test_an_error_ends_with_the_library(said: str, told: str) -> None:
    message = explain(f"mine.hip:3:4: error: {said}\n", Path("mine.hip"))
    assert told in message and ("emulated device" in message) == ("emulated device" in told or "has of" in told)
