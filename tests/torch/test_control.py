"""Choices, loops and scans: in one program with what is around them, forward and backward."""

# Reaches: frontends/torch
import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops.map import map as mapped


def halved_until_small(x, w):
    return while_loop(
        lambda i, x: x.abs().sum() > 0.01,
        lambda i, x: (i + 1, torch.tanh(x @ w) * 0.5),
        (torch.tensor(0), x),
    )


def seven_times(x, w):
    return (
        while_loop(
            lambda i, x: i < 7, lambda i, x: (i + 1, torch.tanh(x @ w)), (torch.tensor(0), x)
        )[1]
        + 1
    )


def recurrent(rows, w, first):
    return scan(lambda c, y: (torch.tanh(c @ w + y), c * 2), first, rows, dim=0)


def backwards(rows, w, first):
    return scan(lambda c, y: (torch.tanh(c @ w + y), c * 2), first, rows, dim=0, reverse=True)


def chosen(x, w):
    return torch.cond(x.sum() > 0, lambda x: torch.tanh(x @ w) @ w, lambda x: x.cos(), (x,))


def each_row(rows, w):
    return mapped(lambda r: torch.softmax(r @ w, -1), rows)


def running(rows):
    return associative_scan(
        lambda a, b: a * b + a, rows.tanh() * 0.5, dim=0, combine_mode="generic"
    )


def nested(rows, first):
    def step(c, y):
        return while_loop(lambda z: z.abs().sum() > 1, lambda z: (z * 0.5,), (c + y,))[0] * 2, c - 1

    return scan(step, first, rows, dim=0)


def numbers(*shape):
    torch.manual_seed(1)
    return torch.randn(shape) * 0.5


X, W, ROWS, FIRST = numbers(3, 4), numbers(4, 4), numbers(300, 2, 4), torch.zeros(2, 4)
INFERENCE = {
    "while": (halved_until_small, X, W),
    "while counted": (seven_times, X, W),
    "scan": (recurrent, ROWS, W, FIRST),
    "scan of few steps": (recurrent, ROWS[:5], W, FIRST),
    "scan backwards": (backwards, ROWS, W, FIRST),
    "cond": (chosen, X.abs(), W),
    "cond, other branch": (chosen, -X.abs(), W),
    "map": (each_row, ROWS, W),
    "associative scan": (running, ROWS[:40]),
    "nested": (nested, ROWS[:50], FIRST),
}
TRAINED = ["scan", "scan of few steps", "cond", "cond, other branch", "map", "associative scan"]


@pytest.mark.parametrize("name", sorted(INFERENCE))
def test_inference(name, graphs):
    f, *args = INFERENCE[name]
    with torch.no_grad():
        close(torch.compile(f, backend="tenon")(*args), f(*args))
    assert len(graphs) == 1 and len(graphs[0].partitions) == 1 and not graphs[0].unsupported


@pytest.mark.parametrize("name", TRAINED)
def test_training(name, graphs):
    f, *args = INFERENCE[name]
    made = []
    for run in (f, torch.compile(f, backend="tenon")):
        given = [t.clone().requires_grad_() for t in args]
        results = run(*given)
        results = [results] if isinstance(results, torch.Tensor) else results
        sum(t.sin().sum() for t in results).backward()
        made.append([t.grad for t in given])
    close(made[1], made[0])
    assert [g.kind for g in graphs] == ["forward", "backward"] and not any(
        g.unsupported for g in graphs
    )


def summed_until(x, w):
    def step(i, x, total):
        return i + 1, x * 0.9, total + (x @ w).sin()

    return while_loop(lambda i, x, total: total.sum() < 5, step, (torch.tensor(0), x, x.abs()))[2]


def never(x, w):
    return (
        while_loop(
            lambda i, x: i < 0, lambda i, x: (i + 1, torch.tanh(x @ w)), (torch.tensor(0), x)
        )[1]
        * 2
    )


LOOPS = {
    "while": (halved_until_small, X),
    "counted": (seven_times, X),
    "several": (summed_until, X.abs() + 1),
    "never": (never, X),
}


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_gradients_of_loops_that_data_decides(name, graphs):
    """Their saved values have as many rows as there were steps, which data decides."""
    f, x = LOOPS[name]
    made = []
    with torch._dynamo.config.patch(
        capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True
    ):
        for run in (f, torch.compile(f, backend="tenon")):
            given = [t.clone().requires_grad_() for t in (x, W)]
            results = run(*given)
            results = [results] if isinstance(results, torch.Tensor) else results
            sum(t.sin().sum() for t in results if t.is_floating_point()).backward()
            made.append([t.grad for t in given])
    close(made[1], made[0])
    assert [g.kind for g in graphs] == ["forward", "backward"] and not any(
        g.unsupported for g in graphs
    )
    assert all(len(g.partitions) == 1 for g in graphs)


def test_a_scan_of_any_length(graphs):
    f = torch.compile(recurrent, backend="tenon", dynamic=True)
    for length in (300, 100, 17):
        close(f(ROWS[:length], W, FIRST), recurrent(ROWS[:length], W, FIRST))
    assert len(graphs) <= 2 and not any(g.unsupported for g in graphs)


def test_random_numbers_in_a_loop_stay_in_torch(graphs):
    def f(x):
        return while_loop(
            lambda i, x: i < 3, lambda i, x: (i + 1, x + torch.rand_like(x)), (torch.tensor(0), x)
        )[1]

    with torch.no_grad():
        y = torch.compile(f, backend="tenon")(torch.zeros(1000))
    assert 1.3 < y.mean() < 1.7 and y.std() > 0.3
    assert any(
        "random numbers" in reason
        for g in graphs
        for reasons in g.unsupported.values()
        for reason in reasons
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_common_divisors_take_as_many_steps_as_they_need(dtype, graphs):
    """Neighbours of Fibonacci's numbers take the most; 0, negative numbers, and sizes of another shape."""
    a = torch.tensor(
        [[0, 0, 12, -12], [7540113804746346429 if dtype is torch.int64 else 233, 5, 1, 96]]
    ).to(dtype)
    b = torch.tensor(
        [[0, 8, 18, 18], [4660046610375530309 if dtype is torch.int64 else 144, -5, 7, 64]]
    ).to(dtype)
    for operator in (torch.gcd, torch.lcm):
        compiled = torch.compile(operator, backend="tenon")
        close(compiled(a, b), operator(a, b))
        close(compiled(a, b[0]), operator(a, b[0]))
        close(compiled(a[1, 3], b[1, 3]), operator(a[1, 3], b[1, 3]))
    assert graphs and not any(g.unsupported for g in graphs)
