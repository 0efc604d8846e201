"""Manifests of plugins that cannot be used here: one requires an unknown library, one a library of
a known package, one is for another processor."""

import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
base = {"schema": 1, "version": "0.1.0", "library": "./absent.so"}
absent = base | {
    "name": "absent",
    "requires": {"libraries": ["libabsent-for-a-test.so.7"]},
    "provides": {"devices": ["absent"]},
}
elsewhere = base | {
    "name": "elsewhere",
    "platform": {"arch": "pdp11"},
    "provides": {"devices": ["elsewhere"]},
}
packaged = base | {
    "name": "packaged",
    "requires": {"libraries": ["libcudart.so.11.0"]},
    "provides": {"devices": ["packaged"]},
}
for manifest in (absent, elsewhere, packaged):
    (folder / f"{manifest['name']}.plugin.json").write_text(json.dumps(manifest))
