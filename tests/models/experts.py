#!/usr/bin/env python3
"""Mixtures of experts (MoE and QMoE of com.microsoft) against their formula in NumPy, which is
itself compared with ONNX Runtime where that computes the case exactly.

    python3 tests/models/experts.py --tenon build/bin/tenon [--devices reference,cpu] [--filter TEXT]
"""

import argparse
import dataclasses
import itertools
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

RNG = np.random.default_rng(5)
TOLERANCE = 1e-5  # of the largest number
EXPERTS, HIDDEN, INNER, TOKENS = 4, 32, 64, 6
MICROSOFT = "com.microsoft"


def floats(*shape):
    return (RNG.standard_normal(shape) * 0.3).astype(np.float32)


def packed(numbers, bits):
    """Numbers of few bits in bytes along the last dim, the first in the low bits."""
    each = 8 // bits
    rest = -numbers.shape[-1] % each
    padded = np.concatenate([numbers, np.zeros((*numbers.shape[:-1], rest), np.uint8)], -1)
    parts = padded.reshape(*numbers.shape[:-1], -1, each)
    return sum(parts[..., i] << np.uint8(bits * i) for i in range(each)).astype(np.uint8)


def narrow(rows, columns, bits, block, zeros):
    """Real weights, and the operands that stand for them: packed, scales, zero points or None."""
    group = block or columns
    q = RNG.integers(0, 2**bits, (EXPERTS, rows, columns)).astype(np.uint8)
    scale = (RNG.random((EXPERTS, rows, columns // group)) * 0.1 + 0.01).astype(np.float32)
    zero = (
        RNG.integers(0, 2**bits, scale.shape).astype(np.uint8)
        if zeros
        else np.full(scale.shape, 1 << (bits - 1), np.uint8)
    )
    real = (q.astype(np.float64) - np.repeat(zero, group, 2)) * np.repeat(scale, group, 2)
    if not block:
        scale, zero = scale[:, :, 0], zero[:, :, 0]
    return real, packed(q, bits), scale, packed(zero, bits) if zeros else None


def activated(kind, g, gate, a):
    """The inner features of an expert. `gate`: those of fc3, or the second half of fc1's."""
    if kind == "swiglu":
        limit = a.get("swiglu_limit", np.inf)
        g, gate = np.minimum(g, limit), np.clip(gate, -limit, limit)
        return (
            g
            / (1 + np.exp(-a.get("activation_alpha", 1) * g))
            * (gate + a.get("activation_beta", 0))
        )
    out = {
        "relu": lambda x: np.maximum(x, 0),
        "silu": lambda x: x / (1 + np.exp(-x)),
        "identity": lambda x: x,
        "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    }[kind](g)
    return out if gate is None else out * gate


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def mixture(op, x, router, fcs, a, given=None):
    """The formula: fcs are (weights, biases) or None of fc1 to fc3."""
    tokens = x.reshape(-1, x.shape[-1]).astype(np.float64)
    out = np.zeros_like(tokens)
    fusion = a.get("swiglu_fusion", 0)
    for t, token in enumerate(tokens):
        top = np.argsort(-router[t], kind="stable")[: a["k"]]
        weights = (
            given[t, top]
            if given is not None
            else softmax(router[t])[top]
            if op == "MoE"
            else softmax(router[t, top])
        )
        if a.get("normalize_routing_weights"):
            weights = weights / weights.sum()
        for e, weight in zip(top, weights):
            parts = [
                None if fc is None else token @ fc[0][e].T + (0 if fc[1] is None else fc[1][e])
                for fc in (fcs[0], fcs[2])
            ]
            if fusion == 1:
                parts = [parts[0][0::2], parts[0][1::2]]
            elif fusion == 2:
                parts = list(np.split(parts[0], 2))
            inner = activated(a["activation_type"], *parts, a)
            out[t] += weight * (inner @ fcs[1][0][e].T + (0 if fcs[1][1] is None else fcs[1][1][e]))
    return out.reshape(x.shape)


@dataclasses.dataclass
class Case:
    name: str
    op: str
    x: np.ndarray
    router: np.ndarray
    constants: list  # of the operands from 2 on; None is an absent one
    attributes: dict
    fcs: tuple = ()
    given: np.ndarray | None = None  # weights of the router
    symbolic: bool = False
    exact_peer: bool = True  # whether ONNX Runtime computes this, and in floats

    def model(self):
        feeds = self.feeds()
        inputs = ["x", "router"] + [
            f"c{i}" if c is not None else "" for i, c in enumerate(self.constants)
        ]
        if self.given is not None:
            inputs += [""] * (14 - len(inputs)) + ["given"]
        while not inputs[-1]:
            inputs.pop()
        kinds = {k: list(v.shape) for k, v in feeds.items()}
        if self.symbolic:
            kinds = {"x": ["batch", "length", HIDDEN], "router": ["tokens", EXPERTS]}
        values = [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(feeds[k].dtype), s)
            for k, s in kinds.items()
        ]
        constants = [
            numpy_helper.from_array(c, f"c{i}")
            for i, c in enumerate(self.constants)
            if c is not None
        ]
        node = helper.make_node(
            self.op, inputs, ["y"], name="the experts", domain=MICROSOFT, **self.attributes
        )
        graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name="y")], constants)
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)],
            ir_version=8,
        )

    def feeds(self):
        return {"x": self.x, "router": self.router} | (
            {} if self.given is None else {"given": self.given}
        )


def random_tokens(*shape):
    return floats(*shape, HIDDEN), floats(int(np.prod(shape)), EXPERTS) * 3


def of_floats(
    name,
    kind,
    k=2,
    fusion=0,
    third=False,
    biases=True,
    tokens=(TOKENS,),
    exact_peer=True,
    symbolic=False,
    **more,
):
    x, router = random_tokens(*tokens)
    rows = INNER * (2 if fusion else 1)
    shapes = [(rows, HIDDEN), (HIDDEN, INNER), (INNER, HIDDEN)][: 3 if third else 2]
    fcs = [(floats(EXPERTS, *s), floats(EXPERTS, s[0]) if biases else None) for s in shapes]
    attributes = {"k": k, "activation_type": kind, "swiglu_fusion": fusion, **more}
    return Case(
        name,
        "MoE",
        x,
        router,
        [o for fc in fcs for o in fc],
        attributes,
        (*fcs, None)[:3],
        symbolic=symbolic,
        exact_peer=exact_peer and not third,
    )


def of_bits(
    name,
    kind,
    bits,
    block=0,
    zeros=False,
    fusion=0,
    third=False,
    tokens=(TOKENS,),
    given=False,
    symbolic=False,
    **more,
):
    x, router = random_tokens(*tokens)
    rows = INNER * (2 if fusion else 1)
    operands, fcs = [None] * 12, []
    for i, shape in enumerate(
        [(rows, HIDDEN), (HIDDEN, INNER), (INNER, HIDDEN)][: 3 if third else 2]
    ):
        real, q, scale, zero = narrow(*shape, bits, block, zeros)
        bias = floats(EXPERTS, shape[0])
        operands[3 * i : 3 * i + 3] = [q, scale, bias]
        operands[9 + i] = zero
        fcs.append((real, bias))
    attributes = {
        "k": 2,
        "activation_type": kind,
        "swiglu_fusion": fusion,
        "expert_weight_bits": bits,
        **more,
    }
    if block:
        attributes["block_size"] = block
    weights = np.abs(floats(len(router), EXPERTS)) if given else None
    # ONNX Runtime rounds activations to 8 bits if blocks have 8 bits.
    return Case(
        name,
        "QMoE",
        x,
        router,
        operands,
        attributes,
        (*fcs, None)[:3],
        weights,
        symbolic,
        exact_peer=not third and not (bits == 8 and block),
    )


SWIGLU = {"activation_alpha": 1.3, "activation_beta": 0.7, "swiglu_limit": 0.5}


def cases():
    for kind in ("relu", "gelu", "silu", "identity"):
        yield of_floats(f"floats {kind}", kind)
    yield of_floats("floats normalised", "relu", normalize_routing_weights=1)
    yield of_floats("floats without biases", "silu", biases=False, k=1)
    yield of_floats("floats, all experts", "silu", k=EXPERTS)
    yield of_floats("floats gated by fc3", "silu", third=True)
    yield of_floats("floats swiglu in turn", "swiglu", fusion=1, **SWIGLU)
    yield of_floats("floats swiglu in halves", "swiglu", fusion=2, exact_peer=False, **SWIGLU)
    yield of_floats("floats swiglu by fc3", "swiglu", third=True, activation_alpha=1.5)
    yield of_floats("floats, one token", "gelu", tokens=(1,))
    yield of_floats("floats of any batch and length", "relu", tokens=(2, 3), symbolic=True)
    yield of_floats("floats, no tokens", "relu", tokens=(0,))
    yield of_floats("floats, no tokens of any batch", "relu", tokens=(0, 3), symbolic=True)
    yield of_bits("4 bits, no tokens", "silu", 4, 16, True, tokens=(0,), given=True)
    yield of_bits("4 bits, no tokens of any batch", "silu", 4, 16, tokens=(0, 3), symbolic=True)
    for bits, block, zeros in itertools.product((2, 4, 8), (0, 16), (False, True)):
        yield of_bits(
            f"{bits} bits, blocks of {block}, {'zero points' if zeros else 'none'}",
            "silu",
            bits,
            block,
            zeros,
        )
    yield of_bits("4 bits swiglu in turn", "swiglu", 4, 32, fusion=1, **SWIGLU)
    yield of_bits("4 bits swiglu by fc3", "swiglu", 4, 32, True, third=True, **SWIGLU)
    yield of_bits(
        "4 bits, one token", "swiglu", 4, 32, tokens=(1, 1), fusion=1, normalize_routing_weights=1
    )
    yield of_bits(
        "4 bits of any batch and length",
        "swiglu",
        4,
        32,
        True,
        tokens=(2, 3),
        fusion=1,
        symbolic=True,
    )
    yield of_bits("4 bits, weights of the router", "relu", 4, 16, given=True)
    yield of_bits("8 and 4 bits", "relu", 4, fc2_expert_weight_bits=4)


def bad_cases():
    """(case, what is said)"""

    def changed(case, i=None, operand=None, **attributes):
        if i is not None:
            case.constants[i] = operand
        case.attributes.update(attributes)
        return case

    yield changed(of_floats("k beyond the experts", "relu"), k=9), "T0708"
    yield changed(of_floats("no experts are chosen", "relu"), k=0), "T0708"
    yield changed(of_floats("an unknown activation", "relu"), activation_type="tanh"), "T0714"
    yield changed(of_floats("the sparse mixer", "relu"), use_sparse_mixer=1), "T0714"
    yield (
        changed(of_floats("swiglu without a second half", "relu"), activation_type="swiglu"),
        "T0709",
    )
    yield (
        changed(
            of_floats("weights of another hidden size", "relu"),
            0,
            floats(EXPERTS, INNER, HIDDEN + 1),
        ),
        "T0713",
    )
    yield (
        changed(
            of_floats("weights of integers", "relu"), 0, np.ones((EXPERTS, INNER, HIDDEN), np.int32)
        ),
        "T0710",
    )
    yield (
        changed(
            of_floats("weights of halves", "relu"), 0, np.ones((EXPERTS, INNER, HIDDEN), np.float16)
        ),
        "T0710",
    )
    yield (
        changed(of_floats("biases of integers", "relu"), 1, np.ones((EXPERTS, INNER), np.int64)),
        "T0710",
    )
    case = of_floats("a router of halves", "relu")
    yield dataclasses.replace(case, router=case.router.astype(np.float16)), "T0710"
    yield (
        changed(of_floats("biases of other experts", "relu"), 1, floats(EXPERTS + 1, INNER)),
        "T0713",
    )
    yield changed(of_bits("3 bits", "relu", 4), expert_weight_bits=3), "T0714"
    yield changed(of_bits("blocks that do not divide", "relu", 4, 16), block_size=24), "T0713"
    yield changed(of_bits("blocks of nothing", "relu", 4, 16), block_size=0), "must be 2 to 65536"
    yield changed(of_bits("scales are missing", "relu", 4), 1), "T0720"
    yield (
        changed(
            of_bits("a scale that is NaN", "relu", 4),
            1,
            np.full((EXPERTS, INNER), np.nan, np.float32),
        ),
        "T0720",
    )
    yield (
        changed(
            of_bits("weights of another type", "relu", 4),
            0,
            np.zeros((EXPERTS, INNER, HIDDEN // 2), np.int8),
        ),
        "T0710",
    )
    yield changed(of_bits("4-bit floats", "relu", 4), quant_type="fp4"), "T0714"
    yield changed(of_bits("prepacked", "relu", 4), weights_prepacked=1), "T0714"


def far(got, want):
    if got.shape != want.shape:
        return f"the shape {got.shape} is not {want.shape}"
    if want.size == 0:
        return ""
    worst = np.abs(got - want).max() / np.abs(want).max()
    return "" if worst <= TOLERANCE else f"differs by {worst:.3g} of the largest number"


def by_peer(case, want):
    """What ONNX Runtime's result lacks to be the formula's: the formula is wrong then."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(
        case.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    text = far(session.run(None, case.feeds())[0], want)
    return text and f"ONNX Runtime {text}"


def run(tenon, case, device, folder):
    """The result, or the text of the failure."""
    onnx.save(case.model(), f"{folder}/model.onnx")
    command = [tenon, "run", f"{folder}/model.onnx", "--device", device, "--output-dir", folder]
    for name, array in case.feeds().items():
        np.save(f"{folder}/in_{name}.npy", array)
        command += ["--input", f"{name}={folder}/in_{name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return np.load(f"{folder}/y.npy") if done.returncode == 0 else done.stderr.strip()[:600]


class Test:
    def __init__(self, options):
        self.tenon, self.devices, self.failed = options.tenon, options.devices.split(","), 0

    def report(self, name, text):
        print(f"{'FAIL' if text else 'ok  '} {name}{': ' if text else ''}{text}", flush=True)
        self.failed += bool(text)

    def right(self, case):
        want = mixture(case.op, case.x, case.router, case.fcs, case.attributes, case.given)
        if case.exact_peer:
            self.report(f"{case.name} by ONNX Runtime", by_peer(case, want))
        for device in self.devices:
            with tempfile.TemporaryDirectory() as folder:
                got = run(self.tenon, case, device, folder)
            self.report(f"{case.name} on {device}", got if isinstance(got, str) else far(got, want))

    def refused(self, case, code):
        with tempfile.TemporaryDirectory() as folder:
            got = run(self.tenon, case, self.devices[0], folder)
        fits = isinstance(got, str) and code in got and "the experts" in got
        self.report(case.name, "" if fits else f"{code} was expected: {got}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--devices", default="reference,cpu")
    parser.add_argument("--filter", default="", help="only cases whose name holds this")
    options = parser.parse_args()
    test = Test(options)
    for case in cases():
        if options.filter in case.name:
            test.right(case)
    for case, code in bad_cases():
        if options.filter in case.name:
            test.refused(case, code)
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
