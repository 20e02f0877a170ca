"""HIP sources and hipcc's flags as nvcc takes them. Text in, text out: nothing here needs torch or a GPU."""

import re
import shlex
from collections.abc import Iterable, Sequence

_HIP = re.compile(r"\bhip[A-Z]\w+|[<\"]hip/\w+|\b__builtin_amdgcn_|\b__hip_")
# CUDA declares these for GPUs of old and refuses them on those of today, or for the host alone. Macros of their names
# would get into headers of the system's: include/hip/nvidia_detail/waves.h has functions.
_FUNCTIONS = re.compile(r"(?<![\w:.])__(?:builtin_)?(shfl(?:_up|_down|_xor)?|ballot|all|any|trap)(?=\s*\()")

# What says for which AMD GPU, or how LLVM's AMD backend is to work.
_AMD_ONLY = re.compile(
    r"--?(offload-arch|amdgpu-target|cuda-gpu-arch|rocm-path|hip-[\w-]+|gpu-max-threads-per-block|offload-[\w-]+)(=.*)?"
    r"|-m(no-)?(unsafe-fp-atomics|cumode|wavefrontsize64|tgsplit|amdgpu-\w+|code-object-version=.*)"
    r"|-f(no-)?(gpu-\w[\w=-]*|hip-\w[\w=-]*|cuda-\w[\w=-]*)|-amdgpu-.*"
    r"|-D(__HIP_PLATFORM_(AMD|HCC)__|USE_ROCM|HIPBLAS_V2)(=.*)?"
    r"|--?save-temps(=.*)?|-Rpass.*|-[W]\w.*"
)
# Host and device code are compiled by compilers that know these, under these names.
_TRANSLATED = {
    "-ffast-math": ["--use_fast_math"],
    "-Ofast": ["-O3", "--use_fast_math"],
    "-Oz": ["-O2"],
    "-Os": ["-O2"],
    "-fPIC": [],  # torch passes it on itself
    "-ffp-contract=fast": ["--fmad=true"],
    "-ffp-contract=on": ["--fmad=true"],
    "-ffp-contract=off": ["--fmad=false"],
    "-fdenormal-fp-math=preserve-sign": ["--ftz=true"],
    "-fgpu-flush-denormals-to-zero": ["--ftz=true"],
    "-g": ["-g", "-lineinfo"],
    "-ggdb": ["-g", "-lineinfo"],
    "-gline-tables-only": ["-lineinfo"],
    "-w": ["-w"],
    "-v": ["-v"],
}
_WITH_VALUE = {"-mllvm", "-Xclang", "-Xoffload-linker"}  # the next word is theirs
_PASSED_WITH_VALUE = {"-I", "-D", "-U", "-include", "-isystem", "-Xptxas", "-Xcompiler", "-gencode", "-arch", "-code"}


def uses_hip(texts: Iterable[str]) -> bool:
    """Whether any of the sources is HIP, and not CUDA that a ROCm torch would translate."""
    return any(_HIP.search(text) for text in texts)


def source_for_nvcc(text: str, name: str) -> str:
    """A HIP source with as many lines, after a line that gives it its name in the compiler's messages."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{escaped}"\n' + _FUNCTIONS.sub(r"hip_on_cuda::\1", text)


def flags_for_nvcc(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags for hipcc as nvcc takes them, and those that have no counterpart and change no result."""
    words = [word for flag in flags for word in shlex.split(str(flag))]
    kept: list[str] = []
    dropped: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word in _WITH_VALUE:
            dropped += words[position - 1 : position + 1]
            position += 1
        elif word in _PASSED_WITH_VALUE:
            kept += words[position - 1 : position + 1]
            position += 1
        elif word == "-x":
            position += 1  # the file's own suffix says it
        elif word in _TRANSLATED:
            kept += _TRANSLATED[word]
        elif word.startswith("-std=gnu++"):
            kept.append(word.replace("gnu++", "c++"))
        elif _AMD_ONLY.fullmatch(word) or re.fullmatch(r"-[fm]\w[\w=.,+-]*", word):
            dropped.append(word)
        else:
            kept.append(word)
    return [shlex.quote(word) for word in kept], dropped


def host_flags(flags: Sequence[str]) -> list[str]:
    """Flags for the host compiler of a ROCm build, without what would choose torch's ROCm side."""
    return [flag for flag in flags if not re.fullmatch(r"-D(__HIP_PLATFORM_(AMD|HCC)__|USE_ROCM)(=.*)?", flag)]


def link_flags(flags: Sequence[str]) -> list[str]:
    """Without ROCm's runtime: CUDA's is linked anyway."""
    return [flag for flag in flags if flag not in ("-lamdhip64", "-lhip_hcc") and "/opt/rocm" not in flag]


def first_error(said: str) -> str:
    """The compiler's first error, as file:line: error: text, and how many more there are; of ninja's output."""
    found = re.findall(r"^(\S[^\n(]*)\((\d+)\): (?:catastrophic )?error: (.*)$", said, re.MULTILINE)  # nvcc's
    found += re.findall(r"^(\S[^\n:]*):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", said, re.MULTILINE)  # and g++'s
    if found:
        more = f" (and {len(found) - 1} more)" if found[1:] else ""
        if any("__builtin_amdgcn_" in text for *_, text in found):
            more += ": instructions of AMD's GPUs alone, which an emulated --device has"
        return "{}:{}: error: {}".format(*found[0]) + more
    telling = [line for line in said.splitlines() if "error" in line.lower() or "undefined" in line][1:]
    return (telling or said.strip().splitlines())[0].strip()
