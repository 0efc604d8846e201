"""Training for many steps: the losses are eager mode's at every step, in float64 almost to the bit.

Small differences grow from step to step, so this is where a gradient shows that is nearly right. With
--all-models 50 steps of all networks; else 10 steps of two.
"""

import pytest
import torch

pytest.importorskip("transformers")

import tenon.torch  # noqa: E402, F401
from conftest import train  # noqa: E402
from models import MODELS, tensors, without_chance  # noqa: E402

LONG = [
    "bert",
    "gpt2",
    "llama",
    "t5",
    "vit",
    "resnet",
    "mixtral",
    "mamba",
    "whisper",
    "convnext",
    "deberta",
    "clip",
]
DOUBLE = ["bert", "gpt2"]
# Groups of rows whose sizes depend on data: torch multiplies each by itself.
IN_TORCH = {"mixtral": {"transformers.grouped_mm_fallback_backward.default"}}
# Always; the others with --all-models, as `check --full` does.
SHORT = {("gpt2", torch.float32), ("bert", torch.float64)}
CASES = [(name, torch.float32) for name in LONG] + [(name, torch.float64) for name in DOUBLE]


def in_type(inputs, dtype):
    return {
        key: value.to(dtype)
        if isinstance(value, torch.Tensor) and value.is_floating_point()
        else value
        for key, value in inputs.items()
    }


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda v: str(v).removeprefix("torch."))
def test_losses_of_many_steps(name, dtype, request, graphs):
    whole = request.config.getoption("--all-models")
    if not whole and (name, dtype) not in SHORT:
        pytest.skip("with --all-models")
    net, inputs = MODELS[name]()
    net, inputs = without_chance(net.train()).to(dtype), in_type(inputs, dtype)

    def loss(model):
        made = tensors(model(**inputs))
        return sum(t.square().mean() for t in made if t.is_floating_point() and t.requires_grad)

    # SGD: Adam divides by the size of a gradient, so that rounding errors of gradients near 0 become steps.
    optimizer = lambda p: torch.optim.SGD(p, 1e-3, momentum=0.9)  # noqa: E731
    losses = train(
        net, loss, 50 if whole else 10, optimizer, 1e-9 if dtype is torch.float64 else 1e-4
    )
    assert losses[-1][0] != losses[0][0]
    assert all(set(g.unsupported) <= IN_TORCH.get(name, set()) for g in graphs)
