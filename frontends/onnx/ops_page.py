"""docs/generated/onnx.md: which ONNX operators are imported, by opset.

    ops_page.py PAGE [--bless]     compares the page with the tables of importers, or writes it

The tables are the rows {"Name", since, function, "domain"} of the sources below; the operators
of the standard and their versions come from the onnx package.
"""

import pathlib
import re
import sys

import onnx

HERE = pathlib.Path(__file__).resolve().parent
ROW = re.compile(r'^\s*\{"(\w+)", (\d+), [\w:<>]+(?:, ([\w:]+|"[\w.]+"))?\},', re.M)
# com.microsoft's QLinear ops, by the operator of the standard that each computes.
QLINEAR = re.compile(r'^\s*\{"(QLinear\w+)", "\w+", \d+', re.M)
# Those without an importer: {"Name", kReason}, in graph/not_imported.h.
REFUSED = re.compile(r'^\s*\{"(\w+)", (k\w+)\},', re.M)
REASON = re.compile(r'constexpr std::string_view (k\w+) =\s+"(.+)";')
CONSTANT = re.compile(r'constexpr std::string_view (k\w+) = "([\w.]+)";')
MICROSOFT = "com.microsoft"


def domain_of(word, constants, path):
    """The domain of a row: none, a text, or the name of a constant."""
    if not word or word.startswith('"'):
        return word.strip('"')
    if word not in constants:
        sys.exit(f"{path}: no constant {word} is found, which names a domain")
    return constants[word]


def imported():
    """{(domain, name): [since]}, from the tables."""
    found = {}
    shared = {
        k: v for path in sorted(HERE.rglob("*.h")) for k, v in CONSTANT.findall(path.read_text())
    }
    for path in sorted(HERE.rglob("*.cpp")):
        text = path.read_text()
        constants = shared | dict(CONSTANT.findall(text))
        for name, since, domain in ROW.findall(text):
            place = domain_of(domain, constants, path)
            found.setdefault((place, name), []).append(int(since))
        for name in QLINEAR.findall(text):
            found.setdefault((MICROSOFT, name), []).append(1)
    return found


def refused(found):
    """{name: reason} of the standard's operators without an importer."""
    text = (HERE / "graph/not_imported.h").read_text()
    reasons = dict(REASON.findall(text))
    rows = {name: reasons[word] for name, word in REFUSED.findall(text)}
    missing = {name for name in standard() if ("", name) not in found}
    if wrong := sorted(missing ^ rows.keys()):
        sys.exit(f"not_imported.h: it has no row, or needs none, for {', '.join(wrong)}")
    return rows


def standard():
    """{name: versions in which the operator changed} of the standard domain."""
    versions = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            versions.setdefault(schema.name, set()).add(schema.since_version)
    return {name: sorted(v) for name, v in versions.items()}


def page():
    found, newest = imported(), onnx.defs.onnx_opset_version()
    lines = [
        "# ONNX operators",
        "",
        "Written by `frontends/onnx/ops_page.py` from the tables of importers and from onnx "
        f"{onnx.__version__}.",
        "",
        f"## The standard, opsets 1 to {newest}",
        "",
        "A version is an opset in which the operator was added or changed; models of later opsets use",
        "the last one. Operators of plugins are reached by name, too: the [guide](../guide/op.md).",
        "",
        "| operator | versions | imported |",
        "|---|---|---|",
    ]
    counts = [0, 0]
    reasons = refused(found)
    for name, versions in sorted(standard().items()):
        since = found.get(("", name))
        if since is not None:
            older = [v for v in versions if v < min(since)]
            word = f"from {min(since)}" if older else "all"
            counts[0] += 1
        else:
            word, counts[1] = f"no: {reasons[name]}", counts[1] + 1
            word = "not yet" if "yet" in word else word
        lines.append(f"| {name} | {', '.join(map(str, versions))} | {word} |")
    table = lines.index("| operator | versions | imported |")
    lines[table:table] = [f"{counts[0]} are imported, {counts[1]} are not.", ""]
    for domain in sorted({d for d, _ in found if d}):
        lines += ["", f"## {domain}", "", "| operator | from version |", "|---|---|"]
        lines += [
            f"| {name} | {min(since)} |"
            for (d, name), since in sorted(found.items())
            if d == domain
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    target, text = pathlib.Path(sys.argv[1]), page()
    if sys.argv[2:] == ["--bless"]:
        target.write_text(text)
    elif not target.exists() or target.read_text() != text:
        sys.exit(f"{target} is not what the tables say: run {sys.argv[0]} {target} --bless")
