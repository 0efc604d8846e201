"""A second process takes graphs from torch's cache, with the same results."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys, torch
import tenon.torch
from torch import nn
from torch._dynamo.utils import counters
from tenon.torch.capture.watch import watch

graphs = []
watch.lists.append(graphs)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
x = torch.randn(3, 8)
options = {"deterministic": True} if "deterministic" in sys.argv else {}
f = torch.compile(net, backend="tenon", options=options)
f(x).square().mean().backward()
with torch.no_grad():
    y = f(x)
assert not any(g.unsupported for g in graphs) and len(graphs) == 3, graphs
if "dynamic" in sys.argv:
    with torch.no_grad():
        assert torch.allclose(f(x[:2]), net(x[:2]), atol=1e-6)
assert torch.allclose(y, net(x), atol=1e-6)
counts = counters["aot_autograd"]
print(counts["autograd_cache_hit"], counts["autograd_cache_miss"], net[0].weight.grad.double().sum().item(), y.sum().item())
"""


REGISTERED = """
import sys, torch
import tenon, tenon.torch

factor = float(sys.argv[1])

@tenon.op("kept.scale")
def scale(x, a: float):
    return x * a

op = tenon.torch.register(scale, gradient=lambda g, x, a: g * (a * factor))
y = torch.ones(3, requires_grad=True)
torch.compile(lambda y: op(y, 2.0).sum(), backend="tenon")(y).backward()
print(y.grad[0].item())
"""


@pytest.fixture
def printed(tmp_path):
    def printed(program, *arguments):
        environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 and "unable" not in done.stderr, done.stderr
        return done.stdout.split()

    return printed


@pytest.fixture
def run(printed):
    def run(*arguments):
        hits, misses, *values = printed(PROGRAM, *arguments)
        return int(hits), int(misses), values

    return run


def test_a_second_process_starts_warm(run):
    first, second = run(), run()
    assert first[:2] == (0, 2) and second[:2] == (2, 0)
    assert first[2] == second[2]


def test_options_are_part_of_the_key(run):
    run()
    assert run("deterministic")[0] == 0


def test_sizes_that_change_are_traced_again(run):
    run("dynamic")
    assert run("dynamic")[0] == 2


def test_a_gradient_that_changed_is_traced_again(printed):
    assert printed(REGISTERED, "1") == ["2.0"]
    assert printed(REGISTERED, "5") == ["10.0"]


LINES = """
import sys, torch
import tenon.torch

def f(x):
    y = x.sin()
    return y.tanh().sum()

x = torch.ones(3, requires_grad=True)
report = tenon.torch.explain(f, x)
hits = torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"]
print(hits, *{n["place"].rpartition(":")[2] for n in report.nodes if n["op"] in ("sin", "cos", "tanh")})
"""


def test_lines_are_those_of_the_edited_program(tmp_path, printed):
    """They were those of the process that wrote the entry."""
    for above, kept in ((0, False), (3, True)):
        program = tmp_path / f"net{above}.py"
        program.write_text("\n" * above + LINES)
        hits, *found = printed(f"import runpy; runpy.run_path({str(program)!r})")
        assert hits == str(int(kept)) and found, found
        assert set(found) <= {str(above + 6), str(above + 7)}, found
