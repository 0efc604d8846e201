#!/usr/bin/env python3
"""One peer in a process of its own, for peers.py: loads a model, then measures a round for every
line of standard input.

    bench/worker.py torch|onnxruntime|openvino MODEL_NAME MODEL_FILE FOLDER

FOLDER/in.NAME.npy are the inputs; the outputs of the first run are written to FOLDER/PEER.I.npy. A
line is "THREADS SECONDS", the answer one JSON object with the keys of `tenon bench --serve`. The
first answer describes the set-up. A peer that is not installed answers {"missing": true}, one that
refuses the model {"failed": REASON}.
"""

import gc
import importlib.util
import json
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models  # noqa: E402


def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def say(record):
    print(json.dumps(record), flush=True)


def pin(threads):
    """One thread runs on the last allowed processor, more run on all."""
    os.sched_setaffinity(0, ALLOWED if threads > 1 else {max(ALLOWED)})


ALLOWED = os.sched_getaffinity(0)


class Torch:
    package = "torch"

    def __init__(self, name, path, folder):
        import torch

        self.torch = torch
        self.imported = rss()
        self.name, self.folder = name, folder
        if models.get(name).build is None:
            say({"missing": True})  # a packaged file has no torch module
            sys.exit()

    def prepare(self, threads, feed):
        torch = self.torch
        torch.set_num_threads(threads)
        if not hasattr(self, "module"):
            self.module = models.torch_module(self.name)
            self.inputs = models.to_torch(self.name, feed)

    def run(self):
        with self.torch.inference_mode():
            return [self.module(*self.inputs.values())]

    def arrays(self, outputs):
        return [o.float().numpy() for o in outputs]

    def exact(self):
        """The outputs of the same module in double."""
        torch = self.torch
        module = models.torch_module(self.name).double()
        inputs = [v.double() if v.is_floating_point() else v for v in self.inputs.values()]
        with torch.inference_mode():
            return [module(*inputs).numpy()]


class OnnxRuntime:
    package = "onnxruntime"

    def __init__(self, name, path, folder):
        import onnxruntime

        self.ort, self.path = onnxruntime, path
        self.imported = rss()

    def prepare(self, threads, feed):
        self.session = None
        options = self.ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4
        self.session = self.ort.InferenceSession(
            self.path, options, providers=["CPUExecutionProvider"]
        )
        self.feed = feed

    def run(self):
        return self.session.run(None, self.feed)

    def arrays(self, outputs):
        return outputs


class OpenVino:
    package = "openvino"

    def __init__(self, name, path, folder):
        import openvino

        self.ov, self.path = openvino, path
        self.imported = rss()
        # f32 stays f32 if the model says f32; a bf16 model may compute in bf16.
        kinds = {i.dtype for i in models.get(name).inputs}
        self.precision = "bf16" if "bfloat16" in kinds else "f32"

    def prepare(self, threads, feed):
        self.request = None
        options = {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": self.precision,
        }
        compiled = self.ov.Core().compile_model(self.path, "CPU", options)
        self.request = compiled.create_infer_request()
        ports = {n: p for p in compiled.inputs for n in p.get_names()}
        for key, value in feed.items():
            tensor = (
                self.ov.Tensor(value, value.shape, self.ov.Type.bf16)
                if self.precision == "bf16"
                else self.ov.Tensor(value)
            )
            self.request.set_tensor(ports[key], tensor)
        self.count = len(compiled.outputs)

    def run(self):
        self.request.infer()
        return self.request

    def arrays(self, request):
        found = []
        for i in range(self.count):
            tensor = request.get_output_tensor(i)
            if self.precision == "bf16" and tensor.element_type == self.ov.Type.bf16:
                found.append(
                    (tensor.data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).copy()
                )
            else:
                found.append(tensor.data.copy())
        return found


PEERS = {"torch": Torch, "onnxruntime": OnnxRuntime, "openvino": OpenVino}


def load_feed(name, folder):
    feed = {}
    for i in models.get(name).inputs:
        value = np.load(os.path.join(folder, f"in.{i.name}.npy"))
        feed[i.name] = value.view(np.uint16) if i.dtype == "bfloat16" else value
    return feed


def measure(peer, seconds):
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        peer.run()
        times.append((time.perf_counter() - begin) * 1e3)
    return {
        "runs": len(times),
        "median_ms": float(np.median(times)),
        "min_ms": min(times),
        "p90_ms": float(np.percentile(times, 90)),
        "p99_ms": float(np.percentile(times, 99)),
        "rss_bytes": rss(),
    }


def serve(peer, feed):
    threads = 0
    for line in sys.stdin:
        wanted, seconds = line.split()
        if int(wanted) != threads:
            threads = int(wanted)
            pin(threads)
            peer.prepare(threads, feed)
            gc.collect()
            peer.run()
        say(measure(peer, float(seconds)))


def main():
    kind, name, path, folder = sys.argv[1:5]
    peer_class = PEERS[kind]
    if importlib.util.find_spec(peer_class.package) is None:
        return say({"missing": True})
    try:
        peer = peer_class(name, path, folder)
        feed = load_feed(name, folder)
        begin = time.perf_counter()
        peer.prepare(2, feed)
        load = time.perf_counter()
        outputs = peer.run()
        first = time.perf_counter()
        for i, array in enumerate(peer.arrays(outputs)):
            np.save(os.path.join(folder, f"{kind}.{i}.npy"), array)
        del outputs
        say(
            {
                "version": sys.modules[peer_class.package].__version__,
                "load_ms": (load - begin) * 1e3,
                "first_run_ms": (first - load) * 1e3,
                "imported_rss_bytes": peer.imported,
                "rss_bytes": rss(),
            }
        )
        if hasattr(peer, "exact") and len(sys.argv) > 5:
            for i, array in enumerate(peer.exact()):
                np.save(os.path.join(folder, f"exact.{i}.npy"), array)
            say({"exact": True})
        serve(peer, feed)
    except Exception as error:  # a refusal by a peer is a result and must not end the table
        say(
            {
                "failed": str(error).strip().splitlines()[0][:200]
                if str(error).strip()
                else type(error).__name__
            }
        )


if __name__ == "__main__":
    main()
