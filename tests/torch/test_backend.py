"""torch.compile(backend="tenon"): results, strides, identity, sizes, and what stays in torch."""

import copy
import logging

import pytest
import tenon
import tenon.torch
import torch
from conftest import close, train
from torch import nn


def compiled(f, **options):
    return torch.compile(f, backend="tenon", **options)


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 10))


def test_inference(graphs):
    net, x = mlp(), torch.randn(4, 16)
    with torch.no_grad():
        close(compiled(net)(x), net(x))
    (graph,) = graphs
    assert graph.kind == "inference" and len(graph.partitions) == 1 and not graph.unsupported


# 0 where eager mode has it, and not the -1 of a division by 0.
def test_negative_powers_of_whole_numbers(graphs):
    x, y = torch.arange(-3, 4).reshape(7, 1), torch.arange(-3, 4)
    for f in (lambda a, b: a**b, lambda a, b: 0**b, lambda a, b: a**2):
        assert torch.equal(torch.compile(f, backend="tenon")(x, y), f(x, y))
    assert all(c.unsupported == {} for c in graphs)


def test_training(graphs):
    x, t = torch.randn(4, 16), torch.randint(0, 10, (4,))
    losses = train(mlp(), lambda net: nn.functional.cross_entropy(net(x), t), steps=20)
    assert losses[-1][0] < losses[0][0]
    assert [g.kind for g in graphs] == ["forward", "backward"] and not any(
        g.unsupported for g in graphs
    )


def test_double_precision():
    x = torch.randn(4, 16, dtype=torch.float64)
    train(mlp().double(), lambda net: net(x).square().mean(), tolerance=1e-12)


def test_convolutions_train():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 8, 3, 1, 2, 2, groups=4),
        nn.MaxPool2d(2), nn.GroupNorm(2, 8), nn.SiLU(), nn.ConvTranspose2d(8, 4, 3, 2, 1, 1), nn.AvgPool2d(2),
        nn.Flatten(), nn.LazyLinear(5),
    ).double()  # fmt: skip
    x, t = torch.randn(4, 3, 16, 16, dtype=torch.float64), torch.randint(0, 5, (4,))
    net(x)
    optimizer = lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)  # noqa: E731
    train(net, lambda net: nn.functional.cross_entropy(net(x), t), 8, optimizer, tolerance=1e-9)


@pytest.mark.parametrize(
    "pool",
    [
        nn.AvgPool2d(3, 2, 1), nn.AvgPool2d(2, ceil_mode=True), nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        nn.AvgPool2d(3, 1, divisor_override=5), nn.AdaptiveAvgPool2d((4, 2)),
    ],
)  # fmt: skip
def test_pools_and_normalised_weights_train(pool, graphs):
    convolution = torch.nn.utils.parametrizations.weight_norm(nn.Conv2d(2, 3, 3))
    net, x = (
        nn.Sequential(convolution, pool).double(),
        torch.randn(2, 2, 10, 10, dtype=torch.float64),
    )
    weights = torch.randn_like(net(x)).detach()
    train(net, lambda net: (net(x) * weights).square().sum(), 3, tolerance=1e-9)
    assert not any(g.unsupported for g in graphs)


def test_running_statistics_are_updated():
    net = nn.BatchNorm1d(4)
    other = copy.deepcopy(net)
    x = torch.randn(8, 4)
    net(x).sum().backward()
    compiled(other)(x).sum().backward()
    close(list(other.buffers()), list(net.buffers()))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.t(),
        lambda x: (x * 2).t(),
        lambda x: (x * 2).permute(1, 0)[None],
        lambda x: (x + 1).expand(3, 4, 6),
        lambda x: (x + 1, (x + 1).view(-1), x),
        lambda x: (x * 2)[:, ::2],
        lambda x: x.to(memory_format=torch.contiguous_format),
        lambda x: (x.view(1, 2, 2, 6) * 2).to(memory_format=torch.channels_last),
        lambda x: torch.empty_like(x.t()).copy_(x.t()),
        lambda x: torch.zeros(3, 2),
        lambda x: (None, 3, "text", x.sum().expand(2)),
        lambda x: torch.stack([x, x]).unbind(1),
    ],
)
def test_strides_and_views(f):
    x = torch.randn(4, 6)
    close(compiled(f)(x), f(x))


@pytest.mark.parametrize(
    "result", [lambda y: y.exp(), lambda y: y.exp().transpose(1, 2).reshape(3, -1, 10)]
)
def test_the_order_of_memory_with_a_halved_size(result):
    """torch steps over an axis of n // 2 as over one of max(1, n // 2): such results had another order in memory,
    of which a call could not make the views that the graph ends with."""

    def f(x):
        half = x[:, : x.shape[1] // 2]
        return result(half.reshape(3, -1, 2, 5).transpose(1, 2))

    call = compiled(f, dynamic=True)
    for n in (8, 9, 2, 1):
        x = torch.randn(3, n, 10)
        close(call(x), f(x))


def test_views_of_what_has_gaps_between_sizes_of_calls():
    """Its memory had the order of its axes, of which a call could not make the view that the graph ends with."""

    def f(x):
        part = x.reshape(3, -1, 2, 5).transpose(1, 2).exp()[:, :, 1:]
        return part.transpose(1, 2).reshape(3, -1, 10)

    call = compiled(f, dynamic=True)
    for n in (8, 9, 2, 1):
        x = torch.randn(3, n, 10)
        assert torch.allclose(call(x), f(x))


def test_inputs_that_are_handed_through():
    x, y = torch.randn(3), torch.randn(3)
    a, b, c = compiled(lambda x, y: (y, x + y, x))(x, y)
    assert a is y and c is x


@pytest.mark.parametrize(
    "view", [lambda x: x.t(), lambda x: x[1:3], lambda x: x[:, 1], lambda x: x.expand(2, 4, 6)]
)
def test_strided_inputs(view):
    x = view(torch.randn(4, 6))
    f = lambda x: (x.sum(-1), x * x)  # noqa: E731
    close(compiled(f)(x), f(x))


def test_mutation():
    def f(x, y):
        x.add_(1)
        y[0] = x[1]
        return x * 2

    a = [torch.zeros(3), torch.zeros(3, 3).t()[:, 1]]
    b = [v.clone() for v in a]
    version = a[0]._version
    close(compiled(f)(*a), f(*b))
    close(
        a,
        [b[0], b[1].as_strided((3,), a[1].stride()) if a[1].stride() != b[1].stride() else b[1]][:1]
        + [a[1]],
    )
    assert torch.equal(a[1], b[1]) and a[0]._version > version


def test_one_tensor_twice():
    def f(x, y):
        x.mul_(2)
        return x + y

    a, b = torch.ones(3), torch.ones(3)
    close(compiled(f)(a, a), f(b, b))
    assert torch.equal(a, b)


def test_dynamic_sizes(graphs):
    net = mlp()
    f = compiled(net)
    for rows in (4, 7, 9, 64, 1, 2):
        x = torch.randn(rows, 16)
        with torch.no_grad():
            close(f(x), net(x))
    assert len(graphs) <= 3  # 4, then any number, and 1


@pytest.mark.parametrize("k", [1, 3, 5])
def test_sizes_that_no_dim_decides(k):
    f = lambda x, k: (x[:k] * 2, x[k:].sum(), torch.zeros(k), k + 1)  # noqa: E731
    g = compiled(f, dynamic=True)
    for n in (k, k + 1):
        x = torch.randn(8, 3)
        close(g(x, n), f(x, n))


@pytest.mark.parametrize("sizes", [(0, 3), (1, 3), (3, 0), (1, 1)])
@pytest.mark.parametrize("dynamic", [True, False])
def test_sizes_0_and_1(sizes, dynamic):
    f = lambda x: (x.sum(0), x * 2, torch.cat([x, x]), x.softmax(-1), x @ x.t())  # noqa: E731
    x = torch.randn(sizes)
    close(compiled(f, dynamic=dynamic)(x), f(x))


def test_operators_without_mapping_stay_in_torch(graphs, caplog):
    def f(x):
        return (torch.linalg.matrix_exp(x @ x.t() / 9).relu() + 1) * 2

    with caplog.at_level(logging.INFO, logger="tenon.torch"):
        x = torch.randn(4, 4)
        close(compiled(f)(x), f(x))
    (graph,) = graphs
    assert len(graph.partitions) == 2 and list(graph.unsupported) == [
        "aten.linalg_matrix_exp.default"
    ]
    assert (
        "aten.linalg_matrix_exp.default stays in torch: the operator has no mapping" in caplog.text
    )


def test_complex_numbers_on_the_way():
    f = lambda x: torch.fft.ifft(torch.fft.fft(x) * 2).real + x.relu()  # noqa: E731
    x = torch.randn(8)
    close(compiled(f)(x), f(x))


def test_indices_out_of_range_raise():
    f = compiled(lambda t, i: t[i] * 2)
    with pytest.raises((IndexError, RuntimeError)):
        f(torch.randn(3), torch.tensor([0, 7]))


def test_options(graphs):
    net, x = mlp().eval(), torch.randn(2, 16)
    with torch.no_grad():
        close(
            compiled(net, options={"freezing": True, "device": "cpu", "deterministic": True})(x),
            net(x),
        )
        torch._dynamo.reset()
        close(compiled(net, options={"device": "reference"})(x), net(x))
    assert len(graphs[0].partitions[0].program.input_ports()) == 1  # parameters are constants


@pytest.mark.parametrize(
    "given, message",
    [
        ({"mode": "bogus"}, "no mode 'bogus'"),
        ({"options": {"freezing": "yes"}}, "freezing is 'yes'"),
        ({"options": {"stable": 1}}, "stable is 1"),
        ({"options": {"deterministic": None}}, "deterministic is None"),
        ({"options": {"compare": "some"}}, "compare is 'some', and not one of part, all, none"),
    ],
)
def test_values_that_options_have_not(given, message):
    """They were ignored."""
    with pytest.raises(Exception, match=f"T0641.*{message}"):
        compiled(mlp(), **given)(torch.randn(2, 16))


def test_unknown_options():
    with pytest.raises(Exception, match="T0641.*'nope'.*freezing") as error:
        compiled(mlp(), options={"nope": 1})(torch.randn(2, 16))
    assert isinstance(
        error.value.__cause__ or error.value,
        (tenon.UsageError, torch._dynamo.exc.BackendCompilerFailed),
    )


@pytest.mark.parametrize("options", [{"device": "nope"}, {"cpu.nope": "1"}])
def test_a_device_or_an_option_of_it_that_is_none(options):
    with pytest.raises(Exception, match="nope"):
        compiled(mlp(), options=options)(torch.randn(2, 16))


def test_a_graph_that_stays_in_torch_is_a_warning(monkeypatch, caplog):
    from tenon.torch.program import partitioner

    def refuse(*given):
        raise tenon.UnsupportedError("not this graph", "T0301")

    monkeypatch.setattr(partitioner, "Partition", refuse)
    with caplog.at_level(logging.WARNING, "tenon.torch"):
        compiled(lambda x: x + 1)(torch.ones(3))
    assert "the graph stays in torch" in caplog.text and "not this graph" in caplog.text


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_random_numbers_stay_below_their_bound(dtype):
    f = compiled(
        lambda: (torch.rand(200000, dtype=dtype), torch.empty(200000, dtype=dtype).uniform_(-1, 1))
    )
    for x, low in zip(f(), (0, -1)):
        assert x.dtype is dtype and low <= x.min() and x.max() < 1
        assert abs(x.float().mean() - (low + 1) / 2) < 0.01


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.clamp(max=300),
        lambda x: torch.clamp_max(x, 300),
        lambda x: torch.where(x > 1, x, 300),
        lambda x: x.masked_fill(x > 1, 300),
        lambda x: torch.full_like(x, 300),
        lambda x: x[:0].max(),
    ],
)
def test_what_eager_mode_refuses_is_refused(f):
    x = torch.tensor([1, 100], dtype=torch.int8)
    for run in (f, compiled(f)):
        with pytest.raises(RuntimeError, match="overflow|numel"):
            run(x)


def test_numbers_that_wrap():
    f = lambda x: (x + 300, x * 300, x.clamp(min=-3))  # noqa: E731
    x = torch.tensor([1, 200], dtype=torch.uint8)
    close(compiled(f)(x), f(x))


def test_an_extreme_over_a_size_that_changes(graphs):
    f = compiled(lambda x: (x.max(), x.amin(0)), dynamic=True)
    for count in (3, 5):
        x = torch.randn(count, 4)
        close(f(x), (x.max(), x.amin(0)))
    assert not any(graph.unsupported for graph in graphs)


def test_random_numbers_repeat():
    f = compiled(lambda x: (torch.rand_like(x), nn.functional.dropout(x, 0.25), torch.randn(2000)))
    x = torch.ones(2000)
    torch.manual_seed(3)
    a, b = f(x), f(x)
    torch.manual_seed(3)
    close(f(x), a)
    assert not torch.equal(a[0], b[0])
    assert 0.45 < a[0].mean() < 0.55 and 0.9 < a[1].mean() < 1.1 and abs(a[2].mean()) < 0.1
    assert set(a[1].unique().tolist()) <= {0.0, 1 / 0.75} or torch.allclose(
        a[1].unique(), torch.tensor([0, 1 / 0.75])
    )


def test_autocast():
    net, x = mlp(), torch.randn(4, 16)
    f = compiled(net)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        close(f(x), net(x), 2e-2)


def test_attention_trains():
    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)

        def forward(self, x):
            q, k, v = self.qkv(x).view(2, 5, 3, 4, 4).permute(2, 0, 3, 1, 4)
            return (
                nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).square().mean()
            )

    x = torch.randn(2, 5, 16)
    train(Attend(), lambda net: net(x))


def test_a_compiled_optimizer_step(graphs):
    net, other = mlp(), mlp()
    other.load_state_dict(net.state_dict())
    x = torch.randn(4, 16)
    both = [(m, torch.optim.Adam(m.parameters(), 1e-2)) for m in (net, other)]
    step = compiled(both[1][1].step)
    for _ in range(3):
        for i, (model, optimizer) in enumerate(both):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            step() if i else optimizer.step()
    close(list(other.parameters()), list(net.parameters()), 1e-4)
    assert any(g.partitions for g in graphs)


def test_checkpoints():
    from torch.utils.checkpoint import checkpoint

    net, x = mlp(), torch.randn(4, 16)
    train(net, lambda m: checkpoint(m, x, use_reentrant=False).square().mean())


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)),
        lambda x: torch.func.vmap(lambda row: (row * row).sum())(x),
        lambda x: torch.func.grad(lambda y: y.sin().sum())(x),
    ],
)
def test_operators_of_higher_order(f):
    x = torch.randn(3, 4)
    close(compiled(f)(x), f(x))


def test_sizes_that_depend_on_data():
    def f(x):
        at = torch.nonzero(x)
        return x[at[:, 0]] * 2 + at.shape[0]

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        g = compiled(f)
        for x in (torch.tensor([1.0, 0, 2]), torch.tensor([0.0, 0, 2, 3, 4])):
            close(g(x), f(x))


def test_the_result_outlives_the_network():
    net = compiled(mlp())
    with torch.no_grad():
        y = net(torch.randn(4, 16))
    copy_ = y.clone()
    del net
    torch._dynamo.reset()
    assert torch.equal(y, copy_)
    y += 1  # the memory is the caller's


def test_without_importing(tmp_path):
    """`import tenon` does not import torch."""
    import subprocess
    import sys

    code = "import tenon, sys; assert 'torch' not in sys.modules; tenon.devices; print('torch' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )


@pytest.mark.parametrize(
    ("f", "args", "error"),
    [
        (lambda a, b: a // b, (torch.tensor([4, 5]), torch.tensor([1, 0])), "ZeroDivision"),
        (lambda a, b: a % b, (torch.tensor([4, 5]), torch.tensor([1, 0])), "ZeroDivision"),
        (
            lambda a, b: torch.fmod(a, b),
            (torch.tensor([4, 5]), torch.tensor([1, 0])),
            "ZeroDivision",
        ),
        (
            lambda a, b: torch.div(a, b, rounding_mode="trunc"),
            (torch.tensor([4]), torch.tensor([0])),
            "ZeroDivision",
        ),
        (lambda a: a // 0, (torch.tensor([4]),), "ZeroDivision"),
        (lambda a: nn.functional.one_hot(a, 5), (torch.tensor([1, 7]),), "num_classes"),
        (lambda a: nn.functional.one_hot(a, 5), (torch.tensor([1, -1]),), "negative|non-negative"),
        (
            lambda a: nn.functional.one_hot(input=a, num_classes=5),
            (torch.tensor([1, 7]),),
            "num_classes",
        ),
        (
            lambda a: torch.cond(
                a.sum() > 0,
                lambda a: nn.functional.one_hot(a, 5),
                lambda a: nn.functional.one_hot(-a, 5),
                (a,),
            ),
            (torch.tensor([1, 7]),),
            "num_classes",
        ),
        (
            lambda x, m, s: x.masked_scatter(m, s),
            (torch.zeros(5), torch.ones(5, dtype=torch.bool), torch.ones(3)),
            "source",
        ),
    ],
)
def test_values_that_eager_mode_refuses_are_refused(f, args, error):
    for run in (f, compiled(f)):
        with pytest.raises(RuntimeError, match=error):
            run(*args)


def test_values_that_eager_mode_takes(graphs):
    def f(a, b, m):
        return (
            a // b,
            a % b,
            nn.functional.one_hot(b, 5),
            torch.zeros(4).masked_scatter(m, torch.ones(2)),
        )

    args = (
        torch.tensor([[7, -7], [0, 3]]),
        torch.tensor([2, 3]),
        torch.tensor([True, False, False, True]),
    )
    close(compiled(f)(*args), f(*args))
    assert not any(g.unsupported for g in graphs)


def test_division_of_no_elements():
    f = lambda a, b: a // b  # noqa: E731
    close(compiled(f)(torch.ones(0, 2).long(), torch.ones(2).long()), torch.ones(0, 2).long())


@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_blocks_of_queries(masked, graphs):
    def f(q, k, v, mask):
        given = {"attn_mask": mask} if masked else {"is_causal": True}
        return nn.functional.scaled_dot_product_attention(q, k, v, **given).square().mean()

    def inputs():
        torch.manual_seed(1)
        q, k, v = (torch.randn(2, 2, n, 8, requires_grad=True) for n in (1000, 1100, 1100))
        return q, k, v, torch.randn(1000, 1100)

    a, b = inputs(), inputs()
    f(*a).backward()
    compiled(f)(*b).backward()
    close([t.grad for t in b[:3]], [t.grad for t in a[:3]])
    assert not any(g.unsupported for g in graphs)


def test_a_range_of_whole_numbers_from_fractions(graphs):
    def f(x):
        return torch.arange(2.1, -2.9, -1.0, dtype=torch.int64) + x, torch.arange(
            0.5, 8.9, 2.6, dtype=torch.int32
        )

    x = torch.arange(4)
    close(compiled(f)(x), f(x))
    assert not graphs[-1].unsupported


def test_whole_numbers_between_fractions(graphs):
    def f(x):
        more = [torch.linspace(4.9, -3.9, steps, dtype=torch.int32) for steps in (1, 7, 50)]
        more += [torch.logspace(0.9, x, 50, dtype=torch.int64), torch.logspace(0, x, 6)]
        more += [
            torch.logspace(at, 1, steps, 2.5, dtype=torch.int64)
            for steps in (1, 2, 9)
            for at in (x, -0.7)
        ]
        return torch.linspace(x, -3, 50, dtype=torch.int64), *more, torch.linspace(x, 5, 4)

    x = torch.tensor(4.3)
    close(compiled(f)(x), f(x))
    assert not graphs[-1].unsupported


@pytest.mark.parametrize("rows", [17, 700])
def test_attention_whose_heads_share_keys(rows, graphs):
    def f(q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    torch.manual_seed(1)
    one = [torch.randn(2, heads, rows, 8, requires_grad=True) for heads in (8, 2, 2)]
    two = [t.detach().clone().requires_grad_() for t in one]
    y, z = f(*one), compiled(f)(*two)
    close(z, y)
    for out in (y, z):
        (out * torch.arange(8)).square().mean().backward()
    close([t.grad for t in two], [t.grad for t in one])
    assert not any(g.unsupported for g in graphs)


@pytest.mark.parametrize("is_bool", [True, False])
def test_attention_of_a_sequence_that_is_all_padding(is_bool, graphs):
    torch.manual_seed(1)
    net = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[0], padding[1, 4:] = True, True
    if not is_bool:
        padding = torch.zeros(3, 6).masked_fill(padding, -torch.inf)
    x = torch.randn(3, 6, 16)

    def step(net, x):
        return net(x, src_key_padding_mask=padding)

    wanted, given = x.clone().requires_grad_(), x.clone().requires_grad_()
    other = copy.deepcopy(net)
    y, z = step(net, wanted), compiled(step)(other, given)
    assert y.isfinite().all()
    close(z, y)
    for out in (y, z):
        out.square().mean().backward()
    close(given.grad, wanted.grad)
    close([p.grad for p in other.parameters()], [p.grad for p in net.parameters()])
    assert not any(g.unsupported for g in graphs)


def test_a_branch_that_fails_is_not_computed_in_vain(caplog, graphs):
    def f(x, b):
        return torch.cond(b.sum() > 0, lambda x, b: 6 // b + x, lambda x, b: x - b, (x, b))

    x, b = torch.arange(3), torch.zeros(3).long()
    with torch.no_grad(), caplog.at_level(logging.INFO, logger="tenon.torch"):
        g = compiled(f)
        close(g(x, b), f(x, b))
        close(g(x, b + 2), f(x, b + 2))
        with pytest.raises(RuntimeError, match="ZeroDivision"):  # of the branch that is taken
            g(x, torch.tensor([2, 0, 1]))
    assert not any(g.unsupported for g in graphs)


def scanned(x):
    from torch._higher_order_ops import scan

    return scan(lambda c, y: (c + y, c * y), torch.zeros(4), x, dim=0)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + 1, (x,)),
        lambda x: torch.cond(x.sum() > 1e9, lambda x: x.sin(), lambda x: x.cos() + 1, (x,)),
        scanned,
    ],
)
def test_choices_and_scans_become_part_of_the_graph(f, graphs):
    x = torch.randn(3, 4)
    close(compiled(f)(x), f(x))
    assert graphs and not any(g.unsupported for g in graphs)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, foreach=False),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2),
}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_a_step_of_an_optimizer_is_in_place(name, graphs):
    pairs = []
    for _ in range(2):
        torch.manual_seed(0)
        params = [nn.Parameter(torch.randn(300, 40)), nn.Parameter(torch.randn(500))]
        pairs.append((params, OPTIMIZERS[name](params)))
    (theirs, eager), (mine, optimizer) = pairs
    step = compiled(optimizer.step)
    for i in range(4):
        for params in (theirs, mine):
            torch.manual_seed(i)
            for p in params:
                p.grad = torch.randn_like(p)
        places, versions = [p.data_ptr() for p in mine], [p._version for p in mine]
        eager.step()
        step()
        assert places == [p.data_ptr() for p in mine] and all(
            v < p._version for v, p in zip(versions, mine)
        )
    close(mine, theirs)
    (part,) = graphs[-1].partitions
    assert not graphs[-1].unsupported
    assert (
        part.program.last_counts()[3] < 100
    )  # bytes that were copied out: at most counts of steps


class Positions(nn.Module):
    """Reads no argument."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("places", torch.arange(4.0))

    def forward(self):
        return self.weight.sin() + self.places


class WithPositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = Positions()

    def forward(self, x):
        at = self.positions()
        torch._dynamo.graph_break()
        return x + at


def test_a_graph_that_reads_only_parameters():
    """Its results were not tensors of torch."""
    net, whole = Positions(), WithPositions()
    f, g = compiled(net), compiled(whole)
    with torch.no_grad():
        for _ in range(2):
            assert type(f()) is torch.Tensor
            close(f(), net())
            close(g(torch.ones(4)), whole(torch.ones(4)))
            net.weight.add_(1)
    net.weight.grad = None
    f().sum().backward()
    close(net.weight.grad, net.weight.cos())


def test_linearize():
    x, t = torch.randn(6), torch.randn(6)
    f = compiled(lambda x, t: torch.func.linearize(torch.sin, x)[1](t))
    close(f(x, t), x.cos() * t)


@pytest.mark.parametrize(
    "f", [lambda x: torch.sin(x) * x.prod(), lambda x: x.softmax(-1).log(), nn.GELU()]
)
def test_a_second_backward_pass(f):
    """It was an error for each compiled function."""
    grads = []
    for call in (compiled(f), f):
        x = torch.linspace(0.5, 2, 24).reshape(4, 6).requires_grad_()
        y = call(x).sum()
        y.backward(retain_graph=True)
        y.backward()
        grads.append(x.grad)
    close(*grads)


def test_the_sign_of_zero():
    """x + 0 of -0 is 0, and so is its sign."""
    x = torch.tensor([-0.0, 0.0, 1.0])
    none = torch.zeros(3)
    for f in (lambda x: x + 0.0, lambda x: x - 0.0, lambda x: 0.0 + x, lambda x: x + none, lambda x: x - -0.0,
              lambda x: torch.sign(x), lambda x: x * 1.0, lambda x: 0.0 - x, lambda x: x + -0.0):  # fmt: skip
        torch._dynamo.reset()
        assert (1 / compiled(f)(x)).tolist() == (1 / f(x)).tolist()
