#!/usr/bin/env python3
"""Gathers the pages of the reference: pages.py FOLDER makes FOLDER/source for Sphinx."""

import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Parts of the reference, with the folders of docs that they are made of.
PARTS = {
    "guide": "Guide",
    "spec": "Specification",
    "generated": "Operators and tables",
    "adr": "Decisions",
}
MODULES = {
    "tenon": "Models, compiled functions, operators, passes, importers",
    "tenon.xp": "Arrays: the array API standard",
    "tenon.nn": "Functions of neural networks",
    "tenon.torch": "PyTorch's models and `torch.compile`",
    "tenon.onnx_backend": "ONNX's interface",
}
# Classes whose objects functions give.
CLASSES = {
    "tenon": [
        "_op.Op",
        "_compile.Compiled",
        "_pass.Pass",
        "_pass.PassGraph",
        "_pass.Node",
        "_pass.Match",
        "_frontend.Source",
    ]
}
HEADERS = {"abi": "C headers", "cpp": "C++ headers"}


def toctree(entries: list[str], depth: int = 1) -> str:
    return "\n".join(["```{toctree}", f":maxdepth: {depth}", "", *entries, "```", ""])


def copy_docs(source: pathlib.Path) -> None:
    """The Markdown, with links that leave it as plain text."""
    for part in PARTS:
        shutil.copytree(ROOT / "docs" / part, source / part)
    for page in source.rglob("*.md"):
        page.write_text(relinked(page.read_text(), page, source))
    for folder in [p for p in source.rglob("*") if p.is_dir()] + [source / part for part in PARTS]:
        add_contents(folder)


def relinked(text: str, page: pathlib.Path, source: pathlib.Path) -> str:
    def link(match: re.Match[str]) -> str:
        label, target = match.groups()
        if "://" in target or target.startswith("#"):
            return match.group(0)
        path = (page.parent / target.partition("#")[0]).resolve()
        return match.group(0) if path.is_file() and source in path.parents else label

    return re.sub(r"\[([^\]\n]+)\]\(([^)\s]+)\)", link, text)


def add_contents(folder: pathlib.Path) -> None:
    """Lists the pages of a folder after its README."""
    readme = folder / "README.md"
    pages = sorted(p.stem for p in folder.glob("*.md") if p != readme)
    pages += sorted(f"{p.name}/README" for p in folder.iterdir() if p.is_dir())
    text = readme.read_text() if readme.exists() else f"# {folder.name}\n"
    if pages and "{toctree}" not in text:
        readme.write_text(text.rstrip("\n") + "\n\n" + toctree(pages))


def write_python(source: pathlib.Path) -> None:
    folder = source / "python"
    folder.mkdir()
    for name, title in MODULES.items():
        heading = f"{name}: {title}"
        text = f"{heading}\n{'=' * len(heading)}\n\n.. automodule:: {name}\n   :members:\n   :undoc-members:\n   :exclude-members: xp, nn\n"
        for made in CLASSES.get(name, []):
            text += f"\n.. autoclass:: tenon.{made}\n   :members:\n"
        (folder / f"{name}.rst").write_text(text)
    (folder / "index.md").write_text("# Python\n\n" + toctree(list(MODULES), 2))


def summary(text: str) -> str:
    """The first sentence of a header's comment."""
    found = re.match(r"\s*(?:/\*(.*?)\*/|((?://[^\n]*\n)+))", text, re.S)
    words = re.sub(r"^\s*(?://|\*)", "", found[1] or found[2], flags=re.M) if found else ""
    return " ".join(words.split()).partition(". ")[0].strip()


def write_headers(source: pathlib.Path) -> None:
    for folder, title in HEADERS.items():
        (source / folder).mkdir()
        names = []
        for header in sorted((ROOT / "sdk" / "tenon" / folder).glob("*.h*")):
            text = header.read_text()
            names.append(header.name.replace(".", "_"))
            language = "c" if folder == "abi" else "cpp"
            page = f"# tenon/{folder}/{header.name}\n\n{summary(text)}.\n\n````{{code-block}} {language}\n{text}````\n"
            (source / folder / f"{names[-1]}.md").write_text(page)
        (source / folder / "index.md").write_text(f"# {title}\n\n" + toctree(names))


def main() -> None:
    source = pathlib.Path(sys.argv[1]).resolve() / "source"
    source.mkdir(parents=True)
    copy_docs(source)
    write_python(source)
    write_headers(source)
    parts = [f"{part}/README" for part in PARTS]
    entries = [parts[0], "python/index", *(f"{h}/index" for h in HEADERS), *parts[1:]]
    text = "# Tenon\n\nA compiler framework whose core knows no device.\n\n"
    (source / "index.md").write_text(text + toctree(entries, 2))


if __name__ == "__main__":
    main()
