"""Variants of templates: attributes left out or changed, and other values of constants that decide.

The node tests of the onnx package state most attributes, so that a wrong default does not show, leave
some at their default, and have mild constants.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import onnx
from onnx import helper
from onnx.defs import OpSchema

Kind = OpSchema.AttrType
# Attributes without which a node means another type, or nothing that can be compared.
NOT_CHANGED = {
    "seed",
    "dtype",
    "to",
    "saturate",
    "layout",
    "activations",
    "direction",
    "value",
    "stash_type",
    "sorted",
}
# Counts, of which there is no other one that all shapes fit.
COUNTS = {
    "group",
    "num_groups",
    "output_height",
    "output_width",
    "block_size",
    "rotary_embedding_dim",
}
# Inputs whose integers may be negative, and those that may lie far outside.
SIGNED = {"axes", "starts", "ends", "steps", "pads", "axis", "limit", "delta", "start"}
FAR = {"starts": 2**31 - 1, "ends": -(2**31) - 1}


def of(templates: dict[str, Any]) -> dict[str, Any]:
    """By name: `Op/test~no_axis`, `Op/test~keepdims=0`, `Op/test~starts=negated`."""
    by_operator: dict[str, list[str]] = {}
    for name, template in templates.items():
        has_graph = any(a.HasField("g") for a in template.node.attribute)
        if not has_graph and not template.node.domain:
            by_operator.setdefault(template.operator, []).append(name)
    found = {}
    for names in by_operator.values():
        for way in (_left_out, _changed, _constants):
            found.update(way({name: templates[name] for name in names}))
    return found


@functools.cache
def _schema(operator: str, version: int, domain: str) -> OpSchema:
    return onnx.defs.get_schema(operator, version, domain)


def _schema_of(template: Any) -> OpSchema:
    return _schema(template.operator, template.version, template.node.domain)


def _names(template: Any) -> set[str]:
    return {a.name for a in template.node.attribute}


def _with(template: Any, name: str, value: Any = None) -> Any:
    """The template without an attribute, or with another value of it."""
    node = onnx.NodeProto()
    node.CopyFrom(template.node)
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    if value is not None:
        node.attribute.append(helper.make_attribute(name, value))
    return template._replace(node=node)


def _left_out(templates: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each attribute that every template states, left out once."""
    stated = set.intersection(*(_names(t) for t in templates.values()))
    for attribute in sorted(stated - NOT_CHANGED):
        name, template = next(iter(templates.items()))
        schema = _schema_of(template)
        if attribute in schema.attributes and not schema.attributes[attribute].required:
            yield f"{name}~no_{attribute}", _with(template, attribute)


def _changed(templates: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each attribute that no template states, or that all state alike, with another value."""
    name, template = next(iter(templates.items()))
    for attribute, formal in sorted(_schema_of(template).attributes.items()):
        given = {
            str(helper.get_attribute_value(a))
            for t in templates.values()
            for a in t.node.attribute
            if a.name == attribute
        }
        default = formal.default_value
        if attribute in NOT_CHANGED | COUNTS or len(given) > 1 or not default.name:
            continue
        usual = helper.get_attribute_value(default)
        if formal.type == Kind.INT and usual in (0, 1) and "axis" not in attribute:
            value: Any = 1 - usual
        elif formal.type == Kind.FLOAT:
            value = 0.75 * usual if usual else 0.3
        else:
            continue
        if str(value) not in given:
            yield f"{name}~{attribute}={value:.4g}", _with(template, attribute, value)


def _constants(templates: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Integers that decide, with the other sign, and beyond the ends."""
    for name, template in list(templates.items())[:3]:
        for i, given in enumerate(template.inputs):
            if given is None or "v" not in given or not given["t"].startswith("int"):
                continue
            formal = template.formal(i).name
            if formal in SIGNED and any(given["v"]):
                negated = [-v for v in given["v"]]
                yield f"{name}~{formal}=negated", _with_input(template, i, negated)
            if formal in FAR:
                yield (
                    f"{name}~{formal}=far",
                    _with_input(template, i, [FAR[formal]] * len(given["v"])),
                )
        reverse = _reversed(template)
        if reverse is not None:
            yield f"{name}~reversed", reverse


def _with_input(template: Any, i: int, values: list[int]) -> Any:
    inputs = list(template.inputs)
    inputs[i] = inputs[i] | {"v": values}
    return template._replace(inputs=inputs)


def _reversed(template: Any) -> Any:
    """A slice from the last element to before the first."""
    places = {template.formal(i).name: i for i, v in enumerate(template.inputs) if v is not None}
    if not {"starts", "ends", "steps"} <= places.keys():
        return None
    for formal, value in (("starts", -1), ("ends", -(2**31) - 1), ("steps", -1)):
        i = places[formal]
        template = _with_input(template, i, [value] * len(template.inputs[i]["v"]))
    return template
