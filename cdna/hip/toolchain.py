"""Compiles HIP: device code to AMDGCN assembly, host code to objects, objects to libraries and programs.

    toolchain = find()
    assembly = toolchain.device_asm(Path("kernel.hip"), arch="gfx942")
    host = toolchain.host_object(Path("kernel.hip"), fat_binary=..., arch="gfx942")
    library = toolchain.link_shared([host], ["-L...", "-lamdhip64"])

Every result is kept (results.py) until what it came from changes: source, every header that the compiler read, flags,
compiler.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..cards import check_arch
from ..errors import CompileError, ToolchainError
from . import verify
from .beginnings import Beginnings
from .compilers import Compiler, choose, environment, hip_version, zigs_cxx_library_is_built
from .diagnostics import explain
from .results import Results, digest_of, results_folder, stored
from .runner_clang import warn_of_newer

CODE_OBJECT_VERSION = 5  # what Triton makes too: so kernels of both get their hidden arguments at the same places
# With "." for the folder of compilation, debug information names every file in full.
DEVICE_FLAGS = (
    "-O3",
    "-gline-tables-only",
    "-fdebug-compilation-dir=.",
    f"-mcode-object-version={CODE_OBJECT_VERSION}",
)
HOST_FLAGS = ("-O2", "-fPIC")
_RDC_NAMES = re.compile(rb"__hip_(?:fatbin|gpubin_handle)_[0-9a-f]{4,}")


@dataclass(frozen=True)
class Toolchain:
    """A compiler with everything that HIP needs."""

    compiler: Compiler
    folder: str = ""  # where the compiler is run, which is part of a result's name; "": the current folder

    def device_asm(
        self,
        source: Path,
        arch: str,
        include_dirs: Sequence[Path] = (),
        defines: Sequence[str] = (),
        std: str = "",
        extra: Sequence[str] = (),
    ) -> str:
        """AMDGCN assembly of the kernels in `source`. `defines`: NAME or NAME=VALUE; `std`: as in -std=."""
        return self.device_asm_file(source, arch, include_dirs, defines, std, extra).read_text()

    def device_asm_file(
        self,
        source: Path,
        arch: str,
        include_dirs: Sequence[Path] = (),
        defines: Sequence[str] = (),
        std: str = "",
        extra: Sequence[str] = (),
    ) -> Path:
        """As device_asm; where the assembly lies in the cache."""
        arch = _known(arch)
        user = _user_flags(include_dirs, defines, std, extra)
        warn_of_newer(self.compiler, source, arch, user)
        return self._compile(
            source,
            self._device_flags(arch, extra),
            user,
            ["-S"],
            include_dirs,
            ".s",
            lambda output: self._verify(output, arch),
        )

    def device_bitcode(
        self,
        source: Path,
        arch: str,
        include_dirs: Sequence[Path] = (),
        defines: Sequence[str] = (),
        std: str = "",
        extra: Sequence[str] = (),
    ) -> Path:
        """Relocatable device code of a source (-fgpu-rdc), for `link_device`."""
        user = _user_flags(include_dirs, defines, std, extra)
        warn_of_newer(self.compiler, source, arch, user)
        return self._compile(
            source, self._device_flags(_known(arch), extra), user, ["-emit-llvm", "-c"], include_dirs, ".bc"
        )

    def device_ir(self, bitcode: Path) -> str:
        """LLVM IR, as text, of relocatable device code."""
        command = [
            *self.compiler.driver,
            "--target=amdgcn-amd-amdhsa",
            "-nogpulib",
            "-x",
            "ir",
            str(bitcode),
            "-emit-llvm",
            "-S",
        ]

        def build(output: Path) -> Iterable[Path]:
            _run([*command, "-o", str(output)], _device_link_error)
            return (bitcode,)

        return Results(digest_of(self._identity(), *command), ".ll").get(build).read_text()

    def link_device(self, bitcode: Sequence[Path], arch: str, extra: Sequence[str] = ()) -> str:
        """AMDGCN assembly of relocatable device code, linked into one program. extra: options of the compiler."""
        first, *others = bitcode
        command = [
            *self.compiler.driver,
            "--target=amdgcn-amd-amdhsa",
            f"-mcpu={_known(arch)}",
            "-nogpulib",
            "-x",
            "ir",
            str(first),
            *DEVICE_FLAGS,
            *extra,
            "-S",
        ]
        for file in others:
            command += ["-Xclang", "-mlink-bitcode-file", "-Xclang", str(file)]

        def build(output: Path) -> Iterable[Path]:
            _run([*command, "-o", str(output)], _device_link_error)
            self._verify(output, arch)
            return bitcode

        return Results(digest_of(self._identity(), *command), ".s").get(build).read_text()

    def host_object(
        self,
        source: Path,
        fat_binary: bytes | None,
        arch: str,
        include_dirs: Sequence[Path] = (),
        defines: Sequence[str] = (),
        std: str = "",
        extra: Sequence[str] = (),
    ) -> Path:
        """Object of the host code in `source`, its kernels as stubs that launch; `fat_binary` is embedded, or with
        None left to `fat_binary_object`."""
        action = ["-c"]
        if fat_binary is not None:
            action += ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(stored(fat_binary, ".hipfb"))]
        user = _user_flags(include_dirs, defines, std, extra)
        return self._compile(source, self._host_flags(arch), user, action, include_dirs, ".o")

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
        command = [*self.compiler.driver, "-x", "assembler", "-c", str(source)]

        def build(output: Path) -> Iterable[Path]:
            _run([*command, "-o", str(output)], _link_error)
            return ()

        return Results(digest_of(self._identity(), *command), ".o").get(build)

    def precompiled_header(
        self,
        header: Path,
        side: str,
        arch: str,
        include_dirs: Sequence[Path] = (),
        defines: Sequence[str] = (),
        std: str = "",
        extra: Sequence[str] = (),
    ) -> Path:
        """`header`, parsed, for the "device" or the "host" pass of sources that are compiled with these very options
        and ["-Xclang", "-include-pch", "-Xclang", path]."""
        flags = self._device_flags(_known(arch), extra) if side == "device" else self._host_flags(arch)
        return self._beginnings().parsed(header, [*flags, *_user_flags(include_dirs, defines, std, extra)])

    def link_shared(self, objects: Sequence[Path], libs: Sequence[str] = ()) -> Path:
        """A shared library of objects. `libs`: what follows them on the command line (-L..., -lamdhip64, files)."""
        return self._link(objects, ["-shared"], libs, ".so")

    def link_executable(self, objects: Sequence[Path], libs: Sequence[str] = ()) -> Path:
        """A program of objects."""
        return self._link(objects, [], libs, ".exe")

    # ------------------------------------------------------------ how

    def _device_flags(self, arch: str, extra: Sequence[str]) -> list[str]:
        flags = ["-x", "hip", "--cuda-device-only", f"--offload-arch={arch}", *self.compiler.headers]
        for file in (*self.compiler.bitcode, *self._control_bitcode(arch, extra)):
            flags += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(file)]
        return [*flags, *DEVICE_FLAGS]

    def _host_flags(self, arch: str) -> list[str]:
        return ["-x", "hip", "--cuda-host-only", f"--offload-arch={_known(arch)}", *self.compiler.headers, *HOST_FLAGS]

    def _identity(self) -> str:
        return json.dumps([self.compiler.driver, self.compiler.linker, self.compiler.version])

    def _compile(
        self,
        source: Path,
        own: list[str],
        user: list[str],
        action: list[str],
        include_dirs: Sequence[Path],
        suffix: str,
        check: Callable[[Path], None] = lambda output: None,
    ) -> Path:
        source = Path(source).absolute()
        if not source.is_file():
            raise ToolchainError(f"{source}: no such file")
        for folder in include_dirs:
            if not Path(folder).is_dir():
                raise ToolchainError(f"-I {folder}: no such folder")
        flags, place = [*own, *user, *action], self.folder or os.getcwd()

        def build(output: Path) -> Iterable[Path]:
            parsed = self._beginnings().flags(source, own, user, place)
            try:
                inputs = self._compiled([*parsed, *flags], source, output, include_dirs)
            except CompileError:
                if not parsed:
                    raise
                inputs = self._compiled(flags, source, output, include_dirs)  # what it says is about the source
            check(output)
            return [path for path in inputs if path.parent != results_folder()]  # what was parsed ahead is no input

        return Results(digest_of(self._identity(), place, *flags, str(source)), suffix).get(build)

    def _compiled(self, flags: list[str], source: Path, output: Path, folders: Sequence[Path] = ()) -> list[Path]:
        """Compile; the files that were read. folders: where headers of the user's are."""
        listed = output.with_suffix(".d")
        # not -MD: the driver keeps that from device compilations
        listing = ["-dependency-file", str(listed), "-MT", "output", "-sys-header-deps"]
        through = [part for word in listing for part in ("-Xclang", word)]
        _run(
            [*self.compiler.driver, *flags, str(source), *through, "-o", str(output)],
            lambda said: CompileError(explain(said, source, tuple(Path(d) for d in folders))),
            self.folder,
        )
        return _dependencies(listed)

    def _beginnings(self) -> Beginnings:
        anywhere = Toolchain(self.compiler, str(results_folder()))
        return Beginnings(self._identity(), anywhere._compiled)

    def _verify(self, assembly: Path, arch: str) -> None:
        """CompileError where an assembler or a linker would refuse the assembly."""
        text = assembly.read_text()
        if verify.has_inline_assembly(text):
            command = [
                *self.compiler.driver,
                "--target=amdgcn-amd-amdhsa",
                f"-mcpu={arch}",
                "-nogpulib",
                "-x",
                "assembler",
                "-c",
                str(assembly),
                "-o",
                str(assembly.with_suffix(".o")),
            ]
            _run(command, lambda said: CompileError(verify.assembler_error(text, said)))
        undefined = verify.undefined_symbol(text)
        if undefined:
            raise CompileError(undefined)

    def _link(self, objects: Sequence[Path], flags: list[str], libs: Sequence[str], suffix: str) -> Path:
        arguments = [*flags, *map(str, objects), *libs]
        plain, linker = self.compiler.plain_linker, self.compiler.linker
        inputs = [Path(part) for part in (*map(str, objects), *libs) if os.path.isfile(part)]
        inputs += _libraries(libs)

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

        return Results(digest_of(self._identity(), *linker, *arguments), suffix).get(build)

    def _control_bitcode(self, arch: str, extra: Sequence[str]) -> tuple[Path, ...]:
        """The device library's switches as bitcode: ROCm ships them as oclc_*.bc, Triton's package does not."""
        if not self.compiler.bitcode:
            return ()
        text = control_ir(arch, extra)

        def build(output: Path) -> Iterable[Path]:
            source = output.with_suffix(".ll")
            source.write_text(text)
            command = [
                *self.compiler.driver,
                "--target=amdgcn-amd-amdhsa",
                "-nogpulib",
                "-x",
                "ir",
                "-emit-llvm",
                "-c",
                str(source),
            ]
            _run([*command, "-o", str(output)], lambda said: ToolchainError(f"making {source.name}: {said.strip()}"))
            return ()

        return (Results(digest_of(self._identity(), text), ".bc").get(build),)


@functools.cache
def _found(wanted: str, path: str, hip: int) -> Toolchain:
    return Toolchain(choose(wanted))


def find(wanted: str = "") -> Toolchain:
    """The toolchain to use; ToolchainError says what to install. `wanted`: see compilers.choose."""
    return _found(wanted or os.environ.get("CDNA_HIP_COMPILER", ""), os.environ.get("PATH", ""), hip_version())


def control_ir(arch: str, extra: Sequence[str] = ()) -> str:
    """LLVM IR that defines the switches that the device library (ocml, ockl) reads.

    Names and meanings: ROCm-Device-Libs, doc/OCML.md, "Controls"; the ISA version is 9402 for gfx942.
    """

    def on(flag: str, negation: str, default: bool = False) -> int:
        given = [option for option in extra if option in (flag, negation, "-ffast-math", "-Ofast", "-fno-fast-math")]
        return int(default if not given else given[-1] in (flag, "-ffast-math", "-Ofast"))

    major, minor, stepping = arch[3:-2], int(arch[-2], 16), int(arch[-1], 16)
    exact = "-fno-hip-fp32-correctly-rounded-divide-sqrt" not in extra
    values = {
        "finite_only_opt": ("i8", on("-ffinite-math-only", "-fno-finite-math-only")),
        "unsafe_math_opt": ("i8", on("-funsafe-math-optimizations", "-fno-unsafe-math-optimizations")),
        "correctly_rounded_sqrt32": ("i8", int(exact)),
        "daz_opt": ("i8", int("-fgpu-flush-denormals-to-zero" in extra)),
        "wavefrontsize64": ("i8", 1),
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


def _user_flags(include_dirs: Sequence[Path], defines: Sequence[str], std: str, extra: Sequence[str]) -> list[str]:
    flags = [f"-I{Path(folder).absolute()}" for folder in include_dirs] + [f"-D{define}" for define in defines]
    return flags + ([f"-std={std}"] if std else []) + list(extra)


def _run(command: list[str], error: Callable[[str], ToolchainError], folder: str = "") -> None:
    try:
        done = subprocess.run(
            command,
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
