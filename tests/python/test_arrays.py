"""What is read as an array, without copies, and what is refused with a reason."""

import array

import ml_dtypes
import numpy as np
import pytest
import tenon
from conftest import identity

DTYPES = {
    "pred": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128,
    "bf16": ml_dtypes.bfloat16, "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_each_element_type(name):
    x = np.array([0, 1, 1]).astype(DTYPES[name])
    y = identity(name)(x)[0]
    assert y.dtype == x.dtype and (y == x).all()
    t = tenon.tensor(x)
    assert t.dtype == name and (np.asarray(t) == x).all()
    assert t.tolist() == x.astype(x.dtype if x.dtype.kind != "V" else "f8").tolist()
    assert tenon.tensor(x[::2]).tolist() == t.tolist()[::2]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x, lambda x: x.T, lambda x: x[::-1, ::2], lambda x: x[1:1],
        lambda x: np.broadcast_to(x[0], (5, 6)), np.asfortranarray, lambda x: x[:, None, 2:3, None],
    ],
)  # fmt: skip
def test_strides(view):
    x = view(np.arange(24, dtype=np.float32).reshape(4, 6))
    y = identity("f32", x.ndim)(x)[0]
    np.testing.assert_array_equal(y, x)
    assert y.flags.c_contiguous


def test_other_producers():
    f32 = identity("f32")
    numbers = array.array("f", [1, 2, 3])
    assert f32(numbers)[0].tolist() == [1, 2, 3]
    assert f32(memoryview(numbers)[::2])[0].tolist() == [1, 3]
    assert identity("u8")(b"ab")[0].tolist() == [97, 98]

    class Holder:  # as pandas' columns are
        def __array__(self, dtype=None, copy=None):
            return np.ones(2, np.float32)

    class Producer:  # DLPack alone, of both generations
        def __init__(self, values, old):
            self.values, self.old = values, old

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **words):
            return self.values.__dlpack__() if self.old else self.values.__dlpack__(**words)

    class Old(Producer):
        def __dlpack__(self):
            return self.values.__dlpack__()

    x = np.ones(2, np.float32)
    for made in (Holder(), Producer(x, False), Producer(x, True), Old(x, True)):
        assert f32(made)[0].tolist() == [1, 1]
    fixed = x.copy()
    fixed.flags.writeable = False
    assert f32(fixed)[0].tolist() == [1, 1]
    assert identity("f32", 0)(np.float32(2))[0].tolist() == 2


@pytest.mark.parametrize(
    "value, why",
    [
        ([1.0], "list is not an array"),
        (None, "NoneType is not an array"),
        ("x", "str is not an array"),
        (np.ndarray, "type is not an array"),
        (np.array([1, None]), "type object"),
        (np.zeros(2, ">f4"), "other byte order"),
        (np.zeros(2, "U3"), "which Tenon does not have"),
        (np.zeros(2, "f4,i4"), "which Tenon does not have"),
        (np.zeros(2, "M8[s]"), "which Tenon does not have"),
        (np.ma.masked_array(np.zeros(2, "f4"), [0, 1]), "has a mask"),
        (np.zeros(2, np.longdouble), "which Tenon does not have"),
        (memoryview(np.zeros(2, "f4,i4")), "which Tenon does not have"),
    ],
)
def test_refused(value, why):
    with pytest.raises(tenon.UsageError, match=why) as e:
        identity("f32")(value)
    assert e.value.code == "T0624" and "input 'x'" in str(e.value)


def test_refused_by_the_model(mlp):
    x = np.zeros((5, 32), np.float32)
    for wrong, code in ((x.astype("f8"), "T0603"), (x[0], "T0604"), (x[:, 1:], "T0605")):
        with pytest.raises(tenon.UsageError) as e:
            mlp(wrong)
        assert e.value.code == code and "`x`" in str(e.value) and e.value.remedy
    with pytest.raises(tenon.UsageError, match="takes 1 input, and 2 were given"):
        mlp(x, x)
    with pytest.raises(tenon.NotFoundError, match="did you mean `x`"):
        mlp(X=x)
    with pytest.raises(tenon.UsageError, match="given twice"):
        mlp(x, x=x)
    with pytest.raises(tenon.UsageError, match="were given"):
        mlp()


def test_a_producer_that_fails():
    class Broken:
        def __dlpack__(self, **words):
            raise BufferError("not today")

    class Liar:
        def __dlpack__(self, **words):
            return 5

    with pytest.raises(tenon.UsageError, match="not today"):
        identity("f32")(Broken())
    with pytest.raises(ValueError):
        identity("f32")(Liar())


def test_as_other_libraries_see_a_tensor():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = tenon.tensor(x)
    assert np.shares_memory(np.asarray(t), x) and np.shares_memory(np.from_dlpack(t), x)
    view = memoryview(t)
    assert view.readonly and view.shape == (2, 3) and view.tolist() == x.tolist()
    assert not np.asarray(t).flags.writeable
    assert np.asarray(t, dtype="f8").dtype == "f8"
    with pytest.raises(BufferError):
        memoryview(tenon.tensor(np.zeros(1, ml_dtypes.bfloat16)))
    with pytest.raises(BufferError):
        t.__dlpack__(copy=True)
    capsule = t.__dlpack__(max_version=(1, 0))
    del t, capsule
    assert tenon.tensor(np.zeros((0, 3), "f4")).numpy().shape == (0, 3)
