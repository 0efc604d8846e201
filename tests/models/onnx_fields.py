#!/usr/bin/env python3
"""A model for each field of ONNX's messages that is refused: the frontend's list of fields says
which. The list itself is compared with the onnx package and with the parser.

    python3 tests/models/onnx_fields.py --tenon build/bin/tenon
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "frontends" / "onnx"))
import fields  # noqa: E402


def plain():
    """y = x + w, which is taken as it is."""
    x, y = (helper.make_tensor_value_info(k, TensorProto.FLOAT, [2]) for k in "xy")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [x],
        [y],
        [helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def sparse():
    values, indices = (
        helper.make_tensor("w", TensorProto.FLOAT, [1], [1]),
        helper.make_tensor("i", TensorProto.INT64, [1], [0]),
    )
    return helper.make_sparse_tensor(values, indices, [2])


def constant(kind, fill):
    """The constant w by an attribute of this kind."""

    def change(made):
        del made.graph.initializer[:]
        attribute = onnx.AttributeProto(name="value", type=kind)
        fill(attribute)
        made.graph.node.insert(
            0, onnx.NodeProto(op_type="Constant", output=["w"], attribute=[attribute])
        )

    return change


def input_type(fill):
    def change(made):
        made.graph.input[0].ClearField("type")
        fill(made.graph.input[0].type)

    return change


def strings(made):
    del made.graph.initializer[:]
    made.graph.initializer.append(
        onnx.TensorProto(name="w", data_type=TensorProto.STRING, dims=[2], string_data=[b"a", b"b"])
    )


def segment(made):
    made.graph.initializer[0].segment.CopyFrom(onnx.TensorProto.Segment(begin=0, end=1))


def sparse_initializer(made):
    del made.graph.initializer[:]
    made.graph.sparse_initializer.append(sparse())


def tensor_type(type_proto):
    type_proto.tensor_type.elem_type = TensorProto.FLOAT


KINDS = onnx.AttributeProto
CASES = {
    "GraphProto.sparse_initializer": sparse_initializer,
    "AttributeProto.sparse_tensor": constant(
        KINDS.SPARSE_TENSOR, lambda a: a.sparse_tensor.CopyFrom(sparse())
    ),
    "AttributeProto.sparse_tensors": constant(
        KINDS.SPARSE_TENSORS, lambda a: a.sparse_tensors.append(sparse())
    ),
    "AttributeProto.tensors": constant(
        KINDS.TENSORS,
        lambda a: a.tensors.append(helper.make_tensor("t", TensorProto.FLOAT, [2], [1, 2])),
    ),
    "AttributeProto.tp": constant(KINDS.TYPE_PROTO, lambda a: tensor_type(a.tp)),
    "AttributeProto.type_protos": constant(
        KINDS.TYPE_PROTOS, lambda a: tensor_type(a.type_protos.add())
    ),
    "TensorProto.segment": segment,
    "TensorProto.string_data": strings,
    "TypeProto.sequence_type": input_type(lambda t: tensor_type(t.sequence_type.elem_type)),
    "TypeProto.map_type": input_type(
        lambda t: (
            setattr(t.map_type, "key_type", TensorProto.INT64),
            tensor_type(t.map_type.value_type),
        )
    ),
    "TypeProto.optional_type": input_type(lambda t: tensor_type(t.optional_type.elem_type)),
    "TypeProto.sparse_tensor_type": input_type(
        lambda t: setattr(t.sparse_tensor_type, "elem_type", TensorProto.FLOAT)
    ),
    "TypeProto.opaque_type": input_type(lambda t: setattr(t.opaque_type, "name", "thing")),
}


def run(tenon, made):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        path.write_bytes(made.SerializeToString())
        return subprocess.run(
            [tenon, "run", str(path), "--seed", "1", "--device", "reference"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    options = parser.parse_args()
    failed = fields.main()
    for name in sorted(fields.refused() ^ CASES.keys()):
        print(
            f"FAIL {name}: {'there is no model for it' if name in fields.refused() else 'it is not in the list of refused fields'}"
        )
        failed = 1
    for name, change in [("nothing", None), *CASES.items()]:
        made = plain()
        if change is not None:
            change(made)
        done = run(options.tenon, made)
        wanted = 0 if change is None else 2
        text = (
            ""
            if done.returncode == wanted and (change is None or "T07" in done.stderr)
            else f"status {done.returncode}: {done.stderr[:300]}"
        )
        print(f"{'FAIL' if text else 'ok  '} {name}{': ' if text else ''}{text}")
        failed |= bool(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
