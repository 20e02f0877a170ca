"""What processes of ours tell each other arrives as it was, whatever a case holds."""

import math

import pytest

from forge.compile_report.findings import Request
from forge.task import json_lines


def test_a_case_with_infinities_arrives_as_it_was() -> None:
    case = {"limit": math.inf, "below": -math.inf, "n": 3, "name": "é\n"}
    asked = Request("gfx942", {"first": case}, 3, 1)
    line = json_lines.encode(asked)
    assert line.count(b"\n") == 1 and json_lines.decode(line, Request) == asked


@pytest.mark.parametrize("line", [b"", b"{", b'{"arch": 3}', b"\xff"])
def test_what_is_no_such_line_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        json_lines.decode(line, Request)
