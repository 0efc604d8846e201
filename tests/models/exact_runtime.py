"""Options of ONNX Runtime sessions whose integer products are exact on every machine."""

import pathlib

import onnxruntime


def plain_options():
    """With optimisations off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return options


def exact_options():
    """With optimisations off, or, without VNNI, with those that u8 x u8 products need.

    Without VNNI, ONNX Runtime adds pairs of u8 x s8 products in 16 bits, which saturate. If an
    option asks for it, one of its extended optimisations turns the weights into u8.
    """
    options = plain_options()
    cpu = pathlib.Path("/proc/cpuinfo")
    if cpu.exists() and "vnni" not in cpu.read_text():
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.add_session_config_entry("session.x64quantprecision", "1")
    return options
