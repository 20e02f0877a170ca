"""The symbolic offset of ds_swizzle_b32, `swizzle(BROADCAST,8,3)` and its kin, as the number it stands for.

Syntax and encoding: LLVM's AMDGPUModifierSyntax, "swizzle", and SIDefines.h.
"""

from ..errors import UnsupportedInstruction

_QUAD_PERM, _ROTATE, _FFT = 0x8000, 0xC000, 0xE000


def _bitmask(keep: int, set_bits: int, flip: int) -> int:
    return keep | set_bits << 5 | flip << 10


def swizzle_pattern(text: str) -> int:
    """`swizzle(MODE,...)` as ds_swizzle_b32's 16-bit offset."""
    mode, *arguments = (part.strip() for part in text[len("swizzle(") :].rstrip(")").split(","))
    if mode == "BITMASK_PERM":  # from lane bit 4 down to bit 0: 0, 1, p(reserve), i(nvert)
        mask = arguments[0].strip('"')
        if len(mask) == 5 and set(mask) <= set("01pi"):
            keep, set_bits, flip = (sum(16 >> i for i in range(5) if mask[i] in c) for c in ("pi", "1", "i"))
            return _bitmask(keep, set_bits, flip)
    numbers = [int(a, 0) for a in arguments if a.isdigit() or a.startswith("0x")]
    match mode, numbers:
        case "QUAD_PERM", [a, b, c, d]:
            return _QUAD_PERM | a | b << 2 | c << 4 | d << 6
        case "BROADCAST", [size, lane]:
            return _bitmask(32 - size, lane, 0)
        case "SWAP", [size]:
            return _bitmask(31, 0, size)
        case "REVERSE", [size]:
            return _bitmask(31, 0, size - 1)
        case "ROTATE", [direction, amount]:
            return _ROTATE | direction << 10 | amount << 5
        case "FFT", [mask_bits]:
            return _FFT | mask_bits
    raise UnsupportedInstruction(f"{text}: not a swizzle pattern")
