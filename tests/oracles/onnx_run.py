"""Runs cases of ONNX operators: many nodes in one model, each with outputs of its own."""

from __future__ import annotations

import contextlib
import math
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import judge
import numpy as np
import onnx
import onnx_cases
import onnxruntime
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import op_erf
from onnx_cases import TYPES, Case, Template

REFUSALS = {"T0310", "T0312", "T0704", "T0710", "T0713", "T0714", "T0124"}
FLOATS = {TYPES[name] for name in ("f16", "bf16", "f32", "f64")}
NARROW = {TYPES["f16"], TYPES["bf16"]}
WIDE = {np.dtype(np.float16), np.dtype(np.float32), TYPES["bf16"]}
# The reference is in Python: what it takes seconds for, on many elements.
SLOW = {"Attention", "AveragePool", "Conv", "ConvInteger", "ConvTranspose", "GRU", "GridSample", "LSTM", "MaxPool", "MaxUnpool",
        "NonMaxSuppression", "RNN", "Resize", "RoiAlign", "STFT", "LpPool", "QLinearConv", "DFT", "Col2Im", "ScatterElements", "TopK",
        "Unique", "LRN", "GlobalLpPool", "TfIdfVectorizer", "LinearAttention", "ScatterND", "GatherND", "Scatter", "FlexAttention", "DeformConv"}  # fmt: skip
# Results are random, or where an element is.
RANDOM = {
    "Bernoulli",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Multinomial",
    "Dropout",
}
# Each result is a sum of elements that may cancel.
MIXES = {
    "MeanVarianceNormalization",
    "CumSum",
    "Resize",
    "STFT",
    "DFT",
    "LayerNormalization",
    "GroupNormalization",
    "InstanceNormalization",
}
# What neither oracle does as the standard says.
OWN_RULES = (
    {
        (
            "LRN",
            "f64",
        ): "onnx.reference takes the default of alpha in double precision, the standard in float32",
        (
            "Resize/test_resize_downsample_sizes_cubic",
            "f64",
        ): "onnx.reference rounds the quotient of sizes to float32",
        ("Gelu", "f64"): "both round constants of its body to float32",
        ("HardSwish", "f64"): "onnx.reference rounds 1/6 to float32",
        (
            "Resize/test_resize_downsample_sizes_cubic_antialias",
            "f64",
        ): "onnx.reference rounds weights to float32",
        (
            "Resize/test_resize_upsample_scales_linear_align_corners",
            "i64",
        ): "a float32 next to a whole number is cut off",
    }
    | {
        (
            f"Resize/test_resize_{name}",
            "i64",
        ): "linear: onnx.reference rounds; ONNX Runtime, which has smaller types, cuts off"
        for name in (
            "downsample_scales_linear",
            "downsample_scales_linear_align_corners",
            "downsample_scales_linear_antialias",
            "downsample_scales_linear_half_pixel_symmetric",
            "downsample_sizes_linear_pytorch_half_pixel",
            "tf_crop_and_resize",
            "tf_crop_and_resize_axes_2_3",
            "upsample_scales_linear",
            "upsample_scales_linear_half_pixel_symmetric",
        )
    }
    | {
        (
            f"DFT/test_dft_{name}",
            "f64",
        ): "ONNX Runtime rounds the scale of inverse transforms to float32"
        for name in ("inverse", "inverse_opset19", "irfft", "irfft_opset19")
    }
    | {
        ("Shrink", kind): "the standard casts bias to the type, neither oracle does"
        for kind in ("i8", "i16", "i32", "i64", "u8")
    }
)
CRASHES = {"GRU", "LSTM", "RNN"}
"""ONNX Runtime ends the process where these have no elements."""

MOST_PRODUCTS = 100_000_000

onnxruntime.set_default_logger_severity(4)


def _exact_erf(self: op_erf.Erf, node: Any, parameters: Any) -> None:
    op_erf.OpRunUnaryNum.__init__(self, node, parameters)
    self._erf = np.vectorize(math.erf, otypes=["d"])


op_erf.Erf.__init__ = _exact_erf  # onnx.reference rounds it to float32


class Ready(NamedTuple):
    """A case with a result from outside."""

    case: Case
    template: Template
    oracle: str


class Verdict(NamedTuple):
    case: str
    when: str
    problem: str


def by_runtime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def by_reference(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [np.asarray(r) for r in ReferenceEvaluator(model).run(None, feeds)]


ORACLES: dict[str, Callable[..., list[np.ndarray]]] = {
    "ONNX Runtime": by_runtime,
    "onnx.reference": by_reference,
}


def template_of(case: Case) -> list[Template]:
    """The templates of a case, in the order in which sizes are tried."""
    own = onnx_cases.templates()[case.call]
    if case.opset < onnx_cases.since(own, own.version):
        made = onnx_cases.earlier(own, case.opset)
        if made is None:
            return []
        own = made
    if case.size == "own":
        return [own]
    return [onnx_cases.resized(own, d, n) for d, n in onnx_cases.substitutions(own, case.size)]


def is_allowed(case: Case, template: Template) -> bool:
    """Whether the standard has the operator for the type."""
    schema = onnx_cases.schema_of(template.operator, case.opset, template.node.domain)
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    kind, _, other = case.type.partition("+")
    if other and not any(
        v is not None and not template.is_constant(i) and onnx_cases.is_open(template, i, other)
        for i, v in enumerate(template.inputs)
    ):
        return False
    for i, given in enumerate(template.inputs):
        if given is not None and given["t"] == "D":
            of = template.formal(i).type_str
            if f"tensor({onnx_cases.NAMES[kind]})" not in allowed.get(of, [of]):
                return False
    # Before opset 28 the standard demands fmod=1 for floats; onnx.reference does not check it.
    fmod = any(a.name == "fmod" and a.i for a in template.node.attribute)
    return (
        fmod
        or template.operator != "Mod"
        or case.opset >= 28
        or kind not in ("f16", "bf16", "f32", "f64")
    )


def ready(case: Case) -> Ready | None:
    for template in template_of(case):
        names = (template.operator, case.call)
        if not is_allowed(case, template) or any((n, case.type) in OWN_RULES for n in names):
            return None
        for oracle in ORACLES:
            made = Ready(case, template, oracle)
            if oracle == "ONNX Runtime" and case.size == "0" and template.operator in CRASHES:
                continue
            if oracle == "onnx.reference" and case.size == "70000" and template.operator in SLOW:
                continue
            if "Conv" in template.operator and _products(template) > MOST_PRODUCTS:
                continue
            with contextlib.suppress(Exception):
                if all(r.size <= onnx_cases.MOST for r in outside(made, 0)):
                    return made
    return None


def _products(template: Template) -> int:
    """Of a convolution; a size that both images and weights have makes too many."""
    return math.prod(math.prod(v["s"]) for v in template.inputs[:2] if v)


def outside(made: Ready, call: int, oracle: str = "") -> list[np.ndarray]:
    return _alone(made, onnx_cases.arrays(made.case, made.template, call), oracle or made.oracle)


def _alone(made: Ready, arrays: list[np.ndarray | None], oracle: str) -> list[np.ndarray]:
    placed = onnx_cases.place(made.template, arrays, "n")
    model = onnx_cases.model_of([placed], made.case.opset, made.template.node.domain)
    if oracle == "ONNX Runtime" and any(v.dtype == TYPES["bf16"] for v in placed.inputs.values()):
        raise TypeError("it takes no bfloat16 from NumPy")
    results = ORACLES[oracle](model, placed.inputs)
    return _declared(model, results) if oracle == "onnx.reference" else results


def _declared(model: onnx.ModelProto, results: list[np.ndarray]) -> list[np.ndarray]:
    """The results in the types that the standard infers; onnx.reference leaves some in the type it computed in."""
    inferred = onnx.shape_inference.infer_shapes(model)
    types = [o.type.tensor_type.elem_type for o in inferred.graph.output]
    kinds = [
        TYPES["bf16"]
        if t == TensorProto.BFLOAT16
        else t and onnx.helper.tensor_dtype_to_np_dtype(t)
        for t in types
    ]
    return [
        r.astype(k) if k and r.dtype != k and r.dtype in FLOATS and k in FLOATS else r
        for r, k in zip(results, kinds, strict=True)
    ]


def exact_of(made: Ready, call: int, move: int) -> list[np.ndarray] | None:
    """The case in double precision; with `move`, floats change by a rounding of what is computed in."""
    random = np.random.default_rng([made.case.seed, call, move])
    # By the standard these compute in float32, also for doubles, unless an attribute says otherwise.
    stashes = (
        "stash_type"
        in onnx_cases.schema_of(
            made.template.operator, made.case.opset, made.template.node.domain
        ).attributes
    )
    arrays: list[np.ndarray | None] = []
    for array in onnx_cases.arrays(made.case, made.template, call):
        if array is not None and (array.dtype in WIDE or array.dtype == np.float64):
            step = 2.0**-52 if array.dtype == np.float64 and not stashes else 2.0**-24
            array = array.astype(np.float64)
            if move:
                array = array * (1 + step * random.choice([-1.0, 1.0], array.shape))
        arrays.append(array)
    for oracle in ORACLES:
        with contextlib.suppress(Exception):
            return _alone(made, arrays, oracle)
    return None


def run(group: list[Ready], whens: list[str]) -> Iterator[Verdict]:
    """Loads the model of a group once for each of `whens`, and runs it twice, with other values."""
    for when in whens:
        placed = [
            onnx_cases.place(m.template, onnx_cases.arrays(m.case, m.template), f"n{i}_")
            for i, m in enumerate(group)
        ]
        domain = group[0].template.node.domain
        model = load(onnx_cases.model_of(placed, group[0].case.opset, domain))
        for call in range(2):
            yield from _call(group, model, call, when)


def load(model: onnx.ModelProto) -> Any:
    import tenon

    return tenon.load(model.SerializeToString(), "cpu")


def _call(group: list[Ready], model: Any, call: int, when: str) -> Iterator[Verdict]:
    feeds: dict[str, np.ndarray] = {}
    outputs = []
    for i, made in enumerate(group):
        placed = onnx_cases.place(
            made.template, onnx_cases.arrays(made.case, made.template, call), f"n{i}_"
        )
        feeds.update(
            {k: onnx_cases.laid_out(v, made.case.strides) for k, v in placed.inputs.items()}
        )
        outputs.append(placed.outputs)
    results = iter(model.run(feeds, results="numpy").values())
    for made, names in zip(group, outputs, strict=True):
        problem = compare(made, call, [next(results) for _ in names])
        if problem:
            yield Verdict(str(made.case), when if call == 0 else f"{when}, second call", problem)


def compare(made: Ready, call: int, ours: list[np.ndarray]) -> str:
    """What is wrong by each oracle that has the case; right by one is right.

    onnx.reference takes the defaults of the latest version, so for earlier ones ONNX Runtime alone counts.
    """
    own = onnx_cases.templates()[made.case.call]
    is_earlier = made.case.opset < onnx_cases.since(own, own.version)
    problem = _compare(made, call, ours, made.oracle)
    if (
        problem
        and made.oracle == "ONNX Runtime"
        and not is_earlier
        and not (made.case.size == "70000" and made.template.operator in SLOW)
    ):
        with contextlib.suppress(Exception):
            if not _compare(made, call, ours, "onnx.reference"):
                return ""
    return problem


def _compare(made: Ready, call: int, ours: list[np.ndarray], oracle: str) -> str:
    try:
        theirs = outside(made, call, oracle)
    except Exception:
        return "" if call else f"{oracle} fails"  # with other values than the first
    known: dict[int, list[np.ndarray] | None] = {}

    def exact(i: int, move: int) -> np.ndarray | None:
        if move not in known:
            known[move] = exact_of(made, call, move)
        results = known[move]
        return None if results is None else wide(np.asarray(results[i]))

    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        b = np.asarray(b)
        if a.dtype != b.dtype:
            return f"output {i}: {a.dtype} instead of {b.dtype}, by {oracle}"
        # NumPy computes in 16 bits, where squares and sums overflow: double precision is right.
        better = exact(i, 0) if oracle == "onnx.reference" and b.dtype in NARROW else None
        if better is not None and better.shape == b.shape:
            b = better.astype(b.dtype)
        problem = judge.problem(
            wide(a),
            wide(b),
            str(b.dtype),
            lambda move, i=i: exact(i, move),
            made.template.operator in MIXES,
        )
        if problem:
            return f"output {i}: {problem}, by {oracle}"
    return ""


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind in "fV" or x.dtype in WIDE else x


def refusal(error: Exception) -> str:
    """The first code of an error that refuses a form, or nothing."""
    codes = re.findall(r"\b[TP]\d{4}\b", f"{getattr(error, 'code', '')} {error}")
    return codes[0] if codes and codes[0] in REFUSALS else ""
