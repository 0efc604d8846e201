"""What networks are trained with: losses, dropout, batch normalisation over a batch."""

from __future__ import annotations

from tenon import xp
from tenon._errors import UsageError
from tenon._transforms.regions import type_text
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import Value, emit
from tenon.random import _key
from tenon.xp._array import Array, value_of
from tenon.xp._shape import axis_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CODE = "T0667"
_REDUCTIONS = ("none", "sum", "mean")


def _reduction(what: str, given: str) -> str:
    if given not in _REDUCTIONS:
        raise UsageError(f"{what}: reduction is {given!r}: 'mean', 'sum' or 'none'", CODE)
    return given


def _reduced(loss: Array, reduction: str) -> Array:
    if reduction == "none":
        return loss
    return xp.sum(loss) if reduction == "sum" else xp.mean(loss)


def _by_class(
    op: str, what: str, x: Array, target: Array, weight: Array | None, ignore: int | None,
    reduction: str,
) -> Array:  # fmt: skip
    v, t = value_of(x), value_of(target)
    if not dt.is_integer(t.dtype):
        raise UsageError(
            f"{what}: the target is {type_text(t)}, and it is an integer array: the class of each",
            CODE,
        )
    alone = len(v.shape) == 1 and t.shape == ()
    if alone:
        v, t = ops.reshape(v, (1, *v.shape)), ops.reshape(t, (1,))
    given = {"reduction": _reduction(what, reduction)}
    more: Any = ops.attrs(**given) if ignore is None else ops.attrs(ignore=ignore, **given)
    operands = [v, t] if weight is None else [v, t, value_of(weight)]
    out = emit(op, operands, more)[0]
    return Array(ops.reshape(out, ()) if alone and reduction == "none" else out)


def cross_entropy(
    logits: Array, target: Array, weight: Array | None = None, /, *, ignore: int | None = None,
    reduction: str = "mean",
) -> Array:  # fmt: skip
    """nll_loss of log_softmax(logits) over axis 1.

    logits [batch, classes, ...] or [classes], target [batch, ...] or a number: the class of each.
    `weight` has one entry per class, `ignore` is a class that does not count; with "mean" the sum is
    divided by the sum of the weights.
    """
    return _by_class(
        "softmax_cross_entropy", "cross_entropy", logits, target, weight, ignore, reduction
    )


def nll_loss(
    x: Array, target: Array, weight: Array | None = None, /, *, ignore: int | None = None,
    reduction: str = "mean",
) -> Array:  # fmt: skip
    """-x at the class of each, where x are logarithms of probabilities. As `cross_entropy` otherwise."""
    return _by_class("nll_loss", "nll_loss", x, target, weight, ignore, reduction)


def mse_loss(x: Array, y: Array, /, *, reduction: str = "mean") -> Array:
    """(x - y)^2."""
    return _reduced(xp.square(x - y), _reduction("mse_loss", reduction))


def l1_loss(x: Array, y: Array, /, *, reduction: str = "mean") -> Array:
    """|x - y|."""
    return _reduced(xp.abs(x - y), _reduction("l1_loss", reduction))


def huber_loss(x: Array, y: Array, /, *, delta: float = 1.0, reduction: str = "mean") -> Array:
    """(x - y)^2 / 2 where |x - y| is at most delta, delta (|x - y| - delta / 2) beyond."""
    _reduction("huber_loss", reduction)
    if not delta > 0:
        raise UsageError(f"huber_loss: delta is {delta}, and it is above 0", CODE)
    distance = xp.abs(x - y)
    near = 0.5 * xp.square(distance)
    return _reduced(xp.where(distance <= delta, near, delta * (distance - 0.5 * delta)), reduction)


def smooth_l1_loss(x: Array, y: Array, /, *, beta: float = 1.0, reduction: str = "mean") -> Array:
    """huber_loss with delta = beta, divided by it."""
    return huber_loss(x, y, delta=beta, reduction=reduction) / beta


def binary_cross_entropy(p: Array, target: Array, /, *, reduction: str = "mean") -> Array:
    """-target log(p) - (1 - target) log(1 - p) for probabilities. Logarithms are at least -100."""
    _reduction("binary_cross_entropy", reduction)
    floor = -100.0
    yes, no = xp.clip(xp.log(p), min=floor), xp.clip(xp.log1p(-p), min=floor)
    return _reduced(-(target * yes + (1.0 - target) * no), reduction)


def binary_cross_entropy_with_logits(
    x: Array, target: Array, /, *, reduction: str = "mean"
) -> Array:
    """binary_cross_entropy of sigmoid(x), without overflow."""
    _reduction("binary_cross_entropy_with_logits", reduction)
    return _reduced(Array(ops.one("softplus", value_of(x))) - x * target, reduction)


def dropout(x: Array, p: float, key: Array, /) -> Array:
    """x with elements set to 0 with probability p, and the others divided by 1 - p.

    `key` is one of tenon.random. For inference leave it out.
    """
    if not 0 <= p < 1:
        raise UsageError(f"dropout: p is {p}, and it is at least 0 and below 1", CODE)
    operands: list[Value | None] = [value_of(x), _key(key, "dropout"), ops.scalar(0, dt.uint64)]
    return Array(emit("dropout", operands, ops.attrs(rate=float(p)))[0])


def batch_norm_train(
    x: Array, scale: Array, bias: Array, mean: Array, var: Array, /, *, axis: int = 1,
    epsilon: float = 1e-5, momentum: float = 0.9,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """batch_norm with the mean and variance of x itself, and the running ones brought on.

    Returns `(y, new mean, new var)`; `momentum` is the part of the running statistics that stays, so
    that PyTorch's is 1 - momentum. The new variance is the unbiased one, as PyTorch's.
    """
    v = value_of(x)
    others = [value_of(a) for a in (scale, bias, mean, var)]
    given = ops.attrs(
        correction=1,
        dim=axis_of(axis, len(v.shape)),
        epsilon=float(epsilon),
        momentum=float(momentum),
    )
    y, new_mean, new_var = emit("batch_norm_train", [v, *others], given)
    return Array(y), Array(new_mean), Array(new_var)
