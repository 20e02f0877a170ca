"""Arguments of a HIP entry, packed as a struct of its source: that struct is the one list of their names."""

import array
import re
import struct

CODES = {"int": "i", "float": "f"}  # and pointers, by struct's letters


def argument_packer(source, name):
    """pack(**fields) -> (address, bytes, owner of both) of `struct name` as the HIP `source` declares it: a field a
    line, int, float or pointer. An entry takes address and bytes, and compares the latter with its sizeof."""
    body = re.search(rf"^struct {name} \{{\n(.*?)^\}};", source, re.MULTILINE | re.DOTALL)
    if body is None:
        raise ValueError(f"the HIP source declares no struct {name}")
    fields = re.findall(r"^    ([\w ]+?\*?) (\w+);", body[1], re.MULTILINE)
    names = [field for _, field in fields]
    layout = struct.Struct("@" + "".join("P" if kind.endswith("*") else CODES[kind] for kind, _ in fields) + "0P")

    def pack(**values):
        if values.keys() != set(names):
            raise TypeError(f"{name} has other fields: {sorted(values.keys() ^ set(names))}")
        owner = array.array("b", layout.pack(*(values[field] for field in names)))
        return (*owner.buffer_info(), owner)

    return pack
