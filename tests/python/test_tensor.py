"""tenon.Tensor by itself."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import tenon


def test_what_it_says():
    t = tenon.tensor(np.zeros((2, 3), np.int16))
    assert (t.shape, t.dtype, t.ndim, t.size, t.nbytes, t.device, len(t)) == (
        (2, 3), "i16", 2, 6, 12, "host", 2)  # fmt: skip
    assert repr(t) == "tenon.Tensor(shape=(2, 3), dtype=i16, on host)"
    with pytest.raises(ValueError, match="not one element"):
        t.item()
    with pytest.raises(TypeError):
        len(tenon.tensor(1))


def test_numbers():
    assert tenon.tensor(1.5).item() == 1.5 and tenon.tensor(3).dtype == "i64"
    assert int(tenon.tensor(True)) == 1 and bool(tenon.tensor(0)) is False
    assert tenon.tensor(1 + 2j).item() == 1 + 2j
    assert tenon.tensor(np.float16(0.5)).item() == 0.5


def test_copies_and_pickles():
    x = np.arange(4.0)
    t = tenon.tensor(x, copy=True)
    x[0] = 9
    assert t.tolist() == [0, 1, 2, 3]
    assert copy.copy(t) is t and copy.deepcopy(t) is t
    again = pickle.loads(pickle.dumps(t))
    assert again.tolist() == t.tolist() and again.dtype == "f64"
    strided = tenon.tensor(np.arange(6.0)[::2])
    assert strided.tolist() == [0, 2, 4]


def test_on_devices():
    x = np.arange(4, dtype=np.float32)
    t = tenon.tensor(x, device="sim")
    assert "sim" in t.device and t.tolist() == [0, 1, 2, 3]
    with pytest.raises(tenon.NotFoundError) as e:
        tenon.tensor(x, device="smi")
    assert e.value.code == "T0502" and "sim" in str(e.value)


def test_memory_lives_as_long_as_its_users():
    x = np.arange(1000.0)
    t = tenon.tensor(x)
    a = np.asarray(t)
    del x, t
    b = np.from_dlpack(tenon.tensor(np.full(1000, 3.0)))
    assert a[999] == 999 and (b == 3).all()


def test_damaged_bytes():
    from tenon import _native

    with pytest.raises(tenon.Error):
        _native.tensor_of_bytes(b"abc", "f32", [1])
    with pytest.raises(tenon.Error):
        _native.tensor_of_bytes(b"", "f32", [1 << 62, 1 << 62])
    with pytest.raises(tenon.Error):
        _native.tensor_of_bytes(b"abcd", "f33", [1])


def test_a_cycle_through_its_memory_is_collected():
    class Own(np.ndarray):
        pass

    def cycle(itself: bool) -> weakref.ref:
        array = np.ones(3, np.float32).view(Own)
        array.tensor = tenon.tensor(array)
        if itself:
            array.me = array
        return weakref.ref(array)

    gone = [cycle(False), cycle(True)]
    gc.collect()
    assert [r() for r in gone] == [None, None]
    array = np.ones(3, np.float32).view(Own)
    kept = array.tensor = tenon.tensor(array)
    del array
    gc.collect()
    assert kept.tolist() == [1, 1, 1]
