"""Tenon: loads, compiles and runs models.

    import numpy as np
    import tenon

    model = tenon.load("model.onnx")
    y = model(np.zeros((1, 64), np.float32))["logits"]

A model is called with arrays of NumPy or torch, or of any library with DLPack or the buffer
protocol, and gives arrays of the same kind, without a copy where the layout allows it. Importing
this module starts nothing; the first use finds the plugins.
"""

from tenon._devices import get_num_threads, set_num_threads
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
from tenon._host import devices, plugins, tensor, when_opened
from tenon._model import Explanation, LastRun, Model, Port, Profile, Run, load
from tenon._native import Results, Tensor
from tenon._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tenon import builder as builder
    from tenon import logs as logs
    from tenon import nn, random, torch, xp
    from tenon import report as report
    from tenon._compile import compile
    from tenon._eager.programs import EagerCounts, eager_counts
    from tenon._frontend import frontend
    from tenon._mesh import (
        Mesh,
        all_gather,
        all_reduce,
        all_to_all,
        axis_index,
        axis_size,
        broadcast_from,
        manual,
        mesh,
        permute,
        reduce_scatter,
    )
    from tenon._op import Op as Op  # not in __all__: `op` makes it
    from tenon._op import op
    from tenon._opcheck import opcheck
    from tenon._pass import graph_pass
    from tenon._transforms.control import cond, fori_loop, map, scan, switch, while_loop
    from tenon._transforms.custom import checkpoint, custom_jvp, custom_vjp, stop_gradient
    from tenon._transforms.derivatives import (
        grad,
        jvp,
        linear_transpose,
        linearize,
        value_and_grad,
        vjp,
    )
    from tenon._transforms.jacobians import hessian, jacfwd, jacrev
    from tenon._transforms.samples import vmap
    from tenon._versions import show_versions
    from tenon.logs import set_logs
    from tenon.torch import from_exported as from_exported  # not in __all__: it needs PyTorch

# Imported when they are used first.
_LATER = {
    "EagerCounts": "_eager.programs",
    "Mesh": "_mesh",
    "Op": "_op",
    "all_gather": "_mesh",
    "all_reduce": "_mesh",
    "all_to_all": "_mesh",
    "axis_index": "_mesh",
    "axis_size": "_mesh",
    "broadcast_from": "_mesh",
    "builder": "",
    "checkpoint": "_transforms.custom",
    "compile": "_compile",
    "cond": "_transforms.control",
    "custom_jvp": "_transforms.custom",
    "custom_vjp": "_transforms.custom",
    "eager_counts": "_eager.programs",
    "fori_loop": "_transforms.control",
    "from_exported": "torch",
    "frontend": "_frontend",
    "grad": "_transforms.derivatives",
    "graph_pass": "_pass",
    "hessian": "_transforms.jacobians",
    "jacfwd": "_transforms.jacobians",
    "jacrev": "_transforms.jacobians",
    "jvp": "_transforms.derivatives",
    "linear_transpose": "_transforms.derivatives",
    "linearize": "_transforms.derivatives",
    "logs": "",
    "manual": "_mesh",
    "map": "_transforms.control",
    "mesh": "_mesh",
    "nn": "",
    "op": "_op",
    "opcheck": "_opcheck",
    "permute": "_mesh",
    "random": "",
    "reduce_scatter": "_mesh",
    "report": "",
    "scan": "_transforms.control",
    "set_logs": "logs",
    "show_versions": "_versions",
    "stop_gradient": "_transforms.custom",
    "switch": "_transforms.control",
    "torch": "",
    "value_and_grad": "_transforms.derivatives",
    "vjp": "_transforms.derivatives",
    "vmap": "_transforms.samples",
    "while_loop": "_transforms.control",
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


# Those of them that need PyTorch.
_OF_TORCH = ("from_exported", "torch")


def __dir__() -> list[str]:
    from importlib.util import find_spec

    names = {*__all__, *_LATER, "__version__", "__doc__", "__file__", "__name__", "__path__"}
    return sorted(names.difference(() if find_spec("torch") else _OF_TORCH))


def _host_opened() -> None:
    import os

    if "TENON_LOGS" in os.environ:
        from tenon import logs

        logs.host_opened()


when_opened(_host_opened)

__all__ = [
    "Cancelled",
    "DataError",
    "DeviceError",
    "EagerCounts",
    "Error",
    "Explanation",
    "LastRun",
    "Mesh",
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
    "all_gather",
    "all_reduce",
    "all_to_all",
    "axis_index",
    "axis_size",
    "broadcast_from",
    "checkpoint",
    "compile",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "devices",
    "eager_counts",
    "fori_loop",
    "frontend",
    "get_num_threads",
    "grad",
    "graph_pass",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linear_transpose",
    "linearize",
    "load",
    "manual",
    "map",
    "mesh",
    "nn",
    "op",
    "opcheck",
    "permute",
    "plugins",
    "random",
    "reduce_scatter",
    "scan",
    "set_logs",
    "set_num_threads",
    "show_versions",
    "stop_gradient",
    "switch",
    "tensor",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
    "xp",
]
