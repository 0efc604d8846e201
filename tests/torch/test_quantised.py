"""Networks that PyTorch's tools quantise (pt2e and quantize_ of torchao): directly, and by way of
ONNX, where onnxruntime without optimisations is the measure."""

import logging
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import tenon
import tenon.torch
import torch

pytest.importorskip(
    "torchao", reason="torchao is not installed (scripts/packages.sh: torch_environment)"
)

from quantised_networks import FLOWS, NETWORKS, network  # noqa: E402

MARGIN_BYTES = 32 << 10  # of a package: its records, and constants that begin pages
TOLERANCE = 1e-2  # of the largest number: a step of 8 bits and what follows from it


@pytest.fixture(autouse=True)
def quiet():
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def quantised(name, flow):
    """The quantised network as an exported program, an input, and the network's own result."""
    net, draw = network(name)
    net = FLOWS[flow](net, draw)
    x = draw()
    program = torch.export.export(net, (x,))
    targets = {str(n.target) for n in program.graph.nodes}
    if not any("quantize" in t or "int8" in t or "access_subclass" in t for t in targets):
        pytest.skip(f"{flow} quantises nothing of {name}")
    with torch.no_grad():
        return program, x, net(x)


def near(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    assert np.abs(got - want).max() <= TOLERANCE * np.abs(want).max()


def chosen(flows, each):
    """Pairs of network and flow; `each` of a network are run without --all-models."""
    pairs = []
    for i, name in enumerate(NETWORKS):
        first = {flows[(each * i + j) % len(flows)] for j in range(each)}
        pairs += [
            pytest.param(name, flow, marks=() if flow in first else pytest.mark.all_models)
            for flow in flows
        ]
    return pytest.mark.parametrize(("name", "flow"), pairs)


@chosen(list(FLOWS), 2)
def test_exported(name, flow):
    program, x, want = quantised(name, flow)
    near(tenon.from_exported(program, "cpu")(x)[0], want)


@chosen(list(FLOWS), 1)
@pytest.mark.parametrize("options", [{}, {"freezing": True}], ids=["arguments", "constants"])
def test_compiled(name, flow, options):
    net, draw = network(name)
    net = FLOWS[flow](net, draw)
    x = draw()
    compiled = torch.compile(net, backend="tenon", options=options, fullgraph=True)
    with torch.no_grad():
        near(compiled(x), net(x))
    torch._dynamo.reset()


def test_a_changed_weight_of_a_frozen_program_is_refused():
    net, draw = network("mlp")
    net = FLOWS["dynamic_8"](net, draw)
    x = draw()
    compiled = torch.compile(net, backend="tenon", options={"freezing": True})
    with torch.no_grad():
        near(compiled(x), net(x))
        net[0].weight.scale.mul_(2)
        with pytest.raises(tenon.UsageError, match="T0641"):
            compiled(x)
    torch._dynamo.reset()


def most_bytes():
    """Of memory for a byte of weights. Without products of bytes they are pairs of 16 bits; narrow vectors
    read floats."""
    flags = "" if "TENON_CPU_ISA" in os.environ else Path("/proc/cpuinfo").read_text()
    if "avx512_vnni" in flags or "avx_vnni" in flags:
        return 1.1
    return 2.2 if "avx2" in flags else 4.4


class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256)

    def forward(self, x):
        return self.b(torch.nn.functional.gelu(self.a(x)))


@pytest.mark.parametrize("flow", list(FLOWS))
@pytest.mark.parametrize("rows", [1, 32])
def test_weights_keep_their_bits(flow, rows, tmp_path):
    draw = lambda: torch.randn(rows, 256)  # noqa: E731
    net = FLOWS[flow](Wide().eval(), draw)
    x = draw()
    with torch.no_grad():
        want = net(x)
        model = tenon.from_exported(torch.export.export(net, (x,)), "cpu")
    near(model(x)[0], want)
    model.save(tmp_path / "net.tpk")
    # A byte for each weight, as torch keeps them, and with groups of 8 a scale of 4 bytes for each.
    weights = 2 * 256 * 1024 * (1.5 if "weights_4" in flow else 1)
    most, info = most_bytes() * weights, model.info
    assert info["constant_bytes"] < most
    assert (tmp_path / "net.tpk").stat().st_size - info["code_bytes"] < most + MARGIN_BYTES


@chosen(["static_u8", "static_s8"], 1)
def test_through_onnx(name, flow, tmp_path):
    pytest.importorskip("onnxscript", reason="torch exports no ONNX without onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    program, x, _ = quantised(name, flow)
    path = str(tmp_path / "net.onnx")
    torch.onnx.export(program, (x,), dynamo=True, verbose=False).save(path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    want = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    near(tenon.load(path, "cpu")(x)[0], want)


# ---- The operators, one by one: integers are exact ----

OPS = torch.ops.quantized_decomposed


class Calls(torch.nn.Module):
    """A function as a network."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def check(function, *args, exact=True, types=True):
    want = function(*args)
    got = tenon.from_exported(torch.export.export(Calls(function), args))(*args)
    for a, b in zip(got, want if isinstance(want, tuple) else (want,)):
        a, b = np.asarray(a), b.numpy()
        assert (a.dtype == b.dtype or not types) and a.shape == b.shape
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-6)


def values():
    """Numbers whose quotients by 1/2 are ties, numbers that saturate, and others."""
    ties = torch.arange(-8, 8.25, 0.25)
    return torch.cat([ties, torch.tensor([1e6, -1e6, 300.0]), torch.randn(60) * 30]).reshape(8, 16)


KINDS = [
    (torch.uint8, 0, 255, 100),
    (torch.int8, -128, 127, -3),
    (torch.int8, -8, 7, 1),
    (torch.int16, -32768, 32767, 50),
]


@pytest.mark.parametrize(("dtype", "low", "high", "zero"), KINDS)
def test_one_scale(dtype, low, high, zero):
    x = values()
    for scale in (0.5, 0.1237):
        check(lambda x, s=scale: OPS.quantize_per_tensor(x, s, zero, low, high, dtype), x)
        scales = torch.tensor([scale], dtype=torch.float64)
        check(
            lambda x, s, z: OPS.quantize_per_tensor.tensor(x, s, z, low, high, dtype),
            x,
            scales,
            torch.tensor([zero]),
        )
        q = OPS.quantize_per_tensor(x, scale, zero, low, high, dtype)
        check(
            lambda q, s=scale: OPS.dequantize_per_tensor(q, s, zero, low, high, dtype),
            q,
            exact=False,
        )
    check(lambda x: OPS.quantize_per_tensor(x, 0.5, zero, low, high, dtype), x.half())


@pytest.mark.parametrize(("dtype", "low", "high", "zero"), KINDS)
def test_channels(dtype, low, high, zero):
    x = values()
    for axis, count in ((0, 8), (1, 16)):
        for kind in (torch.float32, torch.float64):
            scales, zeros = (
                (torch.rand(count) + 0.1).to(kind),
                torch.randint(-3, 3, (count,)) + zero,
            )
            check(
                lambda x, s, z, a=axis: OPS.quantize_per_channel(x, s, z, a, low, high, dtype),
                x,
                scales,
                zeros,
            )
            q = OPS.quantize_per_channel(x, scales, zeros, axis, low, high, dtype)
            if kind is torch.float32:
                check(
                    lambda q, s, z, a=axis: OPS.dequantize_per_channel(
                        q, s, z, a, low, high, dtype
                    ),
                    q,
                    scales,
                    zeros,
                    exact=False,
                )
                check(
                    lambda q, s, a=axis: OPS.dequantize_per_channel(
                        q, s, None, a, low, high, dtype
                    ),
                    q,
                    scales,
                    exact=False,
                )


def test_groups_and_tokens():
    x, scales, zeros = values(), torch.rand(8, 4) + 0.1, torch.randint(-3, 3, (8, 4))
    group = (-8, 7, torch.int8, 4)
    check(lambda x, s, z: OPS.quantize_per_channel_group(x, s, z, *group), x, scales, zeros)
    q = OPS.quantize_per_channel_group(x, scales, zeros, *group)
    check(
        lambda q, s, z: OPS.dequantize_per_channel_group(q, s, z, *group, torch.float32),
        q,
        scales,
        zeros,
        exact=False,
    )
    x = torch.randn(3, 8, 16)
    token = (-128, 127, torch.int8)
    for choose in (OPS.choose_qparams_per_token_asymmetric, OPS.choose_qparams_per_token):
        check(
            lambda x, c=choose: c(x, torch.int8),
            x,
            exact=False,
            types=choose is not OPS.choose_qparams_per_token,
        )
        scales, zeros = choose(x, torch.int8)
        check(lambda x, s, z: OPS.quantize_per_token(x, s, z, *token), x, scales, zeros)
        q = OPS.quantize_per_token(x, scales, zeros, *token)
        check(
            lambda q, s, z: OPS.dequantize_per_token(q, s, z, *token, torch.float32),
            q,
            scales,
            zeros,
            exact=False,
        )


def test_scales_that_follow():
    for x in (values(), torch.rand(3, 4) + 1, -torch.rand(5), torch.zeros(4)):
        check(lambda x: OPS.choose_qparams(x, 0, 255, 1e-4, torch.uint8), x, exact=False)
        check(
            lambda x: OPS.choose_qparams_symmetric(x, -128, 127, 1e-4, torch.int8), x, exact=False
        )
    for dtype in (torch.float16, torch.bfloat16):  # whose scales torch rounds to the type
        x = torch.linspace(-900, 777, 64).to(dtype)
        check(lambda x: OPS.choose_qparams(x, -128, 127, 1e-5, torch.int8), x)


def test_products_of_bytes():
    a = torch.randint(-128, 128, (17, 64), dtype=torch.int8)
    b = torch.randint(-128, 128, (64, 32), dtype=torch.int8)
    check(torch._int_mm, a, b)
    check(torch._int_mm, torch.randint(0, 256, (17, 64), dtype=torch.uint8), b)


def test_what_is_refused():
    with pytest.raises(tenon.UsageError, match="T0640.*16 bits"):
        q = torch.zeros(4, dtype=torch.int32)
        tenon.from_exported(
            torch.export.export(
                Calls(lambda q: OPS.dequantize_per_tensor(q, 1.0, 0, -9, 9, torch.int32)), (q,)
            )
        )
    with pytest.raises(tenon.UsageError, match="T0640.*a scale of 0"):
        function = Calls(lambda x: OPS.quantize_per_tensor(x, 0.0, 0, 0, 255, torch.uint8))
        tenon.from_exported(torch.export.export(function, (torch.ones(2),), strict=False))


@pytest.mark.parametrize("scale", [-0.5, float("nan"), float("inf"), 1e-45])
def test_odd_scales_give_what_torch_gives(scale):
    def there_and_back(x):
        q = OPS.quantize_per_tensor(x, scale, 3, 0, 255, torch.uint8)
        return OPS.dequantize_per_tensor(q, scale, 3, 0, 255, torch.uint8)

    check(there_and_back, torch.tensor([1.0, -2.0, 0.0, float("inf"), float("nan"), 3e38]))
