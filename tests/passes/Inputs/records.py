"""Runs each registered pass over the `before` of its record and compares with `after`."""

import json
import subprocess
import sys

passes = json.loads(
    subprocess.run(["tenon", "opt", "--list", "--json"], check=True, stdout=subprocess.PIPE).stdout
)
wrong = 0
for record in passes["passes"]:
    result = subprocess.run(
        ["tenon", "opt", "-", "--verify-each", "--passes", record["name"]],
        input=record["before"].encode(),
        capture_output=True,
    )
    found = result.stdout.decode()
    if not record["before"] or result.returncode != 0 or found != record["after"]:
        wrong += 1
        print(
            f"{record['name']}: exit {result.returncode}\n{result.stderr.decode()}"
            f"--- expected\n{record['after']}--- found\n{found}"
        )
print(f"{len(passes['passes'])} passes, {wrong} wrong")
sys.exit(1 if wrong or len(passes["passes"]) < 5 else 0)
