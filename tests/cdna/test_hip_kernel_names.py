"""Kernels' names, out of the mangled ones."""

import pytest

from cdna.binary.kernel_names import demangled, template_arguments


@pytest.mark.parametrize(
    ("readable", "name", "arguments"),
    [
        ("void ns::k<4, f<2, 3>, (E)1>(int*, g<5>)", "ns::k", ["4", "f<2, 3>", "(E)1"]),
        ("scale(float*)", "scale", []),
        ("void (anonymous namespace)::k<3>(int)", "k", ["3"]),
        ("a::b<2>::k(int)", "a::b<2>::k", []),
        ("plain_c_name", "plain_c_name", []),
    ],
)
def test_template_arguments(readable: str, name: str, arguments: list[str]) -> None:
    assert template_arguments(readable) == (name, arguments)


def test_demangling() -> None:
    assert demangled("_Z4axpyILi1ELb1EEvPf") in ("void axpy<1, true>(float*)", "_Z4axpyILi1ELb1EEvPf")
    assert demangled("plain") == "plain"
    # of _Float16, which libstdc++ before 13 does not know
    assert demangled("_Z1kPDF16_S_") in ("k(half*, half*)", "_Z1kPDF16_S_")
