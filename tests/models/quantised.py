#!/usr/bin/env python3
"""Networks quantised by onnxruntime's tools, on devices against ONNX Runtime without optimisations.

    python3 tests/models/quantised.py --tenon build/bin/tenon [--devices reference,cpu] [--full] [-v]

Ten small networks (quantised_networks.py), each quantised in every form that the tools write. Float
outputs may differ by 1e-2 of the largest number. Where the last integers of a network can be seen,
they may differ by one step, and 99.9 % of all such integers must be equal. Models with a scale per
channel are compiled for any batch. Where ONNX Runtime refuses a model that its own tools wrote, the
reference device says what is right: quantised_ops.py checks its integers against exact arithmetic.
Without --full each network has the forms that differ most, on the cpu.
"""

import argparse
import collections
import concurrent.futures
import logging
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from exact_runtime import exact_options, plain_options
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    matmul_nbits_quantizer,
    quantize_dynamic,
    quantize_static,
)
from quantised_networks import NETWORKS, network

U8, S8, U16, S16 = QuantType.QUInt8, QuantType.QInt8, QuantType.QUInt16, QuantType.QInt16


class Feeds(CalibrationDataReader):
    def __init__(self, feed):
        self.feeds = iter([feed(seed) for seed in range(4)])

    def get_next(self):
        return next(self.feeds, None)


def dynamic(weights, per_channel):
    def quantise(source, target, _):
        quantize_dynamic(source, target, weight_type=weights, per_channel=per_channel)

    return quantise


def static(form, activations, weights, per_channel):
    def quantise(source, target, feed):
        quantize_static(
            source,
            target,
            Feeds(feed),
            quant_format=form,
            activation_type=activations,
            weight_type=weights,
            per_channel=per_channel,
            extra_options={"ActivationSymmetric": activations == S8},
        )

    return quantise


def narrow(form, bits, symmetric, block):
    def quantise(source, target, _):
        model = onnx.load(source)
        if form == QuantFormat.QDQ:
            model = onnx.version_converter.convert_version(model, 21)
        quantiser = matmul_nbits_quantizer.MatMulNBitsQuantizer(
            model, block_size=block, is_symmetric=symmetric, bits=bits, quant_format=form
        )
        quantiser.process()
        quantiser.model.save_model_to_file(target)

    return quantise


FIXED_BATCH = {"encoder", "upsampling"}  # their reshapes and scales name it
QDQ, OPERATORS = QuantFormat.QDQ, QuantFormat.QOperator
QUICK = {
    "dynamic_u8": dynamic(U8, False),
    "dynamic_s8_channels": dynamic(S8, True),
    "qdq_u8s8": static(QDQ, U8, S8, False),
    "qdq_s8s8_channels": static(QDQ, S8, S8, True),
    "operators_u8s8_channels": static(OPERATORS, U8, S8, True),
}
NARROW = {
    "nbits4": narrow(OPERATORS, 4, True, 32),
    "nbits4_zeros": narrow(OPERATORS, 4, False, 16),
    "nbits4_qdq": narrow(QDQ, 4, True, 32),
    "nbits8": narrow(OPERATORS, 8, True, 32),
}
MORE = {
    "dynamic_s8": dynamic(S8, False),
    "dynamic_u8_channels": dynamic(U8, True),
    "qdq_u8u8": static(QDQ, U8, U8, False),
    "qdq_u8s8_channels": static(QDQ, U8, S8, True),
    "qdq_s8s8": static(QDQ, S8, S8, False),
    "qdq_u16s8": static(QDQ, U16, S8, False),
    "qdq_s16s16": static(QDQ, S16, S16, False),
    "operators_u8s8": static(OPERATORS, U8, S8, False),
    "operators_u8u8": static(OPERATORS, U8, U8, False),
    "operators_s8s8": static(OPERATORS, S8, S8, False),
    "operators_s8s8_channels": static(OPERATORS, S8, S8, True),
    "nbits4_qdq_zeros": narrow(QDQ, 4, False, 16),
    "nbits8_zeros": narrow(OPERATORS, 8, False, 64),
}


def wanted(path, feed, options):
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)[0]


def run(tenon, device, path, feed, folder):
    """The first output, or the text of the failure."""
    command = [tenon, "run", path, "--device", device, "--output-dir", folder]
    for name, array in feed.items():
        np.save(f"{folder}/in_{name}.npy", array)
        command += ["--input", f"{name}={folder}/in_{name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        return done.stderr.strip()[:600]
    return np.load(f"{folder}/{onnx.load(path, load_external_data=False).graph.output[0].name}.npy")


def show_integers(path):
    """Makes the integers before a last DequantizeLinear the output."""
    model = onnx.load(path)
    last = next(
        (
            n
            for n in model.graph.node
            if n.op_type == "DequantizeLinear" and n.output[0] == model.graph.output[0].name
        ),
        None,
    )
    if last is None:
        return
    del model.graph.output[:]
    model.graph.output.append(onnx.ValueInfoProto(name=last.input[0]))
    model.graph.node.remove(last)
    onnx.save(model, path)


def make_batch_symbolic(path):
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]
    onnx.save(model, path)


def expected(tenon, path, folder, feed):
    """The outputs that count as right, the first one exact, and why ONNX Runtime gave none."""
    # Without VNNI the two differ: one saturates, the other fuses and rewrites.
    outputs, refusals = [], []
    for options in (plain_options(), exact_options()):
        try:
            outputs.append(wanted(path, feed, options))
        except (
            Exception
        ) as error:  # onnxruntime raises its own kinds; what it rewrites may have no kernel
            refusals.append(str(error)[:200])
    return (
        (outputs, "") if outputs else ([run(tenon, "reference", path, feed, folder)], refusals[0])
    )


STEPS = collections.Counter()  # integers compared, and those that differ


def difference(got, want):
    if isinstance(got, str):
        return got
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} is not {want.dtype}{want.shape}"
    if want.dtype.kind in "iu":
        steps = np.abs(got.astype(np.int64) - want.astype(np.int64))
        if want.itemsize == 2:  # a step is close to the rounding of sums in f32
            return "" if steps.max() <= 8 else f"differs by {steps.max()} steps of 65536"
        STEPS["all"] += steps.size
        STEPS["differ"] += int((steps > 0).sum())
        return "" if steps.max() <= 1 else f"differs by {steps.max()} steps"
    worst = np.abs(got.astype(np.float64) - want).max() / np.abs(want).max()
    return "" if worst <= 1e-2 else f"differs by {worst:.3g} of the largest number"


def nearest(got, wants):
    if isinstance(got, str) or any(isinstance(w, str) or w.shape != got.shape for w in wants):
        return wants[0]
    return min(wants, key=lambda w: np.abs(got.astype(np.float64) - w).mean())


def case(build, name, quantise, tenon, devices):
    """(name of the case, text of its failure, why ONNX Runtime refused it) for each device."""
    model, feed = network(build)
    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/f32.onnx", f"{folder}/quantised.onnx"
        onnx.save(model, source)
        try:
            quantise(source, target, feed)
        except Exception as error:  # onnxruntime raises its own kinds
            return [(f"{build.__name__} {name}", f"is not quantised: {str(error)[:200]}", "")]
        if name.startswith(("qdq", "operators")):
            show_integers(target)
        if name.endswith("channels") and build.__name__ not in FIXED_BATCH:
            make_batch_symbolic(target)
        ops = {f"{n.domain}:{n.op_type}" for n in onnx.load(target).graph.node}
        if not any(
            "uant" in op or "Integer" in op or "QLinear" in op or "NBits" in op for op in ops
        ):
            return []
        wants, refused = expected(tenon, target, folder, feed(99))
        if isinstance(wants[0], str):
            return [(f"{build.__name__} {name} reference", wants[0], refused)]
        results = [
            (f"{build.__name__} {name} {device}", run(tenon, device, target, feed(99), folder))
            for device in devices
        ]
        return [(what, difference(got, nearest(got, wants)), refused) for what, got in results]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--devices", default="cpu")
    parser.add_argument(
        "--full", action="store_true", default=os.environ.get("CHECK_FULL", "0") == "1"
    )
    parser.add_argument("--filter", default="")
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    forms = {**QUICK, **NARROW, **(MORE if options.full else {})}
    devices = ["reference", "cpu"] if options.full else options.devices.split(",")
    count = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        tasks = [
            pool.submit(case, build, name, quantise, options.tenon, devices)
            for build in NETWORKS
            for name, quantise in forms.items()
            if options.filter in f"{build.__name__} {name}"
        ]
        for task in tasks:
            for name, text, refused in task.result():
                kind = "failed" if text else "passed"
                count[kind] += 1
                count["refused"] += bool(refused)
                if text or refused or options.v:
                    print(
                        f"{kind} {name}: {text}" + (f" (onnxruntime: {refused})" if refused else "")
                    )
    print(f"{STEPS['differ']} of {STEPS['all']} integers differ by a step")
    print(
        f"{count['passed']} passed, {count['failed']} failed; {count['refused']} of them refused by onnxruntime"
    )
    return (
        1 if count["failed"] or not count["passed"] or STEPS["differ"] > STEPS["all"] / 1000 else 0
    )


if __name__ == "__main__":
    sys.exit(main())
