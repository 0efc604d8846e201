"""Quantised forms of the benchmarks' networks, as onnxruntime's tool writes them."""

CALIBRATED = 4  # feeds, all random


def _prepared(path, scratch):
    """The file as the tool wants it: with inferred shapes and folded constants."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    out = f"{scratch}/prepared.onnx"
    quant_pre_process(path, out, skip_symbolic_shape=True)
    return out


def static_qdq(feed):
    """A function (path, source file, scratch folder): bytes with scales from random feeds
    (`feed(seed)`), u8 activations and s8 weights per channel, in QuantizeLinear and DequantizeLinear."""

    def write(path, source, scratch):
        from onnxruntime.quantization import (
            CalibrationDataReader,
            QuantFormat,
            QuantType,
            quantize_static,
        )

        class Feeds(CalibrationDataReader):
            def __init__(self):
                self.feeds = iter([feed(seed) for seed in range(CALIBRATED)])

            def get_next(self):
                return next(self.feeds, None)

        quantize_static(
            _prepared(source, scratch),
            path,
            Feeds(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )

    return write


def dynamic(path, source, scratch):
    """Products of bytes whose scales each run computes: DynamicQuantizeLinear and MatMulInteger."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        _prepared(source, scratch), path, weight_type=QuantType.QInt8, per_channel=True
    )
