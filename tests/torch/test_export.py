"""Exported programs, operators of Tenon in torch, and explain."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import tenon
import tenon.torch
import torch
from conftest import close
from torch import nn


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)
    ).eval()


def exported(net, *args, **dynamic):
    return torch.export.export(net, args, dynamic_shapes=dynamic or None)


def test_dynamic_shapes():
    net, x = network(), torch.randn(2, 3, 8, 8)
    batch = torch.export.Dim("batch", min=1, max=64)
    model = tenon.from_exported(exported(net, x, input={0: batch}))
    assert isinstance(model.inputs[0].shape[0], str) and model.inputs[0].shape[1:] == (3, 8, 8)
    with torch.no_grad():
        for n in (2, 7):
            x = torch.randn(n, 3, 8, 8)
            close(model(x)[0], net(x))


def _message(model, *args):
    with pytest.raises(tenon.UsageError) as raised:
        model(*args)
    return str(raised.value)


def test_ranges_of_dims_are_enforced(tmp_path):
    """Also where another dim depends on it, in packages, and in files, which have lost its name."""

    class Net(nn.Module):
        def forward(self, x, y):
            return torch.cat([x, y]).sum(1)

    batch, rows = (
        torch.export.Dim("batch", min=1, max=64),
        lambda n, m: (torch.randn(n, 4), torch.randn(m, 4)),
    )
    program = exported(Net(), *rows(8, 16), x={0: batch}, y={0: 2 * batch})
    model = tenon.from_exported(program)
    assert [p.shape for p in model.inputs] == [("batch", 4), ("2*batch", 4)]
    model.save(tmp_path / "net.tpk")
    for net in (model, tenon.load(tmp_path / "net.tpk")):
        for n in (1, 8, 64):
            x, y = rows(n, 2 * n)
            close(net(x, y)[0], Net()(x, y))
        expected = "T0608: dim `batch` is {}, and the model wants it at least 1 and at most 64"
        assert expected.format(65) in _message(net, *rows(65, 130)) and expected.format(
            0
        ) in _message(net, *rows(0, 0))
        assert "dim 0 of input `y` is 17, expected 16" in _message(net, *rows(8, 17))

    length = torch.export.Dim("length", min=5)
    torch.export.save(
        exported(Net(), *rows(8, 16), x={0: batch}, y={0: length}), tmp_path / "net.pt2"
    )
    loaded = tenon.load(tmp_path / "net.pt2")
    assert [p.shape for p in loaded.inputs] == [("x_0", 4), ("y_0", 4)]
    message = _message(loaded, *rows(65, 3))
    assert "`x_0` is 65, and the model wants it at least 1 and at most 64" in message
    assert "`y_0` is 3, and the model wants it at least 5" in message


def test_guards_of_a_program_are_enforced():
    """What the network decided by sizes holds for the sizes of the model, too."""

    class Net(nn.Module):
        def forward(self, x, *more):
            y = torch.cat(more)
            y = y + 1 if y.shape[0] % 4 == 0 else y
            y = y * 2 if x.shape[0] + y.shape[0] < 100 else y
            return y, x * 2 if x.shape[0] > 3 else x

    auto = torch.export.Dim.AUTO
    program = exported(
        Net(), *[torch.ones(n, 2) for n in (6, 5, 7)], x={0: auto}, more=({0: auto}, {0: auto})
    )
    model = tenon.from_exported(program)
    given = [torch.ones(n, 2) for n in (4, 9, 11)]
    close(model(*given)[0], Net()(*given)[0])
    assert "more_0_0 + more_1_0" in _message(model, *[torch.ones(n, 2) for n in (4, 9, 12)])
    assert "at most 100, and these inputs give 121" in _message(
        model, *[torch.ones(n, 2) for n in (60, 30, 30)]
    )
    assert "`x_0` is 3" in _message(model, *[torch.ones(n, 2) for n in (3, 9, 11)])


def test_files_and_packages(tmp_path):
    net, x = network(), torch.randn(2, 3, 8, 8)
    torch.export.save(exported(net, x), tmp_path / "net.pt2")
    model = tenon.load(tmp_path / "net.pt2", "cpu")
    expected = net(x).detach()
    close(model(x)[0], expected)
    model.save(tmp_path / "net.tpk")
    np.save(tmp_path / "x.npy", x.numpy())
    code = (
        "import sys, numpy, tenon\n"
        "y = tenon.load(sys.argv[1] + '/net.tpk')(numpy.load(sys.argv[1] + '/x.npy'))[0]\n"
        "assert 'torch' not in sys.modules\n"
        "numpy.save(sys.argv[1] + '/y.npy', y)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    close(torch.from_numpy(np.load(tmp_path / "y.npy")), expected)


def test_no_warning_about_classes_of_torch():
    """torch warned, of its own copies, at each load."""
    program = exported(nn.Linear(4, 4), torch.ones(2, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tenon.from_exported(program)


def test_several_inputs_and_results():
    class Net(nn.Module):
        def forward(self, a, unread, b):
            return {"sum": a + b, "parts": (a, a * b)}

    x, y = torch.randn(3), torch.randn(3)
    model = tenon.from_exported(exported(Net(), x, torch.ones(2), y))
    assert [p.name for p in model.inputs] == ["a", "unread", "b"]
    a, b, c = model(x, torch.ones(2), y)
    close([a, b, c], [x + y, x, x * y])


def test_what_cannot_be_taken(tmp_path):
    class Power(nn.Module):
        def forward(self, x):
            return torch.linalg.matrix_exp(x)

    with pytest.raises(
        tenon.UsageError, match=r"T0640.*linalg_matrix_exp.*no mapping \(.*test_export.py:\d+\)"
    ):
        tenon.from_exported(exported(Power(), torch.randn(3, 3)))
    with pytest.raises(tenon.UsageError, match="T0640.*running_mean.*net.eval"):
        tenon.from_exported(exported(nn.BatchNorm1d(3), torch.randn(2, 3)))
    (tmp_path / "bad.pt2").write_bytes(b"no archive")
    with pytest.raises(tenon.DataError, match="T0640.*bad.pt2"):
        tenon.load(tmp_path / "bad.pt2")
    with pytest.raises(tenon.NotFoundError, match="T0101"):
        tenon.load(tmp_path / "none.pt2")
    with pytest.raises(
        tenon.UsageError, match=r"Linear is not an exported program: .*torch.export.export\(net"
    ):
        tenon.from_exported(nn.Linear(2, 2))
    with pytest.raises(tenon.UsageError, match="T0793"):
        tenon.load(tmp_path / "bad.pt2", dims={"n": 3})


def test_an_assertion_of_an_exported_program_is_checked():
    class Positive(nn.Module):
        def forward(self, x):
            torch._assert_async((x > 0).all(), "not positive")
            return x * 2

    model = tenon.from_exported(torch.export.export(Positive(), (torch.ones(3),), strict=True))
    close(model(torch.ones(3))[0], torch.full((3,), 2.0))
    with pytest.raises(tenon.UsageError, match="T0325"):
        model(-torch.ones(3))


@tenon.op("torch_test.scale_shift")
def scale_shift(x, a: float, b: float = 1.0):
    """x a + b."""
    return x * a + b


@tenon.op("torch_test.both")
def both(x, y):
    return x + y, tenon.xp.concat([x, y])


def test_operators_of_tenon(graphs):
    op = tenon.torch.register(scale_shift, gradient=lambda g, x, a, b: a * g)
    x = torch.randn(5, requires_grad=True)
    close(op(x.detach(), 2.0), x.detach() * 2 + 1)
    f = lambda x: op(x * 2, 3.0, b=0.5).relu().sum()  # noqa: E731
    y = torch.compile(f, backend="tenon")(x)
    y.backward()
    close(y, (x * 6 + 0.5).relu().sum())
    close(x.grad, 6.0 * (x * 6 + 0.5 > 0))
    assert not any(g.unsupported for g in graphs)


@tenon.op("torch_test.mixed")
def mixed(x, y, i, a: float, axes: tuple = (0,)):
    """Two results, and an operand without a derivative."""
    return x * y * a, tenon.xp.sum(x, axis=axes) + tenon.xp.astype(tenon.xp.sum(i), x.dtype)


@mixed.gradient
def mixed_gradient(g, h, x, y, i, a, axes):
    return g * y * a + tenon.xp.expand_dims(h, axis=axes[0]), g * x * a, None


def test_the_derivative_of_an_operator_is_compiled(graphs):
    tenon.opcheck(
        mixed, *(tenon.xp.asarray(np.array(v)) for v in ([[1.0, 2.0]], [[3.0, 4.0]], [1])), a=2.0
    )
    op = tenon.torch.register(mixed, results=2)

    def f(x, y, i):
        p, q = op(x * 2, y, i, 3.0)
        return p.sum() + (q * q).sum()

    def plain(x, y, i):
        return (x * 2 * y * 3).sum() + (((x * 2).sum(0) + i.sum()) ** 2).sum()

    compiled = torch.compile(f, backend="tenon", dynamic=True)
    for rows in (3, 5):
        x, y = (torch.randn(rows, 4, requires_grad=True) for _ in range(2))
        i = torch.arange(3)
        expected = torch.autograd.grad(plain(x, y, i), (x, y))
        close(torch.autograd.grad(f(x, y, i), (x, y)), expected)  # at once
        close(torch.autograd.grad(compiled(x, y, i), (x, y)), expected)
    assert graphs and not any(g.unsupported for g in graphs)
    with pytest.raises(
        NotImplementedError, match="mixed_backward was registered without a gradient"
    ):
        (g,) = torch.autograd.grad(f(x, y, i), x, create_graph=True)
        g.sum().backward()


def test_a_derivative_needs_its_name():
    @tenon.op("torch_test.taken_backward")
    def other(x):
        return x

    @tenon.op("torch_test.taken")
    def taken(x):
        return x * 2

    taken.gradient(lambda g, x: g * 2)
    with pytest.raises(tenon.UsageError, match="T0642: torch_test.taken_backward"):
        tenon.torch.register(taken)


@tenon.op("torch_test.fast")
def fast(x):
    return x * 2


def test_a_copy_in_another_namespace_is_an_operator_of_its_own():
    """It was computed by the lowering of the name without `_copy`."""

    @torch.library.custom_op("torch_test::fast_copy", mutates_args=())
    def fast_copy(x: torch.Tensor) -> torch.Tensor:
        return x + 5

    fast_copy.register_fake(torch.empty_like)
    tenon.torch.register(fast)
    close(
        torch.compile(lambda x: fast_copy(x) * 1, backend="tenon")(torch.ones(3)),
        torch.full((3,), 6.0),
    )


def test_operators_with_several_results():
    op = tenon.torch.register(both, results=2)
    f = torch.compile(lambda x, y: op(x, y)[1] * 2, backend="tenon", dynamic=True)
    for n in (3, 4):
        x, y = torch.randn(n), torch.randn(n)
        close(f(x, y), torch.cat([x, y]) * 2)

    class Net(nn.Module):
        def forward(self, x):
            return op(x, x)[1]

    x = torch.randn(3)
    close(tenon.from_exported(exported(Net(), x))(x)[0], torch.cat([x, x]))
    with pytest.raises(NotImplementedError, match="without a gradient"):
        op(torch.ones(2, requires_grad=True), torch.ones(2))[0].sum().backward()


def test_explain():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            x = self.linear(x)
            if x.sum() > 1e6:
                x = x + 1
            return torch.linalg.matrix_exp(x).relu()

    explanation = tenon.torch.explain(Net(), torch.randn(4, 4))
    text = str(explanation)
    assert (
        "in torch: aten.linalg_matrix_exp.default: the operator has no mapping" in text
        and "backward: " in text
    )
    assert len(explanation.breaks) == 1 and "break: " in text
    assert sum(g["kind"] == "forward" for g in explanation.graphs) == 2
