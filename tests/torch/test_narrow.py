"""Numbers with tensors of 16 bits, and sums in these types, against eager mode and double precision."""

import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close
from torch.nn import functional as F

TYPES = [torch.float16, torch.bfloat16]


def compiled(f):
    return torch.compile(f, backend="tenon")


# In eager mode a factor, a divisor and the parameters of activations stay in float32; terms, bounds and
# exponents are rounded to the type.
NUMBERS = {
    "mul": lambda x, y, s: x * s,
    "div": lambda x, y, s: x / s,
    "mul by a tensor without axes": lambda x, y, s: x * torch.tensor(s),
    "div by a tensor without axes": lambda x, y, s: x / torch.tensor(s),
    "div by a double without axes": lambda x, y, s: x / torch.tensor(s, dtype=torch.float64),
    "a tensor without axes, mul": lambda x, y, s: torch.tensor(s) * x,
    "add": lambda x, y, s: x + s,
    "sub": lambda x, y, s: s - x,
    "floor": lambda x, y, s: x // s,
    "trunc": lambda x, y, s: torch.div(x, s, rounding_mode="trunc"),
    "floor of tensors": lambda x, y, s: x // y,
    "remainder": lambda x, y, s: x % s,
    "fmod": lambda x, y, s: torch.fmod(x, s),
    "lt": lambda x, y, s: x < s,
    "eq": lambda x, y, s: x == s,
    "clamp": lambda x, y, s: x.clamp(-s, s),
    "leaky_relu": lambda x, y, s: F.leaky_relu(x, s),
    "threshold": lambda x, y, s: F.threshold(x, s, s),
    "hardshrink": lambda x, y, s: F.hardshrink(x, s),
    "fill": lambda x, y, s: torch.full_like(x, s),
    "where": lambda x, y, s: torch.where(x > 0, x, s),
    "masked_fill": lambda x, y, s: x.masked_fill(x > 0, s),
    "dropout of nothing": lambda x, y, s: F.dropout(x, s / 10, training=False),
    "round": lambda x, y, s: torch.round(x, decimals=2),
}
# Those of several steps, whose last digit is anybody's.
FUNCTIONS = {
    "reciprocal": lambda x, y, s: s / y,
    "alpha": lambda x, y, s: torch.add(x, y, alpha=s),
    "lerp": lambda x, y, s: torch.lerp(x, y, s),
    "lerp by a tensor": lambda x, y, s: torch.lerp(x, y, y),
    "addcmul": lambda x, y, s: torch.addcmul(x, y, x, value=s),
    "pow": lambda x, y, s: y**s,
    "cube": lambda x, y, s: x**3,
    "elu": lambda x, y, s: F.elu(x, s),
    "celu": lambda x, y, s: F.celu(x, s),
    "selu": lambda x, y, s: F.selu(x),
    "softplus": lambda x, y, s: F.softplus(x, s),
    "logaddexp": lambda x, y, s: torch.logaddexp(x, y),
    "huber": lambda x, y, s: F.huber_loss(x, y, delta=s, reduction="none"),
    "logit": lambda x, y, s: torch.logit(x.sigmoid(), s / 10),
}


def all_of(functions, s):
    return lambda x, y: [f(x, y, s) for f in functions.values()]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("s", [0.1, 1.7])
def test_numbers(dtype, s):
    """To the last bit. x / 1e5 was 0, and x * 0.1 another value in a third of all elements."""
    x = (torch.randn(4001) * 3).to(dtype)
    y = (torch.rand(4001) * 3 + 0.2).to(dtype)
    f = all_of(NUMBERS, s)
    for name, mine, theirs in zip(NUMBERS, compiled(f)(x, y), f(x, y)):
        assert mine.dtype is theirs.dtype, name
        assert torch.equal(mine, theirs), (name, (mine != theirs).float().mean().item())


@pytest.mark.parametrize("dtype", TYPES)
def test_quotients_are_cut_before_they_are_rounded(dtype):
    """Eager mode rounds 14.996 to 15 in 16 bits first, unless it divides by a number."""
    x, y = (torch.randn(4001) * 3).to(dtype), (torch.rand(4001) * 3 + 0.2).to(dtype)
    f = lambda x, y: torch.div(x, y, rounding_mode="trunc")  # noqa: E731
    assert torch.equal(compiled(f)(x, y), f(x.float(), y.float()).to(dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_functions(dtype):
    x = (torch.randn(4001) * 3).to(dtype)
    y = (torch.rand(4001) * 3 + 0.2).to(dtype)
    f = all_of(FUNCTIONS, 0.7)
    step = torch.finfo(dtype).eps
    for name, mine, theirs in zip(FUNCTIONS, compiled(f)(x, y), f(x, y)):
        assert mine.dtype is theirs.dtype, name
        torch.testing.assert_close(mine, theirs, rtol=2 * step, atol=2 * step, msg=name)


def test_numbers_that_a_type_has_not():
    x = torch.tensor([0.1, 60000.0]).half()

    def f(x):
        return x * 1e-8, x / 1e5, x * 1e5, x / 70000, x * 70000

    for mine, theirs in zip(compiled(f)(x), f(x)):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_mean_by_hand(dynamic):
    """70,000 is too large for float16: this was 0."""
    x = torch.randn(70000).half() + 0.5
    f = torch.compile(
        lambda x: (x.sum() / x.numel(), x / x.shape[0]), backend="tenon", dynamic=dynamic
    )
    mean, parts = f(x)
    assert torch.equal(parts, x / x.shape[0])
    # The sum is rounded to float16, whose numbers near 35,000 are 32 apart.
    assert mean.dtype == torch.float16 and abs(mean.double() - x.double().mean()) <= 32 / 70000


SUMS = {
    "var": lambda x: x.var(),
    "var of all": lambda x: x.var(correction=0),
    "std": lambda x: x.std(),
    "var along": lambda x: x.reshape(-1, 10).var(0),
    "std along": lambda x: x.reshape(-1, 10).std(1),
    "var_mean": lambda x: torch.var_mean(x)[0],
    "std_mean": lambda x: torch.std_mean(x)[0],
    "mean": lambda x: x.mean(),
    "sum": lambda x: x.sum(),
    "norm": lambda x: x.norm(),
    "norm of order 3": lambda x: torch.linalg.vector_norm(x, 3),
    "norm of order 1": lambda x: torch.linalg.vector_norm(x, 1),
    "rows' norms": lambda x: torch.linalg.vector_norm(x.reshape(-1, 100), dim=1),
    "normalize": lambda x: F.normalize(x.reshape(10, -1)),
    "logsumexp": lambda x: x.logsumexp(0),
    "logcumsumexp": lambda x: x[:2000].logcumsumexp(0),
    "softmax": lambda x: x.reshape(10, -1).softmax(1),
    "log_softmax": lambda x: x.reshape(10, -1).log_softmax(1),
    "cumsum": lambda x: (x / 1000).cumsum(0),
    "prod": lambda x: (x[:50] / 1000 + 1).prod(),
    "cumprod": lambda x: (x[:50] / 1000 + 1).cumprod(0),
    "layer_norm": lambda x: F.layer_norm(x.reshape(10, -1), (x.numel() // 10,)),
    "group_norm": lambda x: F.group_norm(x.reshape(1, 10, -1), 5),
    "instance_norm": lambda x: F.instance_norm(x.reshape(1, 10, -1)),
    "batch_norm": lambda x: F.batch_norm(x.reshape(-1, 10), None, None, training=True),
    "rms_norm": lambda x: F.rms_norm(x.reshape(10, -1), (x.numel() // 10,)),
    "mse_loss": lambda x: F.mse_loss(x, -x),
    "cosine_similarity": lambda x: F.cosine_similarity(
        x.reshape(10, -1), x.flip(0).reshape(10, -1).abs()
    ),
    "avg_pool": lambda x: F.avg_pool2d(x.reshape(1, 10, 10, -1), (10, 100)),
    "avg_pool by a divisor": lambda x: F.avg_pool2d(
        x.abs().reshape(1, 10, 10, -1) * 40, (10, 100), divisor_override=2000
    ),
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool2d(x.reshape(1, 10, 10, -1), (3, 7)),
    "scatter_add": lambda x: x.new_zeros(3).scatter_add(
        0, torch.arange(x.numel()) % 3, x.abs() / 8
    ),
    "scatter_reduce": lambda x: x.new_zeros(3).scatter_reduce(
        0, torch.arange(x.numel()) % 3, x.abs(), "mean"
    ),
    "index_add": lambda x: x.new_zeros(3).index_add(0, torch.arange(x.numel()) % 3, x.abs() / 8),
    "index_put": lambda x: x.new_zeros(3).index_put(
        (torch.arange(x.numel()) % 3,), x.abs() / 8, accumulate=True
    ),
    "put": lambda x: x.new_zeros(3).put(torch.arange(x.numel()) % 3, x.abs() / 8, accumulate=True),
    "scaled product": lambda x: torch.addmm(
        x[:4].reshape(2, 2), x[:2000].reshape(2, -1) * 30, x[:2000].reshape(-1, 2) * 30, alpha=1e-2
    ),
}


@pytest.mark.parametrize("dtype, size", [(torch.float16, 20000), (torch.bfloat16, 70000)])
def test_sums(dtype, size):
    """Against double precision: std of 100,000 elements was NaN in float16."""
    x = (torch.randn(size) * 3 + 0.25).to(dtype)

    def f(x):
        return [g(x) for g in SUMS.values()]

    step = torch.finfo(dtype).eps
    for name, mine, theirs in zip(SUMS, compiled(f)(x), f(x.double())):
        assert mine.dtype is dtype, name
        wanted = theirs.to(dtype).double()
        largest = wanted.abs().max().item()
        assert wanted.isfinite().all(), name
        worst = (mine.double() - wanted).abs().max().item()
        assert worst <= 4 * step * largest, (name, worst / largest / step)


@pytest.mark.parametrize("dtype", TYPES)
def test_large_elements(dtype):
    """Their squares are beyond float16: expected 184.9, which was infinite."""
    x = torch.tensor([400.0, 440, 448, 480, 600, 796, 800, 840]).to(dtype)

    def f(x):
        return (
            x.std(),
            torch.std_mean(x)[0],
            x.norm(),
            F.normalize(x, dim=0),
            F.softplus(x / 50),
            x.exp(),
        )

    wanted = f(x.double())
    for mine, theirs in zip(compiled(f)(x)[:5], wanted):
        torch.testing.assert_close(
            mine.double(), theirs.to(dtype).double(), rtol=2 * torch.finfo(dtype).eps, atol=0
        )


@pytest.mark.parametrize("dtype", TYPES)
def test_gradients_of_sums(dtype):
    def f(x, w):
        rows = F.embedding(torch.zeros(3000, dtype=torch.int64), w)
        return (
            (x.softmax(0) * x).sum()
            + x.std()
            + F.nll_loss(
                x.reshape(-1, 2).log_softmax(1), torch.zeros(len(x) // 2, dtype=torch.int64)
            )
            + rows.sum() / 3000
        )

    made = []
    for call, wide in ((compiled(f), dtype), (f, torch.float64)):
        x = (
            (torch.randn(2000, generator=torch.Generator().manual_seed(1)) * 3)
            .to(dtype)
            .to(wide)
            .requires_grad_()
        )
        w = torch.ones(1, 4, dtype=wide, requires_grad=True)
        call(x, w).backward()
        made.append([x.grad.double(), w.grad.double()])
    close(*made, tolerance=8 * torch.finfo(dtype).eps)
