"""The reference: its pages are gathered from what is there, and Sphinx makes them where installed."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import tenon
from conftest import ROOT


def gathered(folder: pathlib.Path) -> pathlib.Path:
    script = ROOT / "docs" / "reference" / "pages.py"
    subprocess.run([sys.executable, str(script), str(folder)], check=True, timeout=60)
    return folder / "source"


def test_pages(tmp_path: pathlib.Path) -> None:
    source = gathered(tmp_path)
    for header in (ROOT / "sdk" / "tenon" / "abi").glob("*.h"):
        page = source / "abi" / f"{header.stem}_h.md"
        assert header.read_text() in page.read_text()
    for folder in ("guide", "generated/ops"):
        for page in (ROOT / "docs" / folder).glob("*.md"):
            assert (source / folder / page.name).is_file()
    assert "tenon.xp" in (source / "python" / "tenon.xp.rst").read_text()
    # No link leaves the pages.
    assert not [
        p
        for p in source.rglob("*.md")
        if "](../../" in p.read_text() and p.parent == source / "guide"
    ]


def test_public_names_have_docstrings() -> None:
    for module in (tenon, tenon.builder, tenon.builder.ops, tenon.nn, tenon.xp):
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            if callable(value) and not name.startswith("_"):
                assert value.__doc__, f"{module.__name__}.{name} has no docstring"


@pytest.mark.skipif(
    os.environ.get("CHECK_FULL", "0") in ("", "0"), reason="takes a minute: CHECK_FULL=1"
)
def test_site(tmp_path: pathlib.Path) -> None:
    sphinx = os.environ.get("TENON_SPHINX") or shutil.which("sphinx-build")
    if sphinx is None:
        pytest.skip("Sphinx is not installed (scripts/reference makes an environment with it)")
    package = str(pathlib.Path(tenon.__file__).parent.parent)
    subprocess.run(
        [str(ROOT / "scripts" / "reference"), str(tmp_path / "html")], check=True, timeout=900,
        env={**os.environ, "TENON_SPHINX": sphinx, "TENON_PYTHON_PACKAGE": package},
    )  # fmt: skip
    html = tmp_path / "html"
    index = (html / "searchindex.js").read_text()
    for word in ("softmax", "opcheck", "tenon_tensor_t", "plugin_regist"):
        assert word in index
    assert "Registers an importer" in (html / "python" / "tenon.html").read_text()
    assert "https://fonts" not in (html / "index.html").read_text()
