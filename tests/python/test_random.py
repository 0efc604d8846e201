"""tenon.random: moments, independence of keys, the same numbers everywhere."""

import math

import numpy as np
import pytest
import tenon
from tenon import random, xp

N = 100_000
KEY = random.key(7)


def numbers(x):
    return np.asarray(x).astype(np.float64)


def close_to_normal(mean, wanted, deviation, count):
    """Within five standard errors."""
    return abs(mean - wanted) < 5 * deviation / math.sqrt(count)


def test_keys():
    assert random.key(0).tolist() == [0, 0]
    assert random.key(2**32 + 5).tolist() == [5, 1]
    for seed in (0, 5, -1, 2**40 + 3):
        assert random.key(seed).tolist() == random.key(xp.asarray(seed)).tolist()
    several = [
        *random.split(KEY, 50).tolist(),
        *(random.fold_in(KEY, i).tolist() for i in range(50)),
    ]
    assert len({tuple(k) for k in several}) == 100
    assert random.fold_in(KEY, 3).tolist() == random.fold_in(KEY, xp.asarray(3)).tolist()
    # Threefry's published vector: key 0, counter 0.
    assert random.split(random.key(0))[0].tolist() == [0x6B200159, 0x99BA4EFE]


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64])
def test_moments(dtype):
    x = numbers(random.normal(KEY, (N,), dtype))
    assert close_to_normal(x.mean(), 0, 1, N) and close_to_normal((x**2).mean(), 1, 2**0.5, N)
    assert close_to_normal((x**3).mean(), 0, 15**0.5, N)
    assert close_to_normal((x**4).mean(), 3, 96**0.5, N)
    u = numbers(random.uniform(KEY, (N,), dtype, -1.0, 3.0))
    assert -1 <= u.min() and u.max() <= 3
    assert close_to_normal(u.mean(), 1, 4 / 12**0.5, N)
    assert close_to_normal(((u - 1) ** 2).mean(), 16 / 12, 16 / 180**0.5, N)


def test_bernoulli_and_categorical():
    p = 0.3
    assert close_to_normal(numbers(random.bernoulli(KEY, p, N)).mean(), p, (p * (1 - p)) ** 0.5, N)
    each = random.bernoulli(KEY, xp.asarray([0.0, 1.0]), (50, 2))
    assert numbers(each).mean(0).tolist() == [0, 1]
    p = np.array([0.1, 0.2, 0.7, 0.0])
    with np.errstate(divide="ignore"):
        logits = xp.asarray(np.log(p))
    drawn = numbers(random.categorical(KEY, logits, shape=(N,)))
    for i in range(4):
        assert close_to_normal((drawn == i).mean(), p[i], (p[i] * (1 - p[i])) ** 0.5 + 1e-12, N)
    rows = random.categorical(KEY, xp.zeros((3, 5)), axis=0)
    assert rows.shape == (5,) and set(rows.tolist()) <= {0, 1, 2}


def test_permutation():
    order = random.permutation(KEY, 1000)
    assert sorted(order.tolist()) == list(range(1000)) != order.tolist()
    x = np.arange(12).reshape(3, 4)
    mixed = np.asarray(random.permutation(KEY, xp.asarray(x), axis=1))
    assert sorted(mixed[0].tolist()) == [0, 1, 2, 3]
    np.testing.assert_array_equal(mixed - mixed[:1], x - x[:1])


def test_streams_of_split_keys_are_independent():
    keys = random.split(KEY, 4)
    draws = [numbers(random.normal(k, (N,))) for k in (KEY, random.fold_in(KEY, 0), *(keys[i] for i in range(4)))]  # fmt: skip
    for i in range(len(draws)):
        for j in range(i):
            assert close_to_normal((draws[i] * draws[j]).mean(), 0, 1, N), (i, j)


def test_equal_numbers_compiled_and_at_once():
    for draw in (
        lambda k: random.normal(k, (33,)),
        lambda k: random.uniform(k, (5, 2), xp.float64, 2, 5),
        lambda k: random.bernoulli(k, 0.4, (40,)),
        lambda k: random.categorical(k, xp.zeros(7), shape=(20,)),
        lambda k: random.permutation(k, 30),
        lambda k: random.split(random.fold_in(k, 9), 3),
        lambda k: tenon.nn.dropout(xp.ones(50), 0.5, k),
    ):
        assert tenon.compile(draw)(KEY).tolist() == draw(KEY).tolist()


def test_samples():
    keys = random.split(KEY, 5)
    own = tenon.vmap(lambda k: random.normal(k, (3,)))(keys)
    assert own.tolist() == [random.normal(keys[i], (3,)).tolist() for i in range(5)]
    assert len({tuple(row) for row in own.tolist()}) == 5
    shared = tenon.vmap(lambda x: x + random.normal(KEY, (3,)))(xp.zeros((5, 1)))
    assert shared.tolist() == [random.normal(KEY, (3,)).tolist()] * 5
    orders = tenon.vmap(lambda k: random.permutation(k, 6))(keys)
    assert [sorted(row) for row in orders.tolist()] == [list(range(6))] * 5


def test_derivatives_go_around_them():
    """A number that is drawn does not depend on anything that varies; what scales it does."""

    def f(s):
        return xp.sum(s * random.normal(KEY, (4,)))

    assert float(tenon.grad(f)(xp.asarray(2.0))) == pytest.approx(float(f(xp.asarray(1.0))))
    dropped = tenon.nn.dropout(xp.ones(50), 0.25, KEY)
    assert set(np.round(dropped.tolist(), 5)) == {0.0, 1.33333}
    slopes = tenon.grad(lambda x: xp.sum(tenon.nn.dropout(x, 0.25, KEY)))(xp.ones(50))
    assert slopes.tolist() == dropped.tolist()


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: random.normal(3), "random.normal: 3 is not a key"),
        (lambda: random.normal(random.split(KEY)), r"uint32\(2, 2\) is not a key.*vmap"),
        (lambda: random.uniform(KEY, 3, xp.int32), "dtype is int32"),
        (lambda: random.key(2**64), "does not fit 64 bits"),
        (lambda: random.key(xp.asarray(1.5)), "the seed is float32"),
        (lambda: random.fold_in(KEY, 1.5), "the data is float32"),
        (lambda: random.categorical(KEY, xp.zeros((3, 4)), shape=(2,)), r"ends with .* \(3,\)"),
        (lambda: tenon.nn.dropout(xp.ones(3), 1.0, KEY), "T0667: dropout: p is 1.0"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(tenon.UsageError, match=words):
        call()
