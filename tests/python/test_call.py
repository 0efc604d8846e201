"""Calls: by position and name, results, memory of the caller, counts of copied bytes."""

import asyncio
import copy
import gc
import os
import pickle
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tenon
from conftest import MODELS


def test_values_are_right(mlp):
    x, want = np.load(MODELS / "mlp.in.x.npy"), np.load(MODELS / "mlp.out.y.npy")
    np.testing.assert_allclose(mlp(x)["y"], want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(mlp(x=x)[0], mlp(x)[0])


def test_results_are_a_sequence_and_a_mapping(add):
    y = add(np.ones(3, np.float32), b=np.ones(3, np.float32))
    (c,) = y
    assert y[0] is c and y["c"] is c and y[-1] is c and y[:1] == (c,)
    assert (len(y), y.keys(), y.values(), y.items()) == (1, ("c",), (c,), (("c", c),))
    assert y.get("d") is None and y.get("d", 5) == 5 and dict(y)["c"] is c
    assert "c" in repr(y)
    with pytest.raises(KeyError, match="there is no result 'd'"):
        y["d"]
    with pytest.raises(IndexError, match="there is one result, number 0"):
        y[1]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(y))["c"], c)


def test_nothing_is_copied_for_dense_arrays(add):
    x = np.ones(1000, np.float32)
    y = add(x, x)[0]
    assert add.last_run.copied_bytes == 0
    y[0] = 7  # the memory is the caller's
    assert y[0] == 7 and add(x, x)[0][0] == 2
    add(x[::-1], np.ones(2000, np.float32)[::2])
    assert add.last_run.repacked_bytes == 8000


def test_memory_of_the_caller(add):
    x, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    assert add.run([x, x], out=[out])["c"] is out
    assert out.tolist() == [2, 2, 2, 2]
    wide = np.zeros(8, np.float32)
    add.run({"a": x, "b": x}, out={"c": wide[::2]})
    assert wide.tolist() == [2, 0] * 4
    fixed = np.zeros(4, np.float32)
    fixed.flags.writeable = False
    for wrong in (fixed, np.zeros(3, np.float32), np.zeros(4)):
        with pytest.raises(tenon.UsageError) as e:
            add.run([x, x], out=[wrong])
        assert e.value.code == "T0620"
    with pytest.raises(tenon.UsageError, match="there is no result 'd'"):
        add.run([x, x], out={"d": out})


def test_kinds_of_results(add):
    x = np.ones(2, np.float32)
    assert isinstance(add.run([x, x], results="tensor")[0], tenon.Tensor)
    assert isinstance(add.run([memoryview(x), tenon.tensor(x)], results="numpy")[0], np.ndarray)
    assert isinstance(add(memoryview(x), memoryview(x))[0], tenon.Tensor)
    with pytest.raises(tenon.UsageError, match="results='nmpy'"):
        add.run([x, x], results="nmpy")


def test_numbers_for_inputs_without_axes():
    scale = tenon.load(
        b"tenon.tir 1\ngraph @g(%a: f32[], %n: i8[]) -> (b: f32[], m: i8[]) {\n  yield %a, %n\n}\n",
        "reference",
    )
    b, m = scale(1.5, 7)
    assert (float(b), int(m)) == (1.5, 7) and scale(2, 1)[0].item() == 2.0
    for wrong in (1.5, 128, True, "7"):
        with pytest.raises(tenon.UsageError, match="input 'n'"):
            scale(1.0, wrong)


def test_in_the_background(mlp):
    x = np.load(MODELS / "mlp.in.x.npy")
    run = mlp.start(x)
    np.testing.assert_array_equal(run.result(10)[0], mlp(x)[0])
    assert run.done() and run.result() is run.result()
    with pytest.raises(tenon.UsageError):
        mlp.start(x[0]).result()
    with pytest.raises(tenon.UsageError, match="takes 1 input, and 0 were given"):
        mlp.start()
    del run
    mlp.start(x)  # forgotten: it is cancelled and waited for

    async def both():
        return [await mlp.start(x), await mlp.start(x)]

    assert len(asyncio.run(both())) == 2


def threads_of_process():
    return len(os.listdir("/proc/self/task"))


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def failing_calls(model, values, count):
    for _ in range(count):
        run = model.start(*values)  # a local that the exception's traceback has, too
        with pytest.raises(tenon.UsageError, match="T060"):
            run.result()


def test_failing_calls_in_the_background_leave_nothing(mlp):
    x = np.load(MODELS / "mlp.in.x.npy")[0]
    failing_calls(mlp, [x], 200)
    gc.collect()
    threads, resident = threads_of_process(), resident_bytes()
    failing_calls(mlp, [x], 2000)
    gc.collect()
    assert threads_of_process() == threads
    assert resident_bytes() - resident < 1 << 20


def test_a_call_that_ended_has_no_thread_and_no_arguments(mlp):
    x = np.load(MODELS / "mlp.in.x.npy")
    mlp.start(x).result()
    threads, references = threads_of_process(), sys.getrefcount(x)
    kept = [mlp.start(x) for _ in range(8)]
    assert sys.getrefcount(x) > references
    for run in kept:
        run.result()
    assert threads_of_process() == threads and sys.getrefcount(x) == references


def test_each_result_raises_an_exception_of_its_own(mlp):
    run = mlp.start(np.zeros(3, np.float32))
    raised = []
    for _ in range(2):
        with pytest.raises(tenon.UsageError) as error:
            run.result()
        raised.append(error.value)
    assert raised[0] is not raised[1] and str(raised[0]) == str(raised[1])
    assert raised[0].code == raised[1].code and raised[0].__cause__ is None
    with pytest.raises(tenon.UsageError, match="T0004.*not a number of seconds"):
        run.result(float("nan"))


def test_a_run_in_a_ring_of_references_is_collected(mlp):
    class Owner:
        pass

    owner = Owner()
    owner.run, owner.model = mlp.start(np.load(MODELS / "mlp.in.x.npy")), mlp
    owner.run.result()
    owner.run.owner = owner
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


async def awaited(model, values, count):
    for _ in range(count):
        with pytest.raises(tenon.UsageError, match="T060"):
            await model.start(*values)


async def cancelled(model, x, count):
    for _ in range(count):
        task = asyncio.ensure_future(waiting(model.start(x, x)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def waiting(run):
    return await run


def test_failing_and_cancelled_awaits_leave_nothing(mlp):
    x = np.load(MODELS / "mlp.in.x.npy")[0]
    n = 600
    text = f"tenon.tir 1\ngraph @g(%x: f32[{n},{n}], %y: f32[{n},{n}]) -> (z: f32[{n},{n}]) {{\n  %z = matmul(%x, %y) : f32[{n},{n}]\n  yield %z\n}}\n"
    product = tenon.load(text.encode(), "cpu")
    asyncio.run(awaited(mlp, [x], 50))
    asyncio.run(cancelled(product, np.ones((n, n), np.float32), 5))
    gc.collect()
    threads, resident = threads_of_process(), resident_bytes()
    asyncio.run(awaited(mlp, [x], 500))
    gc.collect()
    assert threads_of_process() == threads
    assert resident_bytes() - resident < 1 << 20
    # Products that ran when they were cancelled leave their memory with the allocator.
    asyncio.run(cancelled(product, np.ones((n, n), np.float32), 20))
    gc.collect()
    assert threads_of_process() == threads


def test_threads_wait_for_one_call_in_the_background(mlp):
    x = np.load(MODELS / "mlp.in.x.npy")
    expected = mlp(x)[0]
    for _ in range(300):
        run = mlp.start(x)
        with ThreadPoolExecutor(3) as pool:
            for future in [pool.submit(run.result) for _ in range(3)]:
                np.testing.assert_array_equal(future.result()[0], expected)
        assert run.done()
    run.cancel()  # it has ended: nothing happens
    assert run.result() is run.result()


def test_one_that_is_cancelled_tells_all_who_wait():
    n = 1000
    product = f"matmul(%x, %x) : f32[{n},{n}]\n  %z = matmul(%y, %x) : f32[{n},{n}]\n"
    text = f"tenon.tir 1\ngraph @g(%x: f32[{n},{n}]) -> (y: f32[{n},{n}]) {{\n  %y = {product}  yield %z\n}}\n"
    model = tenon.load(text.encode(), "cpu")
    x = np.ones((n, n), np.float32)
    for _ in range(5):
        run = model.start(x)
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(run.result)
            run.cancel()
            with pytest.raises(tenon.Cancelled):
                run.result()
            with pytest.raises(tenon.Cancelled):
                other.result()


def test_sizes_that_follow_from_no_input():
    text = (
        b"tenon.tir 1\ngraph @g<n>() -> (y: i64[n]) {\n"
        b"  %y = iota() {shape = dims[n], dim = 0} : i64[n]\n  yield %y\n}\n"
    )
    assert tenon.load(text, "cpu", dims={"n": np.int64(3)})()[0].tolist() == [0, 1, 2]
    with pytest.raises(tenon.Error) as e:
        tenon.load(text, "cpu")()
    assert e.value.code == "T0623" and "dims=" in e.value.remedy
    with pytest.raises(tenon.NotFoundError, match="no size `m`"):
        tenon.load(text, "cpu", dims={"m": 3})
    for wrong in ("3", 2.0, -1, float("nan"), 1 << 70):
        with pytest.raises(tenon.UsageError):
            tenon.load(text, "cpu", dims={"n": wrong})


def test_state_stays_on_the_device(add):
    state = tenon.tensor(np.zeros(4, np.float32), device="cpu")
    one = np.ones(4, np.float32)
    for _ in range(3):
        state = add.run([state.donate(), one], results="device")[0]
    assert state.tolist() == [3, 3, 3, 3]
    given = state.donate()
    add(given, one)
    with pytest.raises(tenon.Error) as e:
        add(state, one)
    assert e.value.code == "T0621"
    with pytest.raises(tenon.Error) as e:
        state.tolist()
    assert e.value.code == "T0621"


def test_what_a_call_reads_is_not_donated(add):
    one = np.ones(4, np.float32)
    state = add.run([one, one], results="device")[0]
    run = add.start(state, one)
    with pytest.raises(tenon.Error, match="is donated, and another input, or a call") as e:
        add(state.donate(), one)
    assert e.value.code == "T0621"
    with pytest.raises(tenon.Error, match="is donated, and another input"):
        add(state, state.donate())
    assert run.result()[0].tolist() == [3, 3, 3, 3]
    run = add.start(state.donate(), one)
    with pytest.raises(tenon.Error, match="is donated as another input, or to a call") as e:
        add(state, one)
    assert e.value.code == "T0621"
    assert run.result()[0].tolist() == [3, 3, 3, 3]


def test_read_only_memory_is_donated_and_not_written(add, tmp_path):
    np.full(4096, 2, np.float32).tofile(
        tmp_path / "x"
    )  # mapped below: a write would end the process
    fixed = np.memmap(tmp_path / "x", np.float32, "r")
    one = np.ones(4096, np.float32)
    for device in (None, "cpu"):
        for results in ("same", "device"):
            state = tenon.tensor(fixed) if device is None else tenon.tensor(fixed, device=device)
            y = np.asarray(add.run([state.donate(), one], results=results)[0])
            assert (y == 3).all() and (fixed == 2).all() and not np.shares_memory(y, fixed)
            with pytest.raises(tenon.Error) as e:
                add(state, one)
            assert e.value.code == "T0621"


def test_results_outlive_their_model():
    model = tenon.load(MODELS / "mlp.onnx", "cpu")
    x = np.load(MODELS / "mlp.in.x.npy")
    y, want = model(x)[0], model(x)[0].copy()
    t = model.run([x], results="device")[0]
    del model
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(t.numpy(), want)


def test_copies_share_the_program(mlp):
    assert copy.copy(mlp) is mlp and copy.deepcopy([mlp])[0] is mlp
