"""Functions of neural networks on arrays of tenon.xp.

Each is one op of Tenon that devices may take as a whole, which is faster than its parts. They work
at once and in functions that are traced. Types are not converted; floating-point arrays unless said.
"""

from __future__ import annotations

from tenon._losses import (
    batch_norm_train,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    dropout,
    huber_loss,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from tenon.builder import dtypes as dt
from tenon.builder import ops
from tenon.builder.trace import DIMS, DTYPE, Value, emit
from tenon.xp import _indexing
from tenon.xp._array import Array, value_of
from tenon.xp._shape import axis_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tenon.builder.dtypes import DType

__all__ = [
    "attention", "avg_pool", "batch_norm", "batch_norm_train", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "celu", "conv", "cross_entropy", "dropout", "elu",
    "embedding", "gelu", "group_norm", "hard_sigmoid", "hard_swish", "huber_loss", "l1_loss",
    "layer_norm", "leaky_relu", "linear", "log_softmax", "logsumexp", "max_pool", "mish", "mse_loss",
    "nll_loss", "one_hot", "relu", "rms_norm", "selu", "sigmoid", "silu", "smooth_l1_loss",
    "softmax", "softplus", "softsign",
]  # fmt: skip


def _activation(name: str, op: str, doc: str) -> Callable[[Array], Array]:
    def function(x: Array, /) -> Array:
        return Array(ops.one(op, value_of(x)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc + " Same shape and type."
    return function


relu = _activation("relu", "relu", "max(x, 0); NaN stays.")
silu = _activation("silu", "silu", "x * sigmoid(x).")
sigmoid = _activation("sigmoid", "logistic", "1 / (1 + exp(-x)).")
mish = _activation("mish", "mish", "x * tanh(softplus(x)).")
softplus = _activation("softplus", "softplus", "log(1 + exp(x)).")
softsign = _activation("softsign", "softsign", "x / (1 + |x|).")
selu = _activation("selu", "selu", "Scaled exponential linear unit.")
hard_swish = _activation("hard_swish", "hard_swish", "x * clip(x / 6 + 1/2, 0, 1).")


def gelu(x: Array, /, *, approximate: bool = False) -> Array:
    """x times the probability that a normal number is below x; with tanh if approximate."""
    return Array(ops.one("gelu_tanh" if approximate else "gelu", value_of(x)))


def _with_number(name: str, attr: str, otherwise: float, doc: str) -> Callable[..., Array]:
    def function(x: Array, /, alpha: float = otherwise) -> Array:
        return Array(ops.one(name, value_of(x), **{attr: float(alpha)}))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


elu = _with_number("elu", "alpha", 1.0, "x above 0, alpha * (exp(x) - 1) below.")
celu = _with_number("celu", "alpha", 1.0, "x above 0, alpha * (exp(x / alpha) - 1) below.")
leaky_relu = _with_number("leaky_relu", "alpha", 0.01, "x above 0, alpha * x below.")


def hard_sigmoid(x: Array, /) -> Array:
    """clip(x / 6 + 1/2, 0, 1)."""
    return Array(ops.one("hard_sigmoid", value_of(x), alpha=1.0 / 6.0, beta=0.5))


def softmax(x: Array, /, *, axis: int = -1) -> Array:
    """exp(x) over its sum along an axis, without overflow."""
    v = value_of(x)
    return Array(ops.one("softmax", v, dim=axis_of(axis, len(v.shape))))


def log_softmax(x: Array, /, *, axis: int = -1) -> Array:
    """The logarithm of softmax, without overflow."""
    v = value_of(x)
    return Array(ops.one("log_softmax", v, dim=axis_of(axis, len(v.shape))))


def logsumexp(x: Array, /, *, axis: int = -1) -> Array:
    """log(sum(exp(x))) along an axis, which goes away."""
    v = value_of(x)
    return Array(ops.one("logsumexp", v, dims=(axis_of(axis, len(v.shape)),)))


def _optional(x: Array | None) -> Value | None:
    return None if x is None else value_of(x)


def layer_norm(
    x: Array, scale: Array | None = None, bias: Array | None = None, /, *, axis: int = -1,
    epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    """x with mean 0 and variance 1 over the axes from `axis` on, times scale, plus bias."""
    v = value_of(x)
    operands = [v, _optional(scale), _optional(bias)]
    given = ops.attrs(dim=axis_of(axis, len(v.shape)), epsilon=float(epsilon))
    return Array(emit("layer_norm", _present(operands), given)[0])


def rms_norm(
    x: Array, scale: Array | None = None, /, *, axis: int = -1, epsilon: float = 1e-5
) -> Array:
    """x over the root of its mean square over the axes from `axis` on, times scale."""
    v = value_of(x)
    given = ops.attrs(dim=axis_of(axis, len(v.shape)), epsilon=float(epsilon))
    return Array(emit("rms_norm", _present([v, _optional(scale)]), given)[0])


def _present(operands: list[Value | None]) -> list[Value | None]:
    while operands and operands[-1] is None:
        operands.pop()
    return operands


def group_norm(
    x: Array, scale: Array, bias: Array, /, *, groups: int, axis: int = 1, epsilon: float = 1e-5
) -> Array:
    """x with mean 0 and variance 1 over groups of channels, scaled per channel."""
    v = value_of(x)
    return Array(
        ops.one(
            "group_norm",
            v,
            value_of(scale),
            value_of(bias),
            groups=groups,
            dim=axis_of(axis, len(v.shape)),
            epsilon=float(epsilon),
        )  # fmt: skip
    )


def batch_norm(
    x: Array, scale: Array, bias: Array, mean: Array, var: Array, /, *, axis: int = 1,
    epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    """(x - mean) / sqrt(var + epsilon) * scale + bias, each of them per channel."""
    v = value_of(x)
    others = [value_of(a) for a in (scale, bias, mean, var)]
    dim = axis_of(axis, len(v.shape))
    return Array(ops.one("batch_norm", v, *others, dim=dim, epsilon=float(epsilon)))


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, /, *, causal: bool = False,
    scale: float = 0.0,
) -> Array:  # fmt: skip
    """softmax(q k^T * scale + mask) v for [batch, heads, length, features].

    A mask is added, or says as bool which keys are seen. causal: query i sees keys up to i. scale 0:
    1 / sqrt(features). Fewer heads of k and v than of q are shared.
    """
    operands = _present([value_of(q), value_of(k), value_of(v), _optional(mask)])
    given = ops.attrs(causal="first" if causal else "none", scale=float(scale))
    return Array(emit("sdpa", operands, given)[0])


def linear(
    x: Array, w: Array, bias: Array | None = None, /, *, transpose_w: bool = False,
    activation: str = "none",
) -> Array:  # fmt: skip
    """x @ w + bias over the last axis; w is [in, out], or [out, in] with transpose_w.

    activation: "none", "relu", "gelu", "gelu_tanh", "silu", "tanh" or "logistic", applied last.
    """
    operands = _present([value_of(x), value_of(w), _optional(bias)])
    given = ops.attrs(transpose_w=int(transpose_w), activation=activation)
    return Array(emit("linear", operands, given)[0])


def _per_axis(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    if isinstance(value, str):
        raise TypeError(f"{value!r}: numbers are expected here, one or one per spatial axis")
    return (value,) * count if isinstance(value, int) else tuple(value)


def conv(
    x: Array, w: Array, bias: Array | None = None, /, *, strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """Convolution of [batch, channels, spatial...] with [out, in / groups, spatial...].

    `strides`, `padding` (zeros on both sides) and `dilation` are one number or one per spatial axis.
    """
    a, b = value_of(x), value_of(w)
    n = len(a.shape) - 2
    pads = _per_axis(padding, n)
    out = ops.one(
        "conv", a, b, strides=_per_axis(strides, n), pad_low=pads, pad_high=pads,
        w_dilation=_per_axis(dilation, n), groups=groups,
    )  # fmt: skip
    if bias is not None:
        out = ops.one("add", out, ops.broadcast_in(value_of(bias), out.shape, [1]))
    return Array(out)


def _pool(
    op: str, x: Array, window: Sequence[int], strides: int | Sequence[int] | None,
    padding: int | Sequence[int],
) -> Array:  # fmt: skip
    v = value_of(x)
    n = len(v.shape) - 2
    size, pads = _per_axis(window, n), _per_axis(padding, n)
    steps = size if strides is None else _per_axis(strides, n)
    return Array(ops.one(op, v, window=size, strides=steps, pad_low=pads, pad_high=pads))


def max_pool(
    x: Array, /, window: int | Sequence[int], *, strides: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
) -> Array:  # fmt: skip
    """The largest element of each window over the spatial axes of [batch, channels, spatial...]."""
    return _pool("max_pool", x, window, strides, padding)  # type: ignore[arg-type]


def avg_pool(
    x: Array, /, window: int | Sequence[int], *, strides: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
) -> Array:  # fmt: skip
    """The mean of each window; borders take no part."""
    return _pool("avg_pool", x, window, strides, padding)  # type: ignore[arg-type]


def one_hot(indices: Array, depth: int, /, *, dtype: DType = dt.float32) -> Array:
    """1 at the index along a new last axis of size `depth`, else 0. Integer arrays."""
    given = (("depth", DIMS, (depth,)), ("dtype", DTYPE, dt.parse(dtype)))
    return Array(emit("one_hot", (value_of(indices),), given)[0])


def embedding(table: Array, indices: Array, /) -> Array:
    """Rows of a table: shape of the indices, then that of a row."""
    t, i = value_of(table), value_of(indices)
    return Array(ops.one("embedding", t, _indexing.wrapped(i, t.shape[0])))
