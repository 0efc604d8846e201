#!/usr/bin/env python3
"""The fused ops that ONNX Runtime's optimiser writes, one by one and in models that it optimised,
compared with ONNX Runtime, or with NumPy where it has no kernel for the cpu.

    python3 tests/models/fused.py --tenon build/bin/tenon --devices reference,cpu [--filter TEXT]

Models are optimised by ONNX Runtime itself: by a session, and by its optimiser for transformers
where the packages that this needs are installed.
"""

import argparse
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
RNG = np.random.default_rng(5)
TOLERANCE = 2e-4  # of max|b|
MICROSOFT = "com.microsoft"


def floats(*shape):
    return (RNG.random(shape) * 2 - 1).astype(np.float32)


def node(op, inputs, outputs=("y",), domain=MICROSOFT, **attributes):
    return helper.make_node(
        op, list(inputs), list(outputs), domain=domain, name=f"the_{op}", **attributes
    )


def model(nodes, inputs, outputs, constants, symbolic=True):
    """Each input's dims are symbols, one for each input and dim, where `symbolic`."""
    infos = [
        helper.make_tensor_value_info(
            k,
            helper.np_dtype_to_tensor_dtype(a.dtype),
            [f"{k}{i}" for i in range(a.ndim)]
            if symbolic is True or k in (symbolic or ())
            else a.shape,
        )
        for k, a in inputs.items()
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        infos,
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    opsets = [
        helper.make_opsetid("", 17),
        helper.make_opsetid(MICROSOFT, 1),
        helper.make_opsetid("com.microsoft.nchwc", 1),
    ]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def erf(x):
    return np.vectorize(math.erf)(x).astype(np.float32)


def gelu(x):
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def group_norm(x, groups, silu):
    n, h, w, c = x.shape
    y = x.reshape(n, h * w, groups, c // groups)
    y = (
        (y - y.mean((1, 3), keepdims=True)) / np.sqrt(y.var((1, 3), keepdims=True) + 1e-5)
    ).reshape(x.shape)
    return y / (1 + np.exp(-y)) if silu else y


def products():
    x, w, b = floats(2, 4, 9, 9), floats(6, 4, 3, 3), floats(6)
    for activation, parameters in (
        ("Relu", []),
        ("Tanh", []),
        ("Sigmoid", []),
        ("LeakyRelu", [0.2]),
        ("Clip", [-0.5, 0.5]),
        ("HardSigmoid", [0.3, 0.4]),
    ):
        extra = {"activation_params": parameters} if parameters else {}
        yield (
            f"FusedConv {activation}",
            [node("FusedConv", ["x", "w", "b"], activation=activation, **extra, pads=[1, 1, 1, 1])],
            {"x": x},
            ["y"],
            {"w": w, "b": b},
            (),
            None,
        )
    yield (
        "FusedConv with a sum",
        [node("FusedConv", ["x", "w", "b", "z"], activation="Relu", strides=[2, 2])],
        {"x": x, "z": floats(2, 6, 4, 4)},
        ["y"],
        {"w": w, "b": b},
        (),
        None,
    )
    yield (
        "FusedMatMul",
        [node("FusedMatMul", ["a", "b"], alpha=0.25, transA=1, transB=1)],
        {"a": floats(2, 5, 3), "b": floats(2, 4, 5)},
        ["y"],
        {},
        True,
        None,
    )
    yield (
        "FusedMatMul of batches",
        [node("FusedMatMul", ["a", "b"], transBatchA=1, transA=1)],
        {"a": floats(5, 2, 3), "b": floats(2, 5, 4)},
        ["y"],
        {},
        (),
        None,
    )
    yield (
        "FusedGemm",
        [
            node(
                "FusedGemm",
                ["a", "b", "c"],
                activation="LeakyRelu",
                activation_alpha=0.3,
                alpha=0.5,
                transB=1,
            )
        ],
        {"a": floats(3, 5)},
        ["y"],
        {"b": floats(4, 5), "c": floats(4)},
        True,
        None,
    )


def activations():
    x, b = floats(2, 3, 8), floats(8)
    yield "Gelu", [node("Gelu", ["x"])], {"x": x}, ["y"], {}, True, None
    yield "BiasGelu", [node("BiasGelu", ["x", "b"])], {"x": x}, ["y"], {"b": b}, True, None
    yield "FastGelu", [node("FastGelu", ["x", "b"])], {"x": x}, ["y"], {"b": b}, True, None
    yield "FastGelu without bias", [node("FastGelu", ["x"])], {"x": x}, ["y"], {}, True, None
    yield "QuickGelu", [node("QuickGelu", ["x"], alpha=1.5)], {"x": x}, ["y"], {}, True, None
    both = x + b
    yield (
        "BiasSplitGelu",
        [node("BiasSplitGelu", ["x", "b"])],
        {"x": x},
        ["y"],
        {"b": b},
        (),
        {"y": both[..., :4] * gelu(both[..., 4:])},
    )
    yield (
        "BiasAdd",
        [node("BiasAdd", ["x", "b", "s"])],
        {"x": x, "s": x * 2},
        ["y"],
        {"b": b},
        (),
        {"y": 3 * x + b},
    )
    scores = np.exp(x + x[:1])
    yield (
        "BiasSoftmax",
        [node("BiasSoftmax", ["x", "b"], axis=2, is_inner_broadcast=0)],
        {"x": x},
        ["y"],
        {"b": x[:1]},
        (),
        {"y": scores / scores.sum(-1, keepdims=True)},
    )


def norms():
    x, skip, scale, bias = floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8)
    yield (
        "SkipLayerNormalization",
        [
            node(
                "SkipLayerNormalization",
                ["x", "s", "g", "b", "c"],
                ["y", "", "", "sum"],
                epsilon=1e-5,
            )
        ],
        {"x": x, "s": skip},
        ["y", "sum"],
        {"g": scale, "b": bias, "c": bias},
        True,
        None,
    )
    yield (
        "SkipSimplifiedLayerNormalization",
        [
            node(
                "SkipSimplifiedLayerNormalization",
                ["x", "s", "g", "c"],
                ["y", "", "", "sum"],
                epsilon=1e-5,
            )
        ],
        {"x": x, "s": skip},
        ["y", "sum"],
        {"g": scale, "c": bias},
        (),
        None,
    )
    yield (
        "SimplifiedLayerNormalization",
        [node("SimplifiedLayerNormalization", ["x", "g"], domain="", axis=-1)],
        {"x": x},
        ["y"],
        {"g": scale},
        True,
        None,
    )
    image, ones, zeros = floats(2, 4, 5, 8), np.ones(8, np.float32), np.zeros(8, np.float32)
    for silu in (0, 1):
        yield (
            f"GroupNorm {silu}",
            [node("GroupNorm", ["x", "g", "b"], groups=4, activation=silu)],
            {"x": image},
            ["y"],
            {"g": ones, "b": zeros},
            (),
            {"y": group_norm(image, 4, silu)},
        )
    ids, tables = (
        np.array([[3, 1, 4], [1, 5, 9]], np.int32),
        {"w": floats(10, 8), "p": floats(6, 8), "t": floats(2, 8)},
    )
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    yield (
        "EmbedLayerNormalization",
        [
            node(
                "EmbedLayerNormalization",
                ["i", "s", "w", "p", "t", "g", "b", "m"],
                ["y", "n", "e"],
                mask_index_type=1,
            )
        ],
        {"i": ids, "s": ids % 2, "m": mask},
        ["y", "n", "e"],
        {**tables, "g": scale, "b": bias},
        (),
        None,
    )
    yield (
        "EmbedLayerNormalization without segments",
        [node("EmbedLayerNormalization", ["i", "", "w", "p", "", "g", "b", "", "q"], ["y", "n"])],
        {"i": ids, "q": np.array([[0, 2, 1], [5, 4, 3]], np.int32)},
        ["y"],
        {"w": tables["w"], "p": tables["p"], "g": scale, "b": bias},
        (),
        None,
    )


def attentions():
    x, w, b = floats(2, 5, 8), floats(8, 24), floats(24)
    lengths = np.array([3, 5], np.int32)
    kept = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    for name, inputs, extra, attributes in [
        ("plain", ["x", "w", "b"], {}, {}),
        ("causal", ["x", "w", "b"], {}, {"unidirectional": 1}),
        ("of lengths", ["x", "w", "b", "m"], {"m": lengths}, {}),
        ("with a mask", ["x", "w", "b", "m"], {"m": kept}, {}),
        ("of ends and starts", ["x", "w", "b", "m"], {"m": np.array([3, 5, 0, 1], np.int32)}, {}),
        (
            "with a mask per query",
            ["x", "w", "b", "m"],
            {"m": np.repeat(kept[:, None], 5, 1)},
            {"scale": 0.3},
        ),
        ("with a bias", ["x", "w", "b", "", "", "a"], {"a": floats(1, 2, 5, 5)}, {}),
    ]:
        yield (
            f"Attention {name}",
            [node("Attention", inputs, num_heads=2, **attributes)],
            {"x": x, **extra},
            ["y"],
            {"w": w, "b": b},
            (),
            None,
        )
    yield (
        "Attention with a past",
        [node("Attention", ["x", "w", "b", "", "p"], ["y", "z"], num_heads=2, unidirectional=1)],
        {"x": x, "p": floats(2, 2, 2, 3, 4)},
        ["y", "z"],
        {"w": w, "b": b},
        (),
        None,
    )
    yield (
        "Attention of other values",
        [node("Attention", ["x", "w", "b"], num_heads=2, qkv_hidden_sizes=[8, 8, 4])],
        {"x": x},
        ["y"],
        {"w": floats(8, 20), "b": floats(20)},
        (),
        None,
    )
    q, k, v = floats(2, 5, 8), floats(2, 4, 8), floats(2, 4, 8)
    for name, inputs, feeds in [
        ("plain", ["q", "k", "v"], {"q": q, "k": k, "v": v}),
        ("with bias", ["q", "k", "v", "b"], {"q": q, "k": k, "v": v}),
        (
            "with lengths",
            ["q", "k", "v", "b", "m"],
            {"q": q, "k": k, "v": v, "m": np.array([2, 4], np.int32)},
        ),
        (
            "with a mask",
            ["q", "k", "v", "", "m"],
            {"q": q, "k": k, "v": v, "m": np.array([[1, 1, 0, 0], [1, 1, 1, 1]], np.int32)},
        ),
        (
            "with scores",
            ["q", "k", "v", "", "", "a"],
            {"q": q, "k": k, "v": v, "a": floats(2, 2, 5, 4)},
        ),
    ]:
        yield (
            f"MultiHeadAttention {name}",
            [node("MultiHeadAttention", inputs, num_heads=2)],
            feeds,
            ["y"],
            {"b": b},
            (),
            None,
        )
    yield (
        "MultiHeadAttention with a past",
        [
            node(
                "MultiHeadAttention",
                ["q", "k", "v", "", "", "", "pk", "pv"],
                ["y", "nk", "nv"],
                num_heads=2,
                unidirectional=1,
            )
        ],
        {"q": q, "k": q * 2, "v": q * 3, "pk": floats(2, 2, 3, 4), "pv": floats(2, 2, 3, 4)},
        ["y", "nk", "nv"],
        {},
        (),
        None,
    )
    cos, sin = floats(16, 2), floats(16, 2)
    for interleaved in (0, 1):
        yield (
            f"RotaryEmbedding {interleaved}",
            [node("RotaryEmbedding", ["q", "i", "c", "s"], interleaved=interleaved)],
            {"q": floats(2, 2, 5, 4), "i": np.array([3], np.int64)},
            ["y"],
            {"c": cos, "s": sin},
            (),
            None,
        )
    yield (
        "RotaryEmbedding of a flat input",
        [node("RotaryEmbedding", ["q", "i", "c", "s"])],
        {"q": q, "i": np.array([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]], np.int64)},
        ["y"],
        {"c": cos, "s": sin},
        (),
        None,
    )


def grouped():
    cos, sin = floats(16, 8), floats(16, 8)
    new = {"q": floats(2, 3, 64), "k": floats(2, 3, 32), "v": floats(2, 3, 32)}
    one = {k: v[:, :1] for k, v in new.items()}
    alone = {k: v[:1] for k, v in new.items()}
    past = {"pk": floats(2, 2, 4, 16), "pv": floats(2, 2, 4, 16)}
    for name, feeds, total, attributes in [
        ("prompt", {**new, "pk": floats(2, 2, 0, 16), "pv": floats(2, 2, 0, 16)}, 3, {}),
        (
            "rotated prompt",
            {**new, "pk": floats(2, 2, 0, 16), "pv": floats(2, 2, 0, 16)},
            3,
            {"do_rotary": 1},
        ),
        ("past", {**one, **past}, 5, {"do_rotary": 1}),
        ("window", {**one, **past}, 5, {"local_window_size": 3}),
        (
            "window of a prompt",
            {**new, "pk": floats(2, 2, 0, 16), "pv": floats(2, 2, 0, 16)},
            3,
            {"local_window_size": 2},
        ),
        ("past of several", {**alone, **{k: v[:1] for k, v in past.items()}}, 7, {"do_rotary": 1}),
        ("interleaved", {**one, **past}, 5, {"do_rotary": 1, "rotary_interleaved": 1}),
        ("smooth", {**one, **past}, 5, {"smooth_softmax": 1}),
    ]:
        constants = {
            "n": np.array([total - 1] * len(feeds["q"]), np.int32),
            "t": np.array(total, np.int32),
            "c": cos,
            "s": sin,
        }
        yield (
            f"GroupQueryAttention {name}",
            [
                node(
                    "GroupQueryAttention",
                    ["q", "k", "v", "pk", "pv", "n", "t", "c", "s"],
                    ["y", "nk", "nv"],
                    num_heads=4,
                    kv_num_heads=2,
                    **attributes,
                )
            ],
            feeds,
            ["y", "nk", "nv"],
            constants,
            (),
            None,
        )


def cases():
    """(name, nodes, inputs, outputs, constants, which inputs are symbolic, expected or None)"""
    for family in (products, activations, norms, attentions, grouped):
        yield from family()


def session(path_or_bytes, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, save=None):
    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    if save:
        options.optimized_model_filepath = str(save)
    return onnxruntime.InferenceSession(path_or_bytes, options, providers=["CPUExecutionProvider"])


class Test:
    def __init__(self, options):
        self.tenon, self.devices, self.failed = options.tenon, options.devices.split(","), 0

    def report(self, name, text):
        print(f"{'FAIL' if text else 'ok  '} {name}{': ' if text else ''}{text}", flush=True)
        self.failed += bool(text)

    def wrong(self, path, feeds, want, device):
        with tempfile.TemporaryDirectory() as folder:
            command = [self.tenon, "run", str(path), "--device", device, "--output-dir", folder]
            for k, array in feeds.items():
                np.save(f"{folder}/in_{k}.npy", array)
                command += ["--input", f"{k}={folder}/in_{k}.npy"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode != 0:
                return done.stderr.strip()[:700]
            for k, w in want.items():
                got = np.load(os.path.join(folder, f"{k}.npy"))
                if got.shape != w.shape or got.dtype != w.dtype:
                    return f"{k} is {got.dtype}{got.shape}, expected {w.dtype}{w.shape}"
                far = np.abs(got.astype(np.float64) - w).max(initial=0)
                if not far <= TOLERANCE * max(np.abs(w).max(initial=0), 1e-6):
                    return f"{k} differs by {far:.3g}, of {np.abs(w).max():.3g}"
        return ""

    def case(self, name, nodes, inputs, outputs, constants, symbolic, want):
        proto = model(nodes, inputs, outputs, constants, symbolic)
        if want is None:
            own = session(proto.SerializeToString())
            want = dict(zip([o.name for o in own.get_outputs()], own.run(None, inputs)))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            onnx.save(proto, str(path))
            for device in self.devices:
                self.report(f"{name} on {device}", self.wrong(path, inputs, want, device))

    def optimised(self, name, path, feeds, kind, wanted_ops):
        """A model that ONNX Runtime optimised, with the outputs of the one that it was made from."""
        own = session(str(path))
        want = dict(zip([o.name for o in own.get_outputs()], own.run(None, feeds)))
        with tempfile.TemporaryDirectory() as folder:
            fused = pathlib.Path(folder) / "fused.onnx"
            if kind == "session":
                session(str(path), onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, fused)
            elif kind == "layout":
                session(str(path), onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, fused)
            else:
                transformers_optimiser().optimize_model(
                    str(path), model_type=kind, num_heads=2, hidden_size=16, opt_level=0
                ).save_model_to_file(str(fused))
            ops = {n.op_type for n in onnx.load(str(fused)).graph.node}
            missing = wanted_ops - ops
            self.report(
                f"{name} by {kind} has the ops",
                f"{sorted(missing)} are missing of {sorted(ops)}" if missing else "",
            )
            for device in self.devices:
                self.report(f"{name} by {kind} on {device}", self.wrong(fused, feeds, want, device))


def transformers_optimiser():
    """None without the packages that it imports."""
    try:
        import sympy  # noqa: F401, which the optimiser imports later
        from onnxruntime.transformers import optimizer

        return optimizer
    except ImportError:
        return None


def feeds_of(form, path):
    names = {i.name for i in onnx.load(str(path)).graph.input}
    feeds = {
        f.name.split(".")[3]: np.load(f)
        for f in sorted((HERE / "forms").glob(f"{form}.a.in.*.npy"))
    }
    return {k: v for k, v in feeds.items() if k in names}


def upsampling(mode, coordinates):
    """A Resize between convolutions, which becomes one of a blocked layout."""
    resize = helper.make_node(
        "Resize",
        ["a", "", "s"],
        ["b"],
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode="floor",
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        resize,
        helper.make_node("Conv", ["b", "v"], ["y"]),
    ]
    constants = {
        "w": floats(32, 16, 1, 1),
        "v": floats(16, 32, 1, 1),
        "s": np.array([1, 1, 2, 3], np.float32),
    }
    return model(nodes, {"x": floats(1, 16, 5, 4)}, ["y"], constants, False)


MODELS = [
    ("bert_torchscript17_symbolic", "session", {"LayerNormalization", "BiasGelu", "FusedMatMul"}),
    ("bert_torchscript17_symbolic", "bert", {"SkipLayerNormalization"}),
    ("gpt2_torchscript17_symbolic", "session", {"LayerNormalization"}),
    ("gpt2_torchscript17_symbolic", "gpt2", {"SkipLayerNormalization"}),
    ("resnet_torchscript17_symbolic", "session", {"FusedConv"}),
    ("resnet_torchscript17_symbolic", "layout", {"ReorderOutput"}),
    ("mobilenet_torchscript17_symbolic", "layout", {"ReorderOutput"}),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--devices", default="reference,cpu")
    parser.add_argument("--filter", default="", help="only cases whose name holds this")
    options = parser.parse_args()
    test = Test(options)
    for name, *case in cases():
        if options.filter in name:
            test.case(name, *case)
    for name, kind, ops in MODELS:
        if options.filter not in f"{name} by {kind}":
            continue
        if kind not in ("session", "layout") and transformers_optimiser() is None:
            print(f"skip {name} by {kind}: onnxruntime.transformers cannot be imported here")
            continue
        path = HERE / "forms" / f"{name}.onnx"
        test.optimised(name, path, feeds_of(name.split("_")[0], path), kind, ops)
    with tempfile.TemporaryDirectory() as folder:
        for mode, coordinates in (
            ("nearest", "asymmetric"),
            ("linear", "asymmetric"),
            ("linear", "align_corners"),
            ("linear", "half_pixel"),
        ):
            name, path = (
                f"upsampling, {mode}, {coordinates}",
                pathlib.Path(folder) / f"{mode}_{coordinates}.onnx",
            )
            if options.filter in f"{name} by layout":
                onnx.save(upsampling(mode, coordinates), path)
                test.optimised(
                    name, path, {"x": floats(1, 16, 5, 4)}, "layout", {"Upsample", "ReorderOutput"}
                )
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
