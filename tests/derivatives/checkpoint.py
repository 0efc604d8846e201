"""checkpoint.py TENON: memory of a gradient of equal blocks in a scan, each computed again.

The device keeps one block's input for each block, by its own counter.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS, WIDTH = 1024, 256
TYPE = f"f32[{ROWS}, {WIDTH}]"
INPUT_BYTES = ROWS * WIDTH * 4

INSIDE = f"""
    %c = tanh(%b) : {TYPE}
    %d = exp(%c) : {TYPE}
    %e = softmax(%d) {{dim = 1}} : {TYPE}
    %f = sub(%d, %e) : {TYPE}
    %g = sin(%f) : {TYPE}
    %h = mul(%g, %c) : {TYPE}
    yield %h
"""


def program(blocks: int) -> str:
    return f"""tenon.tir 1
graph @blocks(%x: {TYPE}) -> (y: f32[]) {{
  %0 = scan(%x) {{carry = 1, length = [{blocks}]}} : {TYPE} regions {{ (%a: {TYPE}) {{
    %1 = call(%a) {{kind = "remat"}} : {TYPE} regions {{ (%b: {TYPE}) {{{INSIDE}    }} }}
    yield %1
  }} }}
  %2 = reduce_sum(%0) {{dims = [0, 1]}} : f32[]
  yield %2
}}
"""


def arena_bytes(tenon: str, folder: Path, blocks: int) -> int:
    source, gradient = folder / f"{blocks}.tir", folder / f"{blocks}_gradient.tir"
    source.write_text(program(blocks))
    subprocess.run([tenon, "opt", source, "--passes", "grad,dce", "-o", gradient], check=True)
    run = [tenon, "bench", gradient, "--device", "cpu", "--no-fallback", "--runs", "1", "--json"]
    printed = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    return json.loads(printed)["arena_bytes"]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        few, many = (arena_bytes(sys.argv[1], Path(folder), n) for n in (24, 48))
    inputs = (many - few) / 24 / INPUT_BYTES
    print(f"{few} bytes of 24 blocks, {many} of 48: {inputs:.3f} inputs for each")
    return 0 if 0.5 < inputs <= 1.01 else 1


if __name__ == "__main__":
    sys.exit(main())
