"""Functions of torch.func's documentation and tutorials, written in tenon.xp and compared with torch.func.

Each case has the same formulas in both libraries: `np` is tenon.xp or torch, and `lib` has the
transforms of one of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

import tenon  # noqa: E402
from tenon import nn, xp  # noqa: E402

BOUND = 1e-5  # of the largest value
RANDOM = np.random.default_rng(20)


class OfTenon:
    """The transforms by torch.func's names, and functions on arrays."""

    grad, vjp, jvp, vmap = map(staticmethod, (tenon.grad, tenon.vjp, tenon.jvp, tenon.vmap))
    jacrev, jacfwd, hessian = map(staticmethod, (tenon.jacrev, tenon.jacfwd, tenon.hessian))
    linearize = staticmethod(tenon.linearize)
    sin, cos, tanh, exp, ones_like = map(
        staticmethod, (xp.sin, xp.cos, xp.tanh, xp.exp, xp.ones_like)
    )
    log_softmax, relu, layer_norm = map(staticmethod, (nn.log_softmax, nn.relu, nn.layer_norm))

    @staticmethod
    def sum(x: Any, axis: Any = None) -> Any:
        return xp.sum(x, axis=axis)

    @staticmethod
    def take(x: Any, labels: Any) -> Any:
        return xp.take_along_axis(x, xp.expand_dims(labels, axis=-1), axis=-1)

    @staticmethod
    def grad_and_value(f: Any, argnums: Any = 0) -> Any:
        both = tenon.value_and_grad(f, argnums)
        return lambda *args: tuple(reversed(both(*args)))


class OfTorch:
    grad, vjp, jvp = map(staticmethod, (torch.func.grad, torch.func.vjp, torch.func.jvp))
    jacrev, jacfwd, hessian = map(
        staticmethod, (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian)
    )
    linearize = staticmethod(torch.func.linearize)
    sin, cos, tanh, exp, ones_like = map(
        staticmethod, (torch.sin, torch.cos, torch.tanh, torch.exp, torch.ones_like)
    )
    grad_and_value = staticmethod(torch.func.grad_and_value)
    relu = staticmethod(torch.relu)

    @staticmethod
    def vmap(f: Any, in_axes: Any = 0, out_axes: Any = 0) -> Any:
        return torch.func.vmap(f, in_axes, out_axes)

    @staticmethod
    def log_softmax(x: Any) -> Any:
        return torch.log_softmax(x, -1)

    @staticmethod
    def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
        return torch.nn.functional.layer_norm(x, scale.shape, scale, bias)

    @staticmethod
    def sum(x: Any, axis: Any = None) -> Any:
        return torch.sum(x) if axis is None else torch.sum(x, axis)

    @staticmethod
    def take(x: Any, labels: Any) -> Any:
        return torch.take_along_dim(x, labels[..., None], -1)


def numbers(*shape: int) -> Any:
    return RANDOM.standard_normal(shape)


def flat(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in flat(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in flat(part)]
    return [tree]


def mapped(f: Any, tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: mapped(f, part) for key, part in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(mapped(f, part) for part in tree)
    return f(tree)


def compare(case: Any, *args: Any) -> None:
    """The case in Tenon, compiled as a whole and called at once, against torch.func."""
    expected = flat(case(OfTorch)(*mapped(lambda a: torch.from_numpy(np.array(a)), args)))
    for found in (tenon.compile(case(OfTenon))(*args), case(OfTenon)(*mapped(xp.asarray, args))):
        leaves = flat(found)
        assert len(leaves) == len(expected)
        for mine, theirs in zip(leaves, expected):
            mine, theirs = np.asarray(mine), theirs.detach().resolve_conj().numpy()
            assert mine.shape == theirs.shape
            assert np.abs(mine - theirs).max(initial=0) <= BOUND * np.abs(theirs).max(initial=1e-30)


# ---- Models ----

WEIGHTS = {"w1": numbers(6, 8) * 0.4, "b1": numbers(8), "w2": numbers(8, 5) * 0.4, "b2": numbers(5)}
IMAGES, LABELS = numbers(7, 6), RANDOM.integers(0, 5, 7)


def mlp(lib: Any, weights: Any, x: Any) -> Any:
    return lib.tanh(x @ weights["w1"] + weights["b1"]) @ weights["w2"] + weights["b2"]


def cross_entropy(lib: Any, logits: Any, labels: Any) -> Any:
    return -lib.sum(lib.take(lib.log_softmax(logits), labels)) / (
        logits.shape[0] if logits.ndim > 1 else 1
    )


def predict(lib: Any) -> Any:
    """The function of the tutorial on Jacobians."""
    return lambda weight, bias, x: lib.tanh(x @ weight + bias)


PREDICT = numbers(6, 6) * 0.5, numbers(6), numbers(6)


# ---- torch.func's reference: the examples of each function ----


def test_grad() -> None:
    compare(lambda lib: lib.grad(lambda x: lib.sum(lib.sin(x))), numbers(3))
    compare(lambda lib: lib.grad(lib.grad(lambda x: lib.sin(x))), numbers())


def test_grad_and_value() -> None:
    compare(
        lambda lib: lib.grad_and_value(lambda x, y: lib.sum((x + y) ** 2), (0, 1)),
        numbers(3),
        numbers(3),
    )


def test_grad_of_tuples() -> None:
    def case(lib: Any) -> Any:
        return lib.grad(lambda pair, s: lib.sum(pair[0] * pair[1]) * s, (0, 1))

    compare(case, (numbers(3), numbers(3)), numbers())


def test_vjp() -> None:
    def case(lib: Any) -> Any:
        def run(x: Any, ct: Any) -> Any:
            y, pull = lib.vjp(lambda x: (lib.sin(x), lib.cos(x)), x)
            return y, pull((ct, ct))

        return run

    compare(case, numbers(5), numbers(5))


def test_jvp() -> None:
    def case(lib: Any) -> Any:
        return lambda x, y, t: lib.jvp(lambda x, y: lib.sum(x * y, 0) * lib.sin(y), (x, y), (t, t))

    compare(case, numbers(5), numbers(5), numbers(5))


def test_linearize() -> None:
    def case(lib: Any) -> Any:
        def run(x: Any, t: Any) -> Any:
            y, push = lib.linearize(lambda x: lib.sin(x) * x, x)
            return y, push(t), push(t * 2.0)

        return run

    compare(case, numbers(5), numbers(5))


def test_jacrev_jacfwd() -> None:
    for mode in ("jacrev", "jacfwd"):
        compare(lambda lib: getattr(lib, mode)(lib.sin), numbers(5))
        compare(lambda lib: getattr(lib, mode)(lambda x: (lib.sin(x), lib.sum(x * x))), numbers(5))
        compare(lambda lib: getattr(lib, mode)(lambda x, y: x + y * y, 1), numbers(5), numbers(5))
        compare(
            lambda lib: getattr(lib, mode)(getattr(lib, mode)(lambda x: lib.sin(x) * x)), numbers(3)
        )


def test_hessian() -> None:
    compare(lambda lib: lib.hessian(lambda x: lib.sum(lib.sin(x) * x * x)), numbers(5))


def test_vmap() -> None:
    compare(lambda lib: lib.vmap(lambda x, y: lib.sum(x * y)), numbers(4, 5), numbers(4, 5))
    compare(lambda lib: lib.vmap(lambda x, y: x @ y, (0, None)), numbers(4, 5), numbers(5))
    compare(
        lambda lib: lib.vmap(lib.vmap(lambda x, y: lib.sum(x * y))),
        numbers(2, 4, 5),
        numbers(2, 4, 5),
    )
    compare(lambda lib: lib.vmap(lambda x: (x * x, x), 1, 1), numbers(3, 5))
    compare(
        lambda lib: lib.vmap(lambda d: d["a"] + d["b"]), {"a": numbers(4, 2), "b": numbers(4, 2)}
    )


# ---- Tutorials ----


def test_per_sample_gradients() -> None:
    def case(lib: Any) -> Any:
        def loss(weights: Any, x: Any, label: Any) -> Any:
            return cross_entropy(lib, mlp(lib, weights, x), label)

        return lib.vmap(lib.grad(loss), in_axes=(None, 0, 0))

    compare(case, WEIGHTS, IMAGES, LABELS)


def test_model_ensembling() -> None:
    stacked = {name: np.stack([w, w * 0.5, w - 0.1]) for name, w in WEIGHTS.items()}
    batches = numbers(3, 7, 6)
    compare(lambda lib: lib.vmap(lambda w, x: mlp(lib, w, x)), stacked, batches)
    compare(lambda lib: lib.vmap(lambda w, x: mlp(lib, w, x), in_axes=(0, None)), stacked, IMAGES)


def test_ensembles_train() -> None:
    stacked = {name: np.stack([w, w * 0.5, w - 0.1]) for name, w in WEIGHTS.items()}

    def case(lib: Any) -> Any:
        def loss(w, x, label):
            return cross_entropy(lib, mlp(lib, w, x), label)

        return lib.vmap(lib.grad(loss), in_axes=(0, None, None))

    compare(case, stacked, IMAGES, LABELS)


def test_jacobians() -> None:
    for mode in ("jacrev", "jacfwd"):
        for argument in (0, 1, 2):
            compare(lambda lib: getattr(lib, mode)(predict(lib), argument), *PREDICT)


def test_jacobian_by_vjp_and_vmap() -> None:
    def case(lib: Any) -> Any:
        def run(weight: Any, bias: Any, x: Any, unit: Any) -> Any:
            pull = lib.vjp(lambda x: predict(lib)(weight, bias, x), x)[1]
            return lib.vmap(lambda ct: pull(ct)[0])(unit)

        return run

    compare(case, *PREDICT, np.eye(6))


def test_hessians() -> None:
    for outer in ("jacfwd", "jacrev"):
        for inner in ("jacfwd", "jacrev"):
            compare(
                lambda lib: getattr(lib, outer)(getattr(lib, inner)(predict(lib), 2), 2), *PREDICT
            )


def test_batch_of_jacobians_and_hessians() -> None:
    weight, bias, _ = PREDICT
    xs = numbers(4, 6)
    compare(
        lambda lib: lib.vmap(lib.jacrev(predict(lib), 2), in_axes=(None, None, 0)), weight, bias, xs
    )
    compare(
        lambda lib: lib.vmap(lib.hessian(predict(lib), 2), in_axes=(None, None, 0)),
        weight,
        bias,
        xs,
    )


def test_hessian_vector_products() -> None:
    def reverse_reverse(lib: Any) -> Any:
        def run(x: Any, v: Any) -> Any:
            _, pull = lib.vjp(lib.grad(lambda x: lib.sum(lib.sin(x) * x)), x)
            return pull(v)

        return run

    def forward_reverse(lib: Any) -> Any:
        return lambda x, v: lib.jvp(lib.grad(lambda x: lib.sum(lib.sin(x) * x)), (x,), (v,))[1]

    compare(reverse_reverse, numbers(6), numbers(6))
    compare(forward_reverse, numbers(6), numbers(6))


def ntk(lib: Any) -> Any:
    """Both ways of the tutorial: contracted Jacobians, and products of vectors with the kernel."""
    names = sorted(WEIGHTS)

    def of_weights(x: Any) -> Any:
        return lambda *parts: mlp(lib, dict(zip(names, parts)), x)

    def contracted(weights: Any, xs1: Any, xs2: Any) -> Any:
        total: Any = 0.0
        for i in range(len(names)):

            def jacobian(x: Any, i: int = i) -> Any:
                parts = [weights[n] for n in names]
                return lib.jacrev(lambda w: of_weights(x)(*parts[:i], w, *parts[i + 1 :]))(parts[i])

            j1, j2 = lib.vmap(jacobian)(xs1), lib.vmap(jacobian)(xs2)
            j1 = (
                j1.reshape(j1.shape[0], 5, -1)
                if hasattr(j1, "reshape")
                else xp.reshape(j1, (j1.shape[0], 5, -1))
            )
            j2 = (
                j2.reshape(j2.shape[0], 5, -1)
                if hasattr(j2, "reshape")
                else xp.reshape(j2, (j2.shape[0], 5, -1))
            )
            total = total + lib.vmap(lambda a: lib.vmap(lambda b: a @ b.T)(j2))(j1)
        return total

    def products(weights: Any, xs1: Any, xs2: Any, unit: Any) -> Any:
        parts = tuple(weights[n] for n in names)

        def one(x1: Any, x2: Any) -> Any:
            def product(v: Any) -> Any:
                pulled = lib.vjp(of_weights(x1), *parts)[1](v)
                return lib.jvp(of_weights(x2), parts, tuple(pulled))[1]

            return lib.vmap(product)(unit)

        return lib.vmap(lambda a: lib.vmap(lambda b: one(a, b))(xs2))(xs1)

    def both(weights: Any, xs1: Any, xs2: Any, unit: Any) -> Any:
        return contracted(weights, xs1, xs2), products(weights, xs1, xs2, unit)

    return both


def test_neural_tangent_kernels() -> None:
    compare(ntk, WEIGHTS, numbers(3, 6), numbers(2, 6), np.eye(5))


def test_maml() -> None:
    """The regression of sines: the gradient of a loss after a step of gradient descent, per task."""
    weights = [
        numbers(1, 10),
        numbers(10),
        numbers(10, 10) * 0.4,
        numbers(10),
        numbers(10, 1),
        numbers(1),
    ]
    xs, ys, xs2, ys2 = (numbers(4, 10, 1) for _ in range(4))

    def case(lib: Any) -> Any:
        def net(w: Any, x: Any) -> Any:
            x = lib.relu(x @ w[0] + w[1])
            x = lib.relu(x @ w[2] + w[3])
            return x @ w[4] + w[5]

        def mse(w: Any, x: Any, y: Any) -> Any:
            return lib.sum((net(w, x) - y) ** 2) / y.shape[0]

        def loss_after_step(w: Any, x: Any, y: Any, x2: Any, y2: Any) -> Any:
            step = lib.grad(mse)(w, x, y)
            return mse([a - 0.1 * g for a, g in zip(w, step)], x2, y2)

        def meta_loss(w: Any, *tasks: Any) -> Any:
            return lib.sum(lib.vmap(loss_after_step, in_axes=(None, 0, 0, 0, 0))(w, *tasks)) / 4

        return lib.grad(meta_loss)

    compare(case, weights, xs, ys, xs2, ys2)


def test_layer_norm_in_a_loss() -> None:
    def case(lib: Any) -> Any:
        return lib.hessian(lambda s, b, x: lib.sum(lib.layer_norm(x, s, b) ** 3), 2)

    compare(case, numbers(4), numbers(4), numbers(4))
