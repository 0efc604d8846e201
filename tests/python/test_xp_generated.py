"""tenon.xp against NumPy on generated cases: every function, every type, special values.

CHECK_FULL=1 draws eight times as many, and every type of each function; else three types of each.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from xp_cases import CASES, FLOATS, KINDS, SHAPES, arrays
from xp_table import EXTENSIONS, STANDARD

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed")
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from tenon import xp  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
FULL = os.environ.get("CHECK_FULL", "0") not in ("", "0")
drawn = settings(
    max_examples=40 if FULL else 5, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink) if FULL else (Phase.generate,),
)  # fmt: skip
# Units in the last place, where libraries differ; sums also by the order of their terms.
ULPS = dict.fromkeys(("pow", "cosh", "sinh", "tan", "expm1", "logaddexp", "hypot"), 32)
SUMS = {
    "sum",
    "prod",
    "mean",
    "std",
    "var",
    "cumulative_sum",
    "cumulative_prod",
    "matmul",
    "vecdot",
    "tensordot",
}
# The standard leaves the sign of a zero open, or says 0 without one.
EITHER_ZERO = {"maximum", "minimum", "max", "min", "sign", "clip"}
# Elsewhere in these tests, or constants and types.
ELSEWHERE = set(
    "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones zeros imag "
    "__array_namespace_info__ can_cast finfo iinfo isdtype result_type broadcast_arrays broadcast_shapes "
    "unique_all".split()
)


def test_no_function_of_the_standard_is_left_out() -> None:
    chapters = {
        c: set(n.split()) for c, n in STANDARD.items() if c not in ("Constants", *EXTENSIONS)
    }
    functions = {n for names in chapters.values() for n in names if callable(getattr(xp, n, None))}
    types = {n for n in functions if isinstance(getattr(xp, n), type(xp.float32))}
    assert functions - types - ELSEWHERE - set(CASES) - set(KINDS["any"]) == set()


def compare(name: str, mine: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert mine.shape == expected.shape, (
        f"{name}: shape {mine.shape}, and NumPy has {expected.shape}"
    )
    assert mine.dtype.name == expected.dtype.name, (
        f"{name}: {mine.dtype.name}, NumPy {expected.dtype.name}"
    )
    got = np.asarray(mine)
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected, err_msg=name)
        return
    eps = float(np.finfo(expected.dtype).eps)
    limit = (256 if name in SUMS else ULPS.get(name, 8)) * eps
    np.testing.assert_allclose(
        got, expected, rtol=limit, atol=100 * limit if name in SUMS else eps * eps, err_msg=name
    )
    if name not in SUMS | EITHER_ZERO:
        zero = expected == 0
        np.testing.assert_array_equal(
            np.signbit(got[zero]), np.signbit(expected[zero]), err_msg=f"{name}: signs of zeros"
        )


def converted(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return xp.asarray(value)
    return [xp.asarray(v) for v in value] if isinstance(value, list) else value


def run(name: str, args: Any, options: Any) -> None:
    mine_options, reference_options = dict(options), dict(options)
    if name == "sort" or name == "argsort":
        reference_options["stable"] = True
    if name == "clip":
        expected = np.clip(args[0], args[1], args[2])
    elif name == "astype":
        compare(name, xp.astype(xp.asarray(args[0]), getattr(xp, args[1])), args[0].astype(args[1]))
        return
    elif name == "count_nonzero":
        expected = np.asarray(np.count_nonzero(args[0], **reference_options), np.int64)
    else:
        expected = getattr(np, name)(*args, **reference_options)
    mine = getattr(xp, name)(*map(converted, args), **mine_options)
    if name.startswith("unique"):  # in any order
        _compare_unique(name, mine, expected)
    elif isinstance(mine, (tuple, list)):
        assert len(mine) == len(expected)
        for a, b in zip(mine, expected):
            compare(name, a, b)
    else:
        compare(name, mine, expected)


def _compare_unique(name: str, mine: Any, expected: Any) -> None:
    """The same values as often, whatever their order is; inverse indices give the array back."""
    values = mine if name == "unique_values" else mine[0]
    reference = expected if name == "unique_values" else expected[0]
    order, reference_order = np.argsort(np.asarray(values)), np.argsort(reference)
    compare(name, values[xp.asarray(order)], reference[reference_order])
    if name == "unique_counts" and values.shape[0]:
        compare(name, mine[1][xp.asarray(order)], expected[1][reference_order])
    if name == "unique_inverse":
        got = np.asarray(values)[np.asarray(mine[1])]
        np.testing.assert_array_equal(got, reference[expected[1]])


def parameters() -> list[Any]:
    out = []
    for i, (name, (kind, _)) in enumerate(CASES.items()):
        types = KINDS[kind]
        few = {types[0], types[-1], types[i % len(types)]}
        out += [pytest.param(name, t, id=f"{name}-{t}") for t in types if FULL or t in few]
    return out


@pytest.mark.parametrize(("name", "dtype"), parameters())
def test_function(name: str, dtype: str) -> None:
    @drawn
    @given(CASES[name][1](dtype))
    def case(drawn_case: Any) -> None:
        run(name, *drawn_case)

    case()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["value", "number"])
def test_numbers_with_arrays(kind: str, dtype: str) -> None:
    @drawn
    @given(
        arrays(dtype),
        st.floats(-100, 100, width=32),
        st.sampled_from(["add", "multiply", "divide", "maximum"]),
    )
    def case(x: Any, number: float, name: str) -> None:
        operand = float(number) if kind == "number" else xp.asarray(np.asarray(number, dtype))
        compare(
            name,
            getattr(xp, name)(xp.asarray(x), operand),
            getattr(np, name)(x, np.asarray(number, dtype)),
        )

    case()


@st.composite
def keys(draw: Any) -> Any:
    shape = draw(st.sampled_from([s for s in SHAPES if s and 0 not in s]))
    entry = st.one_of(*(
        st.one_of(st.integers(-n, n - 1), st.builds(slice, *(st.one_of(st.none(), st.integers(-5, 5)) for _ in range(2)),
                                                    st.sampled_from([None, 1, 2, -1])))
        for n in shape[:1]
    ))  # fmt: skip
    parts = [draw(entry)] + [
        draw(st.sampled_from([slice(None), slice(1, None), 0, -1])) for _ in shape[1:]
    ]
    key = tuple(parts[: draw(st.integers(0, len(parts)))])
    if draw(st.booleans()):
        at = draw(st.integers(0, len(key)))
        key = (*key[:at], draw(st.sampled_from([None, ...])), *key[at:])
    return shape, key


@settings(drawn, max_examples=400 if FULL else 40)
@given(keys())
def test_indexing(case: Any) -> None:
    shape, key = case
    x = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    mine = xp.asarray(x)
    compare("x[key]", mine[key], x[key])
    changed = x.copy()
    changed[key] = 99
    mine[key] = 99
    compare("x[key] = v", mine, changed)


@drawn
@given(arrays("int32"))
def test_unique_all(x: Any) -> None:
    for mine, expected in zip(xp.unique_all(xp.asarray(x)), np.unique_all(x)):
        compare("unique_all", mine, expected)


@drawn
@given(
    st.integers(-5, 5),
    st.integers(-5, 5),
    st.sampled_from([-2, -1, 1, 3]),
    st.sampled_from(["int32", "int64", "float32", "float64"]),
)
def test_arange(start: int, stop: int, step: int, dtype: str) -> None:
    compare(
        "arange",
        xp.arange(start, stop, step, dtype=getattr(xp, dtype)),
        np.arange(start, stop, step, dtype=dtype),
    )


@drawn
@given(
    st.floats(-10, 10, width=32),
    st.floats(-10, 10, width=32),
    st.integers(0, 7),
    st.booleans(),
    st.sampled_from(FLOATS),
)
def test_linspace(start: float, stop: float, num: int, endpoint: bool, dtype: str) -> None:
    mine = xp.linspace(start, stop, num, dtype=getattr(xp, dtype), endpoint=endpoint)
    expected = np.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
    np.testing.assert_allclose(np.asarray(mine), expected, rtol=1e-5, atol=1e-5)
    assert mine.dtype.name == dtype and mine.shape == expected.shape


@drawn
@given(
    st.integers(0, 4),
    st.one_of(st.none(), st.integers(0, 4)),
    st.integers(-4, 4),
    st.sampled_from(KINDS["any"]),
)
def test_eye(rows: int, columns: int | None, k: int, dtype: str) -> None:
    compare(
        "eye",
        xp.eye(rows, columns, k=k, dtype=getattr(xp, dtype)),
        np.eye(rows, columns, k=k, dtype=dtype),
    )


@drawn
@given(
    st.lists(st.sampled_from([(1,), (3,), (0,), ()]), min_size=1, max_size=3),
    st.sampled_from(["xy", "ij"]),
)
def test_meshgrid(shapes: list[Any], indexing: str) -> None:
    given_arrays = [
        np.arange(int(np.prod(s)), dtype=np.float32).reshape(s) for s in shapes if len(s) == 1
    ]
    mine = xp.meshgrid(*map(xp.asarray, given_arrays), indexing=indexing)
    for a, b in zip(mine, np.meshgrid(*given_arrays, indexing=indexing)):
        compare("meshgrid", a, b)
