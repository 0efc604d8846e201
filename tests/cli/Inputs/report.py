"""What the page of a report holds, as lines for FileCheck. Usage: report.py PAGE"""

import json
import re
import sys

page = open(sys.argv[1], encoding="utf-8").read()
begin = page.index('<script type="application/json" id="data">') + len(
    '<script type="application/json" id="data">'
)
end = page.index("</script>", begin)
data = json.loads(page[begin:end])
assert data["schema"] == 1 and data["tenon"]


def word(value):
    return "yes" if value else "no"


for run in data["runs"]:
    failure = run.get("failure")
    text = f"{failure['stage']}: {failure['code']}" if failure else "none"
    print(f"runs {len(data['runs'])}, device {run['device']}, failure {text}")
    program = run.get("program", {})
    nodes = program.get("graph", {}).get("nodes", [])
    print("nodes", " ".join(n["op"] for n in nodes) or "none")
    shown, memory = set(), False
    for segment in program.get("segments", []):
        for line in filter(None, segment["kernels"].split("\n")):
            part = json.loads(line)
            for step in part["load_steps"] + part["steps"]:
                shown |= {segment["numbers"][n] for n in step["nodes"]}
                memory |= any("bytes" in part["buffers"][b] for b in step["buffers"])
    if shown == {n["node"] for n in nodes}:
        print("every node is in a kernel")
    print(
        f"events {word(run.get('events', {}).get('traceEvents'))}, peaks {word(run.get('peaks'))}, "
        f"source {word(any(run.get('source', {}).values()))}, memory {word(memory)}"
    )
rest = page[:begin] + page[end:]
if not re.search(r"(src|href)=|@import|url\(|https?://(?!www\.w3\.org)", rest):
    print("nothing from outside")
if "<" not in page[begin:end] and page.count("</script>") == 2:
    print("a hostile name stays inside of its script element")
