"""Networks of transformers, and plain ones: forward, other sizes, training."""

import pytest
import torch

pytest.importorskip("transformers")

from conftest import close, train  # noqa: E402
from models import MODELS, ids, tensors, without_chance  # noqa: E402

import tenon.torch  # noqa: E402, F401

# One of each kind; `python3 -m pytest --all-models` runs the others, too.
FORWARD = ["bert", "gpt2", "mixtral", "vit", "swin", "mobilenet_v2", "wav2vec2", "deberta"]
TRAINED = ["bert", "llama", "t5"]


@pytest.fixture(params=sorted(MODELS))
def forward_model(request):
    if request.param not in FORWARD and not request.config.getoption("--all-models"):
        pytest.skip("with --all-models")
    return request.param


def test_forward(forward_model, graphs):
    net, inputs = MODELS[forward_model]()
    net.eval()
    with torch.no_grad():
        close(tensors(torch.compile(net, backend="tenon")(**inputs)), tensors(net(**inputs)))
    assert graphs and not any(g.refused for g in graphs)


@pytest.mark.parametrize("name", TRAINED)
def test_training(name, graphs):
    net, inputs = MODELS[name]()
    net = without_chance(net.train())

    def loss(model):
        made = tensors(model(**inputs))
        return sum(t.square().mean() for t in made if t.is_floating_point() and t.requires_grad)

    train(net, loss, steps=5)
    assert not any(g.refused for g in graphs)


@pytest.mark.parametrize("name", ["llama"])
def test_other_sizes(name, graphs):
    net, _ = MODELS[name]()
    compiled = torch.compile(net.eval(), backend="tenon")
    with torch.no_grad():
        for batch, length in ((2, 16), (3, 24), (5, 32), (4, 7)):
            x = ids(batch, length)
            close(tensors(compiled(input_ids=x)), tensors(net(input_ids=x)))
    assert len(graphs) == 2


def test_decoding_with_a_cache():
    net, _ = MODELS["gpt2"]()
    net.eval()
    compiled = torch.compile(net, backend="tenon")
    x = ids(1, 5)
    with torch.no_grad():
        for _ in range(2):
            mine, theirs = x, x
            caches = [None, None]
            for step in range(4):
                parts = []
                for i, (model, tokens) in enumerate(((compiled, mine), (net, theirs))):
                    made = model(input_ids=tokens if step == 0 else tokens[:, -1:], past_key_values=caches[i], use_cache=True)
                    caches[i] = made.past_key_values
                    parts.append(made.logits)
                close(parts[0], parts[1])
                mine = torch.cat([mine, parts[0][:, -1:].argmax(-1)], 1)
                theirs = torch.cat([theirs, parts[1][:, -1:].argmax(-1)], 1)
            assert torch.equal(mine, theirs)
