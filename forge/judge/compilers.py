"""Which compilers make a submission's code, and which its leaderboard's: option --triton, and what is said of it."""

import argparse

from msgspec import Struct

from forge.device import Device, triton_versions
from forge.device.base import version_of
from forge.device.hip_compiler import hip_compiler
from forge.task.problem import ROOT, ProblemEntry
from forge.task.runners import Runner, runner_of


class Compilers(Struct, frozen=True, omit_defaults=True):
    """What makes a submission's kernels; empty where it has none of that kind."""

    triton: str = ""
    hip: str = ""
    leaderboard: dict[str, str | None] = {}  # its image, and what that has; None where nobody knows


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--triton", metavar="VERSION", help=triton_versions.HELP)


def take(option: str | None, problem: ProblemEntry, device: Device, submission: bytes) -> None:
    """Have this command's processes compile with the Triton that the option names, or the leaderboard's."""
    triton_versions.take(triton_for(option, problem, device.emulated, submission), reason(option, problem))


def triton_for(option: str | None, problem: ProblemEntry, emulated: bool, submission: bytes) -> str:
    """The version that compiles, or "installed"."""
    runner = _runner(problem)
    return triton_versions.wanted(option, emulated, runner.tools["triton"].version if runner else None, submission)


def reason(option: str | None, problem: ProblemEntry) -> str:
    """Why a version is brought that nobody named; "" where somebody did."""
    return "" if triton_versions.named(option) else f"as {problem.name}'s leaderboard has"


def compiled_with(problem: ProblemEntry, device: Device, submission: bytes) -> str:
    """One line for people: the compilers of what the submission holds, and the leaderboard's where they are others."""
    made = made_by(problem, device, submission)
    said = []
    for name, label, ours in (("triton", "Triton", made.triton), ("hip", "HIP by", made.hip)):
        if ours:
            theirs = made.leaderboard.get(name)
            other = f" (the leaderboard: {theirs or 'not known'})" if made.leaderboard and theirs != ours else ""
            said.append(f"{label} {ours}{other}")
    return "; ".join(said)


def made_by(problem: ProblemEntry, device: Device, submission: bytes) -> Compilers:
    """The same for programs."""
    leaderboard: dict[str, str | None] = {}
    if runner := _runner(problem):
        tools = runner.versions()
        leaderboard = {"image": runner.name, **tools, "hip": f"ROCm {tools['rocm']}'s clang {tools['clang']}"}
    return Compilers(
        version_of("triton").partition("+")[0] if b"triton" in submission else "",
        hip_compiler() if b"cpp_extension" in submission and device.emulated else "",
        leaderboard,
    )


def _runner(problem: ProblemEntry) -> Runner | None:
    """None where forge is installed without the repository, and judges folders."""
    return runner_of(problem.name) if (ROOT / "task.yml").is_file() else None
