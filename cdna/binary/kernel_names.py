"""Kernels' names as their sources have them, out of the mangled ones."""

import ctypes
import re
from collections.abc import Sequence


def demangled(name: str) -> str:
    """`void scale<4, true>(float*)` for its mangled name, which is returned where no C++ library can say."""
    if not name.startswith("_Z"):
        return name
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return name
    demangle.restype = ctypes.c_void_p
    free.argtypes = [ctypes.c_void_p]
    # _Float16 is newer than many a libstdc++; fp16 by its older code is not.
    address = demangle(name.replace("DF16_", "Dh").encode(), None, None, ctypes.byref(ctypes.c_int()))
    if not address:
        return name
    text = ctypes.string_at(address).decode(errors="replace")
    free(address)
    return text


def template_arguments(readable: str) -> tuple[str, list[str]]:
    """`void ns::k<4, f<2>>(int*)` -> ("ns::k", ["4", "f<2>"])."""
    text = readable.replace("(anonymous namespace)", "{anonymous}")
    depth, start = 0, 0
    cut: list[int] = []  # where arguments of the last template begin, are separated, and end
    for place, sign in enumerate(text):
        if sign in "<(" and not depth:
            if sign == "(":
                text = text[:place]
                break
            cut = [place]
        if sign == "," and depth == 1:
            cut.append(place)
        if sign == " " and not depth:
            start = place + 1
        if sign == ":" and not depth:  # what had arguments was a class around it
            cut = []
        depth += (sign in "<(") - (sign in ">)")
        if sign == ">" and not depth:
            cut.append(place)
    whole = text[start : cut[0] if cut else None].replace("{anonymous}::", "")
    return whole, [text[a + 1 : b].strip() for a, b in zip(cut, cut[1:])]


def short_names(mangled: Sequence[str]) -> list[str]:
    """Kernels' own names out of their mangled ones; with a template's arguments where they are not distinct."""
    names = [_own_name(name) for name in mangled]
    for longer in (_with_arguments, demangled):
        names = [longer(whole) if names.count(name) > 1 else name for name, whole in zip(names, mangled)]
    return names


def _with_arguments(mangled: str) -> str:
    function, arguments = template_arguments(demangled(mangled))
    return f"{function}<{', '.join(arguments)}>" if arguments else function


def _own_name(mangled: str) -> str:
    """The innermost name of an Itanium-mangled one: `_ZN2ns4axpyEPf` and `_Z4axpyPf` are both axpy."""
    rest = mangled.removeprefix("_Z")
    if rest == mangled:
        return mangled
    nested = rest.startswith("N")
    rest, own = rest.removeprefix("N"), mangled
    while found := re.match(r"(?:12_GLOBAL__N_1|St|L)*(\d+)", rest):
        start, length = found.end(), int(found[1])
        own, rest = rest[start : start + length], rest[start + length :]
        if not nested:
            break
    return own
