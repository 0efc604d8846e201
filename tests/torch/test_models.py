"""Networks of transformers, and plain ones: forward, other sizes, training."""

import pytest
import torch
from torch import nn

pytest.importorskip("transformers")

import tenon.torch  # noqa: E402, F401
from conftest import close, train  # noqa: E402
from models import MODELS, ids, tensors, without_chance  # noqa: E402

# One of each kind; `python3 -m pytest --all-models` runs the others, too.
FORWARD = ["bert", "gpt2", "mixtral", "vit", "swin", "mobilenet_v2", "wav2vec2", "deberta"]
TRAINED = ["bert", "llama", "t5"]


@pytest.fixture(params=sorted(MODELS))
def forward_model(request):
    if request.param not in FORWARD and not request.config.getoption("--all-models"):
        pytest.skip("with --all-models")
    return request.param


@pytest.fixture(params=sorted(MODELS))
def sized_model(request):
    if request.param != "llama" and not request.config.getoption("--all-models"):
        pytest.skip("with --all-models")
    return request.param


def test_forward(forward_model, graphs):
    net, inputs = MODELS[forward_model]()
    net.eval()
    with torch.no_grad():
        close(tensors(torch.compile(net, backend="tenon")(**inputs)), tensors(net(**inputs)))
    assert graphs and not any(g.unsupported for g in graphs)


@pytest.mark.parametrize("name", TRAINED)
def test_training(name, graphs):
    net, inputs = MODELS[name]()
    net = without_chance(net.train())

    def loss(model):
        made = tensors(model(**inputs))
        return sum(t.square().mean() for t in made if t.is_floating_point() and t.requires_grad)

    train(net, loss, steps=5)
    assert not any(g.unsupported for g in graphs)


def other_sizes(inputs, batch, longer):
    """The same inputs with another batch, and sequences of tokens that many times as long."""

    def other(value):
        if not isinstance(value, torch.Tensor):
            return value
        value = value.repeat(batch, *[1] * (value.dim() - 1))[:batch]
        return (
            value.repeat(1, longer) if value.dim() == 2 and not value.is_floating_point() else value
        )

    return {key: other(value) for key, value in inputs.items()}


# The position of the end of a text is read from its tokens, and images have one size each.
NOT_LONGER = {"clip"}
# torch halves the length of an associative scan until nothing is left, and Dynamo guards the halves.
BY_LENGTH = {"mamba"}


def handed_over(net, calls):
    """How many graphs Dynamo makes of a network for these calls, with any backend."""
    count = 0

    def backend(gm, inputs):
        nonlocal count
        count += 1
        return gm.forward

    torch._dynamo.reset()
    compiled = torch.compile(net, backend=backend)
    for given in calls:
        compiled(**given)
    return count


def test_other_sizes(sized_model, graphs):
    net, inputs = MODELS[sized_model]()
    compiled = torch.compile(without_chance(net.eval()), backend="tenon")
    longer = 1 if sized_model in NOT_LONGER else 2
    calls = [
        other_sizes(inputs, batch, times)
        for batch, times in ((2, 1), (3, longer), (5, longer), (4, 1))
    ]
    counts = []
    with torch.no_grad():
        for given in calls:
            close(tensors(compiled(**given)), tensors(net(**given)))
            counts.append(len(graphs))
        most = handed_over(net, calls) if sized_model in BY_LENGTH else 2 * counts[0]
    assert counts[-1] <= most, counts


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
                    made = model(
                        input_ids=tokens if step == 0 else tokens[:, -1:],
                        past_key_values=caches[i],
                        use_cache=True,
                    )
                    caches[i] = made.past_key_values
                    parts.append(made.logits)
                close(parts[0], parts[1])
                mine = torch.cat([mine, parts[0][:, -1:].argmax(-1)], 1)
                theirs = torch.cat([theirs, parts[1][:, -1:].argmax(-1)], 1)
            assert torch.equal(mine, theirs)


def look_ahead(n):
    return torch.triu(torch.ones(n, n, dtype=torch.bool), 1)


PADDING = torch.arange(7) >= torch.tensor([[7], [4], [1]])


@pytest.mark.parametrize(
    ("norm_first", "masks"),
    [
        (True, {}),
        (False, {"src_mask": look_ahead(7)}),
        (True, {"src_mask": nn.Transformer.generate_square_subsequent_mask(7)}),
        (True, {"src_key_padding_mask": PADDING}),
        (False, {"src_mask": look_ahead(7), "src_key_padding_mask": PADDING}),
    ],
    ids=["plain", "look-ahead", "floats", "padding", "both"],
)
def test_an_encoder_layer_that_torch_computes_as_one_operator(norm_first, masks, graphs):
    """`_transformer_encoder_layer_fwd`, which stayed in torch."""
    gelu = nn.functional.gelu if norm_first else nn.functional.relu
    layer = nn.TransformerEncoderLayer(
        16, 2, 24, activation=gelu, batch_first=True, norm_first=norm_first
    )
    with torch.no_grad():
        for p in layer.parameters():
            p.uniform_(-1, 1)
        x = torch.randn(3, 7, 16)
        expected = layer.eval()(x, **masks)
        close(torch.compile(layer, backend="tenon")(x, **masks), expected)
    assert len(graphs) == 1 and len(graphs[0].partitions) == 1 and not graphs[0].unsupported


@pytest.mark.parametrize(
    "options", [{"need_weights": False}, {"average_attn_weights": False}], ids=str
)
def test_attention_that_torch_computes_as_one_operator(options, graphs):
    net, x = nn.MultiheadAttention(16, 2, batch_first=True).eval(), torch.randn(3, 7, 16)
    with torch.no_grad():
        for p in net.parameters():
            p.uniform_(-1, 1)
        close(torch.compile(net, backend="tenon")(x, x, x, **options), net(x, x, x, **options))
    assert len(graphs) == 1 and len(graphs[0].partitions) == 1 and not graphs[0].unsupported
