"""Several processes: meshes, and operations that their processes compute together."""

from __future__ import annotations

import functools
import math
import operator
import threading

from tenon._compile import Compiled
from tenon._errors import UsageError
from tenon._transforms.tracing import Traced, Tree, array_of, compiled, name_of, positional
from tenon.builder import ops
from tenon.builder.trace import active
from tenon.xp._array import Array, _of_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    Function = Callable[..., Any]

CODE = "T0901"
KINDS = ("sum", "min", "max")


class Mesh:
    """The processes of a job, arranged along axes with names. Made by `tenon.mesh`.

    The process of rank r has the coordinates of r in row-major order: the last axis varies fastest.
    """

    def __init__(self, axes: dict[str, int], simulate: bool):
        if not axes:
            raise UsageError("mesh: name at least one axis and its size, as in data=2", CODE)
        axes = {name: _size(name, size) for name, size in axes.items()}
        for name in axes:
            if not name.isascii() or not name.isidentifier():
                raise UsageError(f"mesh: {name!r} cannot be the name of an axis", CODE)
        self.axes = dict(axes)
        """Names and sizes of the axes, in order."""
        self.simulate = simulate
        """Whether this process computes what all ranks do."""
        self._rank: int | None = None
        self._text = ",".join(f"{name}={size}" for name, size in axes.items())

    @property
    def size(self) -> int:
        """How many processes the mesh has."""
        return math.prod(self.axes.values())

    @property
    def rank(self) -> int:
        """The rank of this process. The first use connects the processes, so all of them must ask, outside of
        compiled functions."""
        if self.simulate:
            raise UsageError("mesh: all ranks of a simulated mesh are in this process", CODE)
        if self._rank is None:
            self._rank = int(_at_once("axis_index", self, (), tuple(self.axes), {}))
        return self._rank

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}={size}" for name, size in self.axes.items())
        return f"<tenon mesh {axes}{', simulated' if self.simulate else ''}>"


def mesh(*, simulate: bool = False, **axes: int) -> Mesh:
    """A mesh of processes: `tenon.mesh(data=2, model=2)`.

    The processes are those that `tenon launch`, mpirun or srun has started, as many as the mesh has ranks.
    With `simulate`, this process computes what all ranks do: see `tenon.manual`.
    """
    return Mesh(axes, bool(simulate))


def _size(name: str, size: Any) -> int:
    try:
        number = 0 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        number = 0
    if number < 1:
        raise UsageError(
            f"mesh: the size of {name!r} must be a whole number from 1, not {size!r}", CODE
        )
    return number


class _Current(threading.local):
    mesh: Mesh | None = None


_current = _Current()


class manual:
    """Code for one process of a mesh: arrays are what this process has.

        mesh = tenon.mesh(data=2)

        @tenon.compile
        @tenon.manual(mesh)
        def mean(x):
            return tenon.all_reduce(xp.mean(x), "data") / 2

        with tenon.manual(mesh):
            total = tenon.all_reduce(x, "data")

    Each process runs the code, so all of them must call the same functions in the same order. On a
    simulated mesh a decorated function takes and gives arrays with a new axis 0, which has one entry for
    each rank; `shared` lists the positions of arguments that are equal in all ranks and lack that axis.
    """

    def __init__(self, mesh: Mesh, *, shared: Sequence[int] = ()):
        if not isinstance(mesh, Mesh):
            raise TypeError(f"manual: {mesh!r} is not a mesh: tenon.mesh(data=2) makes one")
        self._mesh = mesh
        self._shared = frozenset(map(operator.index, shared))
        self._outer: list[Mesh | None] = []

    def __enter__(self) -> Mesh:
        if self._mesh.simulate:
            raise UsageError(
                "manual: a simulated mesh works only with manual as a decorator, since arrays get their axis of "
                "ranks where the function begins",
                CODE,
            )
        self._outer.append(_current.mesh)
        _current.mesh = self._mesh
        return self._mesh

    def __exit__(self, *failure: object) -> None:
        _current.mesh = self._outer.pop()

    def __call__(self, function: Function) -> Function:
        if self._mesh.simulate:
            return compiled(self._all_ranks(function), function, "manual")

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with manual(self._mesh):
                return function(*args, **kwargs)

        return run

    def _all_ranks(self, function: Function) -> Function:
        """The function on arrays of all ranks, in a trace."""
        mesh = self._mesh

        def one_rank(*args: Any) -> Any:
            outer, _current.mesh = _current.mesh, mesh
            try:
                return function(*args)
            finally:
                _current.mesh = outer

        def run(*args: Any, **kwargs: Any) -> Any:
            args = positional(function, args, kwargs) if kwargs else args
            if any(not 0 <= i < len(args) for i in self._shared):
                raise UsageError(
                    f"manual: shared names a position that {name_of(function)} has no argument at",
                    CODE,
                )
            tree = Tree(args)
            lanes = [i not in self._shared for i, arg in enumerate(args) for _ in Tree(arg).leaves]
            _check_ranks(mesh, [array_of(v) for v in tree.leaves], lanes)
            traced = Traced(one_rank, name_of(function), args, lanes)
            shared = " ".join(f"x{i}" for i, has in enumerate(lanes) if not has)
            shared = " ".join([shared, *(f"{v}" for v in _inputs_of(traced))]).strip()
            made = traced.inline(f'stack-ranks{{mesh="{mesh._text}", shared="{shared}"}},cse,dce')
            return traced.result.build(made)

        return run


def _inputs_of(traced: Traced) -> list[str]:
    """Names of the inputs for arrays of the enclosing trace, which all ranks share."""
    return [f"captured{i}" for i in range(len(traced.trace.inputs))]


def _check_ranks(mesh: Mesh, arrays: list[Array], lanes: list[bool]) -> None:
    for array, has in zip(arrays, lanes):
        if has and (not array.shape or array.shape[0] != mesh.size):
            raise UsageError(
                f"manual: axis 0 of an argument must have an entry for each of the {mesh.size} ranks, "
                f"and the argument has the shape {tuple(array.shape)}",
                CODE,
            )


def _here(name: str) -> Mesh:
    if _current.mesh is None:
        raise UsageError(f"{name} works in a function or a block of tenon.manual(mesh)", CODE)
    return _current.mesh


def _axes(mesh: Mesh, axes: str | Iterable[str] | None) -> tuple[str, ...]:
    if axes is None:
        return tuple(mesh.axes)
    names = (axes,) if isinstance(axes, str) else tuple(axes)
    for name in names:
        if name not in mesh.axes:
            raise UsageError(
                f"the mesh has no axis {name!r}; it has {', '.join(map(repr, mesh.axes))}", CODE
            )
    if not names or len(set(names)) != len(names):
        raise UsageError("name each axis once, and at least one", CODE)
    return names


def _emit(op: str, mesh: Mesh, arrays: Any, axes: tuple[str, ...], **attrs: Any) -> Any:
    return ops.one(op, *(a._value for a in arrays), mesh=mesh._text, axes=",".join(axes), **attrs)


_alone: dict[Any, Compiled] = {}


def _at_once(op: str, mesh: Mesh, arrays: Any, axes: tuple[str, ...], attrs: dict[str, Any]) -> Any:
    """The op alone, now. Operations that wait are computed when a process reads them, and processes read in
    different orders; what they compute together must run in the order of the calls."""
    key = op, mesh._text, axes, tuple(sorted(attrs.items()))
    if key not in _alone:
        _alone[key] = Compiled(
            lambda *given: Array(_emit(op, mesh, given, axes, **attrs)), None, None, True
        )
    made = _alone[key](*arrays)
    return made if isinstance(made, Array) else _of_tensor(made)


def _one(op: str, mesh: Mesh, arrays: Any, axes: tuple[str, ...], **attrs: Any) -> Array:
    if active() is None:
        return _at_once(op, mesh, arrays, axes, attrs)  # type: ignore[no-any-return]
    return Array(_emit(op, mesh, arrays, axes, **attrs))


def _together(op: str, x: Any, axes: Any, **attrs: Any) -> Any:
    """The op on every array of a nested value."""
    here = _here(op)
    names = _axes(here, axes)
    tree = Tree(x)
    if not tree.leaves and not isinstance(x, (tuple, list, dict)):
        raise UsageError(f"{op}: {x!r} is not an array", "T0624")
    return tree.build([_one(op, here, [array_of(v)], names, **attrs) for v in tree.leaves])


def _kind(kind: str) -> str:
    if kind not in KINDS:
        raise UsageError(f"kind must be one of {', '.join(map(repr, KINDS))}, not {kind!r}", CODE)
    return kind


def _dim(x: Any, dim: int, what: str) -> int:
    ranks = {len(array_of(v).shape) for v in Tree(x).leaves}
    for rank in ranks:
        if not -rank <= dim < rank:
            raise UsageError(f"{what} is {dim}, and an array has {rank} axes", CODE)
    if dim < 0 and len(ranks) > 1:
        raise UsageError(f"{what} is negative, and the arrays have different numbers of axes", CODE)
    return dim + next(iter(ranks), 0) if dim < 0 else dim


def all_reduce(x: Any, axes: str | Iterable[str] | None = None, kind: str = "sum") -> Any:
    """x of all processes of a group, combined element by element; each gets the result.

    A group is the processes that differ only along `axes` of the mesh (None: all processes). `kind`
    is "sum", "min" or "max". x may be nested, here and below.
    """
    return _together("all_reduce", x, axes, kind=_kind(kind))


def all_gather(x: Any, axes: str | Iterable[str] | None = None, dim: int = 0) -> Any:
    """x of all processes of a group, concatenated along `dim`; each gets the result."""
    return _together("all_gather", x, axes, dim=_dim(x, dim, "dim"))


def reduce_scatter(
    x: Any, axes: str | Iterable[str] | None = None, dim: int = 0, kind: str = "sum"
) -> Any:
    """x of all processes of a group combined; each gets an equal part of it along `dim`."""
    return _together("reduce_scatter", x, axes, dim=_dim(x, dim, "dim"), kind=_kind(kind))


def all_to_all(
    x: Any, axes: str | Iterable[str] | None = None, split_dim: int = 0, concat_dim: int = 0
) -> Any:
    """Each process sends part i of x along `split_dim` to process i of its group.

    The parts that it gets are concatenated along `concat_dim`.
    """
    return _together(
        "all_to_all",
        x,
        axes,
        split_dim=_dim(x, split_dim, "split_dim"),
        concat_dim=_dim(x, concat_dim, "concat_dim"),
    )


def permute(
    x: Any, pairs: Iterable[tuple[int, int]], axes: str | Iterable[str] | None = None
) -> Any:
    """x of another process: each pair names the one that sends and the one that gets.

    Both are places in the group. A process that no pair sends to gets zeros.
    """
    listed = tuple(place for pair in pairs for place in _pair(pair))
    return _together("permute", x, axes, pairs=listed)


def _pair(pair: Any) -> tuple[int, int]:
    source, target = pair
    return operator.index(source), operator.index(target)


def broadcast_from(x: Any, root: int = 0, axes: str | Iterable[str] | None = None) -> Any:
    """x of the process at the place `root` of the group; each gets it."""
    return _together("broadcast_from", x, axes, root=operator.index(root))


def axis_index(axes: str | Iterable[str] | None = None) -> Array:
    """The place of this process in its group along `axes`: an array of rank 0."""
    here = _here("axis_index")
    return _one("axis_index", here, (), _axes(here, axes))


def axis_size(axes: str | Iterable[str] | None = None) -> int:
    """How many processes a group along `axes` has."""
    here = _here("axis_size")
    return math.prod(here.axes[name] for name in _axes(here, axes))
