"""Bags of embeddings, forward and backward."""

import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close
from torch.nn import functional as F

TABLE = torch.randn(10, 4, generator=torch.Generator().manual_seed(3))
INDICES = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
OFFSETS = torch.tensor([0, 3, 3])
MODES = ["sum", "mean", "max"]


def in_tenon(graphs):
    assert graphs and not any(g.unsupported for g in graphs), [g.unsupported for g in graphs]


def both(f, *args):
    """Results and gradients of eager mode and of Tenon."""
    made = []
    for run in (f, torch.compile(f, backend="tenon")):
        given = [t.clone().requires_grad_() if t.is_floating_point() else t for t in args]
        out = run(*given)
        (out.sin() * torch.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
        made.append([out.detach(), *(t.grad for t in given if t.is_floating_point())])
    return made


@pytest.mark.parametrize("has_last", [False, True])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", MODES)
def test_training(mode, padding, has_last, graphs):
    def f(table, indices, offsets):
        return F.embedding_bag(
            indices, table, offsets, mode=mode, padding_idx=padding, include_last_offset=has_last
        )

    offsets = torch.tensor([0, 3, 3, 8]) if has_last else OFFSETS
    close(*both(f, TABLE, INDICES, offsets))
    in_tenon(graphs)


def test_weights_of_samples(graphs):
    def f(table, weights):
        return F.embedding_bag(
            INDICES, table, OFFSETS, mode="sum", per_sample_weights=weights, padding_idx=2
        )

    close(*both(f, TABLE, torch.randn(8)))
    in_tenon(graphs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_bags_of_one_size(dtype, graphs):
    close(
        *both(
            lambda table: F.embedding_bag(INDICES.view(2, 4), table, mode="mean"), TABLE.to(dtype)
        ),
        1e-2 if dtype is torch.bfloat16 else 1e-12,
    )
    in_tenon(graphs)


@pytest.mark.parametrize("mode", MODES)
def test_sizes_that_change(mode, graphs):
    f = lambda table, indices, offsets: F.embedding_bag(indices, table, offsets, mode=mode)  # noqa: E731
    g = torch.compile(f, backend="tenon")
    with torch.no_grad():
        for count, offsets in (
            (8, OFFSETS),
            (5, torch.tensor([0, 1, 1, 4])),
            (7, torch.tensor([0, 0])),
        ):
            close(
                g(TABLE, INDICES[:count].int(), offsets.int()),
                f(TABLE, INDICES[:count].int(), offsets.int()),
            )
    assert len(graphs) == 2
    in_tenon(graphs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wrong", ["offset", "end", "index"])
def test_what_eager_mode_refuses_is_refused(mode, wrong):
    indices, offsets = {
        "offset": (INDICES, OFFSETS + 1), "end": (INDICES, OFFSETS * 3), "index": (INDICES + 1, OFFSETS),
    }[wrong]  # fmt: skip
    f = lambda table, i, o: F.embedding_bag(i, table, o, mode=mode)  # noqa: E731
    with torch.no_grad():
        for run in (f, torch.compile(f, backend="tenon")):
            with pytest.raises(RuntimeError):
                run(TABLE, indices, offsets)


def test_nan_in_the_largest():
    table = TABLE.clone()
    table[4, 0] = float("nan")
    f = lambda table: F.embedding_bag(INDICES, table, OFFSETS, mode="max").nan_to_num(7)  # noqa: E731
    with torch.no_grad():
        close(torch.compile(f, backend="tenon")(table), f(table))


@pytest.mark.parametrize("norm", [1.0, 2.0, float("inf")])
def test_rows_that_are_too_long(norm, graphs):
    """The table is changed."""
    tables = [TABLE.clone(), TABLE.clone()]

    def f(table):
        return F.embedding_bag(INDICES, table, OFFSETS, mode="sum", max_norm=0.8, norm_type=norm)

    with torch.no_grad():
        close(torch.compile(f, backend="tenon")(tables[0]), f(tables[1]))
    close(*tables)
    assert not torch.equal(tables[0], TABLE)
    in_tenon(graphs)


@pytest.mark.parametrize("given", [{"sparse": True}, {"scale_grad_by_freq": True}])
def test_gradients_that_stay_in_torch(given, graphs):
    def f(table):
        return F.embedding_bag(INDICES, table, OFFSETS, mode="mean", **given)

    made = both(f, TABLE)
    close(*([t.to_dense() for t in m] for m in made))
    assert any("aten._embedding_bag_backward.default" in g.unsupported for g in graphs)


def test_a_network_trains(graphs):
    from conftest import train

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bags, self.out = torch.nn.EmbeddingBag(10, 8, mode="sum"), torch.nn.Linear(8, 2)

        def forward(self, indices, offsets):
            return self.out(self.bags(indices, offsets).relu())

    train(Net(), lambda net: net(INDICES, OFFSETS).square().mean())
    in_tenon(graphs)
