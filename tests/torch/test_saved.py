"""Tensors that a forward graph saves: a backward graph reads views with gaps where they lie."""

import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close
from tenon.torch.graph.saved import Memory
from torch import nn


class Attention(nn.Module):
    """Queries, keys and values are parts of one product."""

    def __init__(self, width=64, heads=2):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def gradients(net, call, x):
    call(x).square().sum().backward()
    return [p.grad for p in net.parameters()]


def test_saved_views_are_not_made_dense(graphs):
    """Each was, before the call, and all stayed so until its end."""
    one, two, x = Attention(), Attention(), torch.randn(4, 128, 64)
    two.load_state_dict(one.state_dict())
    close(gradients(two, torch.compile(two, backend="tenon"), x), gradients(one, one, x))
    (backward,) = (g for g in graphs if g.kind == "backward")
    (part,) = backward.partitions
    assert len(part.memory) >= 3
    _, repacked, _, _ = part.program.last_counts()
    assert repacked < 64 << 10  # small ones are made dense


BASE = torch.arange(6 * 200 * 96, dtype=torch.float32)
VIEWS = {
    "middle of rows": lambda m: m.view(6, 200, 96)[:, :, 32:80],
    "rows and columns": lambda m: m.view(6, 200, 96)[1:5, 3:150, :90],
    "heads": lambda m: m.view(6, 200, 3, 2, 16).permute(2, 0, 3, 1, 4)[1],
    "transposed": lambda m: m.view(6, 200, 96).transpose(0, 2),
    "one row kept": lambda m: m.view(6, 200, 96)[2:3, 1:, :90].transpose(0, 1),
}
OTHERS = {
    "dense": lambda m: m.view(6, 200, 96),
    "every other": lambda m: m.view(6, 200, 96)[:, :, ::2],
    "repeated": lambda m: m[:7680].view(1, 80, 96).expand(6, 80, 96),
    "windows": lambda m: m.unfold(0, 8, 1),
    "small": lambda m: m.view(6, 200, 96)[:, :1, :9],
    "nothing": lambda m: m.view(6, 200, 96)[:, :0, 2:],
}


class Sum(nn.Module):
    """Saves a view for its backward graph."""

    def __init__(self, take):
        super().__init__()
        self.take, self.scale = take, nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.take(x.sin().flatten()).mul(self.scale).exp()


@pytest.mark.parametrize("take", VIEWS.values(), ids=list(VIEWS))
def test_memory_around_a_view(take):
    view = take(BASE)
    found = Memory.of(view)
    assert found is not None and found.read(view).data_ptr() >= BASE.data_ptr()
    assert found.read(view).is_contiguous() and found.read(view).shape == found.shape
    # Elsewhere, and with other strides: a copy, with the view at the same place in it.
    again = found.read(view.contiguous())
    assert again.shape == found.shape
    at_first = torch.as_strided(again, view.shape, view.stride(), found.offset - found.first)
    assert torch.equal(at_first, view)


@pytest.mark.parametrize("take", OTHERS.values(), ids=list(OTHERS))
def test_views_that_are_read_as_they_are(take):
    assert Memory.of(take(BASE)) is None


@pytest.mark.parametrize("take", [*VIEWS.values(), *OTHERS.values()], ids=[*VIEWS, *OTHERS])
def test_gradients_through_views(take, graphs):
    one, two, x = Sum(take), Sum(take), BASE.div(1e4).requires_grad_()
    y = x.detach().clone().requires_grad_()
    close(gradients(two, torch.compile(two, backend="tenon"), y), gradients(one, one, x))
    close([y.grad], [x.grad])
    assert not any(g.unsupported for g in graphs)


def test_a_small_part_of_its_memory_is_made_dense():
    """The first of 50 tokens was read where it lies, which took half as long again as reading it densely."""
    tokens = torch.empty(64, 50, 256)
    assert Memory.of(tokens[:, 0]) is None
    assert Memory.of(tokens[:, :6]) is None
    assert Memory.of(tokens[:, :7]) is not None


def test_memory_that_ends_before():
    """The last row of a view may be the last of its memory."""
    short = torch.arange(5 * 4096 + 4000, dtype=torch.float32)
    view = torch.as_strided(short, (6, 4000), (4096, 1))
    found = Memory.of(view)
    assert found is not None
    assert torch.equal(found.read(view)[:, :4000], view)
