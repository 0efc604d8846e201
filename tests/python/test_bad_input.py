"""Inputs that hurt: each is an exception with its reason, and the next use works."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from typing import Any

import numpy as np
import pytest
import tenon
from tenon import xp
from test_limits import memory_kib
from test_model import run

X = np.linspace(-1, 1, 8, dtype=np.float32)


def test_arrays_and_functions_after_a_fork() -> None:
    script = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, of forks
import os, numpy as np, tenon
from tenon import xp
f = tenon.compile(lambda x: x * 2.0)
x = np.ones(3, np.float32)
f(x)
waits = xp.asarray(x) + 1.0
def refused(work):
    try:
        work()
    except tenon.UsageError as e:
        return e.code == "T0625"
    return False
pid = os.fork()
if pid == 0:
    known, new = (lambda: f(x)), (lambda: f(np.ones((2, 2), np.float32)))
    read, made = waits.tolist, (lambda: (xp.asarray(x) * 3.0).tolist())
    os._exit(0 if all(map(refused, (known, new, read, made))) else 3)
assert os.waitpid(pid, 0)[1] == 0
assert waits.tolist() == [2.0] * 3 and f(x).tolist() == [2.0] * 3
"""
    done = run(script)
    assert done.returncode == 0 and not done.stderr, done.stderr


def long(x: Any) -> Any:
    """Takes seconds to compile: no two operations are alike."""
    for i in range(1200):
        x = xp.tanh(x * (i + 0.5)) if i % 40 else xp.sort(x + float(i), axis=0)
    return x


def test_ctrl_c_ends_a_compilation_on_the_main_thread_alone() -> None:
    mine, other = tenon.compile(lambda x: long(x) + 1.0), tenon.compile(lambda x: long(x) - 1.0)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(other(X)))
    thread.start()
    threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):  # until it comes, on whatever machine
            tenon.compile(lambda x: long(x) * 2.0)(X)
    thread.join()
    assert len(results) == 1 and np.isfinite(results[0]).all()
    np.testing.assert_allclose(mine(X) - 1.0, results[0] + 1.0, rtol=1e-5, atol=1e-5)


def test_two_threads_compile_one_function() -> None:
    f = tenon.compile(lambda x: xp.exp(x) - xp.sin(x) * 3.0)
    start, made = threading.Barrier(2), []

    def work() -> None:
        start.wait()
        made.append(f(X))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == 2 and f.compilations <= 2
    for got in made:
        np.testing.assert_allclose(got, np.exp(X) - np.sin(X) * 3, rtol=1e-5, atol=1e-6)


def test_100_000_calls_leave_nothing() -> None:
    f = tenon.compile(lambda x, w: x * w + 1.0)
    x, t, bad = X.copy(), tenon.tensor(X), np.zeros(3, np.float32)

    def some(count: int) -> None:
        for i in range(count):
            f(x, x)
            f(t, x)
            float(f(x, 2.0)[0])
            if i % 16 == 0:
                with pytest.raises(ValueError, match="do not go together"):
                    f(x, bad)

    def counts() -> tuple[int, ...]:
        return tuple(map(sys.getrefcount, (x, t, bad, f)))

    some(1500)
    gc.collect()
    before, memory = counts(), memory_kib()
    some(33_334)
    gc.collect()
    assert counts() == before
    assert memory_kib() - memory < 8192


def scaled(name: str) -> Any:
    @tenon.op(name)
    def scale(x: Any, a: float) -> Any:
        return x * a

    return scale


def test_kernels_that_are_wrong() -> None:
    throws, text = (
        scaled("test.bad_throws"),
        "void run(const float* x, float a, float* out, int64_t n)",
    )
    with pytest.raises(tenon.UsageError, match="(?s)T0631.*exceptions disabled"):
        throws.kernel("cpu", dtypes=["f32"])(lambda: text + "{ throw 1; }")
    with pytest.raises(tenon.UsageError, match="T0631"):  # other parameters than the op has
        throws.kernel("cpu", dtypes=["f32"])(lambda: "void run(const double* x, float* out) {}")
    with pytest.raises(RuntimeError, match="mine"):

        @throws.kernel("cpu", dtypes=["f32"])
        def fails() -> str:
            raise RuntimeError("mine")

    np.testing.assert_array_equal(np.asarray(throws(xp.asarray(X), 2.0)), X * 2)  # it has no kernel
    short = scaled("test.bad_short")
    short.kernel("cpu", dtypes=["f32"])(
        lambda: text + "{ for (int64_t i = 0; i < n; ++i) out[i] = i + 1 < n ? a * x[i] : 77; }"
    )
    with pytest.raises(AssertionError, match="(?s)kernel|differ"):
        tenon.opcheck(short, xp.asarray(X), a=2.0)


@pytest.mark.parametrize("writes", ["out[n] = 1", "out[-1] = 1", "const_cast<float*>(x)[0] = 1"])
def test_kernels_that_write_outside_their_results(writes: str) -> None:
    op = scaled("test.bad_outside")
    op.kernel("cpu", dtypes=["f32"])(
        lambda: (
            "void run(const float* x, float a, float* out, int64_t n) {"
            "for (int64_t i = 0; i < n; ++i) out[i] = a * x[i]; " + writes + "; }"
        )
    )
    with pytest.raises(
        AssertionError, match="a kernel writes (outside|to the memory of its operand x)"
    ):
        tenon.opcheck(op, X, a=2.0)


def test_functions_of_ops_that_are_wrong() -> None:
    @tenon.op("test.bad_result")
    def text(x: Any) -> Any:
        return "no array"

    @tenon.op("test.bad_raises")
    def raises(x: Any) -> Any:
        raise RuntimeError("mine")

    for op in (text, raises):
        for use in (lambda op=op: op(xp.asarray(X)), lambda op=op: tenon.compile(op)(X)):
            with pytest.raises((tenon.UsageError, RuntimeError)) as caught:
                use()
            assert "mine" in str(caught.value) or "array" in str(caught.value)
    assert (xp.asarray(X) + 1.0).shape == X.shape


def test_an_op_is_redefined_while_another_thread_compiles() -> None:
    def define(k: int) -> Any:
        @tenon.op("test.moving")
        def moving(x: Any) -> Any:
            return xp.exp(x) * 0.0 + float(k)

        return moving

    op, newest, rounds, wrong = define(0), 0, 0, []

    def work() -> None:
        nonlocal rounds
        for rounds in range(1, 13):  # noqa: B007 (the other thread reads it)
            first = newest  # what is compiled from here on is this one or a newer one
            f = tenon.compile(lambda x: op(x) + 1.0)
            for result in (f(X), np.asarray(op(xp.asarray(X)) + 1.0), f(X[:3])):
                if len(set(result.tolist())) != 1 or not first + 1 <= result[0] <= newest + 2:
                    wrong.append((first, result.tolist()))

    thread = threading.Thread(target=work)
    thread.start()
    while rounds < 12 and thread.is_alive():
        define(newest + 1)
        newest += 1
    thread.join()
    assert rounds == 12 and newest > 12 and not wrong, wrong
    assert tenon.compile(lambda x: op(x))(X).tolist() == [float(newest)] * len(X)


def test_a_gradient_of_another_shape() -> None:
    square = scaled("test.bad_gradient")

    @square.gradient
    def gradient(g: Any, x: Any, a: Any) -> Any:
        return xp.sum(g * a)

    with pytest.raises((AssertionError, tenon.Error, ValueError, TypeError)):
        tenon.opcheck(square, xp.asarray(X), a=2.0)
