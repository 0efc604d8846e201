"""A graph with four matrices of 64 KiB that are turned over when the program is loaded."""

import random

SIDE = 128
numbers = random.Random(3)


def matrix():
    return "".join(numbers.choice(("0000003f", "000080bf", "0000803e")) for _ in range(SIDE * SIDE))


print(f"tenon.tir 1\ngraph @g(%x: f32[1, {SIDE}]) -> (y: f32[1, {SIDE}]) {{")
last = "%x"
for i in range(4):
    print(f'  %w{i} = const f32[{SIDE}, {SIDE}] hex "{matrix()}"')
    print(f"  %y{i} = matmul({last}, %w{i}) : f32[1, {SIDE}]")
    print(f"  %t{i} = tanh(%y{i}) : f32[1, {SIDE}]")
    last = f"%t{i}"
print(f"  yield {last}\n}}")
