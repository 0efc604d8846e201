"""The functions of ours that compute torch's operators, by kind. Importing this fills the table."""

from __future__ import annotations

from ..graph.table import find, overloads
from . import (  # noqa: F401
    attention,
    bags,
    collectives,
    complex,
    control,
    convolution,
    index,
    linalg,
    linear,
    masks,
    nn,
    pointwise,
    pool,
    quantised,
    random,
    reduce,
    resize,
    scatter,
    shape,
    sort,
    training,
)

__all__ = ["find", "overloads"]
