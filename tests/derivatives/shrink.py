"""Makes a program that fails smaller, as long as it still fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from programs import Body, Program, Step


def shrink(program: Program, fails: Callable[[Program], bool], tries: int = 200) -> Program:
    """A program that fails, too, and none of whose parts can be left out."""
    if fails(_used(program)):
        program = _used(program)
    while True:
        for smaller in _smaller(program):
            tries -= 1
            if tries < 0:
                return program
            if fails(smaller):
                program = smaller
                break
        else:
            return program


def _smaller(program: Program) -> Iterator[Program]:
    for i in range(len(program.outputs)):
        if len(program.outputs) > 1:
            yield _used(
                dataclasses.replace(program, outputs=program.outputs[:i] + program.outputs[i + 1 :])
            )
    # An earlier value as the result.
    for step in program.steps:
        for r in step.results:
            if (r,) != program.outputs:
                yield _used(dataclasses.replace(program, outputs=(r,)))
    inputs = tuple(range(len(program.inputs)))
    for steps in _without(program.steps, program.shapes, inputs):
        outputs = _fitted(program.outputs, steps, program.shapes, inputs)
        if outputs is not None:
            yield _used(dataclasses.replace(program, steps=steps, outputs=outputs))


def _without(
    steps: tuple[Step, ...], shapes: Any, scope: tuple[int, ...]
) -> Iterator[tuple[Step, ...]]:
    """The steps with one of them left out, here or in a body."""
    for at, step in enumerate(steps):
        if len(step.results) == 1:
            (result,) = step.results
            for other in (*step.operands, *scope):
                if shapes[other] == shapes[result]:
                    yield steps[:at] + tuple(_renamed(s, {result: other}) for s in steps[at + 1 :])
                    break
        for b, body in enumerate(step.bodies):
            inner = (*body.arguments, *scope)
            for smaller in _without(body.steps, shapes, inner):
                bodies = (
                    *step.bodies[:b],
                    dataclasses.replace(body, steps=smaller),
                    *step.bodies[b + 1 :],
                )
                fitted = _with_yields(dataclasses.replace(step, bodies=bodies), shapes, inner)
                if fitted is not None:
                    yield (*steps[:at], fitted, *steps[at + 1 :])
        scope = (*scope, *step.results)


def _with_yields(step: Step, shapes: Any, scope: tuple[int, ...]) -> Step | None:
    bodies = []
    for body in step.bodies:
        yields = _fitted(body.yields, body.steps, shapes, (*scope, *body.arguments))
        if yields is None:
            return None
        bodies.append(dataclasses.replace(body, yields=yields))
    return dataclasses.replace(step, bodies=tuple(bodies))


def _fitted(
    values: tuple[int, ...], steps: tuple[Step, ...], shapes: Any, scope: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Results that are gone become other values of their shapes."""
    known = {*scope, *(r for s in steps for r in s.results)}
    out = []
    for v in values:
        fitting = [k for k in known if shapes[k] == shapes[v]]
        if v not in known and not fitting:
            return None
        out.append(v if v in known else max(fitting))
    return tuple(out)


def _renamed(step: Step, names: dict[int, int]) -> Step:
    def of(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(names.get(v, v) for v in values)

    bodies = tuple(
        Body(b.arguments, tuple(_renamed(s, names) for s in b.steps), of(b.yields))
        for b in step.bodies
    )
    return dataclasses.replace(step, operands=of(step.operands), bodies=bodies)


def _reads(step: Step) -> set[int]:
    out = set(step.operands)
    for body in step.bodies:
        inner = set(body.yields)
        for s in body.steps:
            inner |= _reads(s)
        out |= inner - set(body.arguments) - {r for s in body.steps for r in s.results}
    return out


def _used(program: Program) -> Program:
    """Without steps that no output needs."""
    return dataclasses.replace(program, steps=_needed(program.steps, set(program.outputs)))


def _needed(steps: tuple[Step, ...], needed: set[int]) -> tuple[Step, ...]:
    kept = []
    for step in reversed(steps):
        if needed.isdisjoint(step.results):
            continue
        bodies = tuple(
            dataclasses.replace(b, steps=_needed(b.steps, set(b.yields))) for b in step.bodies
        )
        step = dataclasses.replace(step, bodies=bodies)
        needed |= _reads(step)
        kept.append(step)
    return tuple(reversed(kept))
