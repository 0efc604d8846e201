"""trace.py FILE PLUGIN CALL...: the timeline is JSON, its events are complete, and the plugin's
calls are among them."""

import json
import sys

path, plugin, *wanted = sys.argv[1:]
events = [e for e in json.load(open(path)) if e["ph"] == "X"]
for e in events:
    assert e["ts"] >= 0 and e["dur"] >= 0 and e["tid"] >= 1, e
    assert e["args"]["code"] == 0 or e["name"] in ("map", "import", "query", "symbol"), e
of = [e for e in events if e["args"]["plugin"] == plugin]
names = {e["name"] for e in of} | {e["name"] for e in events if e["cat"] == "tenon.toolchain/1"}
missing = set(wanted) - names
assert not missing, f"missing {missing} in {sorted(names)}"
for e in of:
    if e["name"] in ("alloc", "copy_async"):
        assert e["args"]["bytes"] > 0 and e["args"]["device"] == f"{plugin} 0", e
