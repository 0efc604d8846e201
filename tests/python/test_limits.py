"""Threads, signals, forks, and what many calls leave."""

import gc
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
import tenon
from conftest import MODELS, TEXT_ADD
from test_model import run


def test_sixteen_threads_call_one_model(mlp, add):
    x, want = np.load(MODELS / "mlp.in.x.npy"), np.load(MODELS / "mlp.out.y.npy")
    wrong = []

    def work(i):
        a = np.full(4, i, np.float32)
        for _ in range(200):
            if add(a, a)[0].tolist() != [2.0 * i] * 4:
                wrong.append(i)
            if not np.allclose(mlp(x)[0], want, 1e-4, 1e-4):
                wrong.append(i)
            with pytest.raises(tenon.UsageError, match="`x`"):
                mlp(a)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_two_threads_compile_one_model():
    made = []
    text = TEXT_ADD.replace(b"@add", b"@two_threads")
    threads = [
        threading.Thread(target=lambda: made.append(tenon.load(text, "cpu"))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    x = np.ones(1, np.float32)
    assert [m(x, x)[0][0] for m in made] == [2, 2]


def memory_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def test_many_calls_leave_nothing(add):
    x = np.ones(1000, np.float32)
    t = tenon.tensor(x)
    bad = np.ones(3)

    def some(count):
        for _ in range(count):
            add(x, x)
            add(t, b=x)
            add.run([t, t], results="device")
            with pytest.raises(tenon.UsageError):
                add(x, bad)
            tenon.tensor(x, copy=True).numpy()

    some(500)
    gc.collect()
    before = memory_kib(), sys.getrefcount(x), sys.getrefcount(add), sys.getrefcount(t)
    some(20_000)  # of five calls
    gc.collect()
    after = memory_kib(), sys.getrefcount(x), sys.getrefcount(add), sys.getrefcount(t)
    assert after[1:] == before[1:]
    assert after[0] - before[0] < 4096


def test_many_models_leave_nothing():
    def some(count):
        for _ in range(count):
            tenon.load(TEXT_ADD, "cpu").close()
            with pytest.raises(tenon.Error):
                tenon.load(b"nothing")

    some(20)
    before = memory_kib()
    some(100)
    assert memory_kib() - before < 8192


def slow_model():
    """Minutes of work: products of large matrices on the reference device."""
    size = 700
    chain = "\n".join(
        f"  %v{i + 1} = dot_general(%v{i}, %v0) {{a_contract = [1], b_contract = [0]}} : f32[{size}, {size}]"
        for i in range(60)
    )
    return tenon.load(
        f"tenon.tir 1\ngraph @slow(%v0: f32[{size}, {size}]) -> (y: f32[{size}, {size}]) {{\n"
        f"{chain}\n  yield %v60\n}}\n".encode(),
        "reference",
    ), np.zeros((size, size), np.float32)


def test_ctrl_c_ends_a_call():
    model, x = slow_model()
    begin = time.monotonic()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        model(x)
    assert time.monotonic() - begin < 60
    # The next call works, and another handler's exception comes through as well.
    y = tenon.load(TEXT_ADD, "cpu")(x[0], x[0])[0]
    assert y[0] == 0

    class Mine(Exception):
        pass

    def handler(number, frame):
        with pytest.raises(tenon.UsageError, match="signal handler"):
            model(x)
        raise Mine

    old = signal.signal(signal.SIGUSR1, handler)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        with pytest.raises(Mine):
            model(x)
    finally:
        signal.signal(signal.SIGUSR1, old)


def test_a_background_call_is_cancelled():
    model, x = slow_model()
    running = model.start(x)
    with pytest.raises(TimeoutError):
        running.result(0.01)
    assert not running.done()
    running.cancel()
    with pytest.raises(tenon.Cancelled):
        running.result()
    assert running.done()


def test_other_threads_call_while_the_main_thread_waits(add):
    """The main thread asks for the GIL now and then: no thread may wait for it meanwhile."""
    model, x = slow_model()
    stop = threading.Event()
    count = [0]

    def call():
        while not stop.is_set():
            add(x[0], x[0])
            count[0] += 1

    thread = threading.Thread(target=call)
    thread.start()
    threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        model(x)
    stop.set()
    thread.join()
    assert count[0] > 100


def test_fork_after_use():
    script = f"""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, of forks
import os, numpy as np, tenon
model = tenon.load({TEXT_ADD!r}, "cpu")
x = np.ones(2, np.float32)
y = model(x, x)
pid = os.fork()
if pid == 0:
    try:
        model(x, x)
    except tenon.UsageError as e:
        del y, model
        os._exit(0 if e.code == "T0625" and "spawn" in str(e) else 3)
    os._exit(4)
assert os.waitpid(pid, 0)[1] == 0
assert model(x, x)[0][0] == 2
"""
    done = run(script)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_fork_on_another_thread():
    script = f"""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, of forks
import os, threading, numpy as np, tenon
from tenon.builder import GraphTrace
model = tenon.load({TEXT_ADD!r}, "cpu")
x = np.ones(2, np.float32)
kept = [model(x, x), model.run([x, x], results="device"), model.start(x, x), GraphTrace()]
def work():
    pid = os.fork()
    if pid == 0:
        kept.clear()
        globals().pop("model")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
t = threading.Thread(target=work)
t.start()
t.join(30)
assert not t.is_alive()
"""
    done = run(script)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_the_interpreter_ends_with_everything_alive():
    script = f"""
import threading, numpy as np, tenon
model = tenon.load({TEXT_ADD!r}, "cpu")
x = np.ones(2, np.float32)
kept = [model(x, x), tenon.tensor(x), model.run([x, x], results="device"), model.start(x, x)]
t = threading.Thread(target=lambda: [model(x, x) for _ in range(100000)], daemon=True)
t.start()
"""
    done = run(script)
    assert done.returncode == 0 and not done.stderr, done.stderr
