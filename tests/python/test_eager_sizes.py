"""Sizes as symbols in eager programs (ADR 0049): what varies compiles once more, and then never."""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np
import pytest
import tenon
from tenon import xp
from tenon._eager.families import Pattern


def compiled() -> int:
    return tenon.eager_counts().compilations


def vector(n: int) -> Any:
    return np.linspace(0, 1, n, dtype=np.float32)


def test_a_loop_over_growing_arrays_compiles_twice() -> None:
    total = xp.zeros((1,))
    counts = []
    for _ in range(40):
        total = xp.concat([total, total[-1:] + 1.5])
        assert total[-1].item() == 1.5 * (total.shape[0] - 1)
        counts.append(compiled())
    assert counts[5] == counts[-1] and counts[-1] - counts[0] <= 4
    now = tenon.eager_counts()
    assert now.runs > now.compilations > now.with_symbols > 0


def chains(n: int) -> list[tuple[Any, Any]]:
    """Operations whose attributes are sizes, with what NumPy makes of them."""
    x = vector(n)
    a, both = xp.asarray(x), np.concatenate([x, x * 2])
    b = xp.concat([a, a * 2.0])
    return [
        ((b[1:] - b[:-1]) * 0.5, (both[1:] - both[:-1]) * 0.5),
        (xp.sum(xp.reshape(b, (2, n)), axis=0) + a, both.reshape(2, n).sum(0) + x),
        (xp.broadcast_to(a, (3, n)), np.broadcast_to(x, (3, n))),
        (xp.arange(n, dtype=xp.float32) + a, np.arange(n, dtype=np.float32) + x),
        (xp.flip(a) * xp.ones((n, 1)), np.flip(x) * np.ones((n, 1), np.float32)),
        (xp.mean(a), x.mean()),
        (xp.tile(a, (2,)), np.tile(x, 2)),
        (a[a > 0.5], x[x > 0.5]),
        (xp.stack([a, a])[1, :], x),
        (xp.sort(a, descending=True)[: n // 2], np.sort(x)[::-1][: n // 2]),
        (xp.eye(n) @ a, x),
    ]


def test_attributes_that_are_sizes() -> None:
    counts = []
    for n in (3, 4, 5, 6, 17, 256, 1000, 9):
        for mine, expected in chains(n):
            np.testing.assert_allclose(np.asarray(mine), expected, rtol=1e-5, atol=1e-6)
        counts.append(compiled())
    assert counts[2:] == [counts[2]] * 6


def test_sizes_0_and_1_are_numbers() -> None:
    for n in (5, 6, 1, 0, 2, 1, 0, 7):
        x = vector(n)
        got = xp.asarray(x) + xp.ones((4, n))
        np.testing.assert_allclose(np.asarray(got), x + np.ones((4, n), np.float32))
        np.testing.assert_allclose(np.asarray(xp.asarray(x) * xp.ones((1,))), x)


def test_sizes_that_were_equal_by_chance() -> None:
    """Two sizes grow in step, and then they do not."""
    for n, m in ((3, 3), (4, 4), (5, 6), (7, 5), (8, 8), (9, 2)):
        x, y = vector(n), vector(m)
        got = xp.reshape(xp.asarray(x), (n, 1)) * xp.asarray(y)
        np.testing.assert_allclose(np.asarray(got), x[:, None] * y)
        joined = xp.concat([xp.asarray(x), xp.asarray(y)]) + xp.ones((n + m,))
        np.testing.assert_allclose(np.asarray(joined), np.concatenate([x, y]) + 1)


def test_sizes_that_depend_on_each_other() -> None:
    """No op says that 6 is 2 times 3: the program has to check it."""
    counts = []
    for rows, columns in ((2, 3), (4, 5), (3, 7), (11, 2), (6, 6)):
        x = vector(rows * columns)
        got = xp.reshape(xp.asarray(x), (rows, columns)) + xp.ones((rows, columns))
        np.testing.assert_allclose(np.asarray(got), x.reshape(rows, columns) + 1)
        counts.append(compiled())
    assert counts[-1] - counts[1] <= 1


def test_numbers_of_an_op_that_cannot_have_symbols(caplog: pytest.LogCaptureFixture) -> None:
    """The function of an op that looks at a size: its programs are for each size, and right."""

    @tenon.op("test.by_size")
    def by_size(x: Any) -> Any:
        return x * 2.0 if int(x.shape[0]) > 4 else x * 3.0

    with caplog.at_level(logging.DEBUG, "tenon.eager"):
        for n in (2, 3, 5, 6, 3, 7):
            x = vector(n)
            np.testing.assert_allclose(
                np.asarray(by_size(xp.asarray(x)) + 1.0), x * (2 if n > 4 else 3) + 1
            )
    assert any("for each size" in r.getMessage() for r in caplog.records)


def test_a_wrong_guess_is_never_seen(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Programs are tried although positions of one symbol differ: what they assert fails."""

    def careless(self: Pattern, sizes: Any) -> bool:
        return all(
            s > 1 if k is not None else s == n for k, n, s in zip(self.symbols, self.sizes, sizes)
        )

    monkeypatch.setattr(Pattern, "fits", careless)
    with caplog.at_level(logging.DEBUG, "tenon.eager"):
        for n, m in ((3, 3), (4, 4), (5, 6), (7, 2)):
            x, y = vector(n), vector(m)
            outer = xp.exp(xp.reshape(xp.asarray(x), (n, 1))) - xp.asarray(y)
            np.testing.assert_allclose(np.asarray(outer), np.exp(x)[:, None] - y, rtol=1e-6)
            wide = xp.exp(xp.broadcast_to(xp.asarray(y), (n, m)))
            np.testing.assert_allclose(
                np.asarray(wide), np.exp(np.broadcast_to(y, (n, m))), rtol=1e-6
            )
    assert sum("for each size" in r.getMessage() for r in caplog.records) >= 1


def test_mistakes_are_raised_at_their_line_with_numbers() -> None:
    for n in (3, 4, 5):
        (xp.asarray(vector(n)) + xp.ones((n,))).tolist()
    with pytest.raises(ValueError, match=r"\(6,\) and \(5,\)"):
        xp.asarray(vector(6)) + xp.ones((5,))


def test_a_new_meaning_of_an_op_counts_for_all_sizes() -> None:
    def define(by: float) -> Any:
        @tenon.op("test.sized_scale")
        def scale(x: Any) -> Any:
            return x * by

        return scale

    for by in (2.0, 3.0):
        scale = define(by)
        for n in (2, 3, 4, 5):
            assert np.asarray(scale(xp.ones((n,)))).tolist() == [by] * n


def test_threads_grow_at_once() -> None:
    wrong = []

    def work(k: int) -> None:
        for n in range(2, 40):
            x = vector(n + k)
            got = np.asarray(xp.tanh(xp.asarray(x)) * 2.0 + xp.ones((n + k,)))
            if not np.allclose(got, np.tanh(x) * 2 + 1, 1e-5, 1e-5):
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
