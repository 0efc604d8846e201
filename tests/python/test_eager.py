"""The eager path: native operations, programs found by structure, flushes (ADR 0043)."""

from __future__ import annotations

import gc
import logging
import resource
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
import tenon
from tenon import _native, xp


def chain(x: Any, steps: int) -> Any:
    for i in range(steps):
        x = x * (i + 0.5) + 1.0
    return x


def test_the_second_flush_of_a_kind_compiles_nothing() -> None:
    x = np.linspace(0, 1, 7, dtype=np.float32)
    chain(xp.asarray(x), 10).tolist()
    known = _native.programs_kept(), _native.remembered()
    got = np.asarray(chain(xp.asarray(x + 1), 10))
    assert known == (_native.programs_kept(), _native.remembered())
    np.testing.assert_allclose(got, chain(x + 1, 10), rtol=1e-6)


def test_numbers_are_operands() -> None:
    x = xp.asarray([1.0, 2.0, 3.0])
    (x * 2.0).tolist()
    known = _native.programs_kept()
    for number in (3, 2.5, -1, 0.0, 1 << 40):
        assert (x * number).tolist() == [number * v for v in (1.0, 2.0, 3.0)]
    assert _native.programs_kept() == known


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_numbers_that_do_not_fit_are_refused_after_ones_that_do(dtype: str) -> None:
    x = xp.asarray([1, 2], dtype=getattr(xp, dtype))
    info = xp.iinfo(x.dtype)
    for _ in range(2):
        assert (x & info.max).tolist() == [1, 2]
        with pytest.raises(OverflowError):
            x & (info.max + 1)
        with pytest.raises(OverflowError):
            x & (info.min - 1)
        with pytest.raises(TypeError):
            x & 1.5
        with pytest.raises(TypeError):
            x & True
    assert (xp.asarray([True]) & False).tolist() == [False]


def test_operators_with_what_is_no_operand() -> None:
    x = xp.asarray([1.0])
    for other in ("a", b"a", None, {}):
        with pytest.raises(TypeError):
            x + other
        with pytest.raises(TypeError):
            other * x
        with pytest.raises(TypeError):
            x += other
    assert (x == "a") is False and (x != None) is True  # noqa: E711
    with pytest.raises(TypeError):
        hash(x)
    with pytest.raises(TypeError):
        tenon.xp.ones(2).__class__(3)
    assert (np.float32(2) * x).tolist() == [2.0] and isinstance(
        np.ones(1) + xp.ones(1, dtype=xp.float64), type(x)
    )


def test_in_place_gives_one_name_another_value() -> None:
    x = xp.asarray([1.0, 2.0])
    other, view = x, x[0]
    y = +x
    x += 1
    assert (
        x is other and x.tolist() == [2.0, 3.0] and y.tolist() == [1.0, 2.0] and float(view) == 1.0
    )
    with pytest.raises(TypeError, match="keeps float32"):
        x += xp.ones((2, 2))
    assert x.tolist() == [2.0, 3.0]
    n = xp.asarray([2])
    n **= 3
    n <<= 1
    assert n.tolist() == [16]
    with pytest.raises(TypeError):
        pow(n, 2, 3)


def test_items_by_number_share_a_program() -> None:
    x = xp.asarray(np.arange(50.0).reshape(25, 2))
    x[3].tolist()
    known = _native.programs_kept()
    assert [x[i].tolist()[1] for i in range(-25, 25)] == [*range(1, 50, 2)] * 2
    assert _native.programs_kept() == known
    for wrong in (25, -26, 1 << 70):
        with pytest.raises(IndexError):
            x[wrong]


def test_values_that_much_waits_for_are_computed_early() -> None:
    x = xp.ones((4,))
    for _ in range(200):
        x = x + 1.0
    assert x.tolist() == [201.0] * 4


def test_shared_operands_count_once() -> None:
    x = xp.ones((2,))
    for _ in range(50):
        x = (x + x) * 0.5  # a bound that counts twice would be 2**50
    assert x._value.waits is False or x.tolist() == [1.0, 1.0]


def test_only_what_is_named_is_kept() -> None:
    x = xp.asarray(np.arange(3.0))
    a = x + 1.0
    b = a * 2.0
    kept = b * 3.0
    del b
    assert kept.tolist() == [6.0, 12.0, 18.0]
    assert not a._value.waits  # it had a name, so it came with the same program
    assert a.tolist() == [1.0, 2.0, 3.0]


def settled(limit: float = 30.0) -> None:
    """Waits for programs that are compiled in the background."""
    end = time.monotonic() + limit
    while any(t.name == "tenon-compile" for t in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_new_combination_of_known_operations_runs_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    x = xp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3) + 1)
    for known in (xp.exp(x), xp.sqrt(x), x * 2.0, x + x, xp.sum(x, axis=0)):
        known.tolist()

    def combined() -> Any:
        y = xp.sqrt(x)
        return xp.sum(xp.exp(y + y) * 2.0, axis=0)

    expected = (np.exp(np.sqrt(np.asarray(x)) * 2) * 2).sum(0)
    with caplog.at_level(logging.DEBUG, "tenon.eager"):
        for how in ("one by one", "known program"):
            caplog.clear()
            np.testing.assert_allclose(np.asarray(combined()), expected, rtol=1e-5)
            lines = [r.getMessage() for r in caplog.records if r.name == "tenon.eager"]
            assert len(lines) == 1 and how in lines[0] and "test_eager.py:" in lines[0]
            assert "5 operations" in lines[0]
            settled()


def test_the_interpreter_ends_while_a_program_is_compiled() -> None:
    script = """
import numpy as np
from tenon import xp
x = xp.asarray(np.ones(5, np.float32))
for known in (xp.exp(x), xp.tanh(x), x * 2.0):
    known.tolist()
print(xp.tanh(xp.exp(x) * 2.0).tolist()[0])
"""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert abs(float(done.stdout) - np.tanh(np.exp(1) * 2)) < 1e-5


def test_a_new_meaning_counts_at_once() -> None:
    def define(by: float) -> Any:
        @tenon.op("test.eager_scale")
        def scale(x: Any) -> Any:
            return x * by

        return scale

    x = xp.asarray([1.0, 2.0])
    assert (define(2.0)(x) + 1.0).tolist() == [3, 5]
    assert (define(3.0)(x) + 1.0).tolist() == [4, 7]
    settled()


def test_arrays_are_collected() -> None:
    class Holder:
        pass

    def cycle() -> None:
        holder = Holder()
        holder.array = xp.ones((3,)) + 1.0  # type: ignore[attr-defined]
        holder.self = holder  # type: ignore[attr-defined]

    for _ in range(3):
        cycle()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):
        cycle()
    gc.collect()
    assert len(gc.get_objects()) < before + 50


def test_no_memory_is_left() -> None:
    x = xp.asarray(np.ones(8, np.float32))

    def work(n: int) -> None:
        for i in range(n):
            y = x * float(i) + x
            y += 1
            if i % 7 == 0:
                y[3].item()
            if i % 100 == 0:
                with pytest.raises(ValueError):
                    y + xp.ones((3,))

    work(2000)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(100_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8192  # KiB


def test_types_are_forgotten_when_there_are_many() -> None:
    x = xp.asarray(np.arange(300.0))
    for i in range(1, 250):
        for j in range(0, 100, 1):
            x[j : j + i]
    assert _native.remembered() < 25_000
    assert (x[:2] + 1.0).tolist() == [1.0, 2.0]
    x[0] = 5.0
    assert (x[:2] * 2.0).tolist() == [10.0, 2.0]


def test_values_are_shared_by_threads() -> None:
    x = xp.asarray(np.arange(64, dtype=np.float32))
    y = chain(x, 5)
    found: list[Any] = []

    def read() -> None:
        for _ in range(50):
            found.append((chain(y, 3).tolist(), y.tolist()))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 400 and all(f == found[0] for f in found)
