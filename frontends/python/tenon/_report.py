"""The page of a model: graph, kernels and times, in one HTML file. `Model.report` writes it."""

from __future__ import annotations

import json
import os

from tenon._errors import Error, NotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon._model import Model

_PLACEHOLDER = "__TENON_REPORT_DATA__"


def _page() -> str:
    """The page of the installation, which lies beside this package, or in the build tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (here, os.path.dirname(os.path.dirname(here))):
        path = os.path.join(folder, "share", "tenon", "report", "page.html")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
    raise NotFoundError("share/tenon/report/page.html is missing: install all of Tenon", "P0603")


def _source(model: Model, placement: dict[str, Any]) -> dict[str, str]:
    texts = {}
    for row in placement.get("devices", []):
        try:
            texts[row["device"]] = model.dump(f"{row['device']}/source")
        except Error:  # a device that shows no code; the page says so
            continue
    return texts


def page(model: Model, title: str, args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
    """The whole page. With inputs, or for a model that takes none, it is run for its times."""
    from tenon import __version__

    explained = model.explain().data
    counts = model.info
    run: dict[str, Any] = {
        "label": title,
        "model": title,
        "device": ",".join(row["device"] for row in explained.get("devices", [])),
        "options": "",
        "placement": explained,
        "program": json.loads(model.dump("report")),
        "source": _source(model, explained),
    }
    info = {name: counts[name] for name in ("compile_ms",) if name in counts}
    if args or kwargs or not model.inputs:
        run["events"] = json.loads(model.profile(*args, **kwargs).trace)
        run["runs"] = 1
    if info:
        run["info"] = info
    data = {"schema": 1, "tenon": __version__, "made": "", "runs": [run]}
    # Nothing in a model can then end the script element.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    return _page().replace(_PLACEHOLDER, text, 1).encode()
