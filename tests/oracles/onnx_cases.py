"""Cases of ONNX operators: templates of nodes, with an axis each for types, sizes, strides, values and opsets."""

from __future__ import annotations

import functools
import json
import math
import pathlib
import zlib
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx
import onnx_variants
from google.protobuf import json_format
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).resolve().parent
TYPES = {
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64), "u8": np.dtype(np.uint8), "bool": np.dtype(np.bool_),
}  # fmt: skip
NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float", "f64": "double", "u8": "uint8", "bool": "bool"} | {
    f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)
}  # fmt: skip
SIZES = ("own", "0", "1", "7", "70000")
STRIDES = ("plain", "step", "turned")
VALUES = ("own", "wide", "few")
MOST = 300_000
COMMON, LAST = 23, 28
"""Most cases share one opset, so that many fit in a model."""

# Inputs that decide sizes, which exporters write as initializers.
DECIDING = {
    "axes", "shape", "split", "pads", "repeats", "starts", "ends", "steps", "k", "K", "sizes", "scales", "roi", "depth",
    "axis", "limit", "start", "delta", "output_shape", "dft_length", "frame_step", "frame_length", "size", "num_mel_bins",
    "sample_rate", "lower_edge_hertz", "upper_edge_hertz", "image_shape", "block_shape", "M", "max_trip_count",
}  # fmt: skip
WHOLE_INPUT = {
    "ConstantOfShape",
    "Range",
    "HammingWindow",
    "HannWindow",
    "BlackmanWindow",
    "EyeLike",
}


class Case(NamedTuple):
    """`call` is a template, "Add/test_add"; `opset` a number.

    A type of "f16+i32" is that of the operator's open type, and that of other inputs that may have it.
    """

    call: str
    type: str
    size: str = "own"
    strides: str = "plain"
    values: str = "own"
    opset: int = COMMON

    def __str__(self) -> str:
        return f"{self.call} {self.type} size={self.size} strides={self.strides} values={self.values} opset={self.opset}"

    @classmethod
    def parse(cls, text: str) -> Case:
        call, kind, *rest = text.split()
        size, strides, values, opset = (word.split("=")[1] for word in rest)
        return cls(call, kind, size, strides, values, int(opset))

    @property
    def seed(self) -> int:
        return zlib.crc32(str(self).encode())


class Template(NamedTuple):
    """A node, the inputs as specs by position (None for one that is left out), and the type of `D` in the test."""

    version: int
    node: onnx.NodeProto
    inputs: list[Any]
    origin: str

    @property
    def operator(self) -> str:
        return self.node.op_type

    def formal(self, i: int) -> Any:
        inputs = schema_of(self.node.op_type, self.version, self.node.domain).inputs
        return inputs[min(i, len(inputs) - 1)]

    def is_constant(self, i: int) -> bool:
        return (
            self.operator in WHOLE_INPUT
            or self.formal(i).name in DECIDING
            and "v" in self.inputs[i]
        )


@functools.cache
def schema_of(operator: str, version: int, domain: str) -> Any:
    return onnx.defs.get_schema(operator, version, domain)


@functools.cache
def templates() -> dict[str, Template]:
    found = {}
    for file in ("onnx_calls.jsonl", "onnx_more.jsonl"):
        for line in (HERE / file).read_text().splitlines():
            name, version, node, inputs, origin = json.loads(line)
            made = json_format.ParseDict(node, onnx.NodeProto())
            found[f"{made.op_type}/{name}"] = Template(version, made, inputs, origin)
    return found | onnx_variants.of(found)


def since(template: Template, opset: int) -> int:
    return schema_of(template.operator, opset, template.node.domain).since_version


@functools.cache
def opset_of(call: str) -> int:
    """The opset that most cases share, if the operator is the same in it; else its own, or the last one."""
    template = templates()[call]
    own = since(template, template.version)
    for opset in (COMMON, 26, LAST):
        if template.node.domain == "" and opset >= own and since(template, opset) == own:
            return opset
    return template.version


@functools.cache
def _history() -> dict[tuple[str, str], set[int]]:
    """The versions of each operator; to list them takes long."""
    found: dict[tuple[str, str], set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), set()).add(schema.since_version)
    return found


@functools.cache
def versions(call: str) -> list[int]:
    """Earlier versions of the operator, from opset 7 on."""
    template = templates()[call]
    latest = since(template, template.version)
    every = _history()[template.node.domain, template.operator]
    return sorted({max(v, 7) for v in every if v < latest and not _is_later(every, v)})


def _is_later(every: set[int], v: int) -> bool:
    """Whether opset 7 has a later version of the operator than v."""
    return any(v < w <= 7 for w in every)


def earlier(template: Template, opset: int) -> Template | None:
    """The same node in an earlier opset; inputs that were attributes then become attributes."""
    schema = schema_of(template.operator, opset, template.node.domain)
    node = onnx.NodeProto()
    node.CopyFrom(template.node)
    names = [i.name for i in schema.inputs]
    inputs = list(template.inputs)
    for i in reversed(range(len(inputs))):
        name = template.formal(i).name
        variadic = (
            schema.inputs
            and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
        )
        if name in names or variadic:
            continue
        if inputs[i] is not None:
            if name not in schema.attributes or "v" not in inputs[i]:
                return None
            kind = schema.attributes[name].type
            single = kind in (onnx.defs.OpSchema.AttrType.INT, onnx.defs.OpSchema.AttrType.FLOAT)
            values = inputs[i]["v"]
            node.attribute.append(
                helper.make_attribute(name, values[0] if single else values, attr_type=kind.value)
            )
        del inputs[i]
        del node.input[i]
    if any(a.name not in schema.attributes for a in node.attribute):
        return None
    return template._replace(version=opset, node=node, inputs=inputs)


def substitutions(template: Template, size: str) -> list[tuple[int, int]]:
    """Pairs (d, n): that dims of d become n, in the order in which they are tried."""
    shapes = [
        t["s"]
        for i, t in enumerate(template.inputs)
        if t is not None and not template.is_constant(i)
    ]
    found = []
    for d in sorted(
        {d for s in shapes for d in s}, key=lambda d: (-sum(d in s for s in shapes), -d)
    ):
        if size != "70000":
            found += [(d, int(size))] if d != int(size) else []
            continue
        largest = max((s for s in shapes if d in s), key=lambda s: (s.count(d), math.prod(s)))
        rest, power = math.prod(v for v in largest if v != d), largest.count(d)
        n = max(2, round((70000 / max(rest, 1)) ** (1 / power)))
        if all(math.prod(n if v == d else v for v in s) <= MOST for s in shapes):
            found.append((d, n))
    return found


def resized(template: Template, d: int, n: int) -> Template:
    """The template with n for each dim d, also in inputs that are shapes."""
    inputs = []
    for i, given in enumerate(template.inputs):
        if (
            given is None
            or template.is_constant(i)
            and template.formal(i).name not in ("shape", "sizes", "output_shape", "size", "input")
        ):
            inputs.append(given)
        elif template.is_constant(i):
            inputs.append(given | {"v": [n if v == d else v for v in given["v"]]})
        elif d in given["s"]:
            inputs.append(
                {k: v for k, v in given.items() if k != "v"}
                | {"s": [n if v == d else v for v in given["s"]]}
            )
        else:
            inputs.append(given)
    return template._replace(inputs=inputs)


def arrays(case: Case, template: Template, call: int = 0) -> list[np.ndarray | None]:
    """The inputs of a case; those that are not constants have other values in each call."""
    made: list[np.ndarray | None] = []
    for i, given in enumerate(template.inputs):
        is_constant = given is not None and template.is_constant(i)
        random = np.random.default_rng([case.seed, i, 0 if is_constant else call])
        made.append(
            None
            if given is None
            else _array(case._replace(values="own") if is_constant else case, template, i, random)
        )
    return [_inside(x, template, i, made) for i, x in enumerate(made)]


def _inside(
    x: np.ndarray | None, template: Template, i: int, inputs: list[np.ndarray | None]
) -> np.ndarray | None:
    """Numbers that name parts of another input, whose sizes a case may have changed."""
    if x is None or inputs[0] is None or not x.size:
        return x
    if template.operator == "OneHot" and i == 0:
        return np.trunc(x.astype(np.float32)).astype(x.dtype)  # the standard makes them integers
    most = inputs[0].shape[0] if inputs[0].ndim else 0
    if template.formal(i).name == "sequence_lens":
        return np.minimum(x, most).astype(x.dtype)
    if template.operator == "GatherElements" and i == 1:
        axis = next((a.i for a in template.node.attribute if a.name == "axis"), 0)
        return x % max(inputs[0].shape[axis], 1)
    if template.operator in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss") and i == 1:
        ignored = next((a.i for a in template.node.attribute if a.name == "ignore_index"), 0)
        return np.where(x < 0, ignored, x).astype(x.dtype)
    return x % max(most, 1) if template.formal(i).name == "batch_indices" else x


def dtype_of(case: Case, template: Template, i: int) -> np.dtype[Any]:
    """The element type of an input that is given."""
    first, _, rest = case.type.partition("+")
    kind = template.inputs[i]["t"]
    if kind == "D":
        return TYPES[first]
    own = np.dtype(getattr(ml_dtypes, kind, None) or kind)
    if not rest or template.is_constant(i):
        return own
    return TYPES[rest] if is_open(template, i, rest) else own


def is_open(template: Template, i: int, kind: str) -> bool:
    """Whether another input than those of the open type may have a type, which is of the same sort as its own."""
    own = template.inputs[i]["t"]
    sort = "float" if kind in ("f16", "bf16", "f32", "f64") else "int"
    if own == "D" or not own.startswith((sort, "bfloat" if sort == "float" else sort)):
        return False
    schema = schema_of(template.operator, template.version, template.node.domain)
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    return f"tensor({NAMES[kind]})" in allowed.get(template.formal(i).type_str, ())


def few_of(low: float, high: float) -> list[float]:
    """Numbers of a range, so few that many are equal: halves next to zero where it has them."""
    least, most = math.ceil(2 * low), math.floor(2 * high)
    middle = min(max(0, least), most)
    near = [v / 2 for v in range(max(least, middle - 2), min(most, middle + 2) + 1)]
    return near if len(near) > 1 else [low + (high - low) * i / 4 for i in range(1, 4)]


def _array(case: Case, template: Template, i: int, random: np.random.Generator) -> np.ndarray:
    given = template.inputs[i]
    dtype = dtype_of(case, template, i)
    shape = tuple(given["s"])
    if "v" in given and (given["t"] != "D" or case.values == "own" or template.is_constant(i)):
        return np.asarray(given["v"]).reshape(shape).astype(dtype)
    low, high = given.get("r", (-3, 3))
    if template.operator == "Pow" and i == 0:
        low, high = 1, 9  # so that integers hold the powers
    wide = case.values == "wide" and given["t"] == "D"
    few = case.values == "few" and given["t"] == "D"
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        # Powers and products of these may not fit into an integer, and the oracles compute some in floats.
        wide = wide and template.operator not in ("Gemm", "Resize", "Shrink")
        low, high = (
            (info.min, info.max)
            if wide
            else (
                max(math.floor(low), info.min),
                min(max(math.ceil(high), math.floor(low) + 1), info.max),
            )
        )
        if few:
            low = max(low, min(-2, high - 3))
            high = min(high, low + 3)
        made = random.integers(
            low,
            high,
            shape,
            dtype=np.int64 if low < 0 or high < 2**63 else np.uint64,
            endpoint=True,
        ).astype(dtype)
        return (
            np.where(made == 0, dtype.type(1), made)
            if template.operator in ("Div", "Mod")
            else made
        )
    if wide:
        made = 10.0 ** random.uniform(-4, math.log10(6e4), shape)
        # Half of them so large that a few squares, or some added up, are beyond f16.
        made = np.where(random.random(shape) < 0.5, random.uniform(2e4, 6e4, shape), made)
        made = made * random.choice([-1.0, 1.0], shape) if low < 0 else made
    elif few:
        made = random.choice(few_of(low, high), shape)
    else:
        made = random.uniform(low, high if high > low else low + 1, shape)
    return np.asarray(made).astype(dtype)


def laid_out(x: np.ndarray, strides: str) -> np.ndarray:
    """The same values with other strides."""
    if x.ndim == 0 or strides == "plain" or not x.size:
        return x
    if strides == "step":
        base = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
        base[..., 1::2] = x
        return base[..., 1::2]
    return np.asfortranarray(x)


def onnx_type(dtype: np.dtype[Any]) -> int:
    return (
        TensorProto.BFLOAT16 if dtype == TYPES["bf16"] else helper.np_dtype_to_tensor_dtype(dtype)
    )


class Placed(NamedTuple):
    """A node in a model: its nodes, graph inputs, initializers and output names."""

    node: onnx.NodeProto
    inputs: dict[str, np.ndarray]
    constants: dict[str, np.ndarray]
    outputs: list[str]


def place(template: Template, given: list[np.ndarray | None], prefix: str) -> Placed:
    node = onnx.NodeProto()
    node.CopyFrom(template.node)
    inputs, constants = {}, {}
    for i, array in enumerate(given):
        node.input[i] = "" if array is None else f"{prefix}i{i}"
        if array is not None:
            (constants if template.is_constant(i) else inputs)[node.input[i]] = array
    for i, name in enumerate(node.output):
        node.output[i] = f"{prefix}o{i}" if name else ""
    node.name = prefix
    return Placed(node, inputs, constants, [name for name in node.output if name])


def model_of(placed: list[Placed], opset: int, domain: str = "") -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(k, onnx_type(v.dtype), v.shape)
        for p in placed
        for k, v in p.inputs.items()
    ]
    constants = [_tensor(k, v) for p in placed for k, v in p.constants.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for p in placed for name in p.outputs]
    graph = helper.make_graph([p.node for p in placed], "oracle", inputs, outputs, constants)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(domain, opset)], ir_version=10
    )


def _tensor(name: str, array: np.ndarray) -> TensorProto:
    return helper.make_tensor(
        name, onnx_type(array.dtype), array.shape, np.ascontiguousarray(array).tobytes(), raw=True
    )
