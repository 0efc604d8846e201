"""tenon.xp at its edges: odd numbers, indices out of range, what becomes of mistakes."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
import tenon
from tenon import _native, nn, xp


def test_numbers_of_numpy_keep_their_value_and_type() -> None:
    for number in (np.float32(2.5), np.int32(2), np.float64(0.5), np.bool_(True)):
        full = xp.full((2,), number)
        assert full.dtype.name == number.dtype.name and full.tolist() == [number.item()] * 2
    assert xp.arange(np.float32(0.5), 3).tolist() == [0.5, 1.5, 2.5]
    assert xp.full_like(xp.asarray([1.0]), np.float32(2.5)).tolist() == [2.5]
    with pytest.raises(TypeError, match="2.5 is not a value of int64"):
        xp.full_like(xp.asarray([1]), np.float32(2.5))


def test_arange_of_an_array_without_axes() -> None:
    assert xp.arange(xp.asarray(3)).tolist() == [0, 1, 2]
    with pytest.raises(tenon.UsageError) as e:
        tenon.compile(lambda n: xp.arange(n))(xp.asarray(3))
    assert e.value.code == "T0628"


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_no_integer(value: float) -> None:
    with pytest.raises(TypeError, match="is not a value of int32"):
        xp.asarray(value, dtype=xp.int32)


@pytest.mark.parametrize("wrong", ["a", 1.5])
def test_what_is_no_size_or_axis_is_a_type_error(wrong: Any) -> None:
    x, m, i = xp.ones((3,)), xp.ones((2, 3)), xp.asarray([0])
    calls = [
        lambda: xp.ones(wrong), lambda: xp.full((2, wrong), 1), lambda: xp.eye(wrong), lambda: xp.eye(2, k=wrong),
        lambda: xp.reshape(x, wrong), lambda: xp.broadcast_to(x, (wrong,)), lambda: xp.tile(x, (wrong,)),
        lambda: xp.repeat(x, wrong), lambda: xp.expand_dims(x, axis=wrong), lambda: xp.roll(x, wrong), lambda: xp.unstack(x, axis=wrong),
        lambda: xp.permute_dims(m, (wrong, 0)), lambda: xp.moveaxis(m, (wrong,), (0,)), lambda: xp.stack([x, x], axis=wrong),
        lambda: xp.sort(m, axis=wrong), lambda: xp.take_along_axis(x, i, axis=wrong), lambda: xp.diff(m, axis=wrong),
        lambda: xp.broadcast_shapes((2, wrong)), lambda: xp.tril(m, k=wrong), lambda: xp.linspace(0, 1, wrong),
        lambda: xp.sum(x, axis=wrong), lambda: xp.argmax(x, axis=wrong), lambda: x[0:1:wrong], lambda: xp.flip(m, axis=wrong),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError):
        xp.broadcast_arrays("a")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        xp.expand_dims(x, axis=None)  # type: ignore[arg-type]


def test_a_text_as_padding() -> None:
    with pytest.raises(TypeError, match="'same': numbers are expected"):
        nn.conv(xp.ones((1, 1, 4, 4)), xp.ones((1, 1, 2, 2)), padding="same")  # type: ignore[arg-type]


def test_numpy_sees_the_memory_of_an_array() -> None:
    for x in (
        xp.asarray([[1.0, 2.0], [3.0, 4.0]]) + 1.0,
        xp.arange(6),
        xp.ones((2, 3)) > 0,
        xp.asarray(2.5),
    ):
        a, b = np.asarray(x), np.asarray(x)
        assert a.shape == x.shape and np.shares_memory(a, b)
        assert a.ctypes.data == b.ctypes.data == np.from_dlpack(x).ctypes.data
        assert not a.flags.writeable  # other names of the value would see it
        x[...] = xp.zeros_like(x)
        assert not np.shares_memory(a, np.asarray(x))


def test_formats() -> None:
    assert f"{xp.asarray(2.5):.2f}" == "2.50" and f"{xp.asarray(7):03d}" == "007"
    assert f"{xp.asarray([1])}" == "Array([1], dtype=int64)"
    with pytest.raises(TypeError, match="without axes"):
        f"{xp.ones((2,)):.2f}"


def test_element_types_are_pickled() -> None:
    for dtype in (xp.bool, xp.int8, xp.uint64, xp.float32, xp.bfloat16):
        assert pickle.loads(pickle.dumps(dtype)) is dtype


def test_attributes_differ_by_their_bits() -> None:
    @tenon.op("test.times_attribute")
    def times(x, a: float):  # type: ignore[no-untyped-def]
        return x * a

    one = xp.asarray([1.0])
    for zero in (0.0, -0.0, 0.0, -0.0):
        assert math.copysign(1, float(times(one, zero)[0])) == math.copysign(1, zero)
    times(one, math.nan).tolist()
    known = _native.remembered(), _native.programs_kept()
    times(one, float("nan")).tolist()
    assert known == (_native.remembered(), _native.programs_kept())


def both_ways(function: Any, *arrays: Any) -> Any:
    """What a function gives at once, which is also what it gives compiled."""
    arrays = tuple(map(xp.asarray, arrays))
    at_once = function(*arrays).tolist()
    assert np.asarray(tenon.compile(function)(*arrays)).tolist() == at_once
    return at_once


def test_indices_out_of_range_read_the_nearest_element_along_each_axis() -> None:
    x = np.arange(6).reshape(2, 3)
    far, low = np.array([5]), np.array([-9])
    assert both_ways(lambda x, i: x[[0], i], x, far) == [2]
    assert both_ways(lambda x, i: x[i, [1]], x, far) == [4]
    assert both_ways(lambda x, i: x[[1], i], x, low) == [3]
    assert both_ways(lambda x, i: x[i], x, far) == [[3, 4, 5]]
    assert both_ways(lambda x, i: x[1, i], x, far) == [5]


def test_a_number_out_of_range_is_refused_with_arrays_too() -> None:
    x = xp.reshape(xp.arange(6), (2, 3))
    for key in ((10, [0]), (-3, [0]), ([0], 3), (2, slice(None)), (0, 3)):
        with pytest.raises(IndexError, match="out of range for axis"):
            x[key]
        with pytest.raises(IndexError, match="out of range for axis"):
            x[key] = 1
    assert x[-1, [0, 2]].tolist() == [3, 5] and int(x[-1, -1]) == 5


def test_nothing_is_written_out_of_range() -> None:
    def write(key: Any) -> Any:
        def function(x: Any, i: Any) -> Any:
            x[key(i)] = 99
            return x

        return function

    x = np.arange(6).reshape(2, 3)
    for far in (np.array([5]), np.array([-9])):
        for key in (
            lambda i: ([0], i),
            lambda i: (i, [1]),
            lambda i: (1, i),
            lambda i: (i,),
            lambda i: (slice(None), i),
        ):
            assert both_ways(write(key), x, far) == x.tolist()
    assert both_ways(write(lambda i: ([0, 1], i)), x, np.array([1, 7])) == [[0, 99, 2], [3, 4, 5]]


def test_numbers_as_indices_compile_one_program() -> None:
    x = xp.asarray(np.arange(800.0).reshape(200, 4))
    known = _native.programs_kept()
    assert [row.tolist() for row in x] == np.arange(800.0).reshape(200, 4).tolist()
    assert [float(x[i, -1]) for i in range(200)] == np.arange(800.0)[3::4].tolist()
    assert [float(row[1]) for row in xp.unstack(x)] == np.arange(800.0)[1::4].tolist()
    for i in range(200):
        x[i, 0] = i
    assert x[:, 0].tolist() == list(range(200))
    assert _native.programs_kept() < known + 12


def test_nothing_taken_out_of_nothing() -> None:
    none = np.zeros((0,), np.int64)
    for dtype in ("bool", "int8", "float32"):
        x = np.zeros((2, 0, 3), dtype)
        assert both_ways(lambda x, i: x[:, i], x, none) == [[], []]
        assert both_ways(lambda x, i: xp.take(x, i, axis=1), x, none) == [[], []]
        assert both_ways(lambda x, i: x[i], np.zeros((0,), dtype), none) == []
    with pytest.raises(IndexError):
        xp.take(xp.zeros((0,)), xp.asarray([0]), axis=0)
    with pytest.raises(IndexError):
        xp.zeros((0, 2))[[0]]


def test_nan_is_the_extreme_among_infinities() -> None:
    nan, inf = math.nan, math.inf
    for values in (
        [0.0, 0.0, -inf, nan],
        [nan, -inf],
        [-inf, nan],
        [0.0, inf, nan],
        [-0.0, 0.0],
        [0.0, -0.0],
        [1.0, -1.0],
    ):
        for dtype in ("float32", "float64"):
            x = np.array(values, dtype)
            assert int(xp.argmin(xp.asarray(x))) == np.argmin(x) and int(
                xp.argmax(xp.asarray(x))
            ) == np.argmax(x)


def test_arguments_that_were_ignored() -> None:
    x = np.ones(3, np.float32)
    for given in (x, xp.asarray(x)):
        with pytest.raises(ValueError, match="copy=False is not possible"):
            xp.asarray(given, dtype=xp.float64, copy=False)
        assert xp.asarray(given, dtype=xp.float32, copy=False).dtype == xp.float32
    assert xp.can_cast("int8", "int16") and not xp.can_cast("int16", "int8")  # a name was no type
    info = xp.__array_namespace_info__()
    assert info.dtypes(device=info.default_device()) == info.dtypes()
    for ask in (info.dtypes, info.default_dtypes):
        with pytest.raises(ValueError, match="no device 'nowhere'"):
            ask(device="nowhere")
