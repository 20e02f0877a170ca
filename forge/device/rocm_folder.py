"""The folder that $ROCM_PATH names in prepared processes: what public packages ask of a ROCm installation, with the
emulated card's answers; the HIP runtime, which C code opens by its name; and what links code objects. No compiler lies
in it."""

import contextlib
import hashlib
import os
import shlex
from pathlib import Path

from cdna.cards import Card
from cdna.engine.build import cache_dir, elf_linker
from cdna.errors import ToolchainError
from cdna.hip.compile.compilers import triton_files
from cdna.hip.host_libraries import environment_of_programs, first_in
from forge.device.cards import HIP_VERSION, WARP_SIZE
from forge.files import keep_written

ROCM_VERSION = ".".join(HIP_VERSION.split(".")[:2]) + ".0"  # HIP's third number counts builds
_EACH_GPU = 'n=0; while [ $n -lt "${POPCORN_GPUS:-1}" ]; do n=$((n + 1))'


def environment(card: Card) -> dict[str, str]:
    """Variables by which the runtime is found, and the folder; where this machine has a ROCm of its own, not that."""
    try:
        variables = {"CDNA_ARCH": card.name, **environment_of_programs()}
        bitcode, linker = triton_files().bitcode[0].parent, shlex.join(elf_linker())
    except ToolchainError:  # it is told to who launches a kernel
        return {}
    links = {"lib": variables["LD_LIBRARY_PATH"].split(os.pathsep)[0], "amdgcn/bitcode": str(bitcode)}
    made_of = hashlib.sha256(f"{links} {linker}".encode()).hexdigest()[:12]
    folder = cache_dir() / "rocm" / f"{ROCM_VERSION}-{card.product.replace(' ', '-')}-{made_of}"
    given = os.environ.get("ROCM_PATH")
    if (given and Path(given) != folder) or os.environ.get("ROCM_HOME") or Path("/opt/rocm").exists():
        return variables
    for name, text in _files(card, folder, linker).items():
        file = folder / name
        keep_written(file, text, executable=file.parent.name == "bin")
    for name, target in links.items():
        (folder / name).parent.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (folder / name).symlink_to(target)
    return {**variables, "ROCM_PATH": str(folder), "PATH": first_in(os.environ.get("PATH", os.defpath), folder / "bin")}


def _files(card: Card, folder: Path, linker: str) -> dict[str, str]:
    return {
        "llvm/bin/ld.lld": f'#!/bin/sh\nexec {linker} "$@"\n',
        ".info/version": f"{ROCM_VERSION}\n",
        "bin/rocm_agent_enumerator": f"#!/bin/sh\necho gfx000\n{_EACH_GPU}; echo {card.name}; done\n",
        "bin/hipconfig": _hipconfig(folder),
        "bin/rocminfo": _rocminfo(card),
        "bin/rocm-smi": _rocm_smi(card),
    }


def _hipconfig(folder: Path) -> str:
    answers = {
        "-v|--version": HIP_VERSION,
        "-R|--rocmpath": str(folder),
        "-p|--path": str(folder),
        "-P|--platform": "amd",
        "-c|--compiler": "clang",
        "-r|--runtime": "rocclr",
    }
    cases = "".join(f"  {options}) printf '%s' '{answer}' ;;\n" for options, answer in answers.items())
    refusal = 'echo "hipconfig: $1: not among what the emulated GPU answers" >&2; exit 1'
    return f'#!/bin/sh\ncase "${{1:---version}}" in\n{cases}  *) {refusal} ;;\nesac\n'


def _rocm_smi(card: Card) -> str:
    """Which cards there are; whether it runs is how packages ask whose GPUs a machine has."""
    said = {"Card Series": f"{card.product} (emulated)", "GFX Version": card.name}
    gpu = "\n".join(f"GPU[$((n - 1))]\t\t: {name}: \t\t{value}" for name, value in said.items())
    refusal = 'echo "rocm-smi: $1: not among what the emulated GPU answers" >&2; exit 1'
    cases = f'case "$1" in\n  ""|--showproductname) ;;\n  *) {refusal} ;;\nesac\n'
    return f"#!/bin/sh\n{cases}{_EACH_GPU}; cat <<CARD\n{gpu}\nCARD\ndone\n"


def _rocminfo(card: Card) -> str:
    """In the layout that its readers search: a line `Name:` with the arch, `Compute Unit:`, the target's full name."""
    gpu = f"""*******
Agent $((n + 1))
*******
  Name:                    {card.name}
  Marketing Name:          {card.product} (emulated)
  Vendor Name:             AMD
  Device Type:             GPU
  Compute Unit:            {card.compute_units}
  Wavefront Size:          {WARP_SIZE}(0x{WARP_SIZE:x})
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--{card.target_id}
"""
    cpu = "*******\nAgent 1\n*******\n  Name:                    CPU\n  Device Type:             CPU\n"
    loop = f"{_EACH_GPU}; cat <<AGENT\n{gpu}AGENT\ndone\n"
    return f"#!/bin/sh\necho 'ROCk module is loaded'\necho 'HSA Agents'\ncat <<AGENT\n{cpu}AGENT\n{loop}"
