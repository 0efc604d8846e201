"""Kernels run on torch's threads."""

import os
import subprocess
import sys

import torch
from torch import nn

SCRIPT = """
import os, threading
import torch
from torch import nn
import tenon.torch

def ticks():
    \"\"\"Processor time of Tenon's own threads.\"\"\"
    total = 0
    for t in os.listdir("/proc/self/task"):
        if open(f"/proc/self/task/{t}/comm").read().startswith("tenon-"):
            total += sum(map(int, open(f"/proc/self/task/{t}/stat").read().rsplit(")", 1)[1].split()[11:13]))
    return total

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512))
x = torch.randn(256, 512)
fast = torch.compile(net, backend="tenon")

def steps(n):
    for _ in range(n):
        net.zero_grad()
        fast(x).square().mean().backward()

def right():
    steps(1)
    mine = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(x).square().mean().backward()
    assert all(torch.allclose(a, p.grad, atol=1e-6) for a, p in zip(mine, net.parameters()))

right()
begin = ticks()
steps(60)
print("own threads worked:", ticks() - begin > 5)
torch.set_num_threads(1)
right()
torch.set_num_threads(2)
other = threading.Thread(target=right)
other.start()
other.join()
"""


def lines(**variables: str) -> list[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("TENON_NUM_THREADS", "OMP_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=300,
        env={**env, **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_kernels_run_on_torchs_threads():
    assert torch.backends.openmp.is_available()
    assert lines() == ["own threads worked: False"]


def test_a_stated_number_has_threads_of_its_own():
    if len(os.sched_getaffinity(0)) > 1:
        assert lines(TENON_NUM_THREADS="2")[0] == "own threads worked: True"


def test_without_openmp_nothing_changes(monkeypatch):
    from tenon.torch.capture import threads

    monkeypatch.setattr(torch.backends.openmp, "is_available", lambda: False)
    assert not threads.share.__wrapped__()
    net, x = nn.Linear(8, 4), torch.randn(3, 8)
    assert torch.allclose(torch.compile(net, backend="tenon")(x), net(x), atol=1e-6)
