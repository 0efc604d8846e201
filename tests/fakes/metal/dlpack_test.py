"""Arrays of Python in Metal's buffers go to the mps device, and come from it, on the tests' Metal."""

import ctypes
import gc

import numpy as np
import pytest
import tenon
from dlpack_records import Device, DLTensor, Managed, new_capsule, pointer_in

METAL, FLOATS, SKIPPED = 8, 1 << 10, 16
metal = ctypes.CDLL("libmetal.so")
MODEL = f"""tenon.tir 1
graph @g(%x: f32[{FLOATS}]) -> (y: f32[{FLOATS}]) {{
  %y = neg(%x) : f32[{FLOATS}]
  yield %y
}}
"""
metal.MTLCopyAllDevices.restype = metal.sel_registerName.restype = ctypes.c_void_p
metal.fake_metal_in_use.restype = ctypes.c_uint64


def send(to, selector, *arguments):
    name = metal.sel_registerName(selector.encode())
    metal.objc_msgSend.restype = ctypes.c_void_p
    return metal.objc_msgSend(
        ctypes.c_void_p(to), ctypes.c_void_p(name), *map(ctypes.c_uint64, arguments)
    )


GPU = send(metal.MTLCopyAllDevices(), "objectAtIndex:", 0)


def floats(buffer):
    return np.ctypeslib.as_array(
        ctypes.cast(send(buffer, "contents"), ctypes.POINTER(ctypes.c_float)), (SKIPPED + FLOATS,)
    )


class Array:
    """A buffer of Metal's whose first floats are another array's."""

    def __init__(self, length=SKIPPED + FLOATS):
        self.buffer = send(GPU, "newBufferWithLength:options:", 4 * length, 0)
        self.shape, self.streams = (ctypes.c_int64 * 1)(FLOATS), []

    def __del__(self):
        send(self.buffer, "release")

    def __dlpack_device__(self):
        return (METAL, 0)

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        self.managed = Managed()
        self.managed.tensor = DLTensor(
            self.buffer, Device(METAL, 0), 1, 2, 32, 1, self.shape, None, 4 * SKIPPED
        )
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)


def test_an_array_is_taken_where_it_is():
    array = Array()
    t = tenon.tensor(array)
    assert (t.shape, t.dtype, t.device) == ((FLOATS,), "f32", "mps")
    assert array.streams == [None]  # DLPack has none of Metal's


@pytest.fixture
def model(tmp_path):
    (tmp_path / "neg.tir").write_text(MODEL)
    return tenon.load(tmp_path / "neg.tir", device="mps")


def test_a_model_reads_it_there(model):
    array = Array()
    floats(array.buffer)[SKIPPED:] = np.arange(FLOATS)
    for _ in range(2):
        y = model(tenon.tensor(array))["y"]
        np.testing.assert_array_equal(np.asarray(y), -np.arange(FLOATS, dtype=np.float32))


def test_a_tensor_goes_out_as_a_buffer():
    y = tenon.tensor(np.arange(FLOATS, dtype=np.float32), device="mps")
    capsule = y.__dlpack__(dl_device=(METAL, 0))  # which owns the record
    t = Managed.from_address(pointer_in(capsule, b"dltensor")).tensor
    assert (t.device.type, t.device.id) == (METAL, 0)
    np.testing.assert_array_equal(floats(t.data)[t.byte_offset // 4 :][:FLOATS], np.arange(FLOATS))


def test_a_buffer_is_kept_until_its_last_tensor_goes(model):
    model(tenon.tensor(Array()))  # which makes memory of its own
    gc.collect()
    none = metal.fake_metal_in_use()
    array = Array()
    first, second = tenon.tensor(array), tenon.tensor(array)
    floats(array.buffer)[SKIPPED:] = 3
    del first
    assert np.asarray(model(second)["y"])[-1] == -3
    del second, array
    gc.collect()
    assert metal.fake_metal_in_use() == none


def test_memory_beyond_the_buffer_is_refused():
    with pytest.raises(tenon.Error, match="the memory ends beyond its buffer"):
        tenon.tensor(Array(length=FLOATS))
