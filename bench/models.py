#!/usr/bin/env python3
"""The models of the benchmarks: defined here with a fixed seed and random weights, exported to ONNX
in a folder outside the tree.

    bench/models.py --list
    bench/models.py [--only NAME,...] [--cache DIR] [--opset N] [--exporter torchscript|dynamo] [--attention eager|sdpa] [--force]

Files are DIR/EXPORTER-opsetN-ATTENTION/NAME.onnx; DIR is --cache, else BENCH_MODELS_DIR, else
~/.cache/tenon-bench. An existing file is kept. Importable: `get(NAME)`, `export(NAME, ...)`,
`inputs(NAME, seed)`, `torch_module(NAME)`. Torch is imported only to export or to run; the models
of the package rapidocr-onnxruntime need only that package, `unet` only numpy and onnx, and the
quantised ones onnxruntime.
"""

import argparse
import dataclasses
import functools
import importlib.util
import os
import sys
import tempfile
import typing

SEED = 20
DEFAULT_OPSET = 17


@dataclasses.dataclass(frozen=True)
class Input:
    name: str
    shape: tuple  # a size, or (symbol, size): symbolic in the file, `size` when measured
    dtype: str = "float32"
    kind: str = "normal"  # normal, uniform (0..1), tokens (below `bound`), mask (ones, the last eighth zeros)
    bound: int = 0

    def sizes(self, dims=None):
        return tuple(d if isinstance(d, int) else (dims or {}).get(d[0], d[1]) for d in self.shape)

    def symbols(self):
        return {i: d[0] for i, d in enumerate(self.shape) if not isinstance(d, int)}


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    summary: str
    inputs: tuple
    build: typing.Callable | None = None  # attention -> torch module
    packaged: str = ""  # file in rapidocr-onnxruntime
    write: typing.Callable | None = None  # path, seed: writes the file without torch
    source: str = ""  # the model that `quantise` makes the file of
    quantise: typing.Callable | None = None  # path, file of the source, scratch folder
    outputs: tuple = ("output",)
    flops: float = 0  # of the contractions, counting multiply and add separately; 0 if unknown
    headline: bool = False  # in the table of a full run
    extra: bool = False  # exported only by name


def _network(name, *args):
    def build(attention):
        import networks

        factory = getattr(networks, name)
        return factory(*args, attention=attention) if name in ("bert", "gpt2") else factory(*args)

    return build


def _matmul(k, n, dtype="float32"):
    def build(attention):
        import networks
        import torch

        return networks.MatMul(k, n, getattr(torch, dtype))

    return build


def _write_unet(path, seed):
    import unet

    unet.write(path, seed)


def _quantise(how, *args):  # names of models that give feeds
    def write(path, source, scratch):
        import quantised

        function = getattr(quantised, how)
        feeds = [functools.partial(inputs, name) for name in args]
        (function(*feeds) if feeds else function)(path, source, scratch)

    return write


def _tokens(vocabulary):
    return (
        Input("input_ids", (1, 128), "int64", "tokens", vocabulary),
        Input("attention_mask", (1, 128), "int64", "mask"),
    )


_IMAGE = (Input("image", (1, 3, 224, 224)),)
_BERT_LAYER = 2 * 128 * (4 * 768 * 768 + 2 * 768 * 3072) + 4 * 128 * 128 * 768

MODELS = {
    m.name: m
    for m in (
        Model(
            "resnet50",
            "ResNet-50, batch 1",
            _IMAGE,
            _network("ResNet50"),
            flops=8.18e9,
            headline=True,
        ),
        Model(
            "mobilenetv2",
            "MobileNetV2, batch 1",
            _IMAGE,
            _network("MobileNetV2"),
            flops=0.60e9,
            headline=True,
        ),
        Model(
            "bert",
            "BERT-base, 128 tokens",
            _tokens(30522),
            _network("bert"),
            flops=12 * _BERT_LAYER,
            headline=True,
        ),
        Model(
            "gpt2",
            "GPT-2 prefill of 128 tokens with logits",
            _tokens(50257),
            _network("gpt2"),
            flops=12 * _BERT_LAYER + 2 * 128 * 768 * 50257,
            headline=True,
        ),
        Model(
            "pointwise_softmax",
            "pointwise chain and softmax, 8192 x 1024",
            (Input("x", (8192, 1024)),),
            _network("PointwiseSoftmax"),
            headline=True,
        ),
        Model(
            "mlp",
            "MLP 64-256-256-10, batch 1",
            (Input("x", (1, 64)),),
            _network("Mlp"),
            flops=2 * (64 * 256 + 256 * 256 + 2560),
            headline=True,
        ),
        Model(
            "encoder",
            "small encoder, symbolic batch and length",
            (Input("x", (("batch", 2), ("length", 32), 128)),),
            _network("Encoder"),
            headline=True,
        ),
        Model(
            "gemm_f32",
            "f32 1024 x 1024 x 1024",
            (Input("x", (1024, 1024)),),
            _matmul(1024, 1024),
            flops=2 * 1024**3,
            headline=True,
        ),
        Model(
            "gemm_bf16",
            "bf16 1024 x 1024 x 1024",
            (Input("x", (1024, 1024), "bfloat16"),),
            _matmul(1024, 1024, "bfloat16"),
            flops=2 * 1024**3,
            headline=True,
        ),
        Model(
            "gemm_small",
            "f32 16 x 64 x 64",
            (Input("x", (16, 64)),),
            _matmul(64, 64),
            flops=2 * 16 * 64 * 64,
            headline=True,
        ),
        Model(
            "gemv",
            "f32 1 x 4096 x 4096",
            (Input("x", (1, 4096)),),
            _matmul(4096, 4096),
            flops=2 * 4096**2,
            headline=True,
        ),
        Model(
            "bert_24",
            "BERT with 24 layers, for the compile time by depth",
            _tokens(30522),
            _network("bert", 24),
            flops=24 * _BERT_LAYER,
            extra=True,
        ),
        Model(
            "resnet50_int8",
            "ResNet-50 in bytes (static, QDQ, per channel)",
            _IMAGE,
            source="resnet50",
            quantise=_quantise("static_qdq", "resnet50"),
            flops=8.18e9,
        ),
        Model(
            "mobilenetv2_int8",
            "MobileNetV2 in bytes (static, QDQ, per channel)",
            _IMAGE,
            source="mobilenetv2",
            quantise=_quantise("static_qdq", "mobilenetv2"),
            flops=0.60e9,
        ),
        Model(
            "bert_int8",
            "BERT-base in bytes (dynamic, per channel)",
            _tokens(30522),
            source="bert",
            quantise=_quantise("dynamic"),
            flops=12 * _BERT_LAYER,
        ),
        Model(
            "unet",
            "diffusion UNet at half width, 64 x 64 latent",
            (
                Input("sample", (1, 4, 64, 64)),
                Input("timestep", (1,), kind="uniform"),
                Input("text", (1, 77, 384)),
            ),
            write=_write_unet,
            headline=True,
        ),
        Model(
            "ocr_det",
            "PP-OCRv4 text detector, 640 x 640",
            (Input("x", (("batch", 1), 3, ("height", 640), ("width", 640)), kind="uniform"),),
            packaged="ch_PP-OCRv4_det_infer.onnx",
            headline=True,
        ),
        Model(
            "ocr_rec",
            "PP-OCRv4 text recogniser, 48 x 320",
            (Input("x", (("batch", 1), 3, ("height", 48), ("width", 320)), kind="uniform"),),
            packaged="ch_PP-OCRv4_rec_infer.onnx",
            headline=True,
        ),
        Model(
            "ocr_cls",
            "text direction, 48 x 192",
            (Input("x", (("batch", 1), 3, ("height", 48), ("width", 192)), kind="uniform"),),
            packaged="ch_ppocr_mobile_v2.0_cls_infer.onnx",
        ),
    )
}


def get(name):
    if name not in MODELS:
        sys.exit(f"no model {name!r}; there are: {', '.join(MODELS)}")
    return MODELS[name]


def inputs(name, seed=1, dims=None):
    """Random inputs by name as numpy arrays; bfloat16 is represented by its bits in uint16. `dims`
    overrides symbolic sizes."""
    import numpy as np

    rng = np.random.default_rng(seed)
    return {i.name: _random(np, rng, i, i.sizes(dims)) for i in get(name).inputs}


def _random(np, rng, spec, shape):
    if spec.kind == "tokens":
        return rng.integers(0, spec.bound, shape, dtype=spec.dtype)
    if spec.kind == "mask":
        mask = np.ones(shape, spec.dtype)
        mask[..., shape[-1] - shape[-1] // 8 :] = 0
        return mask
    values = (rng.random(shape) if spec.kind == "uniform" else rng.standard_normal(shape)).astype(
        np.float32
    )
    if spec.dtype == "bfloat16":
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return values.astype(spec.dtype)


def to_torch(name, arrays):
    import torch

    kinds = {i.name: i.dtype for i in get(name).inputs}
    return {
        k: torch.from_numpy(v.copy()).view(torch.bfloat16)
        if kinds[k] == "bfloat16"
        else torch.from_numpy(v.copy())
        for k, v in arrays.items()
    }


def torch_module(name, attention="eager"):
    """The module with its weights, the same for every call; None if the model is not a module."""
    model = get(name)
    if model.build is None:
        return None
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import networks
    import torch

    torch.manual_seed(SEED)
    return networks.settle(model.build(attention), tuple(to_torch(name, inputs(name)).values()))


def cache_folder(cache=None):
    return cache or os.environ.get("BENCH_MODELS_DIR") or os.path.expanduser("~/.cache/tenon-bench")


def packaged_path(file):
    """The path of a model of rapidocr-onnxruntime; None without the package, which is not
    imported."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = os.path.join(folder, "models", file)
        if os.path.exists(path):
            return path
    return None


def export(
    name, cache=None, opset=DEFAULT_OPSET, exporter="torchscript", attention="eager", force=False
):
    """The path of the model's ONNX file, which is exported if it is missing; None for a packaged
    model whose package is missing."""
    model = get(name)
    if model.packaged:
        return packaged_path(model.packaged)
    folder = os.path.join(cache_folder(cache), f"{exporter}-opset{opset}-{attention}")
    path = os.path.join(folder, name + ".onnx")
    if force or not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        if model.quantise is None:
            _export_to(model, path, opset, exporter, attention)
        else:
            _quantise_to(model, path, export(model.source, cache, opset, exporter, attention))
    return path


def _write_to(model, path):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as scratch:
        file = os.path.join(scratch, model.name + ".onnx")
        model.write(file, SEED)
        os.replace(file, path)


def _quantise_to(model, path, source):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as scratch:
        file = os.path.join(scratch, model.name + ".onnx")
        model.quantise(file, source, scratch)
        os.replace(file, path)


def _export_to(model, path, opset, exporter, attention):
    if model.write is not None:
        return _write_to(model, path)
    import torch

    module = torch_module(model.name, attention)
    example = tuple(to_torch(model.name, inputs(model.name)).values())
    with torch.no_grad():
        result = module(*example).float()
    if not torch.isfinite(result).all() or result.abs().max() < 1e-6:
        sys.exit(
            f"{model.name}: the random weights give outputs that compare nothing (max {result.abs().max()})"
        )
    options = {
        "input_names": [i.name for i in model.inputs],
        "output_names": list(model.outputs),
        "opset_version": opset,
    }
    symbols = {i.name: i.symbols() for i in model.inputs if i.symbols()}
    with tempfile.TemporaryDirectory(
        dir=os.path.dirname(path)
    ) as scratch:  # an interrupted export must not leave a partial file
        file = os.path.join(scratch, model.name + ".onnx")
        if exporter == "dynamo":
            shapes = tuple(
                {
                    d: torch.export.Dim(s, min=1, max=4096)
                    for d, s in symbols.get(i.name, {}).items()
                }
                for i in model.inputs
            )
            torch.onnx.export(
                module,
                example,
                file,
                dynamo=True,
                external_data=False,
                verbose=False,
                dynamic_shapes=shapes if symbols else None,
                **options,
            )
        else:
            torch.onnx.export(module, example, file, dynamo=False, dynamic_axes=symbols, **options)
        os.replace(file, path)


def describe(model):
    shapes = ", ".join(
        f"{i.name} {i.dtype} "
        + "x".join(str(d) if isinstance(d, int) else f"{d[0]}({d[1]})" for d in i.shape)
        for i in model.inputs
    )
    return f"{model.name:18} {model.summary:45} {shapes}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--list", action="store_true", help="names, summaries and inputs; exports nothing"
    )
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--cache", help="folder of the exported files")
    parser.add_argument("--opset", type=int, default=DEFAULT_OPSET)
    parser.add_argument("--exporter", choices=("torchscript", "dynamo"), default="torchscript")
    parser.add_argument(
        "--attention", choices=("eager", "sdpa"), default="eager", help="of the transformers models"
    )
    parser.add_argument("--force", action="store_true", help="export again")
    args = parser.parse_args()
    chosen = (
        [get(n) for n in args.only.split(",")]
        if args.only
        else [m for m in MODELS.values() if args.list or not m.extra]
    )
    for model in chosen:
        if args.list:
            print(describe(model))
            continue
        path = export(model.name, args.cache, args.opset, args.exporter, args.attention, args.force)
        print(path or f"{model.name}: rapidocr-onnxruntime is not installed")


if __name__ == "__main__":
    main()
