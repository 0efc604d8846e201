"""Effects: assertions are part of a program, others stay in torch, and all keep their order."""

import pytest
import tenon
import tenon.torch
import torch
from conftest import close
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

SAID = []


@torch.library.custom_op("torch_test::say", mutates_args=())
def say(x: torch.Tensor, what: str) -> None:
    SAID.append((what, x.clone()))


say.register_fake(lambda x, what: None)


@pytest.fixture
def said():
    handle = _register_effectful_op(torch.ops.torch_test.say.default, _EffectType.ORDERED)
    SAID.clear()
    yield SAID
    handle.destroy()


SOLVERS = {
    "inv": lambda a: torch.linalg.inv(a) * 2,
    "cholesky": lambda a: torch.linalg.cholesky(a) + 1,
    "solve": lambda a: torch.linalg.solve(a, a[:, :2] * 3),
    "tensorinv": lambda a: torch.linalg.tensorinv(a.reshape(2, 2, 4)),
    "tensorsolve": lambda a: torch.linalg.tensorsolve(a.reshape(2, 2, 4), a[:2, :2]),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_an_error_of_a_factorisation_is_an_assertion(name, graphs):
    f = SOLVERS[name]
    a = torch.randn(4, 4)
    run = torch.compile(f, backend="tenon")
    with torch.no_grad():
        close(run(a @ a.T + torch.eye(4)), f(a @ a.T + torch.eye(4)))
        with pytest.raises(torch.linalg.LinAlgError, match="singular|positive-definite"):
            run(torch.zeros(4, 4))
        close(run(a @ a.T + torch.eye(4)), f(a @ a.T + torch.eye(4)))
    assert len(graphs) == 1 and len(graphs[0].partitions) == 1 and not graphs[0].unsupported


def test_one_bad_matrix_of_a_stack_raises():
    a = torch.eye(3).repeat(4, 1, 1)
    for _ in range(2):  # the second time as another process would, which asks torch's cache
        torch._dynamo.reset()
        run = torch.compile(lambda a: torch.linalg.inv(a), backend="tenon")
        torch.testing.assert_close(run(a), a)
    a[2, 1, 1] = 0
    with pytest.raises(torch.linalg.LinAlgError, match="2"):
        run(a)


def test_effects_are_in_order(said, graphs):
    def f(x):
        y = x * 2
        torch.ops.torch_test.say(y, "first")
        z = torch.linalg.inv(y)
        torch.ops.torch_test.say(z, "second")
        w = torch.linalg.inv(z - x)
        torch.ops.torch_test.say(w, "third")
        return w + 1

    x = torch.randn(3, 3)
    results = []
    for run in (f, torch.compile(f, backend="tenon")):
        said.clear()
        with torch.no_grad():
            results.append((run(x), *(t for _, t in said)))
        assert [what for what, _ in said] == ["first", "second", "third"]
        said.clear()
        with torch.no_grad(), pytest.raises(torch.linalg.LinAlgError):
            run(torch.eye(3) / 2**0.5)  # its inverse is fine, and the difference is 0
        assert [what for what, _ in said] == ["first", "second"]
    close(results[1], results[0])
    (graph,) = graphs
    assert graph.partitions and graph.unsupported == {
        "with_effects": ["the effect torch_test.say.default"]
    }


def test_a_failed_assertion_writes_nothing():
    def f(x, seen):
        seen.add_(1)
        return torch.linalg.inv(x) + seen

    run, seen = torch.compile(f, backend="tenon"), torch.zeros(3, 3)
    run(torch.eye(3), seen)
    assert (seen == 1).all()
    with pytest.raises(torch.linalg.LinAlgError):
        run(torch.zeros(3, 3), seen)
    assert (seen <= 2).all() and (seen >= 1).all()


def test_an_exported_program_checks_too():
    class Inverse(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.inv(x) * 2

    model = tenon.from_exported(torch.export.export(Inverse(), (torch.eye(3),)))
    assert [p.name for p in model.inputs] == ["x"] and len(model.outputs) == 1
    close(model(torch.eye(3))[0], 2 * torch.eye(3))
    with pytest.raises(tenon.UsageError, match="T0325"):
        model(torch.zeros(3, 3))


def test_training_with_a_check(graphs):
    made = []
    for run in (SOLVERS["inv"], torch.compile(SOLVERS["inv"], backend="tenon")):
        a = torch.eye(3).mul(2).requires_grad_()
        run(a).sin().sum().backward()
        made.append(a.grad)
    close(made[1], made[0])
    assert [g.kind for g in graphs] == ["forward", "backward"] and not any(
        g.unsupported for g in graphs
    )
