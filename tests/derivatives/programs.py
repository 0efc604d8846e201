"""Random programs: steps over arrays of f64 or c128, some of which have bodies.

A `Program` is data, so that it can be made smaller (`shrink.py`). Calling it emits its nodes into the
active trace. A size is a number, or "n", a symbol. Values stay of moderate size, so that rounding
cannot hide a wrong derivative.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import complex_programs
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import DIMS, Value, active
from tenon.xp._array import Array, value_of

Shape = tuple[Any, ...]  # of int or "n"
N = 3  # what "n" is when a program runs


@dataclasses.dataclass(frozen=True)
class Body:
    """A region: its arguments, steps and what it yields. It may use values from outside."""

    arguments: tuple[int, ...]
    steps: tuple[Step, ...]
    yields: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Step:
    """A key of STEPS, with the numbers of its operands and results."""

    kind: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    given: tuple[Any, ...] = ()
    bodies: tuple[Body, ...] = ()


@dataclasses.dataclass(frozen=True)
class Program:
    inputs: tuple[Shape, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    shapes: Any  # of every value, by number
    is_complex: bool = False  # all values

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Emits the program into the active trace."""
        values = [value_of(a) for a in arrays]
        run = _Run(self.shapes, self.is_complex)
        for value, shape in zip(values, self.inputs):
            for size, named in zip(value.shape, shape):
                if named == "n":
                    run.n = size
        env = dict(enumerate(values))
        run.steps(self.steps, env)
        return tuple(Array(env[i]) for i in self.outputs)


# ---- From steps to nodes ----


def emit(op: str, *operands: Value | None, **given: Any) -> Value:
    return ops.one(op, *operands, **given)


def _positive(x: Value) -> Value:
    """At least 1.25: at 1 the derivative of acosh is infinite."""
    return emit("add", emit("mul", x, x), ops.like(x, 1.25))


class _Run:
    """Emits the steps of one program."""

    def __init__(self, shapes: Any, is_complex: bool):
        self.n: Any = N
        self.shapes = shapes
        self.is_complex = is_complex

    def steps(self, steps: tuple[Step, ...], env: dict[int, Value]) -> None:
        for step in steps:
            made = getattr(self, step.kind.partition(":")[0])(step, env)
            env.update(zip(step.results, made))

    def sizes(self, shape: Shape) -> tuple[Any, ...]:
        return tuple(self.n if s == "n" else s for s in shape)

    def element_wise(self, step: Step, env: dict[int, Value]) -> list[Value]:
        name = step.kind.partition(":")[2]
        x = [env[i] for i in step.operands]
        table = complex_programs.ELEMENT_WISE if self.is_complex else ELEMENT_WISE
        return [table[name][1](*x)]

    def reduce(self, step: Step, env: dict[int, Value]) -> list[Value]:
        name = step.kind.partition(":")[2]
        x = env[step.operands[0]]
        if name == "reduce_prod":
            x = emit("cos", complex_programs.bounded(x) if self.is_complex else x)
        return [emit(name, x, dims=list(step.given))]

    def along(self, step: Step, env: dict[int, Value]) -> list[Value]:
        name = step.kind.partition(":")[2]
        x = env[step.operands[0]]
        if self.is_complex:
            return [complex_programs.along(name, x, step.given[0])]
        if name == "l2_normalize":  # the direction of zeros has no derivative
            return [emit(name, _positive(x), dims=list(step.given))]
        return [emit(name, emit("cos", x) if name == "cumprod" else x, dim=step.given[0])]

    def transpose(self, step: Step, env: dict[int, Value]) -> list[Value]:
        return [emit("transpose", env[step.operands[0]], perm=list(step.given))]

    def reverse(self, step: Step, env: dict[int, Value]) -> list[Value]:
        return [emit("reverse", env[step.operands[0]], dims=list(step.given))]

    def broadcast(self, step: Step, env: dict[int, Value]) -> list[Value]:
        return [self._spread(env[step.operands[0]], self.shapes[step.results[0]], step.given)]

    def _spread(self, x: Value, shape: Shape, dims: tuple[int, ...]) -> Value:
        return ops.broadcast_in(x, self.sizes(shape), dims)

    def reshape(self, step: Step, env: dict[int, Value]) -> list[Value]:
        return [ops.reshape(env[step.operands[0]], self.sizes(self.shapes[step.results[0]]))]

    def slice(self, step: Step, env: dict[int, Value]) -> list[Value]:
        axis, start, limit, stride = step.given
        return [ops.slice_axis(env[step.operands[0]], axis, start, limit, stride)]

    def pad(self, step: Step, env: dict[int, Value]) -> list[Value]:
        x, (axis, low, high) = env[step.operands[0]], step.given
        at = [0] * len(x.shape)
        lows, highs = list(at), list(at)
        lows[axis], highs[axis] = low, high
        return [emit("pad", x, ops.scalar(0.5, x.dtype), low=lows, high=highs)]

    def concat(self, step: Step, env: dict[int, Value]) -> list[Value]:
        return [ops.concat([env[i] for i in step.operands], step.given[0])]

    def take(self, step: Step, env: dict[int, Value]) -> list[Value]:
        from tenon import xp

        axis, *places = step.given
        x, at = Array(env[step.operands[0]]), xp.asarray(places, dtype=xp.int64)
        return [value_of(xp.take(x, at, axis=axis))]

    def dot(self, step: Step, env: dict[int, Value]) -> list[Value]:
        a, b = (env[i] for i in step.operands)
        left, right, batch_left, batch_right = step.given
        made = emit("dot_general", a, b, a_contract=[left], b_contract=[right],
                    a_batch=list(batch_left), b_batch=list(batch_right))  # fmt: skip
        return [emit("mul", made, ops.like(made, 0.5))]

    # ---- With bodies ----

    def _body(self, body: Body, env: dict[int, Value], like: list[Value], extra: Any = None) -> int:
        def inside(*arguments: Value) -> list[Value]:
            own = dict(env)
            own.update(zip(body.arguments, arguments))
            self.steps(body.steps, own)
            yields = [own[i] for i in body.yields]
            return extra(arguments, yields) if extra is not None else yields

        trace = active()
        assert trace is not None
        return trace.region(like, inside)

    def _node(self, op: str, operands: list[Value], attrs: Any, regions: list[int]) -> list[Value]:
        trace = active()
        assert trace is not None
        return list(trace.emit(op, operands, attrs, regions))

    def scan(self, step: Step, env: dict[int, Value]) -> list[Value]:
        carried, is_reverse, length = step.given
        x = [env[i] for i in step.operands]
        like = [Value(v.dtype, v.shape[1:] if i >= carried else v.shape) for i, v in enumerate(x)]
        region = self._body(step.bodies[0], env, like)
        attrs = ops.attrs(carry=carried, reverse=is_reverse)
        if len(x) == carried:
            attrs += (("length", DIMS, self.sizes((length,))),)
        return self._node("scan", x, attrs, [region])

    def repeat(self, step: Step, env: dict[int, Value]) -> list[Value]:
        """A while: as often as a number says, or as long as the first value is large."""
        (how, times) = step.given
        x = [env[i] for i in step.operands]
        counter = ops.scalar(0, dt.int64)
        like = [counter, *x]
        trace = active()
        assert trace is not None

        def test(count: Value, *values: Value) -> list[Value]:
            goes_on = ops.compare(count, ops.scalar(times, dt.int64), 2)
            if how == "count":
                return [goes_on]
            size = _sum(emit("abs", values[0]))
            return [emit("and", goes_on, ops.compare(size, ops.scalar(0.4, dt.float64), 4))]

        def counted(arguments: Any, yields: list[Value]) -> list[Value]:
            return [emit("add", arguments[0], ops.scalar(1, dt.int64)), *yields]

        condition = trace.region(like, test)
        body = dataclasses.replace(step.bodies[0], arguments=(-1, *step.bodies[0].arguments))
        region = self._body(body, env, like, counted)
        return self._node("while", like, (), [condition, region])[1:]

    def switch(self, step: Step, env: dict[int, Value]) -> list[Value]:
        x = [env[i] for i in step.operands]
        decides = _sum(emit("real", x[0]) if self.is_complex else x[0])
        which = ops.compare(decides, ops.scalar(0.1, dt.float64), 4)
        if len(step.bodies) > 2:
            which = ops.convert(which, dt.int32)
        regions = [self._body(b, env, x) for b in step.bodies]
        return self._node("switch", [which, *x], (), regions)


def _sum(x: Value) -> Value:
    return emit("reduce_sum", x, dims=list(range(len(x.shape)))) if x.shape else x


def _either(x: Value, y: Value) -> Value:
    return ops.select(ops.compare(x, y, 4), emit("sin", x), emit("cos", y))


def _unary(op: str) -> tuple[int, Any]:
    return 1, lambda x: emit(op, x)


def _of_positive(op: str) -> tuple[int, Any]:
    return 1, lambda x: emit(op, _positive(x))


def _of_small(op: str) -> tuple[int, Any]:
    return 1, lambda x: emit(op, emit("mul", ops.like(x, 0.9), emit("sin", x)))


# (number of operands, what it emits)
ELEMENT_WISE: dict[str, tuple[int, Any]] = {
    **{op: _unary(op) for op in (
        "sin", "cos", "tanh", "logistic", "erf", "erfc", "atan", "asinh", "softplus", "gelu", "gelu_tanh",
        "silu", "mish", "abs", "relu", "neg", "elu", "selu", "celu", "softsign", "hard_swish", "leaky_relu",
        "hard_sigmoid", "square")},
    **{op: _of_positive(op) for op in (
        "sqrt", "rsqrt", "log", "log1p", "log2", "reciprocal", "cbrt", "lgamma", "acosh")},
    **{op: _of_small(op) for op in (
        "exp", "expm1", "exp2", "asin", "acos", "atanh", "sinh", "cosh", "tan", "erf_inv")},
    "add": (2, lambda x, y: emit("add", x, y)),
    "sub": (2, lambda x, y: emit("sub", x, y)),
    "mul": (2, lambda x, y: emit("mul", emit("tanh", x), y)),
    "div": (2, lambda x, y: emit("div", x, _positive(y))),
    "max": (2, lambda x, y: emit("max", x, y)),
    "min": (2, lambda x, y: emit("min", x, y)),
    "atan2": (2, lambda x, y: emit("atan2", x, _positive(y))),
    "hypot": (2, lambda x, y: emit("hypot", _positive(x), y)),
    "pow": (2, lambda x, y: emit("pow", _positive(x), emit("tanh", y))),
    "rem": (2, lambda x, y: emit("rem", x, _positive(y))),
    "select": (2, _either),
    "fma": (3, lambda x, y, z: emit("fma", emit("sin", x), y, z)),
    "clamp": (1, lambda x: emit("clamp", x, min=-0.75, max=0.75)),
}  # fmt: skip
REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "logsumexp", "var", "mean")
ALONG = ("softmax", "log_softmax", "layer_norm", "rms_norm", "cumsum", "cumprod", "l2_normalize")
