#!/usr/bin/env python3
"""Writes tests/models/forms: four small networks in the forms of ONNX files that PyTorch's
exporters have written over the years.

    pip install torch==2.13.0 transformers==5.23.0 numpy onnx onnxscript onnxruntime
    python3 tests/models/export_forms.py

Each network has the blocks of its full-size namesake in bench/networks.py. Its weights are the same
in every form, so that all share one pair of inputs and outputs: NAME.CASE.in.INPUT.npy and
NAME.CASE.out.OUTPUT.npy. Case `a` has the sizes of the export; case `b` has others, for forms with
symbolic sizes. The results are committed; running the tests needs no torch.
"""

import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
FORMS = HERE / "forms"
sys.path.insert(0, str(HERE.parents[1] / "bench"))
import networks  # noqa: E402

MAX_BYTES = 150_000
TOKENS = 40
# exporter, opset, symbolic sizes
EXPORTS = (
    ("torchscript", 11, False),
    ("torchscript", 11, True),
    ("torchscript", 13, True),
    ("torchscript", 14, False),
    ("torchscript", 17, True),
    ("dynamo", 18, True),
    ("dynamo", 20, False),
)


class Outputs(nn.Module):
    """A transformers model as a function of tensors."""

    def __init__(self, model, pooled):
        super().__init__()
        self.model, self.pooled = model, pooled

    def forward(self, input_ids, attention_mask):
        result = self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)
        return result[:2] if self.pooled else result[0]


def resnet():
    return nn.Sequential(
        networks.conv_norm(3, 8, 7, 2, activation=nn.ReLU),
        nn.MaxPool2d(3, 2, 1),
        networks.Bottleneck(8, 4, 1),
        networks.Bottleneck(16, 8, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def mobilenet():
    return nn.Sequential(
        networks.conv_norm(3, 8, 3, 2, activation=nn.ReLU6),
        networks.InvertedResidual(8, 8, 1, 1),
        networks.InvertedResidual(8, 12, 2, 6),
        networks.InvertedResidual(12, 12, 1, 6),
        networks.conv_norm(12, 32, 1, activation=nn.ReLU6),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32, 10),
    )


def bert(attention):
    from transformers import BertConfig, BertModel

    return Outputs(
        BertModel(
            BertConfig(
                vocab_size=TOKENS,
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=48,
                attn_implementation=attention,
            )
        ),
        True,
    )


def gpt2(attention):
    from transformers import GPT2Config, GPT2LMHeadModel

    return Outputs(
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=TOKENS,
                n_embd=16,
                n_layer=2,
                n_head=2,
                n_positions=48,
                use_cache=False,
                attn_implementation=attention,
            )
        ),
        False,
    )


def images(batch):
    return {"image": torch.randn(batch, 3, 33, 33)}


def texts(batch, length):
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, length - length // 4 :] = 0
    return {"input_ids": torch.randint(0, TOKENS, (batch, length)), "attention_mask": mask}


SEQUENCE = {0: "batch", 1: "length"}
NETWORKS = {
    "resnet": (resnet, lambda: (images(2), images(3)), {"image": {0: "batch"}}, ["y"]),
    "mobilenet": (mobilenet, lambda: (images(2), images(1)), {"image": {0: "batch"}}, ["y"]),
    "bert": (
        bert,
        lambda: (texts(2, 12), texts(3, 7)),
        {"input_ids": SEQUENCE, "attention_mask": SEQUENCE},
        ["y", "pooled"],
    ),
    "gpt2": (
        gpt2,
        lambda: (texts(2, 12), texts(1, 9)),
        {"input_ids": SEQUENCE, "attention_mask": SEQUENCE},
        ["y"],
    ),
}


def module_of(name, attention):
    build = NETWORKS[name][0]
    torch.manual_seed(3)
    module = build(attention) if name in ("bert", "gpt2") else build()
    for (
        parameter
    ) in module.parameters():  # normalisations start with 1 and 0, which would hide a mistake
        if parameter.dim() == 1:
            parameter.data.add_(torch.randn(parameter.shape) * 0.1)
    torch.manual_seed(4)
    sample = NETWORKS[name][1]()[0]
    return networks.settle(module, tuple(sample.values()))


def export(name, exporter, opset, symbolic, path):
    _, cases, symbols, outputs = NETWORKS[name]
    torch.manual_seed(5)
    inputs = cases()[0]
    # The attention op can be exported from opset 14 on.
    module = module_of(name, "sdpa" if opset >= 14 else "eager")
    options = {"input_names": list(inputs), "output_names": outputs, "opset_version": opset}
    if exporter == "dynamo":
        shapes = tuple(dict.fromkeys(symbols[i], torch.export.Dim.DYNAMIC) for i in inputs)
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(path),
            dynamo=True,
            external_data=False,
            verbose=False,
            dynamic_shapes=shapes if symbolic else None,
            **options,
        )
    else:
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(path),
            dynamo=False,
            dynamic_axes=symbols if symbolic else None,
            **options,
        )


def strip(path):
    """Removes texts that the tests do not read: the Python locations of nodes."""
    model = onnx.load(str(path))
    for item in [
        *model.graph.node,
        *model.graph.value_info,
        *model.graph.input,
        *model.graph.output,
        model.graph,
    ]:
        item.ClearField("doc_string")
        if hasattr(item, "metadata_props"):
            del item.metadata_props[:]
    del model.graph.value_info[:]
    onnx.save(model, str(path))


def run(path, feeds):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}
    values = session.run(None, {k: v.numpy() for k, v in feeds.items() if k in names})
    return {o.name: v for o, v in zip(session.get_outputs(), values)}


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    FORMS.mkdir(exist_ok=True)
    for name, (_, cases, _, _) in NETWORKS.items():
        torch.manual_seed(5)
        inputs = dict(zip("ab", cases()))
        expected = {}
        for exporter, opset, symbolic in EXPORTS:
            path = FORMS / f"{name}_{exporter}{opset}{'_symbolic' if symbolic else ''}.onnx"
            with tempfile.TemporaryDirectory() as folder:
                scratch = pathlib.Path(folder) / "model.onnx"
                export(name, exporter, opset, symbolic, scratch)
                strip(scratch)
                path.write_bytes(scratch.read_bytes())
            assert path.stat().st_size < MAX_BYTES, (path, path.stat().st_size)
            for case in "ab" if symbolic else "a":
                for key, value in run(path, inputs[case]).items():
                    first = expected.setdefault((case, key), value)
                    assert np.abs(first - value).max() <= 1e-5 * np.abs(first).max(), (
                        path,
                        case,
                        key,
                    )
            print(f"{path.name}: {path.stat().st_size} bytes")
        for case, feeds in inputs.items():
            for key, value in feeds.items():
                np.save(FORMS / f"{name}.{case}.in.{key}.npy", value.numpy())
        for (case, key), value in expected.items():
            np.save(FORMS / f"{name}.{case}.out.{key}.npy", value)


if __name__ == "__main__":
    main()
