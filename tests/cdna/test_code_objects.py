"""Code objects: decoding beside LLVM's disassembler and the compiler's own assembly, loading, launching, bad files."""

import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import cdna
from cdna.__main__ import main
from cdna.binary.disassembler import disassemble, encodings
from cdna.binary.elf import CodeObjectError, read, unbundle
from cdna.binary.statements import statements_of
from cdna.cards import ARCHS
from cdna.engine.build import zig_binary
from cdna.errors import CdnaError, LaunchError
from cdna.isa import instructions
from tests.support.compiled_kernels import KERNELS, compiled

ROOT = Path(__file__).resolve().parents[2]


def plain(text: str) -> str:
    text = re.sub(r"\s+", " ", text.partition(";")[0]).strip()
    return re.sub(r" (\.L\w+|L_[0-9a-f]+)$", " LABEL", text)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", KERNELS)
def test_decodes_to_the_assembly_it_was_made_from(name: str, arch: str) -> None:
    binary, assembly = compiled(name, arch)
    wanted = [plain(line) for line in assembly.splitlines() if re.match(r"\t(s|v|ds|buffer|global|flat)_", line)]
    code = read(binary)
    got = [plain(f"{s.mnemonic} {s.operands}") for s in statements_of(code).statements]
    padding = [text for text in got if text == "s_nop 0" and text not in wanted]
    got = [text for text in got if text not in padding]
    assert [text for text in wanted if text != "s_nop 0"] == [text for text in got if text != "s_nop 0"]
    assert code.arch == arch and len(code.metadata) == len(code.descriptors) == 1


def test_code_may_name_the_end_of_its_data(tmp_path: Path) -> None:
    """As `assert` does, which looks for the end of its last string: it was no address of the file's."""
    source = tmp_path / "k.s"
    source.write_text(
        """.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
        .text
        k:
        s_getpc_b64 s[0:1]
        s_add_u32 s0, s0, text@rel32@lo+8
        s_addc_u32 s1, s1, text@rel32@hi+16
        s_endpgm
        .section .rodata
        text:
        .asciz "abc"
        """
    )
    zig = str(zig_binary())
    command = [zig, "clang", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-x", "assembler", "-c", source.name]
    subprocess.run([*command, "-o", "k.o"], cwd=tmp_path, check=True)
    subprocess.run([zig, "ld.lld", "-shared", "k.o", "-o", "k.co"], cwd=tmp_path, check=True)
    code = statements_of(read((tmp_path / "k.co").read_bytes()))
    assert (".rodata", 4) in code.data_labels.values()


@pytest.mark.parametrize("arch", ARCHS)
def test_launches_with_tensors_and_numbers(arch: str) -> None:
    module = cdna.load(compiled("exp", arch)[0])
    kernel = module.kernel()
    x, y = torch.randn(1000), torch.full((1024,), float("nan"))
    rest = [None] * (len(kernel.arguments) - 3)
    record = kernel((4,), (256,), x, y, 1000, *rest)
    torch.testing.assert_close(y[:1000], x.exp())
    assert y[1000:].isnan().all() and record.kernel == kernel.name
    a, b, c = torch.randn(64, 64).half(), torch.randn(64, 64).half(), torch.full((64, 64), float("nan"))
    product = cdna.load(compiled("product", arch)[0]).kernel()
    lds_bytes = 32768
    product((1,), (256,), a, b, c, *[None] * (len(product.arguments) - 3), lds_bytes=lds_bytes)
    torch.testing.assert_close(c, a.float() @ b.float(), atol=2e-3, rtol=2e-3)


def test_the_checks_know_the_tensors_of_a_launch() -> None:
    kernel = cdna.load(compiled("exp", "gfx942")[0]).kernel()
    x, y = torch.randn(1000), torch.empty(900)
    with cdna.checks.use("bounds"), pytest.raises(cdna.CheckError, match="past the end"):
        kernel((4,), (256,), x, y, 1000, *[None] * (len(kernel.arguments) - 3))
    assert [finding.kind for finding in cdna.findings()] == ["bounds"]


@pytest.mark.parametrize("arch", ARCHS)
def test_every_opcode_of_the_table_is_an_instruction_that_is_emulated_or_known(arch: str) -> None:
    names = {re.sub(r"_(e32|e64)$", "", row.mnemonic) for row in encodings(arch).values()}
    assert len(names) > 1000 and names <= instructions().keys()


def test_what_is_no_instruction_is_refused() -> None:
    assert disassemble(b"\xff\xff\xff\xff", "gfx942") is None
    assert disassemble(b"", "gfx942") is None
    assert disassemble(struct.pack("<I", 0xD3AD0000), "gfx950") is None  # its second half is missing
    scaled = struct.pack("<4I", 0xD3AC0000, 0x00020501, 0xD3AD0840, 0x06830160)
    assert disassemble(scaled, "gfx942") is None
    found = disassemble(scaled, "gfx950")
    assert found is not None and found.size_bytes == 16
    assert found.mnemonic == "v_mfma_scale_f32_16x16x128_f8f6f4"


def bundle(entries: dict[str, bytes]) -> bytes:
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries))
    body, offset = b"", len(head) + sum(24 + len(name) for name in entries)
    for name, content in entries.items():
        head += struct.pack("<QQQ", offset + len(body), len(content), len(name)) + name.encode()
        body += content
    return head + body


def test_bundles() -> None:
    files = {arch: compiled("exp", arch)[0] for arch in ARCHS}
    names = {f"hipv4-amdgcn-amd-amdhsa--{arch}": files[arch] for arch in ARCHS}
    both = bundle({"host-x86_64-unknown-linux-gnu-": b"", **names})
    assert unbundle(both, "gfx950") == files["gfx950"]
    with pytest.raises(CodeObjectError, match="several archs: say which; it holds gfx942, gfx950"):
        unbundle(both)
    with pytest.raises(CodeObjectError, match="none for gfx90a"):
        unbundle(both, "gfx90a")
    compressed = b"CCOB" + struct.pack("<HHIIQ", 2, 0, 0, len(both), 0) + zlib.compress(both)
    assert unbundle(compressed, "gfx942") == files["gfx942"]
    with pytest.raises(CodeObjectError, match="compressed with zstd"):
        unbundle(b"CCOB" + struct.pack("<HHIIQ", 2, 1, 0, 0, 0))
    with pytest.raises(CodeObjectError, match="truncated bundle"):
        unbundle(both[:40])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda elf: b"not an ELF", "not an ELF file and no bundle"),
        (lambda elf: elf[:200], "damaged or truncated"),
        (lambda elf: elf[: len(elf) // 2], "truncated"),
        (lambda elf: elf[:18] + struct.pack("<H", 62) + elf[20:], "not for an AMD GPU"),
        (lambda elf: elf[:48] + struct.pack("<I", 0x3F) + elf[52:], "an arch that is not emulated"),
        (lambda elf: elf[:8] + b"\x09" + elf[9:], "ABI version 9"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named_in_a_line(
    change: Callable[[bytes], bytes], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "kernel.co"
    file.write_bytes(change(compiled("exp", "gfx942")[0]))
    with pytest.raises(CodeObjectError) as caught:
        cdna.load(file)
    assert said in str(caught.value) and str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_launches_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CodeObjectError, match="No such file"):
        cdna.load(tmp_path / "nothing.co")
    with pytest.raises(CodeObjectError, match="code for gfx942, and gfx950 was asked for"):
        cdna.load(compiled("exp", "gfx942")[0], "gfx950")
    module = cdna.load(compiled("exp", "gfx942")[0])
    with pytest.raises(CodeObjectError, match="no kernel other; the code object has _exp"):
        module.kernel("other")
    kernel, x = module.kernel(), torch.zeros(256)
    with pytest.raises(LaunchError, match=r"takes \d arguments, got 1"):
        kernel((1,), (256,), x)
    rest = [None] * (len(kernel.arguments) - 3)
    with pytest.raises(LaunchError, match="argument 2 takes 4 bytes"):
        kernel((1,), (256,), x, x, 1 << 40, *rest)
    with pytest.raises(LaunchError, match="takes an address, got the float"):
        kernel((1,), (256,), 1.5, x, 1, *rest)
    with pytest.raises(LaunchError, match="grid must be one to three numbers above 0"):
        kernel((0,), (256,), x, x, 256, *rest)
    with pytest.raises(CdnaError):
        kernel((1,), (4096,), x, x, 256, *rest)


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "cdna", *map(str, words)], cwd=ROOT, capture_output=True, text=True)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "exp.hsaco"
    file.write_bytes(compiled("exp", "gfx942")[0])
    dumped = command("dump", file)
    assert dumped.returncode == 0, dumped.stderr
    assert (
        "kernel _exp" in dumped.stdout and "v_exp_f32_e32" in dumped.stdout and "compiled_kernels.py:" in dumped.stdout
    )
    n_rest = len(cdna.load(file).kernel().arguments) - 3
    grid = ["--grid", "4", "--block", "256", "--arg", "f32[1000]=randn", "--arg", "f32[1024]=nan", "--arg", "i32=1000"]
    rest = ["--arg", "null"] * n_rest
    done = command("launch", file, *grid, *rest, "--checks", "all", "--save", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "modelled" in done.stdout and "24 NaN" in done.stdout
    x, y = (torch.from_numpy(np.load(tmp_path / "out" / f"arg{n}.npy")) for n in (0, 1))
    torch.testing.assert_close(y[:1000], x.exp())
    file.with_name("product.co").write_bytes(compiled("product", "gfx942")[0])
    words = ["launch", str(file.with_name("product.co")), "--grid", "1", "--block", "256", "--save", str(tmp_path)]
    for one in ("f16[64x64]=randn", "f16[64x64]=randn", "f32[64x64]=nan", *["null"] * n_rest):
        words += ["--arg", one]
    assert main([*words, "--lds", "32768"]) == 0, capsys.readouterr().err
    a, b, c = (torch.from_numpy(np.load(tmp_path / f"arg{n}.npy")).float() for n in range(3))
    torch.testing.assert_close(c, a @ b, atol=2e-3, rtol=2e-3)
    capsys.readouterr()
    for words, said in (
        ([*grid, "--arg", "f32[4]=pink", *rest[2:]], "not 'pink'"),
        (["--grid", "1", "--block", "64", "--arg", "i32=1"], "arguments, got 1"),
    ):
        assert main(["launch", str(file), *words]) == 2
        told = capsys.readouterr().err
        assert said in told and len(told.splitlines()) == 1
