"""A graph of 200 subtractions. The one numbered 137 subtracts 7."""

print("tenon.tir 1\ngraph @many(%x: f32[4]) -> (y: f32[4]) {")
print("  %c = const f32[4] splat 0.25\n  %d = const f32[4] splat 7")
for i in range(1, 201):
    operand = "%x" if i == 1 else f"%v{i - 1}"
    print(f"  %v{i} = sub({operand}, {'%d' if i == 137 else '%c'}) : f32[4]")
print("  yield %v200\n}")
