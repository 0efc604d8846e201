"""Programs of waiting operations (ADR 0043, ADR 0049): what a flush does that has none yet.

Called by native/eager/flush.cpp, and by the tracer for operations whose results' sizes depend on
data.
"""

from __future__ import annotations

import threading

from tenon import _native
from tenon._eager.families import Family, General, Pattern
from tenon._eager.programs import bits, compile
from tenon._errors import Cancelled, Error
from tenon.builder import trace as _trace
from tenon.builder.dtypes import by_code
from tenon.builder.trace import DIMS, SizeNeeded, Value, default_device, evaluate, user_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tenon._eager.families import Sizes
    from tenon._eager.programs import Flush, FlushNode
    from tenon.builder.trace import Attrs


MEMORY_MAX = 4096

_single: dict[object, _native.Program] = {}  # of flushes of one operation
_dependent: dict[object, _native.Program] = {}  # of operations whose sizes depend on data
_families: dict[object, Family] = {}


def forget() -> None:
    """An op has another meaning now."""
    _dependent.clear()
    _single.clear()
    _families.clear()


def _keep(table: dict[object, Any], key: object, value: Any) -> Any:
    if len(table) >= MEMORY_MAX:
        table.clear()
    table[key] = value
    return value


# ---- Flushes ----


def cold(key: bytes, flush: Flush, data: tuple[Any, ...]) -> tuple[Any, Any, str]:
    """What a flush without a program does: (program, results, how). One of the first two is None.

    A program with symbols may serve it. If each operation has a program of its own, these give the
    results, and the program of the whole is compiled meanwhile.
    """
    nodes, leaves, outputs, _ = flush
    device = default_device()
    family, sizes = _family_of(flush, device)
    results = _by_family(family, flush, sizes, data)
    if results is not None:
        return None, results, "by a program for any sizes"
    pattern = family.see(sizes)
    if len(nodes) > 1 and key not in _failed:
        results = _replayed(flush, data)
        if results is not None:
            _compile_later(key, flush, device)
            return None, results, "one by one, while their program is compiled"
    if pattern is not None and _add_general(family, flush, device, pattern):
        results = _by_family(family, flush, sizes, data)
        if results is not None:
            return None, results, "by a new program for any sizes"
    program = compile(flush, device)[0]
    if len(nodes) == 1:
        _keep(_single, _single_key(nodes[0], leaves, len(outputs)), program)
    return program, None, "by a new program"


def run_now(op: str, all_operands: Sequence[Value | None], attrs: Attrs) -> tuple[Value, ...]:
    """An operation whose sizes depend on data is computed at once."""
    _trace.refuse_in_pass()
    operands = [v for v in all_operands if v is not None]
    evaluate(operands)
    places = iter(range(-1, -1 - len(operands), -1))
    numbers = tuple(None if v is None else next(places) for v in all_operands)
    leaves = [(v.dtype, v.shape) for v in operands]
    flush: Any = ([(op, attrs, None, numbers)], leaves, [], [])
    return tuple(map(_computed, _run_dependent(flush, tuple(v.data for v in operands))))


def _computed(tensor: _native.Tensor) -> Value:
    value = Value(by_code[tensor.dtype], tensor.shape)
    value.data = tensor
    return value


def _run_dependent(flush: Flush, data: tuple[Any, ...]) -> Sequence[Any]:
    nodes, leaves, _, _ = flush
    device = default_device()
    key = _single_key(nodes[0], leaves, 0)
    program = _dependent.get(key)
    if program is None:
        family, sizes = _family_of(flush, device)
        pattern = None if family.find(sizes) else family.see(sizes)
        if pattern is not None:
            _add_general(family, flush, device, pattern)
        results = _by_family(family, flush, sizes, data)
        if results is not None:
            return results
        program = _keep(_dependent, key, compile(flush, device)[0])
    return list(program.run_as(data, {}, "tensor", []))


# ---- Families ----


def _family_of(flush: Flush, device: str) -> tuple[Family, Sizes]:
    """The flushes of this structure, and the sizes of this one, in the order of _programs.with_sizes."""
    nodes, leaves, outputs, _ = flush
    sizes: list[Any] = []
    form: list[object] = [device, tuple(outputs), len(leaves)]
    for dtype, shape in leaves:
        sizes += shape
        form.append((dtype, len(shape)))
    for op, attrs, spread, numbers in nodes:
        sizes += spread or ()
        form.append((op, None if spread is None else len(spread), numbers, len(attrs)))
        for name, kind, value in attrs:
            if kind == DIMS:
                sizes += value
            form.append((name, kind, len(value) if kind == DIMS else bits(value)))
    key = tuple(form)
    return _families.get(key) or _keep(_families, key, Family()), tuple(sizes)


def _add_general(family: Family, flush: Flush, device: str, pattern: Pattern) -> bool:
    """Compiles a program with symbols. False if an op needs numbers."""
    try:
        program, free = compile(flush, device, pattern)
    except Cancelled:
        raise
    except (SizeNeeded, Error) as error:
        _give_up(family, error)
        return False
    family.add(General(pattern, program, free))
    return True


def _by_family(
    family: Family, flush: Flush, sizes: Sizes, data: tuple[Any, ...]
) -> list[Any] | None:
    """The results of a program with symbols; None if there is none, or if its symbols are wrong."""
    general = family.find(sizes)
    if general is None:
        return None
    try:
        results = list(general.program.run_as(data, {}, "tensor", [], general.given_sizes(sizes)))
    except Cancelled:
        raise
    except Error as error:  # of what symbols assert; else it comes again, with numbers
        _give_up(family, error)
        return None
    shapes = flush[3]
    if shapes and [r.shape for r in results] != shapes:
        _give_up(family, "a result has another shape than its op says")
        return None
    return results


def _give_up(family: Family, why: object) -> None:
    import logging

    family.give_up()
    logging.getLogger("tenon.eager").debug("an eager program is compiled for each size: %s", why)


# ---- Flushes without a program of their own ----


def _single_key(node: FlushNode, types: Sequence[object], results: int) -> object:
    """Of an operation on operands of these types, each of which is there once."""
    op, attrs, spread, numbers = node
    return op, bits(attrs), spread, numbers, tuple(types), results, default_device()


def _replayed(flush: Flush, data: tuple[Any, ...]) -> list[Any] | None:
    """The results, if each operation has a program; else None, as soon as one has none."""
    nodes, leaves, outputs, _ = flush
    made: list[Any] = []

    def operand(number: Any) -> tuple[Any, Any]:
        if isinstance(number, int):
            return leaves[-1 - number], data[-1 - number]
        tensor = made[number[0]][number[1]]
        return (by_code[tensor.dtype], tensor.shape), tensor

    for op, attrs, spread, numbers in nodes:
        distinct = list(dict.fromkeys(n for n in numbers if n is not None))
        places = tuple(None if n is None else -1 - distinct.index(n) for n in numbers)
        given = [operand(n) for n in distinct]
        results = 1 + max((i for n, i in _results_read(flush) if n == len(made)), default=0)
        node = (op, attrs, spread, places)
        program = _single.get(_single_key(node, [t for t, _ in given], results))
        if program is None:
            return None
        made.append(program.run_as(tuple(d for _, d in given), {}, "tensor", []))
    return [operand(o)[1] for o in outputs]


def _results_read(flush: Flush) -> list[tuple[int, int]]:
    """The results that are read, as node and number."""
    nodes, _, outputs, _ = flush
    return [n for n in (*outputs, *(n for node in nodes for n in node[3])) if isinstance(n, tuple)]


_under_way: set[bytes] = set()
_failed: set[bytes] = set()


def _compile_later(key: bytes, flush: Flush, device: str) -> None:
    """Compiles on a thread of its own. After a failure the next flush compiles, and raises it."""
    if key in _under_way:
        return
    at = _trace.generation

    def work() -> None:
        try:
            program = compile(flush, device)[0]
            if at == _trace.generation:
                _native.keep_program(key, program)
        except Error:
            if len(_failed) >= 4096:
                _failed.clear()
            _failed.add(key)
        finally:
            _under_way.discard(key)

    _under_way.add(key)
    threading.Thread(target=work, name="tenon-compile", daemon=True).start()


def log_flush(operations: int, how: str | None) -> None:
    """Logs which line of the user asked for values."""
    import logging

    line = user_line()
    place = f"{line[0]}:{line[1]}" if line else "a thread without frames"
    what = "1 operation" if operations == 1 else f"{operations} operations"
    logging.getLogger("tenon.eager").debug(
        "%s reads a value: %s run %s", place, what, how or "by a known program"
    )


_trace.compute_with(run_now, forget)
