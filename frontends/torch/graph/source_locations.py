"""Where a node of torch's graph comes from: a line of the user's program, and a module of the network."""

from __future__ import annotations

import functools
import os
import re

import torch
from torch import fx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MODULES = "tenon_modules"
"""The key of a node's data that has its modules in graphs from the cache."""

# Folders whose lines are not the user's.
_LIBRARIES = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep,
)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def line_of(node: fx.Node) -> tuple[str, int] | None:
    """File and line of the innermost call, which torch notes without its own; backward nodes have their forward's."""
    return _last(node.meta.get("stack_trace") or "")


def place_of(node: fx.Node) -> str:
    """The line of the user's program that a node comes from; where torch gives none, as for layers of a
    Sequential that is compiled itself, the module's path."""
    line = line_of(node)
    return text_of(line) if line is not None else _module_text(node) or text_of(None)


def line_of_user(node: fx.Node) -> tuple[str, int] | None:
    """The innermost line of a node that is in neither torch nor Tenon."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    return of_user((path, int(line)) for path, line in frames)


def place_of_user(node: fx.Node) -> str:
    return text_of(line_of_user(node))


def _module_text(node: fx.Node) -> str:
    path = ".".join(modules_of(node))
    return f"module {path or _class_of(node)}" if path or _class_of(node) else ""


def _class_of(node: fx.Node) -> str:
    """The class of the network, where it is a single layer."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    kind = stack[-1][1] if stack and isinstance(stack[-1], (tuple, list)) else ""
    return getattr(kind, "__name__", str(kind).rpartition(".")[2])


@functools.lru_cache(4096)
def _last(trace: str) -> tuple[str, int] | None:
    frames = _FRAME.findall(trace)
    return (frames[-1][0], int(frames[-1][1])) if frames else None


def modules_of(node: fx.Node) -> list[str]:
    """The modules around a node, the outermost first, each as it is called in the one around it."""
    if MODULES in node.meta:
        return list(node.meta[MODULES])
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    names: list[str] = []
    outer = ""
    for entry in stack.values():
        path = _path(entry[0] if isinstance(entry, (tuple, list)) else str(entry))
        inner = path.removeprefix(outer + ".") if outer else path
        if inner and path != outer:
            names += inner.split(".")
        outer = path or outer
    return names


@functools.lru_cache(4096)
def _path(text: str) -> str:
    """ "L['self']._modules['layers']._modules['0'].attn" as "layers.0.attn"."""
    text = re.sub(r"^L\['\w+'\]", "", text)
    text = re.sub(r"\.?_modules(?=\[|\.|$)", "", text)
    text = re.sub(r"\[['\"]?([^\]'\"]+)['\"]?\]", r".\1", text)
    return text.strip(".")


def name_of(node: fx.Node) -> str:
    """A node with its modules, as pages group them: "/layers/0/attn/addmm_1"."""
    return "".join(f"/{part}" for part in (*modules_of(node), node.name))


def text_of(place: tuple[str, int] | None) -> str:
    """ "net.py:12", with the folder left out where it is the current one."""
    if place is None:
        return "nowhere in the program"
    path, line = place
    here = os.getcwd() + os.sep
    return f"{path.removeprefix(here)}:{line}"


def first_line(nodes: Iterable[Any]) -> str:
    """The first line of the program that a graph has nodes of; else its first module's path."""
    listed = [node for node in nodes if node.op.startswith("call_")]
    for node in listed:
        place = line_of(node)
        if place is not None:
            return text_of(place)
    return next((text for node in listed if (text := _module_text(node))), text_of(None))


def of_user(frames: Iterable[tuple[str, int]]) -> tuple[str, int] | None:
    """The innermost of some frames that is in neither torch nor Tenon; the innermost one if all are."""
    listed = list(frames)
    own = [frame for frame in listed if not frame[0].startswith(_LIBRARIES)]
    usable = own or listed
    return usable[-1] if usable else None
