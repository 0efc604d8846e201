"""Tenon: loads, compiles and runs models.

    import numpy as np
    import tenon

    model = tenon.load("model.onnx")
    y = model(np.zeros((1, 64), np.float32))["logits"]

A model is called with arrays of NumPy or torch, or of any library with DLPack or the buffer
protocol, and gives arrays of the same kind, without a copy where the layout allows it. Importing
this module starts nothing; the first use finds the plugins.
"""

from tenon._errors import (
    Cancelled,
    DataError,
    DeviceError,
    Error,
    NotFoundError,
    OutOfMemoryError,
    UnsupportedError,
    UsageError,
)
from tenon._host import devices, plugins, tensor
from tenon._model import Explanation, LastRun, Model, Port, Profile, Run, load
from tenon._native import Results, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tenon import nn, torch, xp
    from tenon._compile import compile
    from tenon._frontend import frontend
    from tenon._logs import set_logs
    from tenon._op import op, opcheck
    from tenon._pass import graph_pass
    from tenon._programs import EagerCounts, eager_counts
    from tenon.torch import from_exported as from_exported  # told, and not in __all__: it needs PyTorch

__version__ = "0.1.0"

# Imported when they are used first.
_LATER = {
    "EagerCounts": "_programs",
    "compile": "_compile",
    "eager_counts": "_programs",
    "frontend": "_frontend",
    "from_exported": "torch",
    "graph_pass": "_pass",
    "nn": "",
    "op": "_op",
    "opcheck": "_op",
    "set_logs": "_logs",
    "torch": "",
    "xp": "",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'tenon' has no attribute {name!r}")
    import importlib

    module = importlib.import_module("tenon." + (_LATER[name] or name))
    value: object = getattr(module, name) if _LATER[name] else module
    globals()[name] = value
    return value


__all__ = [
    "Cancelled",
    "DataError",
    "DeviceError",
    "EagerCounts",
    "Error",
    "Explanation",
    "LastRun",
    "Model",
    "NotFoundError",
    "OutOfMemoryError",
    "Port",
    "Profile",
    "Results",
    "Run",
    "Tensor",
    "UnsupportedError",
    "UsageError",
    "compile",
    "devices",
    "eager_counts",
    "frontend",
    "graph_pass",
    "load",
    "nn",
    "op",
    "opcheck",
    "plugins",
    "set_logs",
    "tensor",
    "xp",
]
