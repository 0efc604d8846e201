"""Gradients of depthwise and grouped convolutions, and transposed ones whose windows are tiles."""

import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close
from torch.nn import functional as F

# channels, filters, window, stride, padding, dilation, groups
CASES = [
    (6, 6, 3, 1, 1, 1, 6),
    (6, 6, 3, 2, 1, 1, 6),
    (6, 12, 3, 1, 1, 1, 6),
    (6, 6, 5, 3, 2, 1, 6),
    (6, 6, 3, 1, 2, 2, 6),
    (4, 4, 9, 1, 4, 1, 4),
    (6, 6, (1, 3), (1, 2), (0, 1), 1, 6),
    (6, 9, 3, 1, 1, 1, 3),
    (6, 9, 3, 2, 1, 1, 3),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case, graphs):
    channels, filters, window, stride, padding, dilation, groups = case
    size = (window, window) if isinstance(window, int) else window

    def f(x, w):
        return F.conv2d(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups)

    torch.manual_seed(0)
    x, w = torch.randn(3, channels, 13, 14), torch.randn(filters, channels // groups, *size)
    made = []
    for run in (f, torch.compile(f, backend="tenon")):
        given = [t.clone().requires_grad_() for t in (x, w)]
        out = run(*given)
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        made.append([out.detach(), *(t.grad for t in given)])
    close(made[1], made[0])
    assert graphs and not any(g.unsupported for g in graphs), [g.unsupported for g in graphs]


@pytest.mark.parametrize("axes", [1, 3])
def test_other_numbers_of_axes(axes):
    f = {1: F.conv1d, 3: F.conv3d}[axes]
    torch.manual_seed(0)
    x, w = torch.randn(2, 5, *[7] * axes), torch.randn(5, 1, *[3] * axes)
    made = []
    for run in (f, torch.compile(f, backend="tenon")):
        given = [t.clone().requires_grad_() for t in (x, w)]
        out = run(*given, padding=1, groups=5)
        out.square().sum().backward()
        made.append([t.grad for t in given])
    close(made[1], made[0])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tile", [(3,), (2, 2), (1, 3), (2, 1, 2)])
def test_tiles(tile, bias, graphs):
    f = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[len(tile)]
    torch.manual_seed(0)
    x, w, b = torch.randn(3, 6, *[5] * len(tile)), torch.randn(6, 4, *tile), torch.randn(4)

    def spread(x, w, b):
        return f(x, w, b if bias else None, stride=tile)

    made = []
    for run in (spread, torch.compile(spread, backend="tenon")):
        given = [t.clone().requires_grad_() for t in ((x, w, b) if bias else (x, w))]
        out = run(*given, *(() if bias else (None,)))
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        made.append([out.detach(), *(t.grad for t in given)])
    close(made[1], made[0])
    assert graphs and not any(g.unsupported for g in graphs), [g.unsupported for g in graphs]


@pytest.mark.parametrize("dims", [[0], [0, 2]])
def test_tiles_of_any_size(dims, graphs):
    w = torch.randn(3, 4, 2, 2)
    f = torch.compile(lambda x: F.conv_transpose2d(x, w, stride=2), backend="tenon")
    for size in (5, 7, 9):
        x = torch.randn(*[size if i in dims else s for i, s in enumerate((2, 3, 5, 6))])
        for dim in dims:
            torch._dynamo.mark_dynamic(x, dim)
        close(f(x), F.conv_transpose2d(x, w, stride=2))
    assert len(graphs) == 1 and not graphs[0].unsupported, graphs[0].unsupported
