"""Python floats that change between calls. They were constants from the third value on, on disk too."""

import os
import subprocess
import sys

import float_kinds as kinds
import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close


def compiled(f):
    return torch.compile(f, backend="tenon")


def same(f, values=kinds.VALUES, graphs=None):
    """Compares with eager mode for each value. The number of graphs that were compiled, if asked for."""
    g = compiled(f)
    for s in values:
        close(g(*kinds.operands(), s), f(*kinds.operands(), s))
    return graphs and len(graphs)


def test_floats_are_arguments(graphs):
    """The first value is a constant, and all others are arguments of one program."""
    assert same(kinds.changing, graphs=graphs) == 2
    assert not graphs[-1].unsupported


def test_floats_that_torch_needs_to_know(graphs):
    assert same(kinds.fixed, graphs=graphs) == len(kinds.VALUES)


@pytest.mark.all_models
@pytest.mark.parametrize("kind", kinds.CHANGING)
def test_a_float_alone(kind, graphs):
    assert same(kinds.CHANGING[kind], graphs=graphs) == 2
    torch._dynamo.reset()  # and with what the caches on disk have
    same(kinds.CHANGING[kind], kinds.VALUES[::-1])


@pytest.mark.all_models
@pytest.mark.parametrize("kind", kinds.FIXED)
def test_a_fixed_float_alone(kind):
    same(kinds.FIXED[kind])
    torch._dynamo.reset()
    same(kinds.FIXED[kind], kinds.VALUES[::-1])


def test_a_float_that_is_an_argument_and_a_constant():
    """What makes a constant of a float does so in the whole graph."""
    same(lambda x, y, s: (x * s, torch.nn.functional.huber_loss(x * s, y, delta=s)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types(dtype):
    """Floats that change stay in float32 next to 16 bits, or are rounded, as in eager mode."""

    def f(x, y, s):
        x, y = x.to(dtype), y.to(dtype)
        return x * s, x / s, x + s, x // s, x.clamp(max=s), x < s, torch.where(x > 0, x, s), x % s

    g = compiled(f)
    for s in kinds.VALUES:
        for mine, theirs in zip(g(*kinds.operands(), s), f(*kinds.operands(), s)):
            assert mine.dtype is theirs.dtype and torch.equal(mine, theirs), s


def test_special_numbers():
    """0, 1 and NaN are distinguished where torch has rules for them."""

    def f(x, y, s):
        return x * s, y**s, torch.add(x, y, alpha=s), x.clamp(max=s)

    g = compiled(f)
    for s in (0.3, 0.5, 1.0, 2.0, 0.0, -0.0, float("inf"), float("nan"), 3.0, 0.25):
        for mine, theirs in zip(g(*kinds.operands(), s), f(*kinds.operands(), s)):
            assert torch.allclose(mine, theirs, rtol=1e-5, equal_nan=True), s


def test_gradients(graphs):
    def f(x, y, s):
        return ((x * s).clamp(max=2 * s) * y).sum() / s

    g = compiled(f)
    for s in kinds.VALUES:
        pairs = []
        for call in (g, f):
            x, y = (v.requires_grad_() for v in kinds.operands())
            call(x, y, s).backward()
            pairs.append((x.grad, y.grad))
        close(*pairs)
    assert len([made for made in graphs if made.kind == "backward"]) == 2


def test_gradients_that_need_to_know_a_float():
    def f(x, y, s):
        return (x * y**s).sum()

    g = compiled(f)
    for s in (0.5, 2.0, 0.0, 1.0, 3.0, 0.7):
        pairs = []
        for call in (g, f):
            x, y = (v.requires_grad_() for v in kinds.operands())
            call(x, y, s).backward()
            pairs.append((x.grad, y.grad))
        close(*pairs)


def test_a_number_for_what_stays_in_torch():
    same(lambda x, y, s: torch.linalg.matrix_exp(x.reshape(4, 4) * s) + (y.reshape(4, 4) - s))


def test_a_number_and_a_tensor_without_axes_in_one_part():
    """torch adds the inputs of a part where they are read: the number comes before the tensor."""

    def f(x, factor, y, whole):
        return x * factor, torch.rsub(x, x, alpha=factor), torch.rsub(y, y, alpha=whole), y * whole

    x, y = torch.randn(4), torch.randn((), dtype=torch.float64)
    compiled = torch.compile(f, backend="tenon")
    for call in range(4):
        given = x, -1.5 * (1 + 0.25 * call), y, 2 + call
        torch.testing.assert_close(compiled(*given), f(*given))


def test_a_choice_in_python():
    same(lambda x, y, s: x * s if s > 0.4 else y - s)


def test_optimizer_by_hand():
    """Parameters were wrong by 2.3e-3 after four steps."""

    def step(p, m, d, state):
        state.add_(1)
        count = state.item()
        b1, b2 = 1 - 0.9**count, 1 - 0.999**count
        p.addcdiv_(m, (d.sqrt() / b2**0.5).add_(1e-8), value=-0.001 / b1)

    def loop(p, m, d):
        state = torch.tensor(0.0)
        for _ in range(6):
            step(p, m, d, state)
        return p

    def given():
        return torch.zeros(2), torch.ones(2), torch.ones(2) * 0.01

    close(compiled(loop)(*given()), loop(*given()), 1e-6)


PROGRAM = """
import sys, torch
import tenon.torch
import float_kinds as kinds
from conftest import close
from tenon.torch.capture.watch import watch

graphs = []
watch.lists.append(graphs)
values = [float(v) for v in sys.argv[1:]]
for f in (*(kinds.CHANGING[kind] for kind in ("factor and bound", "addcdiv", "slope")), kinds.FIXED["delta"]):
    g = torch.compile(f, backend="tenon")
    for s in values:
        close(g(*kinds.operands(), s), f(*kinds.operands(), s))
print(len(graphs))
"""


def test_other_processes(tmp_path):
    """The same functions with other values, in a process that has what the first one left on disk."""
    environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    environment["PYTHONPATH"] = os.pathsep.join(
        [os.path.dirname(__file__), environment.get("PYTHONPATH", "")]
    )
    for values in ("0.2 0.4 0.6", "0.7 0.5 0.2"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *values.split()],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
