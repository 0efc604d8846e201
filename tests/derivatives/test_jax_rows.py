"""Each row of JAX's tests of derivatives, compared with JAX: orders 1 and 2, all modes.

Rows that Tenon refuses are in jax_pending.txt, which may only become shorter: a row that is listed
and passes fails, and so does one that is refused and is not listed.
"""

from __future__ import annotations

import fnmatch
import os
import pathlib
import re
import zlib
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", exc_type=ImportError)
jax.config.update("jax_enable_x64", True)

import jax_rows  # noqa: E402
import operations  # noqa: E402
import tenon  # noqa: E402

PENDING = pathlib.Path(__file__).with_name("jax_pending.txt")
BOUND = 1e-9  # of the largest value


def name_of(row: tuple[str, Any]) -> str:
    family, options = row
    return re.sub(r"[^\w,.-]+", "", f"{family},{','.join(map(repr, options))}".replace(" ", ""))


def chosen(rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """All with CHECK_FULL=1; otherwise the first row of each op, and every seventh."""
    if os.environ.get("CHECK_FULL") == "1":
        return rows
    first = {group_of(row): row for row in reversed(rows)}
    kept = {name_of(row) for row in [*first.values(), *rows[::7]]}
    return [row for row in rows if name_of(row) in kept]


def group_of(row: tuple[str, Any]) -> tuple[Any, ...]:
    """Family, op and type."""
    family, options = row
    return (family, *(o for o in options if isinstance(o, str)))


EVERY = [name_of(row) for row in jax_rows.rows()]
ROWS = chosen(jax_rows.rows())
NAMES = [name_of(row) for row in ROWS]


def pending() -> dict[str, str]:
    """Patterns of names of rows that are refused: why."""
    text = PENDING.read_text().splitlines()
    return dict(line.split(None, 1) for line in text if line and line[0] != "#")  # type: ignore[misc]


def reason(name: str) -> str:
    fitting = (why for known, why in pending().items() if fnmatch.fnmatchcase(name, known))
    return next(fitting, "")


def wave(like: Any, phase: float) -> Any:
    """Numbers of the type of an array that have nothing to do with it."""
    angles = (phase + 1.7 * np.arange(int(np.prod(like.shape)))).reshape(like.shape)
    return np.cos(angles) + 1j * np.sin(1.3 * angles) if is_complex(like) else np.cos(angles)


def is_complex(array: Any) -> bool:
    return "complex" in str(array.dtype)


class Adjoint:
    """JAX with the cotangents of Tenon and PyTorch, which are the conjugates of its own."""

    jvp = staticmethod(jax.jvp)

    @staticmethod
    def vjp(f: Any, *x: Any) -> Any:
        ys, pull = jax.vjp(f, *x)

        def conjugate(parts: Any) -> Any:
            return tuple(p.conj() if is_complex(p) else p for p in parts)

        return ys, lambda cotangents: conjugate(pull(conjugate(cotangents)))


def tuples(f: Any) -> Any:
    def call(*x: Any) -> Any:
        out = f(*x)
        return out if isinstance(out, tuple) else (out,)

    return call


def derivatives(lib: Any, f: Any, order: int, operands: Any, constants: Any) -> Any:
    """The function of operands that gives all derivatives of a function: by name."""
    tangents = [constants(wave(x, 0.3 + i)) for i, x in enumerate(operands)]
    again = [constants(wave(x, 1.9 + i)) for i, x in enumerate(operands)]

    def run(*x: Any) -> dict[str, Any]:
        def forwards(*x: Any) -> Any:
            return lib.jvp(f, x, tuple(tangents))[1]

        ys, pull = lib.vjp(f, *x)
        cotangents = tuple(constants(wave(y, 0.8 + i)) for i, y in enumerate(ys))

        def backwards(*x: Any) -> Any:
            return lib.vjp(f, *x)[1](cotangents)

        out = {"value": ys, "forwards": forwards(*x), "backwards": pull(cotangents)}
        if order > 1:
            out["forwards, then forwards"] = lib.jvp(forwards, x, tuple(again))[1]
            out["backwards, then forwards"] = lib.jvp(backwards, x, tuple(again))[1]
            out["forwards, then backwards"] = lib.vjp(forwards, *x)[1](cotangents)
            out["backwards, then backwards"] = lib.vjp(backwards, *x)[1](tuple(again))
        return out

    return run


def check(row: tuple[str, Any]) -> None:
    family, options = row
    numbers = np.random.default_rng(zlib.crc32(name_of(row).encode()))
    ours, theirs, operands = operations.make(family, options, numbers)
    order = options[2] if family == "element_wise" else 2
    run = derivatives(tenon, tuples(ours), order, operands, tenon.xp.asarray)
    found = tenon.compile(run, device="reference")(*operands)
    with np.errstate(all="ignore"):
        whole = derivatives(Adjoint, tuples(theirs), order, operands, lambda a: a)
        expected = jax.jit(whole)(*operands)
    for what, parts in expected.items():
        for mine, part in zip(found[what], parts, strict=True):
            part = np.asarray(part)
            bound = BOUND * max(1.0, np.abs(part).max(initial=0.0, where=np.isfinite(part)))
            np.testing.assert_allclose(np.asarray(mine), part, rtol=0, atol=bound, err_msg=what)


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_row(row: tuple[str, Any]) -> None:
    why = reason(name_of(row))
    try:
        check(row)
    except tenon.Error as error:
        if not why:
            raise
        assert error.code in ("T0410", "T0411", "T0663"), error
        return
    assert not why, f"this row passes: take it out of {PENDING.name}"


@pytest.mark.parametrize("pattern", list(pending()))
def test_the_list_names_rows(pattern: str) -> None:
    assert fnmatch.filter(EVERY, pattern), f"{pattern} of {PENDING.name} is the name of no row"
