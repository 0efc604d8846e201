"""Resizing and samples at the points of a grid, forward and backward."""

import pytest
import tenon
import tenon.torch
import torch
from conftest import close
from torch.nn import functional as F

MODES = ["nearest", "nearest-exact", "bilinear", "bicubic"]
SIZES = [
    {"scale_factor": 2},
    {"scale_factor": 1.7},
    {"scale_factor": 0.5},
    {"scale_factor": (2, 3)},
    {"size": (13, 5)},
    {"size": (1, 1)},
    {"size": (8, 9)},
    {"size": (40, 50)},
]


def in_tenon(graphs):
    assert graphs and not any(g.unsupported for g in graphs), [g.unsupported for g in graphs]


def both(f, x):
    """The result and the gradient of eager mode and of Tenon."""
    made = []
    for run in (f, torch.compile(f, backend="tenon")):
        given = x.clone().requires_grad_()
        out = run(given)
        (out.sin() * torch.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
        made.append([out.detach(), given.grad])
    return made


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_images(mode, size, graphs):
    close(*both(lambda x: F.interpolate(x, mode=mode, **size), torch.randn(2, 3, 8, 9)))
    in_tenon(graphs)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_corners_stay(mode, size, graphs):
    def f(x):
        return F.interpolate(x, mode=mode, align_corners=True, **size)

    close(*both(f, torch.randn(2, 3, 8, 9)))
    in_tenon(graphs)


@pytest.mark.parametrize("factor", [2, 1.7, 0.4])
@pytest.mark.parametrize(
    "mode, axes", [("linear", 1), ("nearest", 1), ("trilinear", 3), ("nearest", 3)]
)
def test_other_numbers_of_axes(mode, axes, factor, graphs):
    def f(x):
        return F.interpolate(x, mode=mode, scale_factor=factor)

    close(*both(f, torch.randn(2, 3, *range(6, 6 + axes))))
    in_tenon(graphs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_floats(dtype, graphs):
    x = torch.randn(2, 3, 8, 9).to(dtype)
    made = both(lambda x: F.interpolate(x, mode="bicubic", scale_factor=1.3), x)
    close(*made, tolerance=1e-4 if dtype is torch.float64 else 2e-2)
    in_tenon(graphs)


def test_strides_are_those_of_eager_mode():
    x = torch.randn(2, 3, 8, 9).to(memory_format=torch.channels_last)
    theirs, ours = both(lambda x: F.interpolate(x, mode="bilinear", scale_factor=2), x)
    assert [t.stride() for t in ours] == [t.stride() for t in theirs]


def test_bytes():
    x = torch.randint(0, 255, (1, 3, 8, 8), dtype=torch.uint8)
    for mode in ("nearest", "nearest-exact"):
        f = torch.compile(
            lambda x, m=mode: F.interpolate(x, mode=m, scale_factor=1.5), backend="tenon"
        )
        assert torch.equal(f(x), F.interpolate(x, mode=mode, scale_factor=1.5))


@pytest.mark.parametrize("mode", MODES[:3])
def test_sizes_of_a_call(mode, graphs):
    def f(x):
        return F.interpolate(x, mode=mode, scale_factor=2)

    compiled = torch.compile(f, backend="tenon", dynamic=True)
    for size in (5, 6, 9):
        x = torch.randn(2, 3, size, size + 1)
        close(compiled(x), f(x))
    in_tenon(graphs)
    assert len(graphs) <= 2


def test_in_inference_mode():
    x = torch.randn(2, 3, 8, 9)
    with torch.inference_mode():
        for mode in MODES:
            f = torch.compile(
                lambda x, m=mode: F.interpolate(x, mode=m, scale_factor=2), backend="tenon"
            )
            close(f(x), F.interpolate(x, mode=mode, scale_factor=2))


def test_batches_of_a_call_stay_symbolic(graphs):
    f = torch.compile(lambda x: F.interpolate(x, mode="bilinear", scale_factor=2), backend="tenon")
    for batch in (2, 3, 4, 5):
        x = torch.randn(batch, 3, 8, 9)
        close(f(x), F.interpolate(x, mode="bilinear", scale_factor=2))
    assert len(graphs) == 2


@pytest.mark.parametrize("mode", MODES)
def test_transforms_of_torch(mode):
    def resized(x):
        return F.interpolate(x, scale_factor=2, mode=mode)

    def gradient(x):
        return torch.func.grad(lambda v: resized(v).square().sum())(x)

    x = torch.randn(4, 2, 3, 6, 7)
    for f in (torch.vmap(resized), torch.vmap(gradient)):
        close(torch.compile(f, backend="tenon")(x), f(x))
    tangent = torch.func.jvp(resized, (x[0],), (x[1],))[1]
    made = torch.compile(lambda x, t: torch.func.jvp(resized, (x,), (t,))[1], backend="tenon")
    close(made(x[0], x[1]), tangent)


def test_exported():
    class Net(torch.nn.Module):
        def forward(self, x):
            return F.interpolate(F.interpolate(x, mode="bicubic", scale_factor=2), size=(5, 7))

    x = torch.randn(2, 3, 8, 9)
    model = tenon.from_exported(torch.export.export(Net(), (x,)))
    close(model(x)[0], Net()(x))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_samples_of_a_grid(mode, padding, align, graphs):
    """Also at places outside of the image."""

    def f(x, grid):
        return F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)

    torch.manual_seed(0)
    x, grid = torch.randn(2, 5, 6, 7), torch.rand(2, 3, 9, 2) * 3 - 1.5
    made = []
    for run in (f, torch.compile(f, backend="tenon")):
        given = [t.clone().requires_grad_() for t in (x, grid)]
        out = run(*given)
        (out.sin() * torch.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
        made.append([out.detach(), *(t.grad for t in given)])
    close(made[1], made[0], tolerance=2e-4)
    in_tenon(graphs)


def test_samples_of_a_volume(graphs):
    def f(x, grid):
        return F.grid_sample(x, grid, align_corners=False)

    torch.manual_seed(0)
    x, grid = torch.randn(2, 3, 4, 5, 6), torch.rand(2, 3, 4, 5, 3) * 2.2 - 1.1
    made = []
    for run in (f, torch.compile(f, backend="tenon")):
        given = [t.clone().requires_grad_() for t in (x, grid)]
        out = run(*given)
        out.square().sum().backward()
        made.append([out.detach(), *(t.grad for t in given)])
    close(made[1], made[0])
    in_tenon(graphs)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_gradients_of_samples_are_contiguous(mode, graphs):
    """As in eager mode, also of an image and a grid in another memory order."""
    g, x = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 7).to(memory_format=torch.channels_last)
    grid = torch.rand(2, 5, 4, 2).transpose(1, 2)

    def f(g, x, grid):
        return torch.ops.aten.grid_sampler_2d_backward(g, x, grid, mode, 0, False, [True, True])

    ours, theirs = torch.compile(f, backend="tenon")(g, x, grid), f(g, x, grid)
    for a, b in zip(ours, theirs, strict=True):
        close(a, b)
        assert a.stride() == b.stride()
    in_tenon(graphs)
