"""tenon.compile, tenon.nn, and how arrays wait."""

import dataclasses
import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import tenon
from tenon import nn, xp

RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_it_compiles_twice_when_sizes_change() -> None:
    @tenon.compile
    def f(x: Any, w: Any) -> Any:
        return nn.softmax(x @ w, axis=-1)

    w = random(8, 5)
    for n in (3, 4, 5, 17):
        x = random(n, 8)
        e = np.exp(x @ w)
        got = f(x, w)
        assert isinstance(got, np.ndarray)
        np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True), rtol=2e-5, atol=1e-6)
    assert f.compilations == 2
    f(random(1, 8), w)  # a size of 1 repeats, so it has a program of its own
    assert f.compilations == 3


def test_values_never_compile() -> None:
    @tenon.compile
    def f(x: Any, a: Any, *, k: Any) -> Any:
        return x * a + k

    x = random(4)
    for i in range(5):
        np.testing.assert_allclose(f(x, i, k=0.5 * i), x * i + 0.5 * i, rtol=1e-6)
    assert f.compilations == 1


def test_complex_values_never_compile() -> None:
    f = tenon.compile(lambda x, a: (x * a, a * 2))
    x = random(4)
    for i in range(5):
        product, twice = f(x, i + 0.5j)
        np.testing.assert_allclose(product, x * np.complex64(i + 0.5j), rtol=1e-6)
        assert product.dtype == np.complex64 and complex(twice) == 2 * i + 1j
    assert f.compilations == 1
    assert tenon.compile(lambda x: (x, 2j))(x)[1] == 2j
    with pytest.raises(TypeError, match="a Python complex"):
        f(np.ones(4, np.int32), 1j)


def test_what_is_computed_of_numbers_takes_the_type_of_the_other_side() -> None:
    x, i = random(4), np.arange(4, dtype=np.int32)
    for f, array, number in (
        (lambda x, a: x * (a * 2), x, 4.0),
        (lambda x, a: x * -a + a / 3, x, 4.0),
        (lambda x, a: (a * 2) * x, x, 3),
        (lambda x, a: x / a + (a + 0.5) * (a / 2), x, 3),
        (lambda x, a: xp.where(x > a, a, x), x, 0.5),
        (lambda x, a: x * xp.full((4,), a), x, 4.0),
        (lambda i, a: i * (a * 2) - -a, i, 3),
        (lambda x, a: x * (a * 2) - a / 4, x, 3 - 1j),
        (lambda x, a: xp.where(x > 0, a, xp.asarray(x, dtype=xp.complex64)), x, 3 - 1j),
    ):
        eager = np.asarray(f(xp.asarray(array), number))
        compiled = tenon.compile(f)(array, number)
        assert compiled.dtype == eager.dtype
        np.testing.assert_allclose(compiled, eager, rtol=1e-6)


def test_numbers_alone_have_default_types() -> None:
    product = tenon.compile(lambda a, b: a * b)(2, 3.5)
    assert (product.dtype, float(product)) == ("f32", 7.0)
    assert tenon.compile(lambda a, b: a * b)(2, 3).dtype == "i64"
    assert tenon.compile(lambda x, a: (x, xp.asarray(a)))(random(2), 2.0)[1].dtype == np.float32


def test_numbers_that_do_not_fit_are_reported() -> None:
    @tenon.compile
    def f(x: Any, a: Any) -> Any:
        return x + a

    x = np.ones(3, np.uint8)
    np.testing.assert_array_equal(f(x, 254), [255] * 3)
    for number in (300, -1):
        with pytest.raises(
            OverflowError, match=f"{number} is not a value of uint8.*test_compile.py:"
        ):
            f(x, number)
    assert f.compilations == 1
    with pytest.raises(OverflowError):
        tenon.compile(lambda a: xp.full((2,), a, dtype=xp.int8))(300)
    with pytest.raises(TypeError, match="float"):
        f(x, 1.5)


def test_structures() -> None:
    @tenon.compile
    def f(params: Any, pair: Any, mode: str = "a") -> Any:
        x, y = pair
        z = params["w"]["v"] * x + y
        return {"z": z, "t": (z[0], [xp.sum(z)])} if mode == "a" else z

    p, x, y = {"w": {"v": random(3)}}, random(3), random(3)
    got = f(p, (x, y))
    z = p["w"]["v"] * x + y
    np.testing.assert_allclose(got["z"], z, rtol=1e-6)
    np.testing.assert_allclose(got["t"][1][0], z.sum(), rtol=1e-5)
    np.testing.assert_allclose(f(p, [x, y], mode="b"), z, rtol=1e-6)
    assert isinstance(f(p, (xp.asarray(x), y))["z"], xp.Array)


def test_sizes_compute_like_numbers() -> None:
    @tenon.compile(dims={"x": ("n", None)})
    def f(x: Any) -> Any:
        n = x.shape[0]
        return (
            x[: n // 2],
            x[-2:],
            xp.zeros((n + 1, 2)),
            xp.reshape(x, (-1,)),
            xp.mean(x) * n,
            xp.arange(n),
        )

    for n in (4, 7, 9):
        x = random(n, 2)
        half, last, zeros, flat, total, index = f(x)
        np.testing.assert_array_equal(half, x[: n // 2])
        np.testing.assert_array_equal(last, x[-2:])
        assert zeros.shape == (n + 1, 2)
        np.testing.assert_array_equal(flat, x.reshape(-1))
        np.testing.assert_allclose(total, x.mean() * n, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(index, np.arange(n))
    assert f.compilations == 1


def test_sizes_and_numbers_in_results_stay_numbers() -> None:
    @tenon.compile
    def f(x: Any) -> Any:
        return (
            x + 1,
            x.shape[0],
            {"half": x.shape[0] / 2 if isinstance(x.shape[0], int) else 0.1, "yes": True},
        )

    for n in (3, 5, 8, 1):
        y, size, more = f(random(n, 2))
        assert (y.shape, size, type(size)) == ((n, 2), n, int)
        assert type(more["half"]) is float and more["yes"] is True
    assert tenon.compile(lambda x: (x, 0.1))(xp.ones(2))[1] == 0.1


@pytest.mark.parametrize("dims", [5, "n", (), (5, None), {0: None}, {-1: "n"}, {"0": "n"}, {}])
def test_names_of_sizes_that_say_nothing_are_refused(dims: Any) -> None:
    with pytest.raises(
        tenon.UsageError, match="T0602: dims: 'x' is .*a name or None for each axis"
    ):
        tenon.compile(lambda x: x * 2, dims={"x": dims})


def test_names_of_sizes_fit_the_argument() -> None:
    for dims in (("n", None, None), {2: "n"}):
        f = tenon.compile(lambda x: x * 2, dims={"x": dims})
        with pytest.raises(tenon.UsageError, match="T0602: dims: 'x' has 2 axes"):
            f(random(3, 2))
    f = tenon.compile(lambda x, k: x * k, dims={"k": ("n",)}, static="k")
    with pytest.raises(tenon.UsageError, match="T0602: dims: 'k' is an argument of static="):
        f(random(3, 2), 2)
    g = tenon.compile(lambda x: x * 2, dims={"x": {1: "m"}})
    assert (
        g(random(3, 2)).shape == (3, 2) and g(random(3, 4)).shape == (3, 4) and g.compilations == 1
    )


def test_names_of_sizes_are_free() -> None:
    @tenon.compile(dims={"x": ("n_0_0", None)})
    def f(x: Any, y: Any) -> Any:
        return x * 2, y * 3

    for n in (1, 0, 4, 1, 0):
        assert f(random(n, 2), random(3))[0].shape == (n, 2)
    assert f.compilations == 1
    f(random(4, 3), random(3))
    f(random(4, 5), random(4))
    f(random(1, 6), random(5))
    assert f.compilations == 3


def test_a_function_that_needs_numbers_is_compiled_for_each_size() -> None:
    @tenon.compile
    def f(x: Any) -> Any:
        return x * 2 if x.shape[0] > 3 else -x

    for n in (2, 3, 5, 7):
        x = random(n)
        np.testing.assert_array_equal(f(x), x * 2 if n > 3 else -x)
    assert f.compilations == 4


def test_sizes_that_depend_on_values() -> None:
    @tenon.compile
    def f(x: Any) -> Any:
        return x[x > 0] * 2, xp.unique_values(x)

    x = np.array([1, -1, 2, 1], np.float32)
    positive, values = f(x)
    np.testing.assert_array_equal(positive, [2, 4, 2])
    np.testing.assert_array_equal(values, [-1, 1, 2])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y,
        lambda x, y: xp.mean(xp.square(x - y)),
        lambda x, y: xp.where(x > y, x, y),
        lambda x, y: xp.var(x, axis=0) + xp.var(y, axis=0),
        lambda x, y: x - xp.mean(y, axis=0, keepdims=True),
    ],
)
def test_sizes_that_meet_are_assumed_equal(function: Any) -> None:
    compiled = tenon.compile(function)
    for n in (2, 3, 7, 12):
        x, y = random(n, 4), random(n, 4)
        expected = np.asarray(function(xp.asarray(x), xp.asarray(y)))
        np.testing.assert_allclose(compiled(x, y), expected, rtol=1e-4, atol=1e-5)
    assert compiled.compilations == 2


def test_writing_into_arrays_whose_sizes_change() -> None:
    @tenon.compile
    def f(x: Any, y: Any) -> Any:
        x += y
        x[y > 0] = 0
        return x

    for n in (2, 3, 7, 12):
        x, y = random(n, 4), random(n, 4)
        np.testing.assert_allclose(f(x, y), np.where(y > 0, 0, x + y), rtol=1e-6)
    assert f.compilations == 2


def test_an_array_is_written_where_a_mask_holds() -> None:
    @tenon.compile
    def f(x: Any, y: Any) -> Any:
        x[x > 0] = y
        return x

    x = np.array([1, -1, 2], np.float32)
    np.testing.assert_array_equal(f(x, np.array([7, 8], np.float32)), [7, -1, 8])
    np.testing.assert_array_equal(f(x, np.array([9], np.float32)), [9, -1, 9])
    with pytest.raises(tenon.UsageError):
        f(x, random(3))


def test_a_size_that_depends_on_values_is_no_number() -> None:
    def counts(x: Any, y: Any) -> Any:
        return y * len(xp.unique_values(x))

    def branches(x: Any, y: Any) -> Any:
        return y if xp.unique_values(x).shape[0] > 2 else x

    x, y = np.array([1, -1, 2], np.float32), random(2)
    for f in (counts, branches):
        compiled = tenon.compile(f)
        for _ in range(2):
            with pytest.raises(
                tenon.UnsupportedError,
                match=rf"T0632.*{f.__name__} \(.*test_compile.py:\d+\).*xp.where",
            ):
                compiled(x, y)


def test_mistakes_are_raised_at_their_line() -> None:
    @tenon.compile
    def f(x: Any, y: Any) -> Any:
        return x + y

    for n in (3, 4, 5):
        f(random(n), random(n))
    with pytest.raises(ValueError, match=r"\(5,\) and \(4,\) do not go together") as e:
        f(random(5), random(4))
    assert any(str(t.path) == __file__ and t.name == "f" for t in e.traceback)


def test_static_arguments_are_constants() -> None:
    @tenon.compile(static=("axis", "shape", "training"))
    def f(x: Any, axis: Any, *, shape: Any = (6,), training: bool = False) -> Any:
        y = xp.reshape(xp.sum(x, axis=axis), shape)
        return y * 2 if training else y

    x = random(4, 6)
    np.testing.assert_allclose(f(x, 0), x.sum(0), rtol=1e-5)
    np.testing.assert_allclose(f(x, axis=1, shape=(2, 2)), x.sum(1).reshape(2, 2), rtol=1e-5)
    np.testing.assert_allclose(f(x, 0, training=True), x.sum(0) * 2, rtol=1e-5)
    np.testing.assert_allclose(f(x, 0), x.sum(0), rtol=1e-5)
    assert f.compilations == 3
    with pytest.raises(tenon.UsageError, match="T0601.*axis is a list.*hashable"):
        f(x, [0])
    with pytest.raises(tenon.UsageError, match="T0602.*static.*'axes'"):
        tenon.compile(lambda x, axis: x, static=("axes",))(x, 1)


def test_one_is_not_true_among_constants() -> None:
    f = tenon.compile(lambda x, a: x * (3 if a is True else 5), static="a")
    assert [float(f(np.ones(1, np.float32), a)[0]) for a in (1, True, 1.0)] == [5, 3, 5]


def test_a_number_that_python_needs_is_named() -> None:
    f = tenon.compile(lambda x, axis: xp.sum(x, axis=axis))
    with pytest.raises(tenon.UsageError, match=r"T0628.*'axis'.*static=\('axis',\)"):
        f(random(2, 3), axis=1)
    g = tenon.compile(lambda x, training: x * 2 if training else x)
    with pytest.raises(tenon.UsageError, match=r"static=\('training',\)"):
        g(random(2), True)
    h = tenon.compile(lambda x, shape: xp.reshape(x, shape))
    with pytest.raises(tenon.UsageError, match=r"static=\('shape',\)"):
        h(random(2, 6), shape=(4, 3))


def test_types_are_constants() -> None:
    f = tenon.compile(lambda x, dtype: xp.astype(x, dtype))
    assert f(np.ones(2, np.int32), np.float32).dtype == np.float32
    assert f(np.ones(2, np.int32), dtype=xp.int8).dtype == np.int8


def test_what_a_trace_cannot_do() -> None:
    kept: list[Any] = []

    @tenon.compile
    def looks(x: Any) -> Any:
        return x if xp.sum(x) > 0 else -x

    @tenon.compile
    def keeps(x: Any) -> Any:
        kept.append(x + 1)
        return x

    @tenon.compile
    def fails(x: Any) -> Any:
        raise RuntimeError("mine")

    with pytest.raises(tenon.UsageError, match="T0628.*xp.where"):
        looks(random(3))
    keeps(random(3))
    with pytest.raises(tenon.UsageError, match="T0627|T0628"):
        print(kept[0] * 2)
    with pytest.raises(RuntimeError, match="mine"):
        fails(random(3))
    with pytest.raises(tenon.UsageError, match="set"):
        keeps({1, 2})
    np.testing.assert_array_equal(np.asarray(xp.ones(2)), [1, 1])  # nothing is left


def test_arrays_from_outside_are_constants() -> None:
    w = xp.asarray(random(3))

    @tenon.compile
    def f(x: Any) -> Any:
        return x * w

    x = random(3)
    np.testing.assert_allclose(f(x), x * np.asarray(w), rtol=1e-6)


def test_large_constants_are_the_bytes_of_python() -> None:
    from tenon import _host, _native

    def references(data: bytes) -> int:
        for _ in range(
            100
        ):  # what the host lets go is dropped between two steps of the interpreter
            pass
        return sys.getrefcount(data)

    _host.open()
    large, small = bytes(range(256)) * 32, bytes(range(16))
    before = references(large), references(small)
    trace = _native.Trace("g")
    values = [trace.constant("u8", [len(data)], data) for data in (large, small)]
    assert (references(large), references(small)) == (before[0] + 1, before[1])
    graph = trace.finish(values, ["large", "small"])
    del trace
    assert references(large) == before[0] + 1
    del graph
    assert (references(large), references(small)) == before
    trace = _native.Trace("g")
    with pytest.raises(tenon.UsageError, match="T0306"):
        trace.constant("u8", [7], large)
    trace.close()
    with pytest.raises(tenon.UsageError, match="T0630"):
        trace.constant("u8", [len(large)], large)
    assert references(large) == before[0]


class Scale:
    """A user's class with a compiled method."""

    def __init__(self, factor: float):
        self.factor = xp.asarray([factor])

    @tenon.compile
    def apply(self, x: Any) -> Any:
        return x * self.factor


def test_a_compiled_method_keeps_no_object_alive() -> None:
    import gc
    import weakref

    x = random(3)
    method = Scale.apply
    gone = []
    for i in range(5):
        scale = Scale(float(i))
        for _ in range(2):
            np.testing.assert_allclose(scale.apply(x), x * i, rtol=1e-6)
        gone.append(weakref.ref(scale))
    assert method.compilations == 5
    del scale
    gc.collect()
    assert not any(r() for r in gone)
    assert not method._kinds and not method._exact


def test_what_a_compiled_function_keeps_is_bounded() -> None:
    f = tenon.compile(lambda x, mode: x if mode else -x, static="mode")
    x = random(2)
    for i in range(600):
        f(x, f"mode {i}")
    assert len(f._kinds) <= 256 and len(f._exact) <= 256


def test_objects_in_results_are_kept() -> None:
    class Pair:
        pass

    f = tenon.compile(lambda x: (x, Pair()))
    assert all(type(f(random(2))[1]) is Pair for _ in range(2))


def test_threads() -> None:
    @tenon.compile
    def f(x: Any) -> Any:
        return xp.sum(x * 2)

    wrong: list[Any] = []

    def work(seed: int) -> None:
        for i in range(30):
            x = np.full(2 + (seed + i) % 5, seed, np.float32)
            if (
                float(f(x)) != 2 * seed * x.size
                or float(xp.sum(xp.asarray(x) + 1)) != (seed + 1) * x.size
            ):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_waiting_is_bounded() -> None:
    x = xp.asarray(random(4))
    y = x
    for _ in range(500):
        y = y + 1
    np.testing.assert_allclose(np.asarray(y), np.asarray(x) + 500, rtol=1e-5)
    z = xp.ones(())
    for _ in range(40):
        z = z + z  # shared, not repeated
    assert float(z) == 2.0**40


def test_other_kinds_of_arrays() -> None:
    x = xp.asarray(random(3))
    assert isinstance(np.asarray(x), np.ndarray)
    np.testing.assert_array_equal(np.from_dlpack(x), np.asarray(x))
    np.testing.assert_allclose(np.asarray(x + random(3) * 0), np.asarray(x))
    both = random(3) + x
    assert isinstance(both, xp.Array)
    np.testing.assert_array_equal(np.asarray(np.float32(2) * x), 2 * np.asarray(x))
    assert xp.asarray(np.float64(2)).dtype is xp.float64
    memory = np.ones(3, np.float32)
    copied = xp.asarray(memory)
    memory[0] = 5
    assert float(copied[0]) == 1.0
    assert xp.asarray(np.ones(2, complex)).dtype is xp.complex128
    with pytest.raises(OverflowError):
        xp.asarray([300], dtype=xp.int8)
    with pytest.raises(ValueError, match="unequal"):
        xp.asarray([[1], [2, 3]])
    with pytest.raises((TypeError, tenon.UsageError)):
        xp.asarray([object()])


# ---- nn ----


def test_activations() -> None:
    x = random(5, 4)
    m = xp.asarray(x)
    sigmoid = 1 / (1 + np.exp(-x))
    for mine, theirs in (
        (nn.relu(m), np.maximum(x, 0)),
        (nn.silu(m), x * sigmoid),
        (nn.sigmoid(m), sigmoid),
        (nn.leaky_relu(m, 0.1), np.where(x > 0, x, 0.1 * x)),
        (nn.elu(m), np.where(x > 0, x, np.expm1(x))),
        (nn.softplus(m), np.log1p(np.exp(x))),
        (nn.hard_sigmoid(m), np.clip(x / 6 + 0.5, 0, 1)),
        (nn.gelu(m, approximate=True), 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
        (nn.log_softmax(m), x - np.log(np.exp(x).sum(-1, keepdims=True))),
        (nn.logsumexp(m, axis=0), np.log(np.exp(x).sum(0))),
    ):  # fmt: skip
        np.testing.assert_allclose(np.asarray(mine), theirs, rtol=2e-5, atol=2e-6)


def test_layers() -> None:
    x, s, b = random(2, 4, 6), random(6), random(6)
    m = xp.asarray(x)
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    np.testing.assert_allclose(
        np.asarray(nn.layer_norm(m, xp.asarray(s), xp.asarray(b))), (x - mean) / np.sqrt(var + 1e-5) * s + b,
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip
    np.testing.assert_allclose(
        np.asarray(nn.rms_norm(m, xp.asarray(s))), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * s,
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip
    w = random(6, 3)
    np.testing.assert_allclose(np.asarray(nn.linear(m, xp.asarray(w), activation="relu")), np.maximum(x @ w, 0),
                               rtol=1e-4, atol=1e-5)  # fmt: skip
    assert nn.group_norm(m, xp.ones(4), xp.zeros(4), groups=2).shape == x.shape
    assert nn.conv(xp.ones((1, 2, 5, 5)), xp.ones((3, 2, 3, 3)), xp.ones(3), padding=1).shape == (
        1,
        3,
        5,
        5,
    )
    assert nn.max_pool(xp.ones((1, 2, 6, 6)), 2).shape == (1, 2, 3, 3)
    assert nn.avg_pool(xp.ones((1, 2, 6, 6)), 3, strides=1, padding=1).shape == (1, 2, 6, 6)
    one_hot = nn.one_hot(xp.asarray([0, 2]), 3)
    np.testing.assert_array_equal(np.asarray(one_hot), [[1, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(
        np.asarray(nn.embedding(xp.asarray(w), xp.asarray([5, 0]))), w[[5, 0]]
    )
    q = xp.asarray(random(1, 2, 3, 4))
    scores = np.asarray(q) @ np.asarray(q).mT / 2
    scores = np.where(np.tril(np.ones((3, 3), bool)), scores, -np.inf)
    p = np.exp(scores)
    np.testing.assert_allclose(np.asarray(nn.attention(q, q, q, causal=True)),
                               p / p.sum(-1, keepdims=True) @ np.asarray(q), rtol=1e-4, atol=1e-5)  # fmt: skip


def test_nothing_is_left() -> None:
    import gc

    def used() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    f = tenon.compile(lambda x: x * 2 + 1)
    x = xp.asarray(random(1000, 250))  # 1 MB
    gc.disable()  # counts of references have to be enough
    try:
        for round in range(60):
            if round == 10:
                before = used()
            y = (x + 1) * 2
            _ = y - 1  # never read
            float(xp.sum(y))
            float(f(x)[0, 0])
        assert used() - before < 20e6
    finally:
        gc.enable()


def test_frozen_dataclasses_are_known_by_their_fields_and_not_held() -> None:
    @dataclasses.dataclass(frozen=True)
    class Config:
        scale: int
        owner: object = None

    class Owner:
        pass

    @tenon.compile
    def scaled(x: Any, config: Any) -> Any:
        return x * config.scale

    owner = Owner()
    gone, x = weakref.ref(owner), np.ones(2)
    assert scaled(x, Config(2, owner)).tolist() == [2, 2]
    assert scaled(x, Config(2, owner)).tolist() == [2, 2] and scaled.compilations == 1
    assert scaled(x, Config(3, owner)).tolist() == [3, 3] and scaled.compilations == 2
    del owner
    gc.collect()
    assert gone() is None
    assert scaled(x, Config(2)).tolist() == [2, 2] and scaled(x, Config(2)).tolist() == [2, 2]
    assert scaled.compilations == 3
    with pytest.raises(tenon.UsageError, match="T0601.*owner"):
        scaled(x, Config(2, []))
