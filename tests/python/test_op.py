"""Operators whose meaning is a Python function."""

import threading
import types
from typing import Any

import numpy as np
import pytest
import tenon
from tenon import nn, xp


@tenon.op("test.scale_shift")
def scale_shift(x, a: float, b: float = 1.0):  # type: ignore[no-untyped-def]
    """x times a plus b."""
    return x * a + b


X = np.arange(6, dtype=np.float32)


def test_it_works_at_once_and_compiled() -> None:
    np.testing.assert_array_equal(np.asarray(scale_shift(xp.asarray(X), 2.0)), X * 2 + 1)
    np.testing.assert_array_equal(np.asarray(scale_shift(X, a=3, b=0)), X * 3)

    @tenon.compile
    def f(x: Any) -> Any:
        return nn.relu(scale_shift(x, 2.0, -5.0))

    for n in (3, 4, 6):
        np.testing.assert_array_equal(f(X[:n]), np.maximum(X[:n] * 2 - 5, 0))
    assert f.compilations == 2


def test_it_works_in_a_model() -> None:
    text = (
        b"tenon.tir 1\ngraph @g<n>(%x: f32[n, 2]) -> (y: f32[n, 2]) {\n"
        b"  %y = test.scale_shift(%x) {a = 2.0} : f32[n, 2]\n  yield %y\n}\n"
    )
    for device in ("cpu", "reference", "sim"):
        np.testing.assert_array_equal(
            tenon.load(text, device)(X.reshape(3, 2))[0], X.reshape(3, 2) * 2 + 1
        )


def test_several_results_and_sizes() -> None:
    @tenon.op("test.joined")
    def joined(x, y, times: int = 2):  # type: ignore[no-untyped-def]
        return xp.concat([x, y] * times), xp.sum(x)

    x = xp.asarray(X)
    both, total = joined(x, x[:2])
    np.testing.assert_array_equal(np.asarray(both), [*X, 0, 1, *X, 0, 1])
    assert float(total) == X.sum()
    tenon.opcheck(joined, x, x[:2], times=1)
    tenon.opcheck(scale_shift, x, 2.0)

    @tenon.compile(dims={"x": ("n",)})
    def f(x: Any) -> Any:
        return joined(x, x[1:])[0]

    for n in (3, 6):
        np.testing.assert_array_equal(f(X[:n]), [*X[:n], *X[1:n]] * 2)


def test_it_is_redefined_by_content() -> None:
    def define(factor: float) -> Any:
        @tenon.op("test.again")
        def again(x):  # type: ignore[no-untyped-def]
            return x * factor

        return again

    first, same, other = define(2.0), define(2.0), None
    assert first is same

    @tenon.compile
    def f(x: Any) -> Any:
        return first(x) + 0

    assert f(X)[1] == 2
    other = define(3.0)
    assert other is not first
    assert f(X)[1] == 3  # it was traced again
    assert float(other(xp.asarray(X))[1]) == 3


def test_what_may_change_makes_a_new_op() -> None:
    def define(data: Any) -> Any:
        @tenon.op("test.of_data")
        def of_data(x):  # type: ignore[no-untyped-def]
            return x * data[0]

        return of_data

    for _ in range(50):  # lists come and go at one address
        for factor in (2.0, 3.0):
            assert float(define([factor])(xp.asarray(X))[1]) == factor
    listed = [2.0]
    first = define(listed)
    listed[0] = 5.0
    assert define(listed) is not first and float(define(listed)(xp.asarray(X))[1]) == 5
    assert define((2.0,)) is define((2.0,))
    array = xp.asarray([7.0])
    second = define(array)
    assert define(array) is second
    array[0] = 8.0
    assert float(define(array)(xp.asarray(X))[1]) == 8
    long = [np.zeros(5000, np.float32) for _ in range(2)]  # they print alike
    long[1][2500] = 1
    ones = xp.ones((5000,))
    assert [float(define((xp.asarray(d),))(ones)[2500]) for d in long] == [0, 1]


def test_content_of_modules_and_of_functions_without_a_module() -> None:
    settings = types.ModuleType("settings")
    settings.factor = 2.0  # type: ignore[attr-defined]

    def helper(x: Any) -> Any:
        return x * settings.factor

    helper.__module__ = None  # type: ignore[assignment]

    def define() -> Any:
        @tenon.op("test.of_module")
        def of_module(x):  # type: ignore[no-untyped-def]
            return xp.exp(helper(x))

        return of_module

    first = define()
    assert define() is first
    settings.factor = 0.0  # type: ignore[attr-defined]
    assert define() is not first and float(define()(xp.asarray(X))[1]) == 1


def test_mistakes() -> None:
    @tenon.op("test.wrong")
    def wrong(x):  # type: ignore[no-untyped-def]
        return x + x[:2]

    @tenon.op("test.nothing")
    def nothing(x):  # type: ignore[no-untyped-def]
        return None

    @tenon.op("test.by_value")
    def by_value(x):  # type: ignore[no-untyped-def]
        return x[x > 0]

    x = xp.asarray(X)
    with pytest.raises(
        tenon.UsageError, match=r"T0631: test.wrong \(.*test_op.py:\d+\): ValueError.*do not go"
    ):
        wrong(x)
    with pytest.raises(tenon.UsageError, match="T0631.*returned None"):
        nothing(x)
    with pytest.raises(tenon.UsageError, match="depend on values"):
        by_value(x)
    with pytest.raises(tenon.UsageError, match="T0631.*no array"):
        tenon.op("test.none")(lambda: 1)
    with pytest.raises(tenon.UsageError, match="T0631.*arrays are first"):

        @tenon.op("test.order")
        def order(a: float, x):  # type: ignore[no-untyped-def]
            return x * a

    with pytest.raises(tenon.Error):
        tenon.op("nodot")(lambda x: x)
    with pytest.raises(tenon.UsageError, match="T0631: test.scale_shift: a is"):
        scale_shift(x, "two")
    with pytest.raises(TypeError):
        scale_shift(x)
    np.testing.assert_array_equal(np.asarray(scale_shift(x, 2.0)), X * 2 + 1)


def test_one_that_needs_numbers() -> None:
    @tenon.op("test.numbers")
    def numbers(x):  # type: ignore[no-untyped-def]
        return x * int(x.shape[0])

    f = tenon.compile(lambda x: numbers(x))
    for n in (3, 4, 6):
        np.testing.assert_array_equal(f(X[:n]), X[:n] * n)
    assert f.compilations == 3


def test_threads_define_and_compile() -> None:
    wrong: list[Any] = []

    def work(seed: int) -> None:
        @tenon.op(f"test.thread{seed}")
        def mine(x, a: float):  # type: ignore[no-untyped-def]
            return x * a + seed

        for i in range(5):
            f = tenon.compile(lambda x: mine(x, float(i)))
            if not np.array_equal(f(X), X * i + seed):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_kernel_of_text() -> None:
    @tenon.op("test.kernel")
    def op(x, a: float, shift: int = 1):  # type: ignore[no-untyped-def]
        return x * a + shift

    x = xp.asarray(X)

    @op.kernel("cpu", dtypes=["f32"])
    def marked() -> str:  # gives other values, so that a test sees it
        return """void run(const float* x, float a, int64_t shift, float* out, int64_t n) {
          for (int64_t i = 0; i < n; ++i) out[i] = a * x[i] + shift + 100;
        }"""

    np.testing.assert_array_equal(np.asarray(op(x, 2.0)), X * 2 + 101)
    np.testing.assert_array_equal(np.asarray(op(xp.astype(x, xp.float64), 2.0)), X * 2.0 + 1)
    np.testing.assert_array_equal(np.asarray(op(xp.zeros((0, 2)), 2.0)), np.zeros((0, 2)))
    with pytest.raises(AssertionError):
        tenon.opcheck(op, x, 2.0)

    f = tenon.compile(lambda x: op(x, 3.0, 2) * 2, dims={"x": ("n",)})
    for n in (2, 5):
        np.testing.assert_array_equal(f(X[:n]), (X[:n] * 3 + 102) * 2)

    with pytest.raises(
        tenon.UsageError, match="T0631: the kernel does not compile.*undeclared.*oops"
    ):

        @op.kernel("cpu", dtypes=["f64"])
        def broken() -> str:
            return "void run(const double*, double, int64_t, double*, int64_t) { oops; }"

    with pytest.raises(tenon.UsageError, match="T0631.*no type in C"):
        op.kernel("cpu", dtypes=["f16"])(lambda: "")

    @op.kernel("cpu", dtypes=["f32"])
    def right() -> str:
        return """void run(const float* x, float a, int64_t shift, float* out, int64_t n) {
          for (int64_t i = 0; i < n; ++i) out[i] = a * x[i] + shift;
        }"""

    tenon.opcheck(op, x, 2.0)


def test_options_of_a_device_of_which_a_kernel_takes_a_part() -> None:
    """A set of kernels took the options of the device for its own, and refused them."""

    @tenon.op("test.part")
    def part(x, a: float):  # type: ignore[no-untyped-def]
        return x * a

    @part.kernel("cpu", dtypes=["f32"])
    def marked() -> str:  # gives other values, so that a test sees it
        return """void run(const float* x, float a, float* out, int64_t n) {
          for (int64_t i = 0; i < n; ++i) out[i] = a * x[i] + 100;
        }"""

    text = b"""tenon.tir 1
graph @g(%x: f32[4]) -> (y: f32[4]) {
  %0 = exp(%x) : f32[4]
  %y = test.part(%0) {a = 2.0} : f32[4]
  yield %y
}
"""
    zeros = np.zeros(4, np.float32)
    np.testing.assert_array_equal(
        tenon.load(text, "cpu", options={"cpu.opt": 1})(zeros)[0], zeros + 102
    )
    alone = text.replace(b"  %0 = exp(%x) : f32[4]\n", b"").replace(b"%0", b"%x")
    np.testing.assert_array_equal(
        tenon.load(alone, "cpu", options={"cpu.opt": 1})(zeros)[0], zeros + 100
    )
    with pytest.raises(
        tenon.UsageError, match="T0513.*cpu.bogus"
    ):  # although the kernel takes it all
        tenon.load(alone, "cpu", options={"cpu.bogus": 1})


def test_it_works_in_an_onnx_model() -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    helper, f32 = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node("scale_shift", ["x"], ["y"], domain="test", a=2.0)
    ports = [helper.make_tensor_value_info(n, f32, ["n"]) for n in ("x", "y")]
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("test", 1)]
    data = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    model = tenon.load(data, "cpu")
    np.testing.assert_array_equal(model(X)[0], X * 2 + 1)


def test_an_interrupt_inside_of_the_function() -> None:
    @tenon.op("test.interrupted")
    def interrupted(x):  # type: ignore[no-untyped-def]
        if stop:
            raise KeyboardInterrupt("mine")
        return x + 1

    stop = True
    with pytest.raises(KeyboardInterrupt, match="mine"):
        interrupted(xp.asarray(X))
    stop = False
    np.testing.assert_array_equal(np.asarray(interrupted(xp.asarray(X))), X + 1)
