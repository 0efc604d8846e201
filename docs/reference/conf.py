"""Settings of Sphinx for the reference (scripts/reference)."""

import re

import tenon

project = "Tenon"
author = "Tenon's authors"
extensions = ["sphinx.ext.autodoc", "myst_parser"]
html_theme = "furo"
html_title = "Tenon"
html_copy_source = False
html_show_sphinx = False
# No font, script or picture comes from elsewhere.
html_static_path: list[str] = []

# Not needed where the reference is made; its own classes are not shown.
autodoc_mock_imports = ["sympy", "torch"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
add_module_names = False
python_use_unqualified_type_names = True

myst_heading_anchors = 3
# The texts are Markdown for GitHub and for a terminal: their code names languages that Sphinx does
# not colour, and their links leave the folders that are here.
suppress_warnings = [
    "misc.highlighting_failure",
    "myst.xref_missing",
    "myst.header",
    "toc.not_included",
]


# Names that the package imports when they are used first are members then.
for _name in tenon.__all__:
    getattr(tenon, _name)


def _escaped(line: str) -> str:
    """Text in which only names in backticks are marked."""
    parts = line.split("`")
    parts[::2] = [re.sub(r"([\\*|])|(?<=\w)(_)(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    return "``".join(parts)


def _as_blocks(app, what, name, obj, options, lines):  # type: ignore[no-untyped-def]
    """Docstrings are plain text: what is indented is code, and names in backticks are literal."""
    out, in_code = [], False
    for line in lines:
        code = line.startswith("    ")
        if code and not in_code and (not out or not out[-1].strip()):
            out += ["::", ""]
        if code != in_code and not code and line.strip():
            out.append("")
        in_code = code or (in_code and not line.strip())
        out.append(line if code else _escaped(line))
    lines[:] = out


def setup(app):  # type: ignore[no-untyped-def]
    app.connect("autodoc-process-docstring", _as_blocks)
