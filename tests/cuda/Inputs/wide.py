"""Prints a graph with many inputs, joined by what argv[1] says: add or concat."""

import sys

COUNT = 600
names = [f"%x{i}" for i in range(COUNT)]
inputs = ", ".join(f"{name}: f32[2]" for name in names)
if sys.argv[1] == "concat":
    body = [f"  %y = concat({', '.join(names)}) {{dim = 0}} : f32[{2 * COUNT}]"]
    result, size = "%y", 2 * COUNT
else:
    body, result, size = [], names[0], 2
    for i, name in enumerate(names[1:]):
        body.append(f"  %s{i} = add({result}, {name}) : f32[2]")
        result = f"%s{i}"
print(
    "tenon.tir 1",
    f"graph @g({inputs}) -> (y: f32[{size}]) {{",
    *body,
    f"  yield {result}",
    "}",
    sep="\n",
)
