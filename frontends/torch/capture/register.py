"""`tenon.torch.register`: operators of `tenon.op` as operators of torch."""

from __future__ import annotations

from tenon import Op, UsageError, builder, xp
from tenon import compile as tenon_compile
from tenon import op as tenon_op
from tenon.builder import F64, I64, I64S, STRING, Dim, GraphTrace, tracing

import torch
from torch import fx

from ..graph.node import DTYPES, Node, dtype_of
from ..graph.sizes import expression
from ..graph.table import lowering
from ..lowerings import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SCHEMA = {F64: "float", I64: "int", STRING: "str", I64S: "int[]"}
_libraries: dict[str, Any] = {}
_registered: dict[str, _Registered] = {}  # by the names of Tenon's ops
_names: set[str] = set()  # of these, and of torch's overloads


class _Registered:
    """An operator of torch, and what it means now: a cell of a notebook may run again."""

    def __init__(self, op: Op, results: int, gradient: Callable[..., Any] | None):
        self.schema = f"({_parameters(op)}) -> {_results(results)}"
        self.results = results
        self.operator: Any = None
        self.own: _Registered | None = None  # the operator of the op's own derivative
        self.programs: dict[Any, Any] = {}  # of eager mode, by attributes
        self.given = gradient
        self.op = op
        self.gradient = gradient

    def signature(self) -> str:
        count = "" if self.results == 1 else f", {self.results} results"
        return f"{self.op.signature}{count}"

    def renew(self, op: Op, gradient: Callable[..., Any] | None) -> None:
        """Takes another definition. What torch has compiled has the earlier one, and is compiled again."""
        changed = op is not self.op or not _same_function(gradient, self.given)
        self.op, self.given = op, gradient
        self.gradient = gradient
        if changed:
            self.programs.clear()
            torch._dynamo.reset()


def _same_function(a: Any, b: Any) -> bool:
    """Whether a function is another's text once more. One that closes over something may differ."""
    code, other = getattr(a, "__code__", a), getattr(b, "__code__", b)
    return code == other and not getattr(a, "__closure__", None)


def register(op: Op, *, results: int = 1, gradient: Callable[..., Any] | None = None) -> Any:
    """Makes an operator of `tenon.op` one of torch, and returns it: `torch.ops.demo.scale_shift`.

        scale_shift = tenon.torch.register(scale_shift, gradient=lambda g, x, a, b: a * g)

    It works in eager mode, with fake tensors, in `torch.export`, and in compiled networks, where it
    is one node of ours. `results` is the number of its results. `gradient` is a function of torch's
    tensors: it gets the gradient of each result, then the arguments of the op, and returns that of
    each array (one, or a tuple; None for none). Without it, the op's own derivative (`@op.gradient`,
    given before this call) is an operator of torch, too, called "NAME_backward", where None is zeros;
    without both, a backward pass raises NotImplementedError. Registered again, as when a cell of a
    notebook runs twice, it is the same operator with the definition of now. T0642 if the signature is
    another one, which an operator of torch keeps; if the name is taken; and for what torch's schemas
    cannot say.
    """
    if not isinstance(op, Op):
        raise UsageError(
            f"register takes an operator of tenon.op, not {type(op).__name__}: decorate the function "
            'with @tenon.op("NAMESPACE.NAME") first',
            "T0642",
        )
    namespace, _, name = op.name.partition(".")
    if "." in name or not name.isidentifier() or not namespace.isidentifier():
        raise UsageError(f"{op.name}: torch's names have one dot and letters around it", "T0642")
    overload = f"{namespace}.{name}.default"
    known = _registered.get(op.name)
    made = _Registered(op, results, gradient)
    if known is not None and made.schema != known.schema:
        raise UsageError(
            f"{op.name} is an operator of torch already, as {known.signature()}; it cannot become "
            f"{made.signature()}: give this one another name, or start Python again",
            "T0642",
        )
    if known is None and find(overload) is not None:
        raise UsageError(f"{op.name} is an operator of torch already", "T0642")
    own = gradient is None and op.derivative is not None
    if own and (known is None or known.own is None):
        _refuse_taken(op)
    if known is None:
        _define(made, namespace, name)
        _registered[op.name] = made
        lowering(overload)(_lowering(made))
        _names.update((op.name, overload))
        made.operator = getattr(getattr(torch.ops, namespace), name)
    else:
        known.renew(op, gradient)
        made = known
    if own:
        made.gradient = register(_backward(op, results), results=len(op.operands))
        made.own = _registered[f"{op.name}_backward"]
    return made.operator


def _refuse_taken(op: Op) -> None:
    if Op.registered(f"{op.name}_backward") is not None:
        raise UsageError(
            f"{op.name}_backward, the name of its derivative, is another op's", "T0642"
        )


def _define(made: _Registered, namespace: str, name: str) -> None:
    library = _libraries.get(namespace) or _libraries.setdefault(namespace, _library(namespace))
    try:
        library.define(f"{name}{made.schema}")
    except RuntimeError as error:
        raise UsageError(f"{made.op.name}: {str(error).splitlines()[0]}", "T0642") from None
    library.impl(name, _eager(made), "CPU")
    qualified = f"{namespace}::{name}"
    torch.library.register_fake(qualified, _fake(made), lib=library)
    _add_gradient(made, qualified, library)


def has_registered(gm: fx.GraphModule) -> bool:
    """Whether a graph, or one inside it, has an operator from `register`."""
    graphs = [m.graph for m in gm.modules() if isinstance(m, fx.GraphModule)]
    return any(str(n.target) in _names for graph in graphs for n in graph.nodes)


def _library(namespace: str) -> Any:
    made: Any = torch.library.Library
    return made(namespace, "FRAGMENT")


def _parameters(op: Op) -> str:
    import inspect

    parts = [f"Tensor {n}" for n in op.operands]
    for name, (kind, default) in op.attrs.items():
        if default is inspect.Parameter.empty:
            parts.append(f"{_SCHEMA[kind]} {name}")
        else:
            parts.append(f"{_SCHEMA[kind]} {name}={list(default) if kind == I64S else default!r}")
    return ", ".join(parts)


def _results(count: int) -> str:
    return "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"


def _split(
    op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arrays, and attributes by name."""
    import inspect

    bound = inspect.signature(op.function).bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    return [given[n] for n in op.operands], {n: given[n] for n in op.attrs}


def _eager(made: _Registered) -> Callable[..., Any]:
    programs = made.programs

    def call(*args: Any, **kwargs: Any) -> Any:
        op = made.op
        arrays, attrs = _split(op, args, kwargs)
        key = tuple((n, tuple(v) if isinstance(v, list) else v) for n, v in attrs.items())
        program = programs.get(key)
        if program is None:
            fixed = dict(key)
            program = programs[key] = tenon_compile(lambda *xs: op(*xs, **fixed))
        with torch.no_grad():
            return program(*(a.resolve_conj().resolve_neg() for a in arrays))

    return call


def _fake(registered: _Registered) -> Callable[..., Any]:
    """Types of the results, from a trace whose symbols are torch's."""

    def infer(*args: Any, **kwargs: Any) -> Any:
        op = registered.op
        arrays, attrs = _split(op, args, kwargs)
        trace = GraphTrace(op.name)
        sizes: dict[str, Any] = {}
        values = []
        for i, array in enumerate(arrays):
            shape = [_inward(trace, sizes, s) for s in array.shape]
            values.append(trace.argument(dtype_of(array.dtype), shape, f"x{i}"))
        with tracing(trace):
            made = op.build(values, attrs)
        dtypes = [_torch_type(v.dtype) for v in made]
        fakes = [
            arrays[0].new_empty([_outward(trace, sizes, s) for s in v.shape], dtype=d)
            for v, d in zip(made, dtypes)
        ]
        return fakes[0] if len(fakes) == 1 else tuple(fakes)

    return infer


def _inward(trace: GraphTrace, sizes: dict[str, Any], size: Any) -> Any:
    if isinstance(size, int):
        return size
    name = str(expression(size))
    sizes[name] = size
    return trace.symbol(name, -1)


def _outward(trace: GraphTrace, sizes: dict[str, Any], size: Any) -> Any:
    if not isinstance(size, Dim):
        return size
    op, a, b, constant, name = trace.native.dim_parts(size.raw)
    if op == 0:
        return constant
    if op == 1:
        return sizes[name]
    sym: Any = torch
    x, y = (_outward(trace, sizes, trace.size(d)) for d in (a, b))
    return {
        builder.ADD: lambda: x + y, builder.SUB: lambda: x - y, builder.MUL: lambda: x * y,
        builder.FLOORDIV: lambda: x // y, builder.MOD: lambda: x % y,
        builder.MIN: lambda: sym.sym_min(x, y), builder.MAX: lambda: sym.sym_max(x, y),
    }[op]()  # fmt: skip


def _torch_type(dtype: Any) -> torch.dtype:
    return next(t for t, d in DTYPES.items() if d is dtype)


def _backward(op: Op, results: int) -> Op:
    """The derivative of an op, as an op: of the gradients of its results, and its arguments."""
    import inspect

    rule = op.derivative

    def derivative(*args: Any, **attrs: Any) -> tuple[xp.Array, ...]:
        assert rule is not None  # named here, so that another one makes another op
        arrays = args[results:]
        made = op.gradients(args[:results], *arrays, **attrs)
        return tuple(xp.zeros_like(x) if g is None else g for x, g in zip(arrays, made))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    mine = [
        p.replace(kind=kind, default=p.empty)
        for p in inspect.signature(op.function).parameters.values()
    ]
    upstream = [inspect.Parameter(f"gradient{i}", kind) for i in range(results)]
    derivative.__signature__ = inspect.Signature(upstream + mine)  # type: ignore[attr-defined]
    derivative.__doc__ = f"The derivative of {op.name}."
    return tenon_op(f"{op.name}_backward")(derivative)


def _add_gradient(made: _Registered, name: str, library: Any) -> None:
    count = len(made.op.operands)

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:count])
        ctx.attrs = inputs[count:]

    def backward(ctx: Any, *grads: Any) -> Any:
        if made.gradient is None:
            raise NotImplementedError(
                f"{made.op.name} was registered without a gradient: give gradient=, or @op.gradient first"
            )
        found = made.gradient(*grads, *ctx.saved_tensors, *ctx.attrs)
        listed = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        return (*listed, *([None] * len(ctx.attrs)))

    torch.library.register_autograd(name, backward, setup_context=setup, lib=library)


def _lowering(registered: _Registered) -> Callable[..., Any]:
    def lower(n: Node, *args: Any, **kwargs: Any) -> Any:
        op = registered.op
        arrays, given = _split(op, args, kwargs)
        made = op.emit(arrays, given)
        return made if isinstance(n.fake, (tuple, list)) else made[0]

    return lower
