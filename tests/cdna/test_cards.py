"""Card files: what they say, what is told where one is wrong, and that Python, the engine and HIP's runtime agree."""

import os
import subprocess
from pathlib import Path

import pytest

import cdna
from cdna.binary.resources import read_resources, waves_per_simd
from cdna.cards import FOLDER, cards, get_card, read_card
from cdna.errors import CdnaError
from cdna.hip.compile.source import HipSource
from cdna.hip.compile.toolchain import find
from cdna.hip.run import build_program
from tests.support.assembled import program


def test_peaks_are_those_of_the_data_sheets() -> None:
    peaks = {
        "MI300X": (1307.4, 2614.9, None),
        "MI325X": (1307.4, 2614.9, None),
        "MI350X": (2306.9, 4613.7, 9227.5),
        "MI355X": (2516.6, 5033.2, 10066.3),
    }
    for model, expected in peaks.items():
        for kind, peak in zip(("f16", "fp8", "fp4"), expected):
            assert cards()[model].matrix_tflops(kind) == (peak and pytest.approx(peak, rel=1e-4)), (model, kind)


def test_each_arch_has_one_usual_card() -> None:
    assert [get_card(arch).model for arch in cdna.ARCHS] == ["MI300X", "MI355X"]


def test_the_environment_and_the_caller_choose_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDNA_CARD", "MI325X")
    assert [get_card(arch).model for arch in cdna.ARCHS] == ["MI325X", "MI355X"]
    assert get_card("gfx942", "MI308X").compute_units == 80
    with pytest.raises(CdnaError, match="card='MI350X' is a gfx950, not a gfx942$"):
        get_card("gfx942", "MI350X")
    monkeypatch.setenv("CDNA_CARD", "MI300Z")
    with pytest.raises(CdnaError, match=r"CDNA_CARD=MI300Z: no such card; say MI300X, .*MI355X$"):
        get_card("gfx942")
    with pytest.raises(ValueError, match="unknown arch 'gfx90a': .*gfx942, gfx950$"):
        get_card("gfx90a")


def test_a_launch_runs_on_the_card_that_was_chosen() -> None:
    """MI308X has 4 XCDs: workgroup n runs on XCD n mod 4. It holds fewer workgroups at a time than MI300X."""
    body = "s_getreg_b32 s4, hwreg(HW_REG_XCC_ID)\ns_cmp_lt_u32 s4, 4\ns_cbranch_scc1 fine\ns_trap 2\nfine:\ns_nop 0"
    kernel = program(body, "gfx942").kernels["k"]
    with cdna.device("gfx942", card="MI308X") as card, cdna.counting():
        few = kernel.launch((320, 1, 1), (64, 1, 1), bytes(8)).counters
    assert card.model == "MI308X"
    with cdna.device("gfx942"), pytest.raises(cdna.KernelFault):
        kernel.launch((8, 1, 1), (64, 1, 1), bytes(8))
    assert few is not None and (few.card, few.groups_on_cu) == ("MI308X", 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in FOLDER.glob("*.toml"):
        (tmp_path / file.name).write_text(file.read_text())
    return tmp_path


def test_the_files_as_they_are_can_be_read(folder: Path) -> None:
    assert read_card(folder / "MI300X.toml") == get_card("gfx942", "MI300X")


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        ("MI300X", "compute_units = [304,", "# [304,", r"MI300X.toml: compute_units: missing here and in gfx942.toml"),
        ("MI300X", "xcds = [8,", 'xcds = ["8",', r"MI300X.toml: xcds: expected a whole number, got '8'"),
        ("MI300X", "clock_mhz = [2100,", "clock_mhz = [2100.5,", r"MI300X.toml: clock_mhz: expected a whole number"),
        ("MI300X", "hbm_gb_s = [5300.0,", "hbm_gb_s = [true,", r"MI300X.toml: hbm_gb_s: expected a number, got True"),
        ("MI300X", "xcds = [", "xcd = [", r"MI300X.toml: xcd: no such fact of a card"),
        ("MI300X", "links = [7, ", "links = [7] # ", r"MI300X.toml: links: expected \[value, source\], got \[7\]"),
        ("MI300X", "links = [7, ", "links = 7 # ", r"MI300X.toml: links: expected \[value, source\], got 7"),
        ("MI300X", "xcds = [", "lds_bytes = [1, 'x']\nxcds = [", r"MI300X.toml: lds_bytes: stands in gfx942.toml too"),
        ("MI300X", "arch = [", "#", r"MI300X.toml: arch: expected the name of an instruction set's file"),
        ("MI300X", "xcds = [", "xcds = ", r"MI300X.toml: .*line"),
        ("gfx942", "lds_bytes = [65536,", 'lds_bytes = ["64 KiB",', r"gfx942.toml: lds_bytes: expected a whole number"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(folder: Path, file: str, before: str, after: str, said: str) -> None:
    path = folder / f"{file}.toml"
    assert path.read_text().count(f"\n{before}") == 1
    path.write_text(path.read_text().replace(f"\n{before}", f"\n{after}"))
    with pytest.raises(CdnaError, match=said) as error:
        read_card(folder / "MI300X.toml")
    assert "\n" not in str(error.value)


# --- occupancy -------------------------------------------------------------------------------------------

# LDS of a workgroup of one wave; workgroups that a compute unit holds, by its granules of 512 and 1280 bytes.
LDS = [("gfx942", 6500, 9), ("gfx950", 6500, 21), ("gfx950", 16300, 9), ("gfx942", 65536, 1), ("gfx942", 2048, 32)]


@pytest.mark.parametrize(("arch", "lds_bytes", "workgroups"), LDS)
def test_lds_is_given_out_in_granules(arch: str, lds_bytes: int, workgroups: int) -> None:
    card = get_card(arch)
    assert waves_per_simd(arch, 32, 32, lds_bytes, 1) * card.simds_per_cu == workgroups


OCCUPANCY = """
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
__global__ void plain(float* x) { x[threadIdx.x] = 1; }
int main(int n, char** words) {
  hipDeviceProp_t p;
  if (hipGetDeviceProperties(&p, 0)) return 1;
  printf("%s %zu %d %d %d %d.%d\\n", p.name, p.totalGlobalMem, p.multiProcessorCount, p.clockRate, p.l2CacheSize,
         p.major, p.minor);
  for (int i = 1; i < n; i++) {
    int blocks = 0;
    if (hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plain, 64, atoi(words[i]))) return 1;
    printf("%d ", blocks);
  }
  printf("\\n");
}
"""


def run_occupancy(folder: Path, model: str, arch: str, *sizes: int) -> subprocess.CompletedProcess[str]:
    source = folder / "occupancy.hip"
    source.write_text(OCCUPANCY)
    command = [str(build_program([HipSource(source, arch)])), *map(str, sizes)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CDNA_CARD": model})


@pytest.mark.usefixtures("hip_compiler")
@pytest.mark.parametrize("model", ["MI300X", "MI308X", "MI355X"])
def test_the_hip_runtime_says_what_the_report_says(model: str, tmp_path: Path) -> None:
    card = cards()[model]
    sizes = [lds_bytes for _, lds_bytes, _ in LDS] + [0, 1, card.lds_bytes, card.lds_bytes + 1]
    done = run_occupancy(tmp_path, model, card.name, *sizes)
    assert done.returncode == 0, done.stderr
    properties, blocks = done.stdout.splitlines()
    major, minor = card.capability
    facts = (card.product, card.memory_bytes, card.compute_units, card.clock_mhz * 1000, card.l2_bytes)
    assert properties == " ".join(map(str, facts)) + f" {major}.{minor}"
    (kernel,) = read_resources(find().assembly(HipSource(tmp_path / "occupancy.hip", card.name)))
    fit = [waves_per_simd(card.name, kernel.vgprs, kernel.sgprs, lds, 1) * card.simds_per_cu for lds in sizes]
    assert list(map(int, blocks.split())) == fit


@pytest.mark.usefixtures("hip_compiler")
def test_the_hip_runtime_knows_no_other_cards(tmp_path: Path) -> None:
    done = run_occupancy(tmp_path, "MI300Z", "gfx942")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "CDNA_CARD=MI300Z: no such card; say MI300X, MI308X, MI325X, MI350X, MI355X" in done.stderr
