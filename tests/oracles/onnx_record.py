"""Writes `onnx_calls.jsonl`: nodes of ONNX operators as templates, from the node tests of the onnx package.

    .venv/bin/python tests/oracles/onnx_record.py > tests/oracles/onnx_calls.jsonl

A line has the name of the test, the version of the operator's domain, the node, and its inputs: type,
shape, range, and the values of small ones. `D` is the type that the operator leaves open, an axis of the check.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import onnx
from google.protobuf import json_format

PER_OPERATOR = 24
LITERAL = 48
MOST_ELEMENTS = 5000


def primary(node: onnx.NodeProto, version: int, arrays: list[Any]) -> str:
    """The type variable whose type is an axis: of the first input that may have many types."""
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for i, array in enumerate(arrays):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        if (
            array is not None
            and len(allowed.get(formal.type_str, ())) > 1
            and array.dtype.kind in "fiub"
        ):
            return formal.type_str
    return ""


def variables(node: onnx.NodeProto, version: int, count: int) -> list[str]:
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    return [schema.inputs[min(i, len(schema.inputs) - 1)].type_str for i in range(count)]


def spec(array: np.ndarray, is_open: bool, is_first: bool) -> dict[str, Any]:
    out: dict[str, Any] = {"t": "D" if is_open else str(array.dtype), "s": list(array.shape)}
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size:
        whole = array.dtype.kind in "iub"
        out["r"] = [int(v) if whole else float(f"{v:.4g}") for v in (finite.min(), finite.max())]
    if array.size <= LITERAL and not (is_open and is_first):
        out["v"] = (
            [v.item() for v in array.reshape(-1)]
            if array.dtype.kind in "fiub"
            else [float(v) for v in wide.reshape(-1)]
        )
    return out


def line_of(case: Any) -> tuple[str, str] | None:
    graph = case.model.graph
    if len(graph.node) != 1 or "_expanded" in case.name:
        return None
    node, version = (
        graph.node[0],
        {o.domain: o.version for o in case.model.opset_import}.get(graph.node[0].domain, 0),
    )
    given, results = case.data_sets[0]
    if any(isinstance(v, (list, dict)) or v is None for v in [*given, *results]):
        return None
    named = {
        info.name: np.asarray(
            onnx.numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v
        )
        for info, v in zip(graph.input, given)
    }
    arrays = [named.get(name) for name in node.input]
    if any(a is not None and (a.dtype.kind in "OUSc" or a.size > MOST_ELEMENTS) for a in arrays):
        return None
    if any(a is None and name for a, name in zip(arrays, node.input)) or any(
        np.asarray(r).dtype.kind in "OUSc" for r in results
    ):
        return None
    chosen, names = primary(node, version, arrays), variables(node, version, len(arrays))
    first = next((a.dtype for a, v in zip(arrays, names) if a is not None and v == chosen), None)
    inputs = [
        None if a is None else spec(a, v == chosen and a.dtype == first, i == 0)
        for i, (a, v) in enumerate(zip(arrays, names))
    ]
    written = json_format.MessageToDict(node)
    form = json.dumps(
        [written.get("attribute"), [None if i is None else (i["t"], len(i["s"])) for i in inputs]]
        + [i.get("v") for i in inputs if i is not None and i["t"] == "int64"],
        sort_keys=True,
    )
    return f"{node.op_type} {form}", json.dumps([case.name, version, written, inputs, str(first)])


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    by_operator: dict[str, dict[str, str]] = {}
    for case in cases:
        made = line_of(case)
        if made:
            by_operator.setdefault(case.model.graph.node[0].op_type, {}).setdefault(*made)
    for operator in sorted(by_operator):
        lines = list(by_operator[operator].values())
        step = max(1, -(-len(lines) // PER_OPERATOR))
        print("\n".join(lines[::step]))


if __name__ == "__main__":
    main()
