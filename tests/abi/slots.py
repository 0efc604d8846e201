#!/usr/bin/env python3
"""Every slot of every table of the ABI is used, and users.txt names the users of every table.

    slots.py        compares; exits with 1 and a list of what is wrong

The host calls each slot of a plugin's table: core has a call with the table's self outside its
tests. Calls by layers and by the conformance runner do not count, because vendors write slots for
the host. CALLERS has the tables that others call. Callers outside the host call each slot of a
host's table. users.txt has a line for each table with at least two places of this tree that exist;
they are unlike: not in one folder two levels deep, as plugins/cpu and plugins/cpu/control are. The
comment above each table says whether the interface is stable.

Every record either begins with size_bytes, or stands in an array whose owner has its size, or is a
value: VALUES has them, with the reason why it never grows.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ABI = ROOT / "sdk" / "tenon" / "abi"
CODE = {".c", ".cpp", ".h", ".hpp"}
HELPERS = {"copy.h", "record.h", "simple_device.h", "simple_kernels.h"}

# What never grows, and why.
VALUES = {
    "tenon_str_t": "bytes and their number",
    "tenon_sink_t": "one function; another kind of sink is another record",
    "tenon_key_value_t": "two texts",
    "tenon_type_t": "grows through `layout`",
    "tenon_attr_t": "grows through kinds, whose data a pointer brings",
    "tenon_use_t": "a place in a graph",
    "tenon_builder_t": "a place in a graph",
    "tenon_fence_point_t": "a fence and a number; passed by value",
    "tenon_symbols_t": "numbers and how many; passed by value",
    "tenon_size_t": "a name and a number",
    "tenon_note_t": "the head of a note; other facts are other lines of its text",
}
# Records without size_bytes, and the field that has their size.
WALKED = {
    "tenon_operand_def_t": "operand_bytes",
    "tenon_result_def_t": "result_bytes",
    "tenon_attr_def_t": "attr_bytes",
    "tenon_constraint_def_t": "constraint_bytes",
    "tenon_foreign_name_t": "foreign_name_bytes",
    "tenon_partial_t": "partial_bytes",
    "tenon_pass_option_def_t": "option_bytes",
    "tenon_interface_t": "interface_bytes",
    "tenon_importer_t": "importer_bytes",
    "tenon_kernel_operand_t": "operand_bytes",
    "tenon_span_t": "span_bytes",
    "tenon_output_need_t": "need_bytes",
}
# Tables of plugins that the host only hands on, and who calls them.
CALLERS = {
    "tenon.toolchain/1": ("plugins", "frontends", "sdk/tools"),
    "tenon.collective/1": ("plugins/mesh", "sdk/tools/tenon"),
}

USERS = pathlib.Path(__file__).with_name("users.txt")
STABILITY = re.compile(r"^(?: \*|/\*) Stability: (?:un)?stable\.", re.M)
STRUCT = re.compile(r"^(?:typedef )?struct (tenon_\w+_t) \{\n(.*?)^\}", re.M | re.S)
SLOT = re.compile(r"\(\*(\w+)\)\(|[()]")
INTERFACE = re.compile(r'^#define TENON_(\w+)_ID "(tenon\.[\w.]+/\d+)"', re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
PLACE = re.compile(r"\b(?:plugins|passes|frontends|sdk|samples|tests|core|bench)(?:/[\w.+-]+)*")
ENDINGS = ("_api_t", "_t", "s_t", "es_t")


def sources(*rooms):
    for room in rooms:
        for path in (ROOT / room).rglob("*"):
            if path.suffix in CODE and "abi" not in path.relative_to(ROOT).parts[:3][2:]:
                yield path


def text_of(*rooms, tests=False):
    return "\n".join(
        path.read_text(errors="replace")
        for path in sources(*rooms)
        if tests or not path.stem.endswith("_test")
    )


def slots_of(body):
    """The functions of a record, without those that are parameters of others."""
    depth = 0
    for m in SLOT.finditer(COMMENT.sub("", body)):
        if m.group(1) and depth == 0:
            yield m.group(1)
        depth += 1 if m.group() != ")" else -1


def is_called(slot, text):
    """`table->slot(table->self, ...)`; other things have the names of slots, too."""
    return re.search(rf"(?:->|\.){slot}\(\s*[\w.>()\-]*self\b", text) is not None


def tables():
    for header in sorted(ABI.glob("*.h")):
        text = header.read_text()
        structs = {m.group(1): (m.start(), m.group(2)) for m in STRUCT.finditer(text)}
        for m in INTERFACE.finditer(text):
            names = [f"tenon_{m.group(1).lower()}{ending}" for ending in ENDINGS]
            name = next((n for n in names if n in structs), None)
            yield header, text, m, name, structs.get(name, (0, ""))[1]


def check_stability(header, problems):
    text = header.read_text()
    interfaces, lines = len(INTERFACE.findall(text)), len(STABILITY.findall(text))
    if interfaces != lines:
        problems.append(
            f"{header.name}: {interfaces} interfaces and {lines} lines 'Stability: stable.' or 'unstable.'"
        )


def check_users(header, match, said, problems):
    if said is None:
        problems.append(f"users.txt: no line for {match.group(2)} of {header.name}")
        return
    places = {p.rstrip(".") for p in PLACE.findall(said)}
    missing = sorted(p for p in places if not (ROOT / p).exists())
    if missing:
        problems.append(
            f"{header.name}: users of {match.group(2)} that do not exist: {', '.join(missing)}"
        )
    unlike = {
        "/".join(p.split("/")[: 3 if p.startswith(("sdk/tools", "sdk/tenon")) else 2])
        for p in places
    }
    if len(unlike) < 2:
        problems.append(
            f"{header.name}: {match.group(2)} names {len(unlike)} user, and needs two that are unlike"
        )


def check_records(header, problems):
    for m in STRUCT.finditer(header.read_text()):
        name, body = m.group(1), COMMENT.sub("", m.group(2)).strip()
        if body.startswith("uint32_t size_bytes;") or name in VALUES or name in WALKED:
            continue
        problems.append(
            f"{header.name}: {name} does not begin with size_bytes, is not a value, and no field has its size"
        )


def check_walked(problems):
    text = "\n".join(h.read_text() for h in ABI.glob("*.h"))
    for record, field in WALKED.items():
        if f"uint32_t {field}" not in text and f", {field}" not in text:
            problems.append(f"{record} is walked by {field}, which no record has")


def main():
    problems = []
    host, others = (
        text_of("core"),
        text_of("sdk", "plugins", "passes", "frontends", "samples", "tests", "bench", tests=True),
    )
    users = dict(
        line.split(": ", 1) for line in USERS.read_text().splitlines() if not line.startswith("#")
    )
    count = 0
    for header, _, match, name, body in tables():
        if name is None:
            problems.append(f"{header.name}: no record is the table of {match.group(2)}")
            continue
        check_users(header, match, users.pop(match.group(2), None), problems)
        for slot in slots_of(body):
            count += 1
            id = match.group(2)
            if id.startswith("tenon.host"):
                callers, who = others, "but by the host"
            elif id in CALLERS:
                callers, who = text_of(*CALLERS[id]), "by " + ", ".join(CALLERS[id])
            else:
                callers, who = host, "by the host"
            if not is_called(slot, callers):
                problems.append(f"{header.name}: {name}::{slot} is never called {who}")
    problems += [f"users.txt: there is no interface {left}" for left in users]
    for header in sorted(ABI.glob("*.h")):
        check_stability(header, problems)
        if header.name not in HELPERS:
            check_records(header, problems)
    check_walked(problems)
    print("\n".join(problems) or f"{count} slots")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
