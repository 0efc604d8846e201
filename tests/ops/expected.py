"""What the files of cases/ share: calls with results as text, random operands, and meanings.

A file of cases/ is about one file of plugins/ops. It may have

    def cases(random):           # yields calls
        x = random.floats(2, 3)
        yield call("softmax", [x], scipy.special.softmax(x, 1), dim=1)

    MEANINGS = {                 # of its element-wise ops: see meaning()
        "relu": meaning(floats=lambda x: np.maximum(x, 0), cpp="x < 0 ? 0 : x"),
    }

`random` is seeded by the file's name. Nothing here may look at Tenon's own code.
"""

import collections
import functools
import importlib.util
import pathlib
import sys
import zlib

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent / "cases"
NAMES = {
    np.dtype(t): n
    for t, n in [
        (np.bool_, "pred"),
        (np.int8, "i8"),
        (np.int16, "i16"),
        (np.int32, "i32"),
        (np.int64, "i64"),
        (np.uint8, "u8"),
        (np.uint16, "u16"),
        (np.uint32, "u32"),
        (np.uint64, "u64"),
        (np.float16, "f16"),
        (np.float32, "f32"),
        (np.float64, "f64"),
        (np.complex64, "c64"),
        (np.complex128, "c128"),
    ]
}


class Raw(str):
    """An attribute that is written without quotes: an element type."""


def number(v):
    if isinstance(v, (bool, np.bool_)):
        return "1" if v else "0"
    if isinstance(v, (np.integer, int)):
        return str(int(v))
    if isinstance(v, (np.complex64, np.complex128)):
        return f"({number(v.real)}, {number(v.imag)})"
    if np.isnan(v):
        return "nan"
    if np.isinf(v):
        return "inf" if v > 0 else "-inf"
    return (
        np.format_float_scientific(v, unique=True)
        if v != 0 and not 1e-4 <= abs(float(v)) < 1e7
        else np.format_float_positional(v, unique=True, trim="0")
    )


def literal(a):
    a = np.asarray(a)
    if a.size == 0:
        return "[]"
    if a.ndim == 0:
        return number(a[()])
    return "[" + ", ".join(literal(x) for x in a) + "]"


def typed(a):
    a = np.asarray(a)
    return f"{NAMES[a.dtype]}[{', '.join(map(str, a.shape))}] {literal(a)}"


def attribute(v):
    if isinstance(v, Raw):
        return str(v)
    if isinstance(v, str):
        return f'"{v}"'
    if isinstance(v, (list, tuple)):
        return "[" + ", ".join(attribute(x) for x in v) + "]"
    if isinstance(v, float):
        return number(v)
    return str(int(v))


def call(op, operands, results, *regions, **attrs):
    """A call with its results (an array, or a tuple of arrays) as a line in the expression form of
    .tir. Element types are those of the arrays. Regions are text."""
    results = results if isinstance(results, tuple) else (results,)
    text = f"{op}({', '.join(typed(o) for o in operands)})"
    if attrs:
        text += " {" + ", ".join(f"{k} = {attribute(v)}" for k, v in attrs.items()) + "}"
    for region in regions:
        text += " regions { " + region + " }"
    return text + " -> " + ", ".join(typed(r) for r in results)


def through_onnx(op, inputs, opset=20, outputs=1, **attrs):
    """One ONNX node, run by ONNX's own reference implementation."""
    import onnx
    import onnx.helper
    import onnx.reference

    names = [f"x{i}" for i in range(len(inputs))]
    outs = [f"y{i}" for i in range(outputs)]
    node = onnx.helper.make_node(
        op, [n if a is not None else "" for n, a in zip(names, inputs)], outs, **attrs
    )
    values = [
        onnx.helper.make_tensor_value_info(
            n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
        )
        for n, a in zip(names, inputs)
        if a is not None
    ]
    graph = onnx.helper.make_graph(
        [node],
        "g",
        values,
        [onnx.helper.make_tensor_value_info(o, onnx.TensorProto.UNDEFINED, None) for o in outs],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    found = onnx.reference.ReferenceEvaluator(model).run(
        None, {n: a for n, a in zip(names, inputs) if a is not None}
    )
    return found[0] if outputs == 1 else tuple(found)


class Random:
    """Random operands. The generator depends on the seed alone."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def floats(self, *shape, low=-3.0, high=3.0, dtype=np.float32):
        return (self.generator.random(shape) * (high - low) + low).astype(dtype)

    def ints(self, *shape, low=-9, high=10, dtype=np.int32):
        return self.generator.integers(low, high, shape).astype(dtype)


# ---- Files of cases/ -----------------------------------------------------------------------------

Meaning = collections.namedtuple("Meaning", "floats integers predicates attributes cpp")


def meaning(floats=None, integers=None, predicates=None, attributes=({},), cpp=None):
    """The exact meaning of an element-wise op, for tests/ops/meanings. Operands come first, then
    attributes in the op's order.

    floats      of arrays of long doubles
    integers    of a type's name and Python's integers, one element at a time; the result wraps
    predicates  of arrays of bool
    attributes  the values of attributes to test
    cpp         C++ that gives the meaning for `double x` with the defaults of attributes, for
                tests/ops/every_f32: a literal, since the build reads it without running the file
    """
    return Meaning(floats, integers, predicates, list(attributes), cpp)


def files():
    return sorted(FOLDER.glob("*.py"))


def load(path):
    spec = importlib.util.spec_from_file_location(f"cases_of_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines_of(module, name):
    """The calls of a file of cases/ with its own generator, so that files do not disturb each other."""
    random = Random(zlib.crc32(name.encode()))
    with np.errstate(all="ignore"):
        return list(module.cases(random)) if hasattr(module, "cases") else []


@functools.cache
def meanings():
    """Op -> its meaning, and the files that could not be imported here, each with the reason."""
    found, left_out = {}, {}
    for path in files():
        try:
            found.update(getattr(load(path), "MEANINGS", {}))
        except ModuleNotFoundError as error:
            left_out[path.name] = str(error)
    return found, left_out


def no_meaning(op, what):
    """The sentence for an op without a meaning."""
    _, left_out = meanings()
    also = "".join(f"; {name} was not read: {why}" for name, why in left_out.items())
    return f"{op} has no {what}: add what is missing to MEANINGS of a file in tests/ops/cases (tests/ops/README.md){also}"


# The files of cases/ import this module by its name.
sys.path.append(str(pathlib.Path(__file__).resolve().parent))
