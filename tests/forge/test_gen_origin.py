"""Lines of generated submissions, and the lines of the repository that they come from."""

from __future__ import annotations

import pytest

from forge.generate.origin import Origins
from forge.generate.render import generate
from forge.task.problem import ROOT, find_problem


@pytest.mark.parametrize(("problem", "variant"), [("amd-fp8-mm", "triton"), ("amd-gemm-rs", "triton")])
def test_every_line_of_a_section_has_the_text_of_its_origin(problem: str, variant: str) -> None:
    text = generate(find_problem(problem), variant).text
    origins, lines = Origins(text), text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("# ---- "))
    known = 0
    for number, line in enumerate(lines[start:], start + 1):
        if place := origins.of_line(number):
            path, _, at = place.rpartition(":")
            assert (ROOT / path).read_text().splitlines()[int(at) - 1].strip() == line.strip()
            known += 1
    code = [line for line in lines[start:] if line.strip() and not line.lstrip().startswith("#")]
    assert known > 0.95 * len(code)


def test_places_in_a_text() -> None:
    text = generate(find_problem("amd-fp8-mm"), "triton").text
    number = next(i for i, line in enumerate(text.splitlines(), 1) if line.startswith("def fp8_mm_kernel("))
    origin = Origins(text)
    source = (ROOT / "kernels/fp8_mm/triton_gfx942.py").read_text().splitlines()
    said = f"kernels/fp8_mm/triton_gfx942.py:{source.index('def fp8_mm_kernel(') + 1}"
    assert origin.readable(f"`x` (/tmp/forge-ab/run1/submission.py:{number}), then") == f"`x` ({said}), then"
    assert origin.readable("at submission.py:1") == "at submission.py:1"
    assert Origins("def custom_kernel(d): pass\n").readable("/a/submission.py:1") == "submission.py:1"
    changed = text.replace("#   ", "#   0", 1)
    assert Origins(changed).of_line(10**6) == ""
