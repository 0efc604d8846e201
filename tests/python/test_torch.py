"""torch's tensors, through DLPack's C exchange table."""

import numpy as np
import pytest
import tenon
from conftest import MODELS, identity

torch = pytest.importorskip("torch", reason="torch is not among the packages of the tests")


def test_values_and_memory(mlp):
    x = torch.from_numpy(np.load(MODELS / "mlp.in.x.npy"))
    y = mlp(x)["y"]
    assert isinstance(y, torch.Tensor) and mlp.last_run.copied_bytes == 0
    np.testing.assert_allclose(y.numpy(), np.load(MODELS / "mlp.out.y.npy"), 1e-4, 1e-4)
    y += 1  # the memory is the caller's
    t = tenon.tensor(x)
    assert torch.from_dlpack(t).data_ptr() == x.data_ptr()
    assert isinstance(mlp(t)[0], tenon.Tensor)
    out = torch.empty(5, 10)
    assert mlp.run([x], out=[out])[0] is out and not torch.equal(out, y)


@pytest.mark.parametrize(
    "name", ["bool", "int8", "int64", "uint8", "float16", "bfloat16", "float64", "complex64"]
)
def test_element_types(name):
    x = torch.tensor([0, 1, 1]).to(getattr(torch, name))
    y = identity(tenon.tensor(x).dtype)(x)[0]
    assert y.dtype == x.dtype and torch.equal(x, y)


def test_strides():
    x = torch.arange(24.0).reshape(4, 6)
    for view in (x.t(), x[::2], x[:, 1:3], x[0].expand(5, 6), x[1:1], x[None].permute(2, 0, 1)):
        assert torch.equal(identity("f32", view.ndim)(view)[0], view)


def fake(x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(x.shape)


class Wrapper(torch.Tensor):
    """A subclass without memory of its own, as those of quantised weights are."""

    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)

    def __init__(self, x):
        self.inner = x

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError(f"{function} was called")


class Marked(torch.Tensor):
    """A subclass with memory."""


def test_a_subclass_is_the_tensor_that_it_is(add):
    x = torch.ones(3).as_subclass(Marked)
    y = add(x, x)[0]
    assert type(y) is torch.Tensor and y.tolist() == [2, 2, 2] and add.last_run.copied_bytes == 0
    assert tenon.tensor(x).tolist() == [1, 1, 1] and (tenon.xp.asarray(x) + 1.0).tolist() == [
        2,
        2,
        2,
    ]
    assert type(tenon.compile(lambda x: x + 1)(x)) is torch.Tensor


@pytest.mark.parametrize(
    "make, why",
    [
        (lambda x: x.requires_grad_(), r"x\.detach\(\)"),
        (lambda x: x.to_sparse(), "not handed out"),
        (lambda x: x.to("meta"), "not handed out"),
        (lambda x: torch._efficientzerotensor((3,)), "has no memory"),
        (lambda x: x.to(torch.complex64).conj().imag, "resolve_neg"),
        (fake, "has no memory"),
        (Wrapper, "has no memory"),
        (
            lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
            "not handed out|does not have",
        ),
    ],
)
def test_refused(make, why):
    x = make(torch.ones(3))
    for use in (identity("f32"), tenon.tensor, tenon.xp.asarray):
        with pytest.raises(tenon.UsageError, match=why) as e:
            use(x)
        assert e.value.code == "T0624" and "\n" not in str(e.value)


@pytest.mark.parametrize("make", [fake, Wrapper])
def test_functions_refuse_what_has_no_memory(make):
    with pytest.raises(tenon.UsageError, match="T0624: input 'x0': .*has no memory"):
        tenon.compile(lambda x: x + 1)(make(torch.ones(3)))


def test_conjugates_are_refused():
    with pytest.raises(tenon.UsageError, match="resolve_conj"):
        identity("c64")(torch.ones(3, dtype=torch.complex64).conj())


def test_gradients_are_nobodys_where_none_are_recorded():
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert identity("f32")(x)[0].tolist() == [1, 1, 1]


def test_memory_that_torch_replaces():
    x = torch.ones(1000)
    t = tenon.tensor(x)
    x.data = torch.zeros(1000)
    del x
    assert t.tolist() == [1] * 1000


def test_tensors_die_on_other_threads(add):
    import threading

    x = torch.ones(10)
    kept = [add(x, x)[0] for _ in range(100)]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert add(x, x)[0].sum() == 20
