"""Where a GPU that has no code comes first, arrays of Python go to the device that HIP gives their
number, and come from it, on the tests' runtime: FAKE_CUDA=devices=2,old=1."""

import ctypes

import numpy as np
import pytest
import tenon
from dlpack_records import Device, DLTensor, Managed, new_capsule, pointer_in

ROCM, NUMBER, FLOATS = 10, 1, 1 << 10
runtime = ctypes.CDLL("libamdhip64.so.6")


def ok(result):
    assert result == 0, result


class Array:
    """Memory of the device with HIP's number 1, which says that it is of `number`."""

    def __init__(self, number):
        self.address, self.number = ctypes.c_void_p(), number
        ok(runtime.hipInit(0))
        ok(runtime.hipSetDevice(NUMBER))
        ok(runtime.hipMalloc(ctypes.byref(self.address), ctypes.c_size_t(4 * FLOATS)))
        self.shape = (ctypes.c_int64 * 1)(FLOATS)

    def __dlpack_device__(self):
        return (ROCM, self.number)

    def __dlpack__(self, *, stream=None):
        self.managed = Managed()
        self.managed.tensor = DLTensor(
            self.address.value, Device(ROCM, self.number), 1, 2, 32, 1, self.shape, None, 0
        )
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)


def device_of(address):
    number = ctypes.c_int(-1)
    ok(runtime.hipPointerGetAttribute(ctypes.byref(number), 9, ctypes.c_uint64(address)))
    return number.value


def test_devices_have_the_numbers_of_hip():
    rows = [d for d in tenon.devices() if d["plugin"] == "rocm"]
    assert [(d["name"], d["native_ordinal"]) for d in rows] == [("rocm", NUMBER)]


def test_an_array_is_taken_where_it_is():
    t = tenon.tensor(Array(NUMBER))
    assert (t.shape, t.dtype, t.device) == ((FLOATS,), "f32", "rocm")


def test_a_tensor_goes_out_with_the_number():
    y = tenon.tensor(np.ones(FLOATS, np.float32), device="rocm")
    capsule = y.__dlpack__(dl_device=(ROCM, NUMBER))  # which owns the record
    t = Managed.from_address(pointer_in(capsule, b"dltensor")).tensor
    assert (t.device.type, t.device.id) == (ROCM, NUMBER)
    assert device_of(t.data) == NUMBER


def test_a_device_without_code_is_refused():
    refused = "T0502.*no code for the vendor's device 0 of kind .rocm. .rocm:0 is number 1."
    with pytest.raises(tenon.Error, match=refused):
        tenon.tensor(Array(0))
    with pytest.raises(tenon.Error, match=refused):
        tenon.tensor(np.ones(FLOATS, np.float32), device="rocm").__dlpack__(dl_device=(ROCM, 0))
