"""What a kernel takes of a CU, read from its assembly, and how many of its waves fit on a SIMD: engine/isa/card.cpp."""

import ctypes
import re
from dataclasses import dataclass
from typing import Any

import yaml

from ..cards import check_arch, get_card
from ..engine.library import engine
from ..errors import ToolchainError
from ..isa import instructions
from .asm import arch_in
from .decode import base_mnemonic

WAVE_LANES = 64


@dataclass(frozen=True)
class Resources:
    """One kernel's figures, as the compiler's metadata and its comments have them."""

    kernel: str
    vgprs: int  # in all, AGPRs included
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    scratch_bytes: int  # per lane
    lds_bytes: int  # known at compile time; a launch may add to it
    max_threads: int  # largest workgroup that it was compiled for
    matrix_instructions: int
    code_bytes: int


def waves_per_simd(arch: str, vgprs: int, sgprs: int, lds_bytes: int, waves_per_workgroup: int) -> float:
    """Waves a SIMD, averaged over a compute unit's: whole workgroups only. 0 if none fits. vgprs: AGPRs included."""
    card = get_card(arch)
    lib = engine().lib
    handle = ctypes.c_void_p(lib.cdna_card(card.model.encode()))
    workgroups = lib.cdna_groups_per_cu(handle, vgprs, sgprs, lds_bytes, waves_per_workgroup)
    return workgroups * waves_per_workgroup / card.simds_per_cu


def read_target(text: str) -> str:
    """The arch that assembly is for; ToolchainError where it is not AMDGCN assembly of an arch known here."""
    found = re.search(r'^\s*\.amdgcn_target\s+"([^"]*)"', text, re.MULTILINE)
    arch = arch_in(found[1]) if found else ""
    if not arch:
        raise ToolchainError("not AMDGCN assembly: it has no .amdgcn_target")
    try:
        return check_arch(arch)
    except ValueError as error:
        raise ToolchainError(str(error)) from None


def read_resources(text: str) -> list[Resources]:
    """Every kernel of an assembly file that LLVM wrote, in its order."""
    block = re.search(r"^\s*\.amdgpu_metadata\n(.*?)^\s*\.end_amdgpu_metadata", text, re.MULTILINE | re.DOTALL)
    if not block:
        raise ToolchainError("assembly without .amdgpu_metadata: no kernel in it is described")
    document = yaml.load(block[1], Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return [_of_kernel(text, entry) for entry in document.get("amdhsa.kernels") or []]


def _is_matrix(mnemonic: str) -> bool:
    known = instructions().get(base_mnemonic(mnemonic))
    return known is not None and known.facts is not None and known.facts.unit == "matrix"


def _of_kernel(text: str, entry: dict[str, Any]) -> Resources:
    name = entry[".name"]
    start = re.search(rf"^{re.escape(name)}:", text, re.MULTILINE)
    body = text[start.start() :] if start else ""
    end = re.search(r"^\.Lfunc_end\d+:", body, re.MULTILINE)
    code, after = (body[: end.start()], body[end.start() :]) if end else (body, "")
    size = re.search(r"codeLenInByte = (\d+)", after)
    if size is None:
        raise ToolchainError(f"assembly does not say how long the code of {name} is (codeLenInByte)")
    return Resources(
        kernel=name,
        vgprs=entry[".vgpr_count"],
        agprs=entry.get(".agpr_count", 0),
        sgprs=entry[".sgpr_count"],
        vgpr_spills=entry.get(".vgpr_spill_count", 0),
        sgpr_spills=entry.get(".sgpr_spill_count", 0),
        scratch_bytes=entry[".private_segment_fixed_size"],
        lds_bytes=entry[".group_segment_fixed_size"],
        max_threads=entry[".max_flat_workgroup_size"],
        matrix_instructions=sum(_is_matrix(name) for name in re.findall(r"^\s+(v_\w+)", code, re.MULTILINE)),
        code_bytes=int(size[1]),
    )
