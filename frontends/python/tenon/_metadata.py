"""What the file of a model says of itself: the fields of an ONNX file outside of its graph.

Only lengths of the graph are read, so that a file of gigabytes costs as much as a small one.
"""

from __future__ import annotations

import os

from tenon import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5  # kinds of fields in a protobuf
_GRAPH = 7
_TEXTS = {2: "producer", 3: "producer_version", 4: "domain", 6: "description"}
_NUMBERS = {1: "ir_version", 5: "version"}
_OPSET, _PROPERTY = 8, 14


def metadata_of(path: str) -> dict[str, Any]:
    """What a file says of itself. Empty where there is no file (any more)."""
    kind = os.path.splitext(path)[1].lstrip(".")
    if not path or not os.path.exists(path):
        return {}
    if kind == "tpk":
        import json

        return {"format": kind, **json.loads(_native.describe_package(path))}
    if kind != "onnx":
        return {"format": kind}
    with open(path, "rb") as file:
        return {"format": kind, **_of_onnx(file, os.path.getsize(path))}


def _of_onnx(file: BinaryIO, size: int) -> dict[str, Any]:
    found: dict[str, Any] = {"opsets": {}, "properties": {}}
    for field, value in _fields(file, size, skip=_GRAPH):
        if field in _TEXTS and isinstance(value, bytes):
            found[_TEXTS[field]] = value.decode(errors="replace")
        elif field in _NUMBERS:
            found[_NUMBERS[field]] = value
        elif field in (_OPSET, _PROPERTY) and isinstance(value, bytes):
            key, content = _pair(value)
            found["opsets" if field == _OPSET else "properties"][key] = content
    return found


def _pair(message: bytes) -> tuple[str, Any]:
    """A message of a text in field 1 and a text or a number in field 2."""
    import io

    parts = dict(_fields(io.BytesIO(message), len(message)))
    key, value = parts.get(1, b""), parts.get(2, b"")
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return key.decode(errors="replace") if isinstance(key, bytes) else str(key), text


def _fields(file: BinaryIO, size: int, skip: int = 0) -> Iterator[tuple[int, int | bytes]]:
    """Fields and their values up to the end, or to a part that cannot be read: the file was loaded already."""
    while file.tell() < size:
        tag = _varint(file)
        field, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            yield field, _varint(file)
        elif kind == _LENGTH:
            length = _varint(file)
            if field == skip:
                file.seek(length, os.SEEK_CUR)
            else:
                yield field, file.read(length)
        elif kind in (_FIXED32, _FIXED64):
            file.seek(4 if kind == _FIXED32 else 8, os.SEEK_CUR)
        else:
            return


def _varint(file: BinaryIO) -> int:
    value = shift = 0
    while byte := file.read(1):
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            break
    return value
