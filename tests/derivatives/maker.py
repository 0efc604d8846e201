"""Chooses random programs (programs.py): deep ones, of small arrays."""

from __future__ import annotations

import math
import random
from typing import Any

import complex_programs
from programs import ALONG, ELEMENT_WISE, REDUCTIONS, Body, N, Program, Shape, Step

RANK_MAX = 3
ELEMENTS_MAX = 64  # with N for "n"
DEPTH_MAX = 2  # of bodies within bodies
MOVES = ("transpose", "reverse", "broadcast", "reshape", "slice", "pad", "concat", "take")


def elements(shape: Shape) -> int:
    return math.prod(N if s == "n" else s for s in shape)


class Maker:
    """Chooses the steps of one program."""

    def __init__(self, seed: int, leave_out: frozenset[str] = frozenset()):
        self.random = random.Random(seed)
        self.shapes: dict[int, Shape] = {}
        self.leave_out = leave_out
        self.is_complex = seed % 4 == 0
        own = complex_programs
        self.element_wise = own.ELEMENT_WISE if self.is_complex else ELEMENT_WISE
        self.reductions = own.REDUCTIONS if self.is_complex else REDUCTIONS
        self.alongs = own.ALONG if self.is_complex else ALONG

    def value(self, shape: Shape) -> int:
        self.shapes[len(self.shapes)] = tuple(shape)
        return len(self.shapes) - 1

    def program(self) -> Program:
        r = self.random
        self.has_symbol = r.random() < 0.5
        inputs = [self.value(self._shape()) for _ in range(r.randint(1, 3))]
        if self.has_symbol and not any("n" in self.shapes[i] for i in inputs):
            inputs.append(self.value(("n",)))
        first = tuple(self.shapes[i] for i in inputs)
        scope = list(inputs)
        steps = self._steps(scope, r.randint(2, 7), 0)
        made = [i for i in scope if i not in inputs]
        outputs = [made[-1], *r.sample(made, min(len(made), r.randint(0, 1)))]
        outputs = list(dict.fromkeys(outputs))
        return Program(first, steps, tuple(outputs), dict(self.shapes), self.is_complex)

    def _shape(self) -> Shape:
        r = self.random
        sizes: list[Any] = [1, 2, 2, 3, 4] + (["n", "n"] if self.has_symbol else [])
        return tuple(r.choice(sizes) for _ in range(r.choice((0, 1, 1, 2, 2, 3))))

    def _steps(self, scope: list[int], count: int, depth: int) -> tuple[Step, ...]:
        out: list[Step] = []
        while len(out) < count:
            step = self._step(scope, depth)
            if step is None:
                continue
            out.append(step)
            scope.extend(step.results)
        return tuple(out)

    def _step(self, scope: list[int], depth: int) -> Step | None:
        r = self.random
        kinds = [
            (8, self._element_wise),
            (3, self._reduce),
            (2, self._along),
            (3, self._move),
            (2, self._dot),
        ]
        if depth < DEPTH_MAX:
            kinds += [(2, self._scan), (1, self._repeat), (2, self._switch)]
        (choose,) = r.choices([k for _, k in kinds], [w for w, _ in kinds])
        # Recent values are likelier, so that programs are deep rather than wide.
        x = scope[max(r.randrange(len(scope)), r.randrange(len(scope)))]
        step: Step | None = choose(x, scope, depth)
        return step

    def _one(self, kind: str, operands: list[int], shape: Shape, *given: Any) -> Step | None:
        if len(shape) > RANK_MAX or elements(shape) > ELEMENTS_MAX:
            return None
        return Step(kind, tuple(operands), (self.value(shape),), tuple(given))

    def _like(self, x: int, scope: list[int]) -> int:
        """A value of the same shape, often another one."""
        alike = [i for i in scope if self.shapes[i] == self.shapes[x]]
        return self.random.choice(alike)

    def _named(self, names: Any) -> str:
        return self.random.choice([n for n in names if n not in self.leave_out])

    def _element_wise(self, x: int, scope: list[int], depth: int) -> Step | None:
        name = self._named(self.element_wise)
        more = [self._like(x, scope) for _ in range(self.element_wise[name][0] - 1)]
        return self._one(f"element_wise:{name}", [x, *more], self.shapes[x])

    def _reduce(self, x: int, scope: list[int], depth: int) -> Step | None:
        shape = self.shapes[x]
        if not shape:
            return None
        dims = sorted(self.random.sample(range(len(shape)), self.random.randint(1, len(shape))))
        rest = [s for i, s in enumerate(shape) if i not in dims]
        return self._one(f"reduce:{self._named(self.reductions)}", [x], tuple(rest), *dims)

    def _along(self, x: int, scope: list[int], depth: int) -> Step | None:
        shape = self.shapes[x]
        if not shape:
            return None
        name = self._named(self.alongs)
        dim = len(shape) - 1 if name.endswith("norm") else self.random.randrange(len(shape))
        return self._one(f"along:{name}", [x], shape, dim)

    def _move(self, x: int, scope: list[int], depth: int) -> Step | None:
        r, shape = self.random, self.shapes[x]
        kind = self._named(MOVES)
        if kind == "broadcast":
            at = r.randint(0, len(shape))
            size = r.choice((2, 3, "n") if self.has_symbol else (2, 3))
            wide = (*shape[:at], size, *shape[at:])
            return self._one(kind, [x], wide, *(d for d in range(len(wide)) if d != at))
        if not shape:
            return None
        if kind == "transpose":
            perm = r.sample(range(len(shape)), len(shape))
            return self._one(kind, [x], tuple(shape[p] for p in perm), *perm)
        axis = r.randrange(len(shape))
        if kind == "reverse":
            return self._one(kind, [x], shape, axis)
        if kind == "reshape":
            return self._reshape(x)
        size = shape[axis]
        if size == "n":
            return None
        return self._resized(kind, x, axis, size, scope)

    def _reshape(self, x: int) -> Step | None:
        shape = self.shapes[x]
        if len(shape) < 2 or "n" in shape[:2]:
            return self._one("reshape", [x], (1, *shape))
        return self._one("reshape", [x], (shape[0] * shape[1], *shape[2:]))

    def _resized(self, kind: str, x: int, axis: int, size: int, scope: list[int]) -> Step | None:
        r, shape = self.random, self.shapes[x]

        def resized(new: int) -> Shape:
            return (*shape[:axis], new, *shape[axis + 1 :])

        if kind == "slice":
            start = r.randrange(size)
            limit = r.randint(start + 1, size)
            stride = r.choice((1, 1, 2))
            return self._one(
                kind, [x], resized(-(-(limit - start) // stride)), axis, start, limit, stride
            )
        if kind == "pad":
            low, high = r.choice(((1, 0), (0, 1), (1, 1), (2, -1))) if size > 1 else (1, 0)
            return self._one(kind, [x], resized(size + low + high), axis, low, high)
        if kind == "concat":
            return self._one(kind, [x, self._like(x, scope)], resized(2 * size), axis)
        places = [r.randrange(size) for _ in range(r.randint(1, 3))]
        return self._one("take", [x], resized(len(places)), axis, *places)

    def _dot(self, x: int, scope: list[int], depth: int) -> Step | None:
        r, left = self.random, self.shapes[x]
        others = [i for i in scope if set(self.shapes[i]) & set(left)]
        if not left or not others:
            return None
        y = r.choice(others)
        right = self.shapes[y]
        pairs = [(a, b) for a in range(len(left)) for b in range(len(right)) if left[a] == right[b]]
        a, b = r.choice(pairs)
        batch = [p for p in pairs if p[0] != a and p[1] != b]
        (ba, bb) = r.choice(batch) if batch and r.random() < 0.5 else (None, None)
        batches = [left[ba]] if ba is not None else []
        free_left = [s for i, s in enumerate(left) if i not in (a, ba)]
        free_right = [s for i, s in enumerate(right) if i not in (b, bb)]
        shape = (*batches, *free_left, *free_right)
        places = ((ba,), (bb,)) if ba is not None else ((), ())
        return self._one("dot", [x, y], shape, a, b, *places)

    # ---- With bodies ----

    def _inside(self, arguments: list[int], scope: list[int], depth: int) -> tuple[list[int], Any]:
        # Few values from outside, so that most of them are used.
        inner = [*self.random.sample(scope, min(len(scope), 2)), *arguments]
        steps = self._steps(inner, self.random.randint(1, 3), depth + 1)
        return inner, steps

    def _last_like(self, shape: Shape, inner: list[int]) -> int:
        return [i for i in inner if self.shapes[i] == shape][-1]

    def _damped(self, i: int, steps: Any) -> tuple[int, Any]:
        """A carried value stays small over many iterations."""
        made = self.value(self.shapes[i])
        return made, (*steps, Step("element_wise:sin", (i,), (made,)))

    def _scan(self, x: int, scope: list[int], depth: int) -> Step | None:
        r = self.random
        cut = [i for i in scope if self.shapes[i] and self.shapes[i][0] != 1]
        length: Any = r.choice((2, 3))
        slices = []
        if cut and r.random() < 0.8:
            slices = [r.choice(cut)]
            length = self.shapes[slices[0]][0]
            same = [i for i in cut if self.shapes[i][0] == length]
            slices += [r.choice(same)] if r.random() < 0.3 else []
        carried = [x] if r.random() < 0.85 or not slices else []
        arguments = [self.value(self.shapes[i]) for i in carried]
        arguments += [self.value(self.shapes[i][1:]) for i in slices]
        inner, steps = self._inside(arguments, scope, depth)
        yields = []
        for i in carried:
            made, steps = self._damped(self._last_like(self.shapes[i], inner), steps)
            yields.append(made)
        if not carried or r.random() < 0.6:
            own = [i for i in inner if i not in scope]
            collected = r.choice(own)
            if elements(self.shapes[collected]) <= 8 and len(self.shapes[collected]) < RANK_MAX:
                yields.append(collected)
        if not yields:
            return None
        results = [self.value(self.shapes[i]) for i in carried]
        results += [self.value((length, *self.shapes[i])) for i in yields[len(carried) :]]
        body = Body(tuple(arguments), steps, tuple(yields))
        given = (len(carried), r.randint(0, 1), length)
        return Step("scan", (*carried, *slices), tuple(results), given, (body,))

    def _repeat(self, x: int, scope: list[int], depth: int) -> Step | None:
        r = self.random
        operands = [x, r.choice(scope)][: r.randint(1, 2)]
        arguments = [self.value(self.shapes[i]) for i in operands]
        inner, steps = self._inside(arguments, scope, depth)
        yields = []
        for i in operands:
            made, steps = self._damped(self._last_like(self.shapes[i], inner), steps)
            yields.append(made)
        results = [self.value(self.shapes[i]) for i in operands]
        body = Body(tuple(arguments), steps, tuple(yields))
        given = (r.choice(("count", "value")), r.randint(0, 4))
        return Step("repeat", tuple(operands), tuple(results), given, (body,))

    def _switch(self, x: int, scope: list[int], depth: int) -> Step | None:
        r = self.random
        operands = [x, r.choice(scope)][: r.randint(1, 2)]
        bodies = []
        for _ in range(r.choice((2, 2, 3))):
            arguments = [self.value(self.shapes[i]) for i in operands]
            inner, steps = self._inside(arguments, scope, depth)
            yields = tuple(self._last_like(self.shapes[i], inner) for i in operands)
            bodies.append(Body(tuple(arguments), steps, yields))
        results = tuple(self.value(self.shapes[i]) for i in operands)
        return Step("switch", tuple(operands), results, (), tuple(bodies))
