"""Which device a name means on which machine. The machines are made up: a driver's files, a torch's build."""

import subprocess
import sys
from pathlib import Path

import pytest

from forge.device import DeviceError, gpu, resolve
from forge.device.cards import CARDS


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no GPU and a CPU build of torch, whatever this one has."""
    monkeypatch.setattr(gpu, "KFD_NODES", tmp_path / "kfd")
    monkeypatch.setattr(gpu, "NVIDIA_GPUS", tmp_path / "nvidia")
    monkeypatch.setattr(gpu, "torch_build", lambda kind: "")
    return tmp_path


def add_amd_gpus(machine: Path, *targets: int) -> None:
    for number, target in enumerate((0, *targets)):  # node 0 is the CPU
        node = machine / "kfd" / str(number)
        node.mkdir(parents=True)
        (node / "properties").write_text(f"cpu_cores_count 0\ngfx_target_version {target}\nsimd_count 8\n")


def add_nvidia_gpu(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "nvidia" / "0000:01:00.0").mkdir(parents=True)
    listed = [{"name": "NVIDIA H200", "capability": "9.0", "driver": "570.1"}]
    monkeypatch.setattr(gpu, "nvidia_gpus", lambda: listed)


def build(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(gpu, "torch_build", lambda asked: "7.1" if asked == kind else "")


def test_no_gpu_means_the_problems_own_arch(machine: Path) -> None:
    for arch in CARDS:
        device = resolve("auto", arch)
        assert (device.name, device.arch, device.emulated) == (arch, arch, True)


def test_named_arch_wins_over_the_problems(machine: Path) -> None:
    assert resolve("gfx950", "gfx942").arch == "gfx950"


def test_amd_gpu(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_amd_gpus(machine, 90402, 90500, 90010)
    add_nvidia_gpu(machine, monkeypatch)
    build(monkeypatch, "hip")
    device = resolve("auto", "gfx942")
    assert (device.name, device.arch, device.emulated) == ("rocm", "gfx942", False)
    assert device.environment() == {} and device.case_report().empty
    assert device.fingerprint().gpus == ("gfx942", "gfx950", "gfx90a")


def test_nvidia_gpu(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_nvidia_gpu(machine, monkeypatch)
    build(monkeypatch, "cuda")
    device = resolve("auto", "gfx942")
    assert (device.name, device.arch, device.label) == ("cuda", "sm_90", "1 x NVIDIA H200")
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    environment = device.environment()
    assert environment["TORCH_CUDA_ARCH_LIST"] == "9.0a" and environment["FORGE_DEVICE"] == "cuda"
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0+PTX")
    assert device.environment()["TORCH_CUDA_ARCH_LIST"] == "9.0+PTX"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rocm", "device rocm is not usable here: no AMD GPU"),
        ("cuda", "device cuda is not usable here: no NVIDIA GPU"),
        ("gfx90a", "unknown device 'gfx90a': choose one of auto, rocm, cuda, gfx942, gfx950"),
        ("", "unknown device ''"),
    ],
)
def test_errors_are_one_line_with_a_remedy(machine: Path, name: str, words: str) -> None:
    with pytest.raises(DeviceError) as error:
        resolve(name, "gfx942")
    message = str(error.value)
    assert message.startswith(words) and "\n" not in message and "gfx942" in message


def test_gpu_without_a_matching_torch(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_amd_gpus(machine, 90402)
    with pytest.raises(DeviceError, match="torch is not a ROCm build; use --device gfx942"):
        resolve("rocm", "gfx942")
    assert resolve("auto", "gfx942").emulated
    add_nvidia_gpu(machine, monkeypatch)
    with pytest.raises(DeviceError, match="torch is not a CUDA build"):
        resolve("cuda", "gfx942")


def test_problem_of_an_arch_that_cannot_be_emulated(machine: Path) -> None:
    with pytest.raises(DeviceError, match="'sm_90' cannot be emulated.*--device gfx942 or gfx950"):
        resolve("auto", "sm_90")


def test_torch_build_is_read_from_the_installed_torch() -> None:
    import torch

    assert gpu.torch_build("hip") == (torch.version.hip or "")
    assert gpu.torch_build("cuda") == (torch.version.cuda or "")


def test_fingerprint(machine: Path) -> None:
    known = resolve("gfx942", "gfx942").fingerprint()
    assert known.emulated is True and known.card == "AMD Instinct MI300X"
    assert known.torch[0].isdigit() and known.triton[0].isdigit()


def test_resolving_is_cheap() -> None:
    """By its processor time: how long it takes depends on what else this machine does."""
    program = "import sys, time; from forge.device import resolve; resolve('auto', 'gfx942').fingerprint(); "
    program += "assert 'torch' not in sys.modules and 'triton' not in sys.modules; print(time.process_time())"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, check=True, capture_output=True, text=True)
    assert float(done.stdout) < 2
