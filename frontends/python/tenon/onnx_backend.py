"""Tenon as a backend of ONNX: `onnx.backend.base.Backend`.

    import tenon.onnx_backend as backend

    y = backend.prepare(onnx.load("model.onnx")).run([x])

The device is "CPU", which is Tenon's "cpu", or any device of Tenon by its name ("reference").
Results are NumPy's arrays. What Tenon does not have raises BackendIsNotSupposedToImplementIt with
the reason, as ONNX's runner of tests expects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
import onnx
import onnx.checker
import onnx.helper
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

import tenon

if TYPE_CHECKING:
    from collections.abc import Sequence

# What a model may use that Tenon does not have: operators, element types, forms of either, operands
# that its operators do not take.
_REFUSALS = {"T0310", "T0312", "T0704", "T0710", "T0714"}


class TenonBackendRep(BackendRep):
    """A compiled model."""

    def __init__(self, model: tenon.Model):
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The results for inputs by position or, in a mapping, by name."""
        _refuse(kwargs)
        given = inputs if hasattr(inputs, "keys") else [_array(value) for value in inputs]
        with _Refusals():
            return self.model.run(given, results="numpy").values()


class TenonBackend(Backend):
    """Tenon as a backend of ONNX."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> TenonBackendRep:
        """Compiles a model. Raises `tenon.Error` for one that is wrong."""
        _refuse(kwargs)
        with _Refusals():
            return TenonBackendRep(tenon.load(model.SerializeToString(), cls.device_name(device)))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[numpy.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one operator."""
        arrays = [_array(value) for value in inputs]
        names = [name for name in node.input if name]
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [_value_info(name, array) for name, array in zip(names, arrays, strict=True)],
            [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        _refuse(kwargs)
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports)
        return cls.prepare(model, device).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether there is such a device here."""
        return cls.device_name(device) in {row["name"] for row in tenon.devices()}

    @classmethod
    def device_name(cls, device: str) -> str:
        """Tenon's name of a device of ONNX."""
        return {"CPU": "cpu", "CUDA": "cuda"}.get(device, device)


class _Refusals:
    """Turns what is not supported into the exception of ONNX."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        refused = isinstance(error, tenon.Error) and error.code in _REFUSALS
        if refused or isinstance(error, tenon.UnsupportedError):
            raise BackendIsNotSupposedToImplementIt(str(error)) from error


def _refuse(options: dict[str, Any]) -> None:
    """ONNX's interface takes any options; there are none that Tenon knows."""
    if options:
        raise tenon.UsageError(f"Tenon's backend has no option {min(options)!r}", "T0004")


def _array(value: object) -> Any:
    if value is None or isinstance(value, (list, dict)):
        raise BackendIsNotSupposedToImplementIt(
            "sequences, maps and optional values are not tensors"
        )
    array = numpy.asarray(value)
    if array.dtype.kind in "OUS":
        raise BackendIsNotSupposedToImplementIt("there are no tensors of texts")
    return array


def _value_info(name: str, array: Any) -> onnx.ValueInfoProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, array.shape)


is_compatible = TenonBackend.is_compatible
prepare = TenonBackend.prepare
run_model = TenonBackend.run_model
run_node = TenonBackend.run_node
supports_device = TenonBackend.supports_device
