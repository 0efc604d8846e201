"""Prints registers, spills and local memory of each kernel of a package's or dump's code objects, by
llvm-readelf. Usage: registers.py FILE... Fails if a kernel spills or if a file has no code object."""

import re
import subprocess
import sys
import tempfile

MAGIC = b"\x7fELF\x02\x01\x01\x40"  # 64 bits, HSA
FIELDS = (
    "vgpr_count",
    "sgpr_count",
    "vgpr_spill_count",
    "sgpr_spill_count",
    "group_segment_fixed_size",
    "wavefront_size",
)


def kernels(notes):
    """The fields of each kernel in the notes of one code object."""
    for part in re.split(r"\n  - ", notes)[1:]:
        found = {name: int(value) for name, value in re.findall(r"\.(\w+): +(\d+)$", part, re.M)}
        name = re.search(r"\.symbol: +(\S+)\.kd", part)
        if name:
            yield name.group(1), found


def main():
    spilled = False
    for path in sys.argv[1:]:
        data = open(path, "rb").read()
        at = data.find(MAGIC)
        if at < 0:
            sys.exit(f"{path} has no code object")
        while at >= 0:
            with tempfile.NamedTemporaryFile() as file:
                file.write(data[at:])
                file.flush()
                notes = subprocess.run(
                    ["llvm-readelf", "--notes", file.name], capture_output=True, text=True
                ).stdout
            for name, found in kernels(notes):
                print(name, *(f"{field} {found[field]}" for field in FIELDS))
                spilled |= found["vgpr_spill_count"] + found["sgpr_spill_count"] > 0
            at = data.find(MAGIC, at + 1)
    sys.exit("a kernel spills" if spilled else 0)


main()
