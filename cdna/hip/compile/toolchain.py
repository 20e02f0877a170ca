"""Runs a compiler on HIP sources: device code to assembly, host code to objects, objects to libraries and programs.

Every result is kept (results.py) until what it came from changes: source, every header that the compiler read, flags,
compiler. build.py puts the steps together.
"""

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...cards import check_arch
from ...engine.build import elf_linker
from ...errors import CompileError, ToolchainError
from . import verify
from .compilers import Compiler, choose, environment, hip_version, zigs_cxx_library_is_built
from .diagnostics import explain
from .precompiled_headers import PrecompiledHeaders, relevant
from .results import Results, digest_of, results_folder, results_folders, stored
from .runner_clang import warn_of_newer
from .source import HipSource

CODE_OBJECT_VERSION = 5  # what Triton makes too: so kernels of both get their hidden arguments at the same places
# With "." for the folder of compilation, debug information names every file in full.
DEVICE_FLAGS = (
    "-O3",
    "-gline-tables-only",
    "-fdebug-compilation-dir=.",
    f"-mcode-object-version={CODE_OBJECT_VERSION}",
)
HOST_FLAGS = ("-O2", "-fPIC")
_MADE = 2  # counts what this file has changed of results that the same command gives
_RDC_NAMES = re.compile(rb"__hip_(?:fatbin|gpubin_handle)_[0-9a-f]{4,}")


@dataclass(frozen=True)
class DeviceCode:
    """A source's kernels."""

    assembly: Path  # in the cache
    compile_s: float | None  # None: the cache had it


@dataclass(frozen=True)
class Toolchain:
    """A compiler with everything that HIP needs."""

    compiler: Compiler

    def device_code(self, source: HipSource) -> DeviceCode:
        """AMDGCN assembly of a source's kernels."""
        warn_of_newer(self.compiler, source)
        check = functools.partial(self._verify, arch=source.arch)
        return DeviceCode(*self._compile(source, self._device_flags(source), source.flags, ["-S"], ".s", check))

    def assembly(self, source: HipSource) -> str:
        """The text of device_code."""
        return self.device_code(source).assembly.read_text()

    def bitcode(self, source: HipSource) -> Path:
        """Relocatable device code of a source (-fgpu-rdc), for `link_device`."""
        warn_of_newer(self.compiler, source)
        return self._compile(source, self._device_flags(source), source.flags, ["-emit-llvm", "-c"], ".bc")[0]

    def link_device(self, bitcode: Sequence[Path], arch: str, flags: Sequence[str] = ()) -> str:
        """AMDGCN assembly of relocatable device code, linked into one program. flags: of the compiler."""
        first, *others = bitcode
        command = [*self._amdgcn(_known(arch)), "-x", "ir", str(first), *DEVICE_FLAGS, *flags, "-S"]
        for file in others:
            command += ["-Xclang", "-mlink-bitcode-file", "-Xclang", str(file)]
        check = functools.partial(self._verify, arch=arch)
        return self._made(command, ".s", _device_link_error, bitcode, check).read_text()

    def code_object(self, source: HipSource) -> bytes:
        """An ELF file of a source's kernels."""
        assembly = self.device_code(source).assembly
        command = [*self._amdgcn(_known(source.arch)), "-x", "assembler", "-c", str(assembly)]
        made = self._made(command, ".o", _link_error, [assembly])
        return self._made([*self._elf_linker(), "-shared", str(made)], ".hsaco", _link_error, [made]).read_bytes()

    def host_object(self, source: HipSource, fat_binary: bytes | None) -> Path:
        """Object of a source's host code, its kernels as stubs that launch; `fat_binary` is embedded, or with None left
        to `fat_binary_object`."""
        action = ["-c"]
        if fat_binary is not None:
            action += ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(stored(fat_binary, ".hipfb"))]
        flags = source.flags if source.host_flags is None else source.host_flags
        return self._compile(source, self._host_flags(source), flags, action, ".o")[0]

    def fat_binary_object(self, fat_binary: bytes, host_objects: Sequence[Path]) -> Path:
        """Object with the device code that host objects compiled with -fgpu-rdc share: each of them asks for it under
        names of its own, __hip_fatbin_<id> and, for the handle it gets, __hip_gpubin_handle_<id>."""
        found = {name for file in host_objects for name in _RDC_NAMES.findall(file.read_bytes())}
        names = sorted(name.decode() for name in found)
        code = [name for name in names if name.startswith("__hip_fatbin_")]
        handles = [name for name in names if not name.startswith("__hip_fatbin_")]
        embedded = stored(fat_binary, ".hipfb")
        lines = [
            '.section .hip_fatbin,"a",@progbits',
            ".p2align 12",
            *(f".globl {name}\n{name}:" for name in code),
            f'.incbin "{embedded}"',
            '.section .bss,"aw",@nobits',
            ".p2align 3",
            *(f".globl {name}\n{name}:" for name in handles),
            ".zero 8",
            '.section .note.GNU-stack,"",@progbits',
            "",
        ]
        source = stored("\n".join(lines).encode(), ".s")
        return self._made([*self.compiler.driver, "-x", "assembler", "-c", str(source)], ".o", _link_error)

    def link(self, objects: Sequence[Path], words: Sequence[str] = (), shared: bool = False) -> Path:
        """A program, or shared library, of objects. `words`: what follows them on the command line (-L..., -lamdhip64,
        files)."""
        arguments = [*(["-shared"] if shared else []), *map(str, objects), *words]
        plain, linker = self.compiler.plain_linker, self.compiler.linker
        inputs = [Path(part) for part in (*map(str, objects), *words) if os.path.isfile(part)]
        inputs += _libraries(words)

        def build(output: Path) -> Iterable[Path]:
            if plain:
                try:
                    _run([*plain, *arguments, "-Wl,-z,defs", "-o", str(output)], _link_error)
                    return inputs
                except ToolchainError:  # then with the C++ library
                    if not zigs_cxx_library_is_built():
                        print(
                            "cdna: building the C++ library (once per machine, two minutes; none with g++) ...",
                            file=sys.stderr,
                            flush=True,
                        )
            _run([*linker, *arguments, "-o", str(output)], _link_error)
            return inputs

        return Results(digest_of(self._identity(), *linker, *arguments), ".so" if shared else ".exe").get(build)

    # ------------------------------------------------------------ how

    def _device_flags(self, source: HipSource) -> list[str]:
        flags = ["-x", "hip", "--cuda-device-only", f"--offload-arch={_known(source.arch)}", *self.compiler.headers]
        for file in (*self.compiler.bitcode, *self._control_bitcode(source)):
            flags += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(file)]
        return [*flags, *DEVICE_FLAGS]

    def _host_flags(self, source: HipSource) -> list[str]:
        arch = _known(source.arch)
        return ["-x", "hip", "--cuda-host-only", f"--offload-arch={arch}", *self.compiler.headers, *HOST_FLAGS]

    def _amdgcn(self, arch: str = "") -> list[str]:
        """Calls the compiler on code that is AMDGCN's already."""
        cpu = [f"-mcpu={arch}"] if arch else []
        return [*self.compiler.driver, "--target=amdgcn-amd-amdhsa", *cpu, "-nogpulib"]

    def _elf_linker(self) -> list[str]:
        beside = Path(self.compiler.driver[0]).resolve().parent / "ld.lld"
        return [str(beside)] if beside.is_file() else elf_linker()

    def _identity(self) -> str:
        return json.dumps([self.compiler.driver, self.compiler.linker, self.compiler.version, _MADE])

    def _made(
        self,
        command: list[str],
        suffix: str,
        error: Callable[[str], ToolchainError],
        inputs: Iterable[Path] = (),
        check: Callable[[Path], None] = lambda output: None,
    ) -> Path:
        """What a command makes of files that it names. inputs: those whose names do not say what is in them."""

        def build(output: Path) -> Iterable[Path]:
            _run([*command, "-o", str(output)], error)
            check(output)
            return inputs

        return Results(digest_of(self._identity(), *command), suffix).get(build)

    def _compile(
        self,
        source: HipSource,
        own: list[str],
        given: Sequence[str],
        action: list[str],
        suffix: str,
        check: Callable[[Path], None] = lambda output: None,
    ) -> tuple[Path, float | None]:
        """One pass over a source, and the seconds that it took; None where the cache had the result.

        own: flags that every source gets; given: the source's for this pass.
        """
        path = Path(source.path).absolute()
        if not path.is_file():
            raise ToolchainError(f"{path}: no such file")
        for directory in source.include_dirs:
            if not directory.is_dir():
                raise ToolchainError(f"-I {directory}: no such folder")
        user = [*(f"-I{directory.absolute()}" for directory in source.include_dirs), *given]
        flags, place = [*own, *user, *action], source.folder or os.getcwd()

        def compiled(ahead: list[str], output: Path) -> list[Path]:
            return self._compiled([*ahead, *flags], path, output, place, source.include_dirs)

        def build(output: Path) -> Iterable[Path]:
            ahead = self._ahead(source, own, user, place)
            try:
                inputs = compiled(ahead, output)
            except CompileError:
                if not ahead or source.header:
                    raise
                inputs = compiled([], output)  # what it says is about the source
            check(output)
            parsed_ahead = results_folders()  # is no input
            return [file for file in inputs if file.parent not in parsed_ahead]

        return Results(digest_of(self._identity(), place, *flags, str(path)), suffix).get_timed(build)

    def _ahead(self, source: HipSource, own: list[str], user: list[str], place: str) -> list[str]:
        """Flags that give what a source begins with at once."""
        anywhere = functools.partial(self._compiled, place=str(results_folder()))
        headers = PrecompiledHeaders(self._identity(), anywhere)
        if source.header is None:
            return headers.flags(Path(source.path).absolute(), own, user, place)
        return headers.named(source.header.path, [*own, *source.header.flags, *relevant(user)])

    def _compiled(
        self, flags: list[str], source: Path, output: Path, place: str, folders: Sequence[Path] = ()
    ) -> list[Path]:
        """Compile in the folder `place`; the files that were read. folders: where headers of the user's are."""
        listed = output.with_suffix(".d")
        # not -MD: the driver keeps that from device compilations
        listing = ["-dependency-file", str(listed), "-MT", "output", "-sys-header-deps"]
        through = [part for word in listing for part in ("-Xclang", word)]
        _run(
            [*self.compiler.driver, *flags, str(source), *through, "-o", str(output)],
            lambda said: CompileError(explain(said, source, tuple(folders))),
            place,
        )
        return _dependencies(listed)

    def _verify(self, assembly: Path, arch: str) -> None:
        """CompileError where an assembler or a linker would refuse the assembly. What a programmer wrote of it becomes
        what the assembler reads there."""
        text = assembly.read_text()
        if verify.has_inline_assembly(text):
            command = [*self._amdgcn(arch), "-x", "assembler", "-c", "-Xclangas", "-filetype", "-Xclangas", "asm"]
            assembled = assembly.with_suffix(".asm")
            _run(
                [*command, str(assembly), "-o", str(assembled)],
                lambda said: CompileError(verify.assembler_error(text, said)),
            )
            text = verify.with_assembled(text, assembled.read_text(), arch)
            assembly.write_text(text)
        undefined = verify.undefined_symbol(text)
        if undefined:
            raise CompileError(undefined)

    def _control_bitcode(self, source: HipSource) -> tuple[Path, ...]:
        """The device library's switches as bitcode: ROCm ships them as oclc_*.bc, Triton's package does not."""
        if not self.compiler.bitcode:
            return ()
        file = stored(control_ir(source.arch, source.flags).encode(), ".ll")
        return (self._made([*self._amdgcn(), "-x", "ir", "-emit-llvm", "-c", str(file)], ".bc", _device_link_error),)


@functools.cache
def _found(wanted: str, path: str, hip: int) -> Toolchain:
    return Toolchain(choose(wanted))


def find(wanted: str = "") -> Toolchain:
    """The toolchain to use; ToolchainError says what to install. `wanted`: see compilers.choose."""
    return _found(wanted or os.environ.get("CDNA_HIP_COMPILER", ""), os.environ.get("PATH", ""), hip_version())


def control_ir(arch: str, flags: Sequence[str] = ()) -> str:
    """LLVM IR that defines the switches that the device library (ocml, ockl) reads.

    Names and meanings: ROCm-Device-Libs, doc/OCML.md, "Controls"; the ISA version is 9402 for gfx942.
    """

    def on(flag: str, negation: str, default: bool = False) -> int:
        given = [option for option in flags if option in (flag, negation, "-ffast-math", "-Ofast", "-fno-fast-math")]
        return int(default if not given else given[-1] in (flag, "-ffast-math", "-Ofast"))

    major, minor, stepping = arch[3:-2], int(arch[-2], 16), int(arch[-1], 16)
    exact = "-fno-hip-fp32-correctly-rounded-divide-sqrt" not in flags
    values = {
        "finite_only_opt": ("i8", on("-ffinite-math-only", "-fno-finite-math-only")),
        "unsafe_math_opt": ("i8", on("-funsafe-math-optimizations", "-fno-unsafe-math-optimizations")),
        "correctly_rounded_sqrt32": ("i8", int(exact)),
        "daz_opt": ("i8", int("-fgpu-flush-denormals-to-zero" in flags)),
        "wavefrontsize64": ("i8", 1),
        "wavefrontsize_log2": ("i8", 6),
        "ISA_version": ("i32", int(major) * 1000 + minor * 100 + stepping),
        "ABI_version": ("i32", CODE_OBJECT_VERSION * 100),
    }
    lines = [
        f"@__oclc_{name} = linkonce_odr protected local_unnamed_addr addrspace(4) constant {type_} {value}"
        for name, (type_, value) in values.items()
    ]
    return "\n".join(['target triple = "amdgcn-amd-amdhsa"', *lines, ""])


def _known(arch: str) -> str:
    try:
        return check_arch(arch)
    except ValueError as error:
        raise ToolchainError(str(error)) from None


# How a compiler is called that writes to this folder alone: whoever compiles for others confines it so.
def as_it_is(command: list[str], folder: str) -> list[str]:
    return command


calling: Callable[[list[str], str], list[str]] = as_it_is


def _run(command: list[str], error: Callable[[str], ToolchainError], folder: str = "") -> None:
    try:
        done = subprocess.run(
            calling(command, os.path.dirname(command[-1])),
            capture_output=True,
            text=True,
            errors="replace",
            env=environment(),
            stdin=subprocess.DEVNULL,
            cwd=folder or None,
        )
    except OSError as reason:
        raise ToolchainError(f"cannot run {command[0]}: {reason.strerror}") from None
    if done.returncode:
        raise error(done.stderr)
    if os.environ.get("CDNA_HIP_WARNINGS"):
        sys.stderr.write(done.stderr)


def _device_link_error(said: str) -> ToolchainError:
    lines = [line.partition("error: ")[2] for line in said.splitlines() if "error: " in line] or [said.strip()]
    return CompileError(f"linking device code: {lines[0]}")


def _link_error(said: str) -> ToolchainError:
    undefined = sorted(set(re.findall(r"undefined (?:reference to `|symbol: )([^'\n]+)", said)))
    if undefined:
        return ToolchainError(f"linking: undefined: {', '.join(undefined[:8])}" + (" ..." if undefined[8:] else ""))
    lines = said.splitlines() or ["failed"]
    telling = [line for line in lines if "error" in line or "cannot find" in line]
    return ToolchainError(f"linking: {(telling or lines)[0].strip()}")


def _libraries(libs: Sequence[str]) -> list[Path]:
    """The files behind -L and -l: a library that was built anew must be linked anew."""
    folders = [Path(part[2:]) for part in libs if part.startswith("-L")]
    names = [part[2:] for part in libs if part.startswith("-l")]
    return [folder / f"lib{name}.so" for name in names for folder in folders if (folder / f"lib{name}.so").is_file()]


def _dependencies(listed: Path) -> list[Path]:
    """The files named by a -MD file: `output: file file \\` with spaces in names escaped."""
    text = listed.read_text().replace("\\\n", " ").partition(": ")[2]
    return [Path(re.sub(r"\\([ #])", r"\1", name).replace("$$", "$")) for name in re.findall(r"(?:\\.|[^\s\\])+", text)]
