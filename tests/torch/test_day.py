"""A user's day: modes and options, optimizers as torch has them, batches that change, what is seen of it."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import tenon
import tenon.torch
import torch
from conftest import close
from torch import nn

HERE = pathlib.Path(__file__).name


# ---- Options ----


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes(mode, graphs, monkeypatch):
    """Each is known; "max-autotune" measures where implementations compete."""
    from tenon.torch.program import partition

    asked = []
    program = partition.builder.Program
    monkeypatch.setattr(
        partition.builder,
        "Program",
        lambda *a, **k: asked.append(k["autotune"]) or program(*a, **k),
    )
    net, x = nn.Linear(4, 3), torch.randn(2, 4)
    close(torch.compile(net, backend="tenon", mode=mode)(x), net(x))
    assert asked[-1] is (mode == "max-autotune") and not graphs[0].unsupported


@pytest.mark.parametrize(
    "given, message",
    [
        ({"mode": "max-autotun"}, "no mode 'max-autotun': did you mean 'max-autotune'"),
        ({"options": {"treads": 1}}, "no option 'treads': did you mean 'threads'"),
        ({"options": {"threads": 0}}, "threads is 0"),
        ({"options": {"threads": True}}, "threads is True"),
        ({"options": {"autotune": 1}}, "autotune is 1"),
        ({"options": {"device": ["cdua", "cpu"]}}, "no device `cdua`"),
    ],
)
def test_options_that_are_unknown(given, message):
    with pytest.raises(Exception, match=message):
        torch.compile(nn.Linear(4, 3), backend="tenon", **given)(torch.randn(2, 4))


def test_a_list_of_devices_and_threads_of_a_network(graphs):
    net, x = nn.Linear(4, 3), torch.randn(2, 4)
    options = {"device": ["cuda:9", "reference"], "threads": 1}
    close(torch.compile(net, backend="tenon", options=options)(x), net(x))
    program = graphs[0].partitions[0].program
    assert '"device":"reference"' in program.placement() and program.thread_limit() == 1


# ---- Optimizers ----

OPTIMIZERS = [
    "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
]  # fmt: skip


def steps(kind, count=3, **given):
    """Parameters after some steps: of eager mode, and of a compiled step."""
    found = []
    for is_compiled in (False, True):
        torch.manual_seed(0)
        params = [nn.Parameter(torch.randn(*shape)) for shape in ((5, 3), (4,), (2, 2, 2))]
        optimizer = getattr(torch.optim, kind)(params, 1e-2, **given)
        step = torch.compile(optimizer.step, backend="tenon") if is_compiled else optimizer.step
        for _ in range(count):
            for p in params:
                p.grad = torch.randn_like(p)
            step()
        found.append(params)
    return found


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_over_lists(kind, graphs):
    """`_foreach_add` and its kin stayed in torch."""
    theirs, mine = steps(kind, foreach=True)
    close(mine, theirs, 1e-5)
    assert graphs and not any(g.unsupported for g in graphs), graphs[-1].unsupported


FOREACH = {
    "one": lambda x, y: torch._foreach_sqrt(torch._foreach_abs(x)),
    "scalars": lambda x, y: torch._foreach_add(torch._foreach_mul(x, [2.0, 3.0]), 0.5),
    "alpha": lambda x, y: torch._foreach_sub(x, y, alpha=0.3),
    "tensor": lambda x, y: torch._foreach_mul(x, torch.tensor(3.0)),
    "addcmul": lambda x, y: torch._foreach_addcmul(x, x, y, 0.3),
    "addcdiv": lambda x, y: torch._foreach_addcdiv(x, x, y, [0.3, 0.4]),
    "lerp": lambda x, y: torch._foreach_lerp(x, y, 0.25),
    "pow": lambda x, y: torch._foreach_pow(2.0, x),
    "norm": lambda x, y: torch._foreach_norm(x, 1) + torch._foreach_norm(x),
    "max": lambda x, y: torch._foreach_maximum(x, y) + torch._foreach_clamp_max(x, 0.1),
}


def test_functions_over_lists(graphs):
    x, y = ([torch.randn(3, 2), torch.randn(4)] for _ in range(2))
    f = lambda x, y: [v for g in FOREACH.values() for v in g(x, y)]  # noqa: E731
    close(torch.compile(f, backend="tenon", fullgraph=True)(x, y), f(x, y))
    assert not graphs[0].unsupported


def test_a_schedule_of_learning_rates(graphs):
    """It took 8 graphs, and then eager mode: rate and momentum change at each step."""
    nets = [nn.Linear(4, 4) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    x = torch.randn(2, 4)
    pairs = []
    for net in nets:
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)
        pairs.append(
            (optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=30))
        )
    step = torch.compile(pairs[1][0].step, backend="tenon")
    for _ in range(12):
        for i, (net, (optimizer, schedule)) in enumerate(zip(nets, pairs)):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            step() if i else optimizer.step()
            schedule.step()
    close(list(nets[1].parameters()), list(nets[0].parameters()))
    assert len(graphs) <= 3 and not any(g.unsupported for g in graphs)


@pytest.mark.parametrize("rate", [float("nan"), float("inf")])
def test_a_rate_that_is_no_number(rate):
    f = lambda x, s: x * s + s  # noqa: E731
    fast, x = torch.compile(f, backend="tenon"), torch.randn(3)
    for s in (0.5, 0.25, rate, 0.125, -rate):
        assert torch.allclose(fast(x, s), f(x, s), equal_nan=True)


# ---- A loader's last batch ----


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


def test_the_last_batch_of_a_loader(graphs):
    """n / (n - 1) of BatchNorm split the programs of a batch that changes."""
    mine, theirs = Images(), Images()
    mine.load_state_dict(theirs.state_dict())
    fast = torch.compile(mine, backend="tenon")
    batches = [torch.randn(n, 3, 8, 8) for n in (32, 32, 20)]
    for epoch in range(3):
        if epoch == 1:
            compiled = len(graphs)
        for x in batches:
            for net, call in ((mine, fast), (theirs, theirs)):
                net.zero_grad()
                call(x).square().sum().backward()
            close([p.grad for p in mine.parameters()], [p.grad for p in theirs.parameters()], 1e-3)
    close(list(mine.buffers()), list(theirs.buffers()))
    kinds = [g.kind for g in graphs]
    assert kinds.count("forward") == kinds.count("backward") == 2 and len(graphs) == compiled
    assert not any(g.unsupported for g in graphs) and all(len(g.partitions) == 1 for g in graphs)


@pytest.mark.parametrize("size", [0, 1])
def test_a_batch_of_none_and_of_one(size):
    """As eager mode does: BatchNorm refuses one value for each channel, and Linear takes no rows."""
    x = torch.randn(size, 6)
    linear = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    fast = torch.compile(linear, backend="tenon")
    fast(torch.randn(5, 6)).sum().backward()
    linear.zero_grad()
    fast(x).sum().backward()
    mine = [p.grad.clone() for p in linear.parameters()]
    linear.zero_grad()
    linear(x).sum().backward()
    close(mine, [p.grad for p in linear.parameters()])
    norm = nn.BatchNorm1d(6)
    with pytest.raises(Exception, match="Expected more than 1 value per channel"):
        torch.compile(norm, backend="tenon")(torch.randn(1, 6))


# ---- What is seen ----


def test_explain_names_each_node_with_its_place():
    def f(x):
        y = x.sin()
        return y.cumsum(0) * 2  # a line of two operators

    report = tenon.torch.explain(f, torch.randn(4))
    line = next(
        i
        for i, t in enumerate(pathlib.Path(__file__).read_text().splitlines(), 1)
        if "a line of two" in t
    )
    mul = next(n for n in report.nodes if n["op"] == "mul")
    assert mul["place"].endswith(f"{HERE}:{line}") and mul["device"] == "cpu" and mul["why"] == ""
    text = str(report)
    assert f"{HERE}:{line}: cumsum, mul on cpu" in text, text
    assert "no other device was asked" in text


def test_explain_says_why_another_device_did_not_take_a_node():
    report = tenon.torch.explain(
        lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(3)), torch.randn(3, 3),
        options={"device": "sim,cpu"},
    )  # fmt: skip
    node = next(n for n in report.nodes if n["op"] == "cholesky")
    assert node["device"] == "cpu" and node["why"].startswith("not sim: "), node
    assert "(not sim: " in str(report) and "no other device" not in str(report)


def test_a_module_where_torch_gives_no_line(caplog):
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.GELU()))
    report = tenon.torch.explain(net, torch.randn(2, 4))
    assert {"module 0", "module 1.0"} <= {n["place"] for n in report.nodes}
    tenon.set_logs("dispatch")
    torch.compile(net, backend="tenon")(torch.randn(2, 4))
    tenon.set_logs()
    assert "graph of module 0: " in caplog.text and "nowhere" not in caplog.text


def test_a_break_has_the_users_line():
    def f(x):
        x = x + 1
        print("")  # the break
        return x * 2

    (text,) = tenon.torch.explain(f, torch.ones(2)).breaks
    assert re.match(rf".*{HERE}:\d+: the graph ends here: ", text), text


def test_explain_of_breaks_says_what_to_do():
    """Dynamo's hint was cut off, its word for a branch was given as a reason, and its messages named an
    inner function of `explain`."""
    text = str(tenon.torch.explain(lambda x: x + 1 if x.sum().item() > 0 else x, torch.ones(2)))
    assert "capture_scalar_outputs = True" in text
    text = str(tenon.torch.explain(lambda x: x + 1 if x.sum() > 0 else x, torch.ones(2)))
    assert "a branch depends on the value of a tensor" in text and "jump" not in text
    with pytest.raises(Exception, match="backend='tenon' raised"):
        tenon.torch.explain(lambda x: x + 1, torch.ones(2), options={"nope": 1})


def test_explain_of_a_network_without_a_program():
    text = str(tenon.torch.explain(nn.LSTM(4, 4), torch.randn(3, 2, 4)))
    assert "nothing of LSTM became a program" in text and "allow_rnn=True" in text


def test_a_recompilation_names_its_guard_and_nothing_else(caplog):
    tenon.set_logs("recompiles")
    fast = torch.compile(lambda x, n: x * n, backend="tenon", dynamic=False)
    for n in (2, 3):
        fast(torch.ones(2), n)
    tenon.set_logs()
    (line,) = [r.getMessage() for r in caplog.records if r.name == "tenon.recompiles"]
    assert re.fullmatch(
        r".*: <lambda> is compiled again, as this failed: [^#]*\bn'?\]? == 2", line
    ), line
    assert "0/0" not in line


def test_rows_in_a_profile():
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    fast, x = torch.compile(net, backend="tenon"), torch.randn(2, 8)
    fast(x).sum().backward()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        fast(x).sum().backward()
    keys = [event.key for event in profile.key_averages()]
    assert "tenon::forward module 0" in keys
    assert any(key.startswith("tenon::backward") for key in keys), keys


def test_output_code_of_torch():
    done = subprocess.run(
        [sys.executable, "-c", "import torch, tenon.torch; torch.compile(lambda x: x.sin() + 1, backend='tenon')(torch.ones(3))"],
        capture_output=True, text=True, timeout=300, env={**os.environ, "TORCH_LOGS": "output_code"},
    )  # fmt: skip
    assert done.returncode == 0 and "[__output_code]" in done.stderr
    assert "Tenon's code of the inference graph" in done.stderr and "sin" in done.stderr
