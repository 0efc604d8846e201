"""Arrays in a GPU's memory go into calls and come out of them by pointer, through DLPack, on the
tests' driver: their library is given the stream, and the call runs after what is there.

PyTorch's build for CPUs has no such tensors, so an array of our own hands out the same capsules."""

import ctypes
import gc
import os
import re
import time

import numpy as np
import pytest
import tenon
from dlpack_records import Device, DLTensor, Managed, ManagedVersioned, new_capsule, pointer_in

CUDA = 2
# CUDA's number of the first device that the plugin has code for: as many are too old for it. It is
# "cuda" here.
NUMBER = int(re.search(r"old=(\d+)|$", os.environ.get("FAKE_CUDA", ""))[1] or 0)
FLOATS = 1 << 16
driver = ctypes.CDLL("libcuda.so.1")
driver.fake_cuda_in_use.restype = ctypes.c_uint64


def ok(result):
    assert result == 0, result


class Array:
    """An array as a framework has it: written on a stream of its own, after much work there."""

    def __init__(self, value, strides=None):
        self.address, self.stream, self.asked = ctypes.c_uint64(), ctypes.c_void_p(), []
        self.value = value
        ok(driver.cuMemAlloc_v2(ctypes.byref(self.address), 4 * FLOATS))
        ok(driver.cuStreamCreate(ctypes.byref(self.stream), 1))
        bits = ctypes.c_uint(int(np.float32(value).view(np.uint32)))
        for word in [ctypes.c_uint(0)] * 400 + [bits]:
            ok(driver.cuMemsetD32Async(self.address, word, ctypes.c_size_t(FLOATS), self.stream))
        self.shape = (ctypes.c_int64 * 1)(FLOATS)
        self.strides = None if strides is None else (ctypes.c_int64 * 1)(strides)

    number = NUMBER

    def __dlpack_device__(self):
        return (CUDA, self.number)

    def __dlpack__(self, *, stream=None):
        self.asked.append(stream)
        event = ctypes.c_void_p()
        ok(driver.cuEventCreate(ctypes.byref(event), 2))
        ok(driver.cuEventRecord(event, self.stream))
        ok(driver.cuStreamWaitEvent(None if stream == 1 else ctypes.c_void_p(stream), event, 0))
        ok(driver.cuEventDestroy_v2(event))
        self.managed = Managed()
        self.managed.tensor = DLTensor(
            self.address.value, Device(CUDA, self.number), 1, 2, 32, 1, self.shape, self.strides, 0
        )
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)


class Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32 * 2), ("previous", ctypes.c_void_p)]


CurrentStream = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class Table(ctypes.Structure):
    _fields_ = [("header", Header), ("allocate", ctypes.c_void_p), ("managed_of", ctypes.c_void_p), ("object_of", ctypes.c_void_p),
                ("view_of", ctypes.c_void_p), ("current_stream", CurrentStream)]  # fmt: skip


class Streaming(Array):
    """An array whose library names its current stream in its type, as PyTorch does."""

    current = None

    @CurrentStream
    @staticmethod
    def name_current(device_type, device_id, out):
        assert (device_type, device_id) == (CUDA, NUMBER)
        out[0] = Streaming.current
        return 0

    table = Table(Header((1, 3), None), None, None, None, None, name_current)
    capsule_name = b"dlpack_exchange_api"  # which the capsule does not keep
    __dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(table), capsule_name, None)

    def __init__(self, value):
        super().__init__(value)
        Streaming.current = self.stream.value

    def write_later(self, value, stream=None):
        """On its stream or another one, after much work: only what waits for the stream sees it."""
        bits = ctypes.c_uint(int(np.float32(value).view(np.uint32)))
        for word in [ctypes.c_uint(0)] * 400 + [bits]:
            ok(
                driver.cuMemsetD32Async(
                    self.address, word, ctypes.c_size_t(FLOATS), stream or self.stream
                )
            )


@pytest.fixture(scope="module", autouse=True)
def context():
    primary = ctypes.c_void_p()
    ok(driver.cuInit(0))
    ok(driver.cuDevicePrimaryCtxRetain(ctypes.byref(primary), NUMBER))
    ok(driver.cuCtxPushCurrent_v2(primary))


@pytest.fixture(scope="module")
def negate():
    text = f"tenon.tir 1\ngraph @g(%x: f32[{FLOATS}]) -> (y: f32[{FLOATS}]) {{\n  %y = neg(%x) : f32[{FLOATS}]\n  yield %y\n}}\n"
    return tenon.load(text.encode(), "cuda")


def test_by_pointer_and_after_the_stream(negate):
    for value in (2, 3, 5):
        x = Array(value)
        t = tenon.tensor(x)
        assert x.asked == [1]  # the default stream, which the call gets
        assert (t.shape, t.dtype, t.device) == ((FLOATS,), "f32", "cuda")
        y = negate(t)[0]
        assert set(np.asarray(y)) == {-value}


def test_after_the_current_stream(negate):
    x = Streaming(2)
    t = tenon.tensor(x)
    assert x.asked == [x.stream.value]  # on which its library need not wait for itself
    for value in (3, 4, 5):
        x.write_later(value)
        assert set(np.asarray(negate(t)[0])) == {-value}


def test_after_the_stream_that_is_current_at_the_call(negate):
    x, other = Streaming(2), Streaming(3)
    Streaming.current = x.stream.value
    t = tenon.tensor(x)
    Streaming.current = other.stream.value
    for value in (4, 5, 6):
        x.write_later(value, stream=other.stream)
        assert set(np.asarray(negate(t)[0])) == {-value}
    x.write_later(7)  # also after the one that it was made on
    assert set(np.asarray(negate(t)[0])) == {-7}


def test_after_the_streams_of_all_tensors():
    text = f"tenon.tir 1\ngraph @g(%x: f32[{FLOATS}], %y: f32[{FLOATS}]) -> (z: f32[{FLOATS}]) {{\n  %z = add(%x, %y) : f32[{FLOATS}]\n  yield %z\n}}\n"
    add = tenon.load(text.encode(), "cuda")
    arrays = [Streaming(2), Streaming(3)]
    for pair in (arrays, arrays[::-1], [Streaming(2), Array(3)]):
        tensors = []
        for array in pair:
            Streaming.current = array.stream.value
            tensors.append(tenon.tensor(array))
        assert set(np.asarray(add(*tensors)[0])) == {sum(array.value for array in pair)}
        # What the library does later on a stream comes before the call, too.
        values = [array.value for array in pair]
        for i, array in enumerate(pair):
            if isinstance(array, Streaming):
                values[i] += 20
                array.write_later(values[i])
                assert set(np.asarray(add(*tensors)[0])) == {sum(values)}
                array.value = values[i]


def test_results_go_out_by_pointer(negate):
    y = tenon.tensor(np.asarray(negate(tenon.tensor(Array(7)))[0]), device="cuda")
    capsule = y.__dlpack__(stream=1, max_version=(1, 0), dl_device=(CUDA, NUMBER))
    t = ManagedVersioned.from_address(pointer_in(capsule, b"dltensor_versioned")).tensor
    assert (t.device.type, t.device.id, t.rank, t.shape[0], t.code, t.bits) == (
        CUDA,
        NUMBER,
        1,
        FLOATS,
        2,
        32,
    )
    host = np.zeros(FLOATS, np.float32)
    ok(
        driver.cuMemcpyDtoHAsync_v2(
            host.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_uint64(t.data + t.byte_offset),
            ctypes.c_size_t(4 * FLOATS),
            None,
        )
    )
    ok(driver.cuStreamSynchronize(None))
    assert set(host) == {-7}
    old = y.__dlpack__(dl_device=(CUDA, NUMBER))
    assert Managed.from_address(pointer_in(old, b"dltensor")).tensor.data == t.data


class Consumer:
    """A framework that takes a result by DLPack and copies it on a stream of its own."""

    def __init__(self):
        self.stream, self.copy = ctypes.c_void_p(), ctypes.c_uint64()
        ok(driver.cuStreamCreate(ctypes.byref(self.stream), 1))
        ok(driver.cuMemAlloc_v2(ctypes.byref(self.copy), 4 * FLOATS))

    def take(self, tensor):
        self.capsule = tensor.__dlpack__(
            stream=self.stream.value, max_version=(1, 0), dl_device=(CUDA, NUMBER)
        )
        t = ManagedVersioned.from_address(pointer_in(self.capsule, b"dltensor_versioned")).tensor
        return ctypes.c_uint64(t.data + t.byte_offset)

    def queue_work(self):
        for word in range(400):
            ok(
                driver.cuMemsetD32Async(
                    self.copy, ctypes.c_uint(word), ctypes.c_size_t(FLOATS), self.stream
                )
            )

    def queue_copy(self, source):
        ok(driver.cuMemcpyDtoDAsync_v2(self.copy, source, ctypes.c_size_t(4 * FLOATS), self.stream))

    def let_go(self):
        del self.capsule
        gc.collect()

    def copied(self):
        ok(driver.cuStreamSynchronize(self.stream))
        host = np.zeros(FLOATS, np.float32)
        ok(
            driver.cuMemcpyDtoHAsync_v2(
                host.ctypes.data_as(ctypes.c_void_p), self.copy, ctypes.c_size_t(4 * FLOATS), None
            )
        )
        return host


def use_other_memory():
    for _ in range(8):
        tenon.tensor(np.full(FLOATS, -1, np.float32), device="cuda")


def test_a_result_stays_until_the_work_of_its_reader_is_done():
    consumer, values = Consumer(), np.arange(FLOATS, dtype=np.float32)
    use_other_memory()
    before = driver.fake_cuda_in_use()
    source = consumer.take(tenon.tensor(values, device="cuda"))
    consumer.queue_work()
    consumer.queue_copy(source)
    consumer.let_go()  # on the host, while the copy waits
    use_other_memory()
    assert (consumer.copied() == values).all()
    # The device follows the reader's stream on a thread of its own.
    end = time.monotonic() + 30
    while driver.fake_cuda_in_use() > before and time.monotonic() < end:
        time.sleep(0.01)
        use_other_memory()
    assert driver.fake_cuda_in_use() <= before


def test_a_result_that_its_reader_records_stays(caplog):
    consumer, values, graph, runnable = (
        Consumer(),
        np.arange(FLOATS, dtype=np.float32),
        ctypes.c_void_p(),
        ctypes.c_void_p(),
    )
    source = consumer.take(tenon.tensor(values, device="cuda"))
    ok(driver.cuStreamBeginCapture_v2(consumer.stream, 0))
    consumer.queue_copy(source)
    consumer.let_go()
    ok(driver.cuStreamEndCapture(consumer.stream, ctypes.byref(graph)))
    assert (
        "are kept until the process ends" in caplog.text
        and "the stream records a graph" in caplog.text
    )
    use_other_memory()
    ok(driver.cuGraphInstantiateWithFlags(ctypes.byref(runnable), graph, ctypes.c_ulonglong(0)))
    ok(driver.cuGraphLaunch(runnable, consumer.stream))
    assert (consumer.copied() == values).all()
    ok(driver.cuGraphExecDestroy(runnable))
    ok(driver.cuGraphDestroy(graph))


def test_a_stream_that_records_a_graph_takes_no_call(negate):
    x, graph = Streaming(2), ctypes.c_void_p()
    t = tenon.tensor(x)
    ok(driver.cuStreamSynchronize(x.stream))
    for mode in range(3):  # of the whole process, of the thread, relaxed
        ok(driver.cuStreamBeginCapture_v2(x.stream, mode))
        with pytest.raises(tenon.Error, match="the stream records a graph"):
            negate(t)
        ok(driver.cuStreamEndCapture(x.stream, ctypes.byref(graph)))
        ok(driver.cuGraphDestroy(graph))
    assert set(np.asarray(negate(t)[0])) == {-2}


def test_what_cannot_be_taken_is_reported(negate):
    with pytest.raises(tenon.Error, match="T0624.*has strides"):
        tenon.tensor(Array(1, strides=2))
    t = tenon.tensor(Array(1))
    with pytest.raises(tenon.Error, match="T0624.*memory of another library on cuda"):
        np.asarray(t)
    with pytest.raises(tenon.Error, match="take it where it is with tenon.tensor"):
        negate(Array(1))
    with pytest.raises(BufferError):
        t.__dlpack__(dl_device=(CUDA, NUMBER))


def test_devices_have_the_numbers_of_cuda():
    rows = [d for d in tenon.devices() if d["plugin"] == "cuda"]
    assert [(d["name"], d["native_ordinal"]) for d in rows] == [("cuda", NUMBER)]
    assert rows[0]["uuid"] == f"a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae{NUMBER:02}"
    assert all(
        d["native_ordinal"] is None and d["uuid"] == ""
        for d in tenon.devices()
        if d["plugin"] == "cpu"
    )


@pytest.mark.skipif(NUMBER == 0, reason="all devices have code")
def test_an_array_on_a_device_without_code_is_refused():
    x = Array(1)
    x.number = 0
    with pytest.raises(
        tenon.Error,
        match="T0502.*no code for the vendor's device 0 of kind .cuda. .cuda:0 is number 1.",
    ):
        tenon.tensor(x)
