"""Gradients of depthwise and grouped convolutions."""

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
