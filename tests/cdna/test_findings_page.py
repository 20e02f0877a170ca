"""docs/findings.md: each program is told as the page shows it, and is clean once mended."""

from pathlib import Path

import pytest

from cdna.checks import ALL_KINDS
from tests.support.findings_page import OPTIONS, Section, printed_of, sections

pytestmark = pytest.mark.usefixtures("hip_compiler")


def test_each_kind_has_a_section() -> None:
    assert {section.kind for section in sections()} == {*ALL_KINDS, *OPTIONS}


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.kind)
def test_a_section(section: Section, tmp_path: Path) -> None:
    assert printed_of(section, tmp_path) == section.printed
    assert f" {section.kind}: " in section.printed
    mended = printed_of(section, tmp_path, mended=True)
    assert "no difference" in mended if section.kind in OPTIONS else "cdna: " not in mended
