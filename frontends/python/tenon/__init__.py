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

__version__ = "0.1.0"

__all__ = [
    "Cancelled",
    "DataError",
    "DeviceError",
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
    "devices",
    "load",
    "plugins",
    "tensor",
]
