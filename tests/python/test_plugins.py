"""Where wheels put plugins: found without being imported."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import tenon

PACKAGE = pathlib.Path(tenon.__file__).parent.parent
MANIFEST = {"schema": 1, "name": "entry_point_test", "version": "1.0.0", "library": "./not_there.so",
            "abi": {"major": 0, "min_minor": 0, "interfaces": []}, "provides": {"ops": ["acme.none"]}}  # fmt: skip


def installed(site: pathlib.Path, entries: str | bytes) -> None:
    """A distribution whose package has a manifest in a folder, and must not be imported."""
    folder = site / "acme_plugin" / "lib"
    folder.mkdir(parents=True)
    (site / "acme_plugin" / "__init__.py").write_text("raise RuntimeError('it was imported')\n")
    (folder / "entry_point_test.plugin.json").write_text(json.dumps(MANIFEST))
    info = site / "acme-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_bytes(
        entries if isinstance(entries, bytes) else entries.encode()
    )


def asked(site: pathlib.Path, script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": f"{PACKAGE}{os.pathsep}{site}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_entry_points_name_folders(tmp_path: pathlib.Path) -> None:
    installed(
        tmp_path,
        "[console_scripts]\nacme = acme:main\n[tenon.plugins]\nacme = acme_plugin.lib\nother = not_installed\n",
    )
    script = "import tenon; print([p['name'] for p in tenon.plugins()], sorted(__import__('sys').modules))"
    out = asked(tmp_path, script)
    assert "'entry_point_test'" in out and "'acme_plugin'" not in out


def test_broken_entry_points_are_left_out(tmp_path: pathlib.Path) -> None:
    for i, entries in enumerate(("[tenon.plugins\nx = acme_plugin.lib", b"\xff[tenon.plugins]", "[tenon.plugins]\nx = ..\n",
                                 "[tenon.plugins]\nx = a b\ny =\n", "tenon.plugins")):  # fmt: skip
        site = tmp_path / str(i)
        site.mkdir()
        installed(site, entries)
        out = asked(site, "from tenon import _host; print(_host.plugin_folders())")
        assert "acme" not in out
