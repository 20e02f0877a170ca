"""The programs of docs/findings.md; `python -m tests.support.findings_page` writes anew what is printed of them."""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.hip_programs import cdna

PAGE = Path(__file__).resolve().parents[2] / "docs" / "findings.md"
SECTION = re.compile(r"## (\w+)\n(?:.*\n)*?```hip\n((?:.*\n)*?)```\n\n```\n((?:.*\n)*?)```\n")
OPTIONS = {"orders": ("--orders", "20")}  # beside the checks
OF_A_RUN = (
    (re.compile(r"0x[0-9a-f]+"), "0x7f0000000000"),
    (re.compile(r"executed \d+ times"), "executed 100000 times"),
)


@dataclass(frozen=True)
class Section:
    kind: str
    program: str
    printed: str

    @property
    def mended(self) -> str:
        """With what stands behind `// mended:` in place of its line."""
        return re.sub(r"(?m)^( *).*  // mended: ?(.*)$", r"\1\2", self.program)


def sections() -> list[Section]:
    return [Section(*found) for found in SECTION.findall(PAGE.read_text())]


def printed_of(section: Section, folder: Path, mended: bool = False) -> str:
    """What a run prints, without addresses and counts that differ from run to run."""
    file = folder / f"{section.kind}.hip"
    file.write_text(section.mended if mended else section.program)
    done = cdna("run", "--checks", "all", *OPTIONS.get(section.kind, ()), file, CDNA_THREADS="1")
    text = (done.stderr + done.stdout).replace(f"{folder}/", "")
    for pattern, instead in OF_A_RUN:
        text = pattern.sub(instead, text)
    return text


def main() -> None:
    text = PAGE.read_text()
    with tempfile.TemporaryDirectory() as folder:
        for section in sections():
            shown = f"{section.program}```\n\n```\n"
            text = text.replace(f"{shown}{section.printed}```", f"{shown}{printed_of(section, Path(folder))}```")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
