"""Which fields of ONNX's protobuf messages are read, refused, or of no meaning for a run.

    fields.py       compares the table with the messages of the onnx package and with parse.cpp

Each field of each message has a line. A field that is read has a case in the parser; a refused one
has a model in tests/models/onnx_fields.py, which is refused with an error. "none" is followed by
the reason why a model means the same without the field.
"""

import pathlib
import re
import sys

import onnx

HERE = pathlib.Path(__file__).resolve().parent
READ, REFUSED = "read", "refused"
WORDS = "none: a text for people"
HINT = "none: what nodes give says it, and is what holds"
PLACES = "none: it places nodes on several devices, and results are the same on one"
TRAINING = "none: it says how to train the model, and a run is inference"
WITHIN = "refused"  # by the field that holds the message

FIELDS = {
    "ModelProto": {
        "ir_version": READ,
        "opset_import": READ,
        "producer_name": WORDS,
        "producer_version": WORDS,
        "domain": WORDS,
        "model_version": WORDS,
        "doc_string": WORDS,
        "graph": READ,
        "metadata_props": WORDS,
        "training_info": TRAINING,
        "functions": READ,
        "configuration": PLACES,
    },
    "GraphProto": {
        "node": READ,
        "name": READ,
        "initializer": READ,
        "sparse_initializer": REFUSED,
        "doc_string": WORDS,
        "input": READ,
        "output": READ,
        "value_info": HINT,
        "quantization_annotation": "none: nodes of the graph quantise and dequantise; it repeats their scales for tools",
        "metadata_props": WORDS,
    },
    "NodeProto": {
        "input": READ,
        "output": READ,
        "name": READ,
        "op_type": READ,
        "domain": READ,
        "overload": READ,
        "attribute": READ,
        "doc_string": WORDS,
        "metadata_props": WORDS,
        "device_configurations": PLACES,
    },
    "AttributeProto": {
        "name": READ,
        "ref_attr_name": READ,
        "doc_string": WORDS,
        "type": READ,
        "f": READ,
        "i": READ,
        "s": READ,
        "t": READ,
        "g": READ,
        "sparse_tensor": REFUSED,
        "tp": REFUSED,
        "floats": READ,
        "ints": READ,
        "strings": READ,
        "tensors": REFUSED,
        "graphs": READ,
        "sparse_tensors": REFUSED,
        "type_protos": REFUSED,
    },
    "FunctionProto": {
        "name": READ,
        "input": READ,
        "output": READ,
        "attribute": READ,
        "attribute_proto": READ,
        "node": READ,
        "doc_string": WORDS,
        "opset_import": READ,
        "domain": READ,
        "overload": READ,
        "value_info": HINT,
        "metadata_props": WORDS,
    },
    "TensorProto": {
        "dims": READ,
        "data_type": READ,
        "segment": REFUSED,
        "float_data": READ,
        "int32_data": READ,
        "string_data": REFUSED,
        "int64_data": READ,
        "name": READ,
        "doc_string": WORDS,
        "raw_data": READ,
        "external_data": READ,
        "data_location": READ,
        "double_data": READ,
        "uint64_data": READ,
        "metadata_props": WORDS,
    },
    "StringStringEntryProto": {"key": READ, "value": READ},  # of external_data
    "ValueInfoProto": {"name": READ, "type": READ, "doc_string": WORDS, "metadata_props": WORDS},
    "TypeProto": {
        "tensor_type": READ,
        "sequence_type": REFUSED,
        "map_type": REFUSED,
        "optional_type": REFUSED,
        "sparse_tensor_type": REFUSED,
        "opaque_type": REFUSED,
        "denotation": WORDS,
    },
    "TypeProto.Tensor": {"elem_type": READ, "shape": READ},
    "TensorShapeProto": {"dim": READ},
    "TensorShapeProto.Dimension": {"dim_value": READ, "dim_param": READ, "denotation": WORDS},
    "OperatorSetIdProto": {"domain": READ, "version": READ},
    # Messages that only fields above hold which are not read.
    "TensorProto.Segment": {"begin": WITHIN, "end": WITHIN},
    "SparseTensorProto": {"values": WITHIN, "indices": WITHIN, "dims": WITHIN},
    "TypeProto.Sequence": {"elem_type": WITHIN},
    "TypeProto.Map": {"key_type": WITHIN, "value_type": WITHIN},
    "TypeProto.Optional": {"elem_type": WITHIN},
    "TypeProto.SparseTensor": {"elem_type": WITHIN, "shape": WITHIN},
    "TypeProto.Opaque": {"domain": WITHIN, "name": WITHIN},
    "TensorAnnotation": {"tensor_name": HINT, "quant_parameter_tensor_names": HINT},
    "TrainingInfoProto": {
        "initialization": TRAINING,
        "algorithm": TRAINING,
        "initialization_binding": TRAINING,
        "update_binding": TRAINING,
    },
    "DeviceConfigurationProto": {"name": PLACES, "num_devices": PLACES, "device": PLACES},
    "NodeDeviceConfigurationProto": {
        "configuration_id": PLACES,
        "sharding_spec": PLACES,
        "pipeline_stage": PLACES,
    },
    "ShardingSpecProto": {
        "tensor_name": PLACES,
        "device": PLACES,
        "index_to_device_group_map": PLACES,
        "sharded_dim": PLACES,
    },
    "ShardedDimProto": {"axis": PLACES, "simple_sharding": PLACES},
    "SimpleShardedDimProto": {"dim_value": PLACES, "dim_param": PLACES, "num_shards": PLACES},
    "IntIntListEntryProto": {"key": PLACES, "value": PLACES},
}
# The functions of parse.cpp that read a message.
PARSERS = {
    "model": ["ModelProto"],
    "opset": ["OperatorSetIdProto"],
    "graph": ["GraphProto"],
    "node": ["NodeProto"],
    "attribute": ["AttributeProto"],
    "tensor": ["TensorProto"],
    "entry": ["StringStringEntryProto"],
    "value": ["ValueInfoProto"],
    "type": ["TypeProto", "TypeProto.Tensor"],
    "shape": ["TensorShapeProto", "TensorShapeProto.Dimension"],
    "function": ["FunctionProto"],
}
# Refused by what reads them, and so they have a case.
NOTED = {"GraphProto.sparse_initializer", "TensorProto.segment", "TensorProto.string_data"}


def messages():
    """{"TypeProto.Tensor": {field: number}} of the onnx package."""
    found, open_ = {}, list(onnx.ModelProto.DESCRIPTOR.file.message_types_by_name.values())
    while open_:
        message = open_.pop()
        open_ += message.nested_types
        found[message.full_name.removeprefix("onnx.")] = {f.name: f.number for f in message.fields}
    return found


def refused():
    """The refused fields of messages that are read."""
    read = {m for names in PARSERS.values() for m in names}
    return {f"{m}.{f}" for m in read for f, said in FIELDS[m].items() if said == REFUSED}


def cases():
    """{function: numbers of the fields that it has a case for}, from parse.cpp."""
    text = (HERE / "reader/parse.cpp").read_text()
    starts = [
        (m.group(1), m.start())
        for m in re.finditer(r"^  void (\w+)\((?:pbf_reader \w|Text message), ", text, re.M)
    ]
    ends = [at for _, at in starts[1:]] + [len(text)]
    number = re.compile(r"\b(?:number|bytes|word)\((\d+)\)|tag_and_type\((\d+),")
    return {
        name: {int(a or b) for a, b in number.findall(text[at:end])}
        for (name, at), end in zip(starts, ends)
    }


def main():
    wrong = []
    known = messages()
    for message in sorted(known.keys() | FIELDS.keys()):
        theirs, ours = known.get(message, {}), FIELDS.get(message, {})
        wrong += [f"{message}.{f} has no line" for f in sorted(theirs.keys() - ours.keys())]
        wrong += [
            f"{message}.{f} is not a field of the onnx package's"
            for f in sorted(ours.keys() - theirs.keys())
        ]
    for function, read in cases().items():
        if function not in PARSERS:
            continue
        wanted = {
            known[m][f]
            for m in PARSERS[function]
            for f, said in FIELDS[m].items()
            if f in known.get(m, {}) and (said == READ or f"{m}.{f}" in NOTED)
        }
        if wanted != read:
            wrong.append(
                f"parse.cpp reads the fields {sorted(read)} in {function}(), the table says {sorted(wanted)}"
            )
    if missing := PARSERS.keys() - cases().keys():
        wrong.append(f"parse.cpp has no function {sorted(missing)}")
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
