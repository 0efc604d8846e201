"""Losses and training layers of tenon.nn against PyTorch's, with their gradients."""

import numpy as np
import pytest
import tenon
import torch
import torch.nn.functional as F
from tenon import nn, xp

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(6, 4)) * 2, RNG.normal(size=(6, 4))
P = RNG.uniform(0.01, 0.99, size=(6, 4))
BITS = (RNG.uniform(size=(6, 4)) > 0.5).astype(np.float64)
CLASSES = np.array([0, 3, 1, 1, 2, 0])
WEIGHT = np.array([1.0, 0.5, 2.0, 0.1])
IMAGE, PLACES = RNG.normal(size=(2, 4, 3, 5)), RNG.integers(0, 4, size=(2, 3, 5))


def both(ours, theirs, x):
    """Values and gradients by x of the sum of a loss."""
    value, slope = tenon.value_and_grad(lambda x: xp.sum(ours(x)))(xp.asarray(x))
    given = torch.tensor(x, requires_grad=True)
    wanted = theirs(given).sum()
    wanted.backward()
    assert float(value) == pytest.approx(wanted.item(), rel=1e-12)
    np.testing.assert_allclose(np.asarray(slope), given.grad.numpy(), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "name, x, y, options, theirs",
    [
        ("mse_loss", X, Y, {}, F.mse_loss),
        ("l1_loss", X, Y, {}, F.l1_loss),
        ("huber_loss", X, Y, {"delta": 0.7}, F.huber_loss),
        ("smooth_l1_loss", X, Y, {"beta": 0.7}, F.smooth_l1_loss),
        ("binary_cross_entropy", P, BITS, {}, F.binary_cross_entropy),
        ("binary_cross_entropy_with_logits", 20 * X, P, {}, F.binary_cross_entropy_with_logits),
    ],
)
def test_of_numbers(name, x, y, options, theirs, reduction):
    ours = getattr(nn, name)
    both(
        lambda x: ours(x, xp.asarray(y), reduction=reduction, **options),
        lambda x: theirs(x, torch.tensor(y), reduction=reduction, **options),
        x,
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignore", [None, 1])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("x, target", [(X, CLASSES), (IMAGE, PLACES)])
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_of_classes(name, x, target, weight, ignore, reduction):
    ours, theirs = getattr(nn, name), getattr(F, name)
    more = {} if ignore is None else {"ignore_index": ignore}
    both(
        lambda x: ours(
            x, xp.asarray(target), None if weight is None else xp.asarray(weight), ignore=ignore,
            reduction=reduction,
        ),
        lambda x: theirs(
            x, torch.tensor(target), None if weight is None else torch.tensor(weight),
            reduction=reduction, **more,
        ),
        x,
    )  # fmt: skip


def test_one_sample_and_several():
    def of_one(x, t):
        return nn.cross_entropy(x, t)

    slopes = tenon.vmap(tenon.grad(of_one))(xp.asarray(X), xp.asarray(CLASSES))
    per_sample = torch.func.vmap(torch.func.grad(F.cross_entropy))
    np.testing.assert_allclose(
        np.asarray(slopes), per_sample(torch.tensor(X), torch.tensor(CLASSES)).numpy(), rtol=1e-10
    )


def test_batch_norm_in_training():
    scale, bias = RNG.uniform(0.5, 2, size=4), RNG.normal(size=4)
    mean, var = RNG.normal(size=4), RNG.uniform(0.5, 2, size=4)
    arrays = [xp.asarray(a) for a in (scale, bias, mean, var)]
    running = [torch.tensor(a) for a in (mean, var)]
    weight = RNG.normal(size=IMAGE.shape)
    both(
        lambda x: nn.batch_norm_train(x, *arrays)[0] * xp.asarray(weight),
        lambda x: (
            F.batch_norm(
                x,
                *[r.clone() for r in running],
                torch.tensor(scale),
                torch.tensor(bias),
                training=True,
            )
            * torch.tensor(weight)
        ),
        IMAGE,
    )
    _, new_mean, new_var = nn.batch_norm_train(xp.asarray(IMAGE), *arrays)
    F.batch_norm(torch.tensor(IMAGE), *running, training=True)
    np.testing.assert_allclose(np.asarray(new_mean), running[0].numpy(), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(new_var), running[1].numpy(), rtol=1e-12)


def test_what_is_refused():
    for call, words in (
        (lambda: nn.mse_loss(xp.ones(2), xp.ones(2), reduction="avg"), "reduction is 'avg'"),
        (lambda: nn.cross_entropy(xp.ones((2, 3)), xp.ones(2)), "the target is float32"),
        (lambda: nn.huber_loss(xp.ones(2), xp.ones(2), delta=0), "delta is 0"),
    ):
        with pytest.raises(tenon.UsageError, match="T0667.*" + words):
            call()
