"""Writes ONNX files and .npy files byte by byte, including invalid ones.

The onnx package would refuse much of what the corpus needs. Field numbers are those of
onnx.proto.
"""

import struct

FLOAT, UINT8, INT8, INT32, INT64, STRING, BOOL, DOUBLE = 1, 2, 3, 6, 7, 8, 9, 11
UINT4, INT4 = 21, 22


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def real(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def longs(*values):
    return struct.pack(f"<{len(values)}q", *values)


def tensor(name, dtype, dims, raw=None, more=b""):
    out = b"".join(number(1, d) for d in dims) + number(2, dtype) + data(8, name)
    return out + (data(9, raw) if raw is not None else b"") + more


def external(name, dims, entries, dtype=FLOAT):
    """A tensor whose bytes are in another file; entries are (key, value)."""
    pairs = b"".join(data(13, data(1, k) + data(2, v)) for k, v in entries)
    return tensor(name, dtype, dims, None, pairs + number(14, 1))


def attribute(name, value):
    if isinstance(value, float):
        return data(1, name) + real(2, value) + number(20, 1)
    if isinstance(value, int):
        return data(1, name) + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return data(1, name) + data(4, value) + number(20, 3)
    if value and isinstance(value[0], float):
        return data(1, name) + b"".join(real(7, v) for v in value) + number(20, 6)
    return data(1, name) + b"".join(number(8, v) for v in value) + number(20, 7)


def tensor_attribute(name, body):
    return data(1, name) + data(5, body) + number(20, 4)


def graph_attribute(name, body):
    return data(1, name) + data(6, body) + number(20, 5)


def reference_attribute(name, of_function):
    """A graph that the function's caller passes in its attribute `of_function`."""
    return data(1, name) + number(20, 5) + data(21, of_function)


def node(op, inputs, outputs, attributes=(), name=None, domain=None, **simple):
    out = b"".join(data(1, i) for i in inputs) + b"".join(data(2, o) for o in outputs)
    out += data(3, name if name is not None else f"n_{outputs[0] if outputs else op}") + data(4, op)
    out += b"".join(data(5, a) for a in attributes)
    out += b"".join(data(5, attribute(k, v)) for k, v in simple.items())
    return out + (data(7, domain) if domain is not None else b"")


def value(name, dims, dtype=FLOAT):
    shape = b""
    for dim in dims:
        shape += data(1, data(2, dim) if isinstance(dim, (str, bytes)) else number(1, dim))
    return data(1, name) + data(2, data(1, number(1, dtype) + data(2, shape)))


def graph(nodes, inputs, outputs, initializers=(), sparse=(), name="g"):
    return (
        b"".join(data(1, n) for n in nodes)
        + data(2, name)
        + b"".join(data(5, t) for t in initializers)
        + b"".join(data(11, v) for v in inputs)
        + b"".join(data(12, v) for v in outputs)
        + b"".join(data(15, s) for s in sparse)
    )


def opset(version=17, domain=None):
    return (data(1, domain) if domain is not None else b"") + number(2, version)


def model(body, opsets=None, ir_version=8, functions=(), more=b""):
    out = number(1, ir_version) if ir_version is not None else b""
    out += b"".join(data(8, o) for o in (opsets or [opset()])) + data(2, "hostile")
    if body is not None:
        out += data(7, body)
    return out + b"".join(data(25, f) for f in functions) + more


def function(name, inputs, outputs, nodes, domain="own"):
    return (
        data(1, name)
        + b"".join(data(4, i) for i in inputs)
        + b"".join(data(5, o) for o in outputs)
        + b"".join(data(7, n) for n in nodes)
        + data(9, opset())
        + data(9, opset(1, domain))
        + data(10, domain)
    )


def simple(nodes, initializers=(), inputs=None, outputs=None, **rest):
    """A model from x f32 [2, 3] to y of unknown rank, as most cases need it."""
    inputs = [value("x", [2, 3])] if inputs is None else inputs
    outputs = [data(1, "y") + data(2, data(1, number(1, FLOAT)))] if outputs is None else outputs
    return model(graph(nodes, inputs, outputs, initializers), **rest)


def typed(name, dtype=FLOAT):
    """A graph output of a given element type and no shape."""
    return data(1, name) + data(2, data(1, number(1, dtype)))


def npy(header, body=b"", version=(1, 0), magic=b"\x93NUMPY", length=None, align=64):
    header = header.encode("utf-8") if isinstance(header, str) else header
    width = 2 if version[0] == 1 else 4
    if align:
        pad = -(len(magic) + 2 + width + len(header) + 1) % align
        header += b" " * pad
    header += b"\n"
    length = len(header) if length is None else length
    return magic + bytes(version) + length.to_bytes(width, "little") + header + body


def array(descr, shape, body, fortran=False, **rest):
    dims = "(" + "".join(f"{d}, " for d in shape) + ")"
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {dims}, }}"
    return npy(header, body, **rest)
