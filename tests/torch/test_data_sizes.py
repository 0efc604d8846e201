"""Results whose size depends on data: places, masks, distinct values, counts, and numbers that are read from tensors."""

import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close

X = torch.tensor([[1.0, 0, 2, 0, 3], [1, 2, 3, 0, 0]])
NONE = torch.zeros(2, 5)
WHOLE = torch.tensor([[3, 1, 3, 2], [1, 1, 0, 3]])
NAN = float("nan")


@pytest.fixture(autouse=True)
def captured():
    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    ):
        yield


def in_tenon(graphs):
    assert graphs and all(len(g.partitions) == 1 and not g.unsupported for g in graphs), [
        g.unsupported for g in graphs
    ]


def alike(f, *calls, caplog=None):
    """One compiled function on several arguments, as eager mode."""
    g = torch.compile(f, backend="tenon")
    with torch.no_grad():
        for args in calls:
            close(g(*args), f(*args))
    if caplog is not None:
        assert "a call stays in torch" not in caplog.text


def put(x, mask, values):
    x = x.clone()
    x[mask] = values
    return x


def added(x, mask, values):
    return x.index_put((mask,), values, accumulate=True)


def put_in_columns(x, mask, values):
    x = x.clone()
    x[:, mask] = values
    return x


MASK, COLUMNS = X > 1, torch.tensor([True, False, True, False, False])
FOUND = {
    "nonzero": (lambda x: x.nonzero(), (X,), (-X,)),
    "nonzero by axes": (lambda x: x.nonzero(as_tuple=True), (X,), (NONE,), (torch.ones(3, 7),)),
    "nonzero of a number": (lambda x: x.nonzero(), (torch.tensor(2.0),)),
    "how many": (lambda x: (x.nonzero().shape[0], x * 2), (X,), (NONE,)),
    "a mask": (lambda x: x[x > 1] * 2, (X,), (NONE,), (torch.randn(7, 3),)),
    "a mask of rows": (lambda x: x[x[:, 1] > 0] @ x.T, (X,), (NONE,)),
    "a mask of columns": (lambda x, m: x[:, m], (X, COLUMNS), (X, COLUMNS & False)),
    "masked_select": (lambda x, m: torch.masked_select(x, m), (X, COLUMNS), (X, COLUMNS & False)),
    "unique": (lambda x: torch.unique(x, return_inverse=True, return_counts=True), (X,), (NONE,), (WHOLE,), (X[:0],)),
    "unique values": (lambda x: torch.unique(x), (X,), (X > 1,)),
    "unique rows": (lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True), (X,), (NONE,)),
    "unique runs": (
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        (X,), (NONE,), (torch.tensor([1, 1, 2, 2, 1]),), (torch.zeros(0),),
    ),
    "unique runs of rows": (lambda x: torch.unique_consecutive(x, dim=0, return_counts=True), (X,), (NONE,)),
    "bincount": (lambda x: torch.bincount(x), (WHOLE[0],), (WHOLE[0] * 3,), (WHOLE[0][:0],)),
    "weighted bincount": (lambda x, w: torch.bincount(x, w, minlength=6), (WHOLE[0], X[0, :4]), (WHOLE[1] * 5, X[1, :4])),
    "repeat_interleave": (lambda x, r: torch.repeat_interleave(x, r, dim=0), (X, torch.tensor([2, 0])), (X, torch.tensor([0, 0]))),
    "repeat_interleave of a known size": (lambda x, r: torch.repeat_interleave(x, r, dim=0, output_size=3), (X, torch.tensor([2, 1]))),
    "a row for each": (put, (X, MASK[:, 1], torch.ones(1, 5)), (X, MASK[:, 1] & False, torch.ones(0, 5))),
    "a value for each": (put, (X, MASK, torch.arange(4.0)), (X, MASK & False, torch.ones(0)), (X, MASK, torch.tensor(7.0))),
    "a value added to each": (added, (X, MASK, torch.arange(4.0)), (X, MASK, torch.tensor(7.0))),
    "values in columns": (put_in_columns, (X, COLUMNS, torch.ones(2, 2)), (X, COLUMNS, torch.tensor(7.0))),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FOUND))
def test_inference(name, graphs, caplog):
    f, *calls = FOUND[name]
    alike(f, *calls, caplog=caplog)
    in_tenon(graphs)


def twice(x):
    mask = x > 0.5
    x = x * 1
    x[mask] = x[mask] * 2
    x[mask] = x[mask].sin() + 1
    return x


TRAINED = {
    "a mask": (lambda x: x[x > 1].sin() * 2, X),
    "a mask that is set nowhere": (lambda x: x[x > 9].sin() * 2, X),
    "a mask of rows": (lambda x: x[x[:, 1] > 0] @ x.T, X),
    "one mask, written twice": (twice, X),
    "a value for each": (lambda x, v: put(x * 2, MASK, v) * x, X, torch.randn(4)),
    "masked_select": (lambda x: torch.masked_select(x, x > 1).sin(), X),
    "masked_scatter": (
        lambda x, v: torch.masked_scatter(x.sin(), x > 1, v[v > -9] * 2),
        X,
        torch.randn(6),
    ),
    "repeat_interleave": (
        lambda x: torch.repeat_interleave(x, torch.tensor([3, 1]), dim=0).sin(),
        X,
    ),
    "weighted": (lambda x: x.nonzero().sum() * x.sin(), X),
}


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_training(name, graphs):
    f, *args = TRAINED[name]
    made = []
    for run in (f, torch.compile(f, backend="tenon")):
        given = [t.clone().requires_grad_() for t in args]
        out = run(*given)
        (out * torch.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
        made.append([t.grad for t in given])
    close(made[1], made[0])
    assert [g.kind for g in graphs] == ["forward", "backward"]
    in_tenon(graphs)


REFUSED = {
    "scattered": (torch.masked_scatter, (X, MASK, torch.arange(3.0))), "nothing scattered": (torch.masked_scatter, (X, MASK, torch.ones(0))),
    "values": (put, (X, MASK, torch.arange(3.0))), "more values": (put, (X, MASK, torch.arange(5.0))),
    "values for nothing": (put, (X, MASK & False, torch.ones(2))), "no values": (put, (X, MASK, torch.ones(0))),
    "added values": (added, (X, MASK, torch.arange(3.0))), "columns": (put_in_columns, (X, COLUMNS, torch.ones(2, 3))),
    "a count below 0": (lambda x: torch.bincount(x), (torch.tensor([1, -1]),)),
    "a repetition below 0": (lambda x, r: torch.repeat_interleave(x, r, dim=0), (X, torch.tensor([2, -1]))),
    "repetitions of another size": (
        lambda x, r: torch.repeat_interleave(x, r, dim=0, output_size=3), (X, torch.tensor([2, 2])),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_wrong_counts_are_errors(name):
    f, args = REFUSED[name]
    with torch.no_grad():
        for run in (f, torch.compile(f, backend="tenon")):
            with pytest.raises((RuntimeError, IndexError)):
                run(*args)


def test_a_wrong_count_leaves_inputs_as_they_were():
    def f(x, mask, values):
        x.add_(1)
        x[mask] = values
        return x * 2

    g = torch.compile(f, backend="tenon")
    with torch.no_grad():
        for size in (3, 4):
            a, b = X.clone(), X.clone()
            if size == 3:
                with pytest.raises((RuntimeError, IndexError)):
                    g(a, MASK, torch.ones(size))
                continue
            close(g(a, MASK, torch.ones(size)), f(b, MASK, torch.ones(size)))
            assert torch.equal(a, b)


@pytest.mark.parametrize(
    "f",
    [lambda x: torch.unique(x).nan_to_num(9), lambda x: torch.unique_consecutive(x).nan_to_num(9)],
)
def test_nan_differs_from_itself(f):
    alike(f, (X,), (torch.tensor([[NAN, 1.0, NAN, NAN]]),))


# Divided by the size of a block of none.
@pytest.mark.parametrize("dims", [(5, 0, 5), (0, 5), (5, 0), (2, 3)])
def test_as_many_places_as_asked_for(dims, graphs):
    alike(lambda x: torch.nonzero_static(x, size=3), (torch.ones(dims),))
    in_tenon(graphs)


def test_sizes_that_are_claimed_to_be_equal(graphs):
    def f(x, y):
        a, b = x.nonzero(), y.nonzero()
        torch._check(a.shape[0] == b.shape[0])
        return (a * b).sum()

    g = torch.compile(f, backend="tenon")
    assert g(X, X * 2) == f(X, X * 2)
    assert g(NONE, NONE) == 0
    for args in ((X, NONE), (NONE, X)):
        with pytest.raises(RuntimeError):
            g(*args)
    in_tenon(graphs)


def test_a_claim_next_to_results_without_elements():
    def f(x, y):
        a, b = x.nonzero(), y.nonzero()
        torch._check(a.shape[0] == b.shape[0])
        return a + 1

    with pytest.raises(RuntimeError):
        torch.compile(f, backend="tenon")(NONE, X)


def test_ints_stay_arguments(graphs):
    """A number that varies is compiled twice at most, below 0 too."""

    def f(x, k):
        return x + k, x * (2 * k) - 1, torch.full((3,), k), x.sum() // k

    alike(f, *((X, k) for k in (3, 4, 5, -2, -(2**40), 17)))
    assert len(graphs) == 2
    in_tenon(graphs)


def test_repetitions_stay_arguments(graphs):
    alike(lambda x, k: torch.repeat_interleave(x, k, dim=0), *((X, k) for k in (3, 4, 5, 6)))
    assert len(graphs) == 2
    in_tenon(graphs)


def test_a_place_that_is_a_number(graphs):
    g = torch.compile(lambda x, k: x[k] * 2, backend="tenon", dynamic=True)
    for k in (1, 0, -1, -2):
        close(g(X, k), X[k] * 2)
    with pytest.raises(IndexError):
        g(X, 2)
    assert not any(g.unsupported for g in graphs)


READ = {
    "a size": (
        lambda x: torch.zeros(x.sum().item()),
        (torch.tensor([3, 1]),),
        (torch.tensor([0]),),
    ),
    "an operand": (
        lambda x: x.float() + x[0].item(),
        (torch.tensor([3, 1]),),
        (torch.tensor([-3, 2]),),
    ),
    "a result": (
        lambda x: (x.sum().item(), x + 1),
        (torch.tensor([3, 1]),),
        (torch.tensor([-3, 2]),),
    ),
    "a place": (lambda x: x[x[0].item()] * 2, (torch.tensor([1, 7]),), (torch.tensor([-1, 7]),)),
}


@pytest.mark.parametrize("name", sorted(READ))
def test_numbers_that_are_read_from_tensors(name, graphs):
    alike(READ[name][0], *READ[name][1:])
    in_tenon(graphs)


def test_numbers_next_to_results():
    """Fractions of sizes, and elements that are not integers, which stay in torch."""
    alike(lambda x: (x * 2, x.shape[0] / 4, x.shape[1]), *((torch.ones(n, 3),) for n in (4, 5, 6)))
    alike(lambda x: (x.sum().item(), (x > 1).any().item(), x * 2), (X,), (NONE,))


def test_sizes_that_are_read_may_be_bounded():
    def f(x):
        n, m = x.tolist()
        torch._check(m <= n)
        return torch.arange(n)[:m].sum(), torch.zeros(n + m)

    alike(f, (torch.tensor([5, 2]),), (torch.tensor([3, 3]),))
    with pytest.raises(RuntimeError):
        torch.compile(f, backend="tenon")(torch.tensor([3, 4]))


def test_a_row_that_asks_for_a_number_of_data_stays_in_torch(graphs):
    """`roll` wants to know its size."""
    alike(lambda x: torch.roll(x[x > 0], 1), (X,), (torch.ones(3, 3),))
    assert all("aten.roll.default" in g.unsupported for g in graphs) or not any(
        g.unsupported for g in graphs
    )


def test_masks_in_an_exported_program(tmp_path):
    class Net(torch.nn.Module):
        def forward(self, x):
            return x[x > 1] * 2, torch.unique(x.round())

    program = torch.export.export(Net(), (X,))
    tenon.from_exported(program).save(tmp_path / "net.tpk")
    model = tenon.load(tmp_path / "net.tpk")
    for x in (X, NONE):
        close([torch.as_tensor(y) for y in model(x)], list(Net()(x)))
