#!/usr/bin/env python3
"""One token of a decoder with weights of 4 bits, compared with the same decoder in f32.

  bench/decode.py [--tenon build/bin/tenon] [--layers 5] [--past 256] [--threads N] [--rounds 3] [--seconds 2] [--folder DIR] [--json FILE]

The decoder is made here, with random weights: RMS norms, grouped-query attention over a cache of
keys and values, gated layers, logits. With 5 layers its f32 weights have 1.15 GB. The f32 weights
are the numbers that those of 4 bits stand for, in blocks of 32, so the logits of both agree, which
is checked. Where it is installed, ONNX Runtime measures the same files: both have loaded a file, and
measure rounds of as many seconds in turn, after a first call that does not count. Skipped, with a
line, where memory or disk is short. Needs onnx.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HIDDEN, INNER, HEADS, KV_HEADS, SIZE, WORDS, BLOCK = 2048, 5632, 32, 8, 64, 32000, 32
MICROSOFT = "com.microsoft"


class Decoder:
    """The nodes and weights of one of the two files."""

    def __init__(self, narrow):
        import numpy as np

        self.np, self.rng = np, np.random.default_rng(3)
        self.narrow, self.nodes, self.weights = narrow, [], []

    def op(self, kind, inputs, outputs=1, domain="", **attributes):
        from onnx import helper

        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array):
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def linear(self, x, rows, columns):
        """x times the transpose of random weights [rows, columns] of 4 bits."""
        np = self.np
        packed = self.rng.integers(0, 256, (rows, columns // BLOCK, BLOCK // 2), dtype=np.uint8)
        scale = np.full((rows, columns // BLOCK), 0.2 / np.sqrt(columns), np.float32)
        if self.narrow:
            return self.op(
                "MatMulNBits",
                [x, self.constant(packed), self.constant(scale.ravel())],
                domain=MICROSOFT,
                K=columns,
                N=rows,
                bits=4,
                block_size=BLOCK,
            )
        real = np.stack([packed & 15, packed >> 4], -1).reshape(rows, -1).astype(np.float32)
        real -= 8
        real *= scale[0, 0]
        return self.op("MatMul", [x, self.constant(np.ascontiguousarray(real.T))])

    def norm(self, x):
        ones = self.constant(self.np.ones(HIDDEN, self.np.float32))
        return self.op("SimplifiedLayerNormalization", [x, ones], axis=-1, epsilon=1e-5)

    def layer(self, i, x, parameters):
        h = self.norm(x)
        q, k, v = (
            self.linear(h, HIDDEN, HIDDEN),
            self.linear(h, KV_HEADS * SIZE, HIDDEN),
            self.linear(h, KV_HEADS * SIZE, HIDDEN),
        )
        seen, keys, values = self.op(
            "GroupQueryAttention",
            [q, k, v, f"key{i}", f"value{i}", *parameters],
            3,
            MICROSOFT,
            num_heads=HEADS,
            kv_num_heads=KV_HEADS,
            do_rotary=1,
        )
        x = self.op("Add", [x, self.linear(seen, HIDDEN, HIDDEN)])
        h = self.norm(x)
        gate = self.linear(h, INNER, HIDDEN)
        gate = self.op("Mul", [gate, self.op("Sigmoid", [gate])])
        inner = self.op("Mul", [gate, self.linear(h, INNER, HIDDEN)])
        return self.op("Add", [x, self.linear(inner, HIDDEN, INNER)]), keys, values

    def model(self, layers, past):
        from onnx import TensorProto, helper

        np = self.np
        angles = np.outer(np.arange(past + 1), 10000.0 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
        parameters = [
            self.constant(a)
            for a in (
                np.array([past], np.int32),
                np.array(past + 1, np.int32),
                np.cos(angles).astype(np.float32),
                np.sin(angles).astype(np.float32),
            )
        ]
        value = helper.make_tensor_value_info
        inputs, outputs, x = [value("x", TensorProto.FLOAT, [1, 1, HIDDEN])], [], "x"
        for i in range(layers):
            inputs += [
                value(f"{n}{i}", TensorProto.FLOAT, [1, KV_HEADS, past, SIZE])
                for n in ("key", "value")
            ]
            x, keys, values = self.layer(i, x, parameters)
            outputs += [keys, values]
        outputs.insert(0, self.linear(self.norm(x), WORDS, HIDDEN))
        graph = helper.make_graph(
            self.nodes,
            "decoder",
            inputs,
            [value(o, TensorProto.FLOAT, None) for o in outputs],
            self.weights,
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)],
            ir_version=8,
        )


def write(narrow, layers, past, path):
    """Writes a file unless it is there."""
    import onnx

    if not path.exists():
        made = Decoder(narrow).model(layers, past)
        onnx.save(made, path, save_as_external_data=True, location=path.name + ".data")


def f32_bytes(layers):
    layer = HIDDEN * (2 * HIDDEN + 2 * KV_HEADS * SIZE) + 3 * HIDDEN * INNER
    return 4 * (layers * layer + WORDS * HIDDEN)


def short(folder, layers):
    """What is missing, or nothing."""
    need = f32_bytes(layers)
    memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    disk = shutil.disk_usage(folder).free
    for name, free, wanted in (("memory", memory, 4 * need), ("disk", disk, 2 * need)):
        if free < wanted:
            return (
                f"{name} is short: {free / 1e9:.1f} GB are free, {wanted / 1e9:.1f} GB are needed"
            )
    return ""


class Tenon:
    """`tenon bench` with a file loaded, which measures a round for each line."""

    def __init__(self, tenon, path, threads):
        command = [tenon, "bench", str(path), "--device", "cpu", "--serve"] + (
            ["--threads", str(threads)] if threads else []
        )
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.answer()  # the first calls

    def answer(self):
        if line := self.process.stdout.readline():
            return json.loads(line)
        sys.exit(self.process.stderr.read().strip()[:600])

    def least_ms(self, seconds):
        print(seconds, file=self.process.stdin, flush=True)
        return self.answer()["min_ms"]

    def stop(self):
        self.process.communicate()


def feeds_of(layers, past):
    import numpy as np

    rng = np.random.default_rng(4)
    feeds = {"x": rng.standard_normal((1, 1, HIDDEN)).astype(np.float32)}
    for i in range(layers):
        feeds |= {
            f"{n}{i}": rng.standard_normal((1, KV_HEADS, past, SIZE)).astype(np.float32)
            for n in ("key", "value")
        }
    return feeds


class OnnxRuntime:
    """The same file there. Raises ImportError without the package."""

    def __init__(self, path, threads, feeds):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        self.session, self.feeds = (
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]),
            feeds,
        )
        self.session.run(None, feeds)

    def least_ms(self, seconds):
        times, end = [], time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            begin = time.perf_counter()
            self.session.run(None, self.feeds)
            times.append(time.perf_counter() - begin)
        return 1e3 * min(times)

    def stop(self):
        self.session = None


def logits(tenon, path, feeds, folder):
    import numpy as np

    command = [tenon, "run", str(path), "--device", "cpu", "--output-dir", str(folder)]
    for name, array in feeds.items():
        np.save(folder / f"in_{name}.npy", array)
        command += ["--input", f"{name}={folder}/in_{name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.strip()[:600])
    import onnx

    return np.load(folder / f"{onnx.load(path, load_external_data=False).graph.output[0].name}.npy")


def measured(arguments, folder):
    paths = {
        kind: folder / f"decoder_{kind}_{arguments.layers}_{arguments.past}.onnx"
        for kind in ("f32", "int4")
    }
    for kind, path in paths.items():
        write(kind == "int4", arguments.layers, arguments.past, path)
    feeds = feeds_of(arguments.layers, arguments.past)
    with tempfile.TemporaryDirectory() as scratch:
        a, b = (
            logits(arguments.tenon, path, feeds, pathlib.Path(scratch)) for path in paths.values()
        )
    out = {
        "weights_gb": f32_bytes(arguments.layers) / 1e9,
        "differs": float(abs(a - b).max() / abs(a).max()),
    }
    for kind, path in paths.items():
        runtimes = {"tenon": Tenon(arguments.tenon, path, arguments.threads)}
        try:
            runtimes["onnxruntime"] = OnnxRuntime(path, arguments.threads, feeds)
        except ImportError:
            pass  # it has no line then
        for _ in range(arguments.rounds):
            for name, runtime in runtimes.items():
                ms = runtime.least_ms(arguments.seconds)
                out[f"{name}_{kind}_ms"] = min(ms, out.get(f"{name}_{kind}_ms", ms))
        for runtime in runtimes.values():
            runtime.stop()
    return out


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tenon", default="build/bin/tenon")
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument(
        "--past", type=int, default=256, help="tokens whose keys and values are kept"
    )
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of one round of one runtime")
    parser.add_argument(
        "--folder", type=pathlib.Path, help="where the models are kept; a temporary one otherwise"
    )
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if why := short(folder, arguments.layers):
            print(f"skipped: {why}")
            return 0
        out = measured(arguments, folder)
    print(
        f"{out['weights_gb']:.2f} GB of weights in f32; logits differ by {out['differs']:.1e} of the largest"
    )
    for runtime in ("tenon", "onnxruntime"):
        if f"{runtime}_f32_ms" in out:
            f32, int4 = out[f"{runtime}_f32_ms"], out[f"{runtime}_int4_ms"]
            print(f"{runtime:12} f32 {f32:8.1f} ms   int4 {int4:8.1f} ms   {f32 / int4:5.2f}x")
    if arguments.json:
        arguments.json.write_text(json.dumps(out, indent=1) + "\n")
    return 0 if out["differs"] <= 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
