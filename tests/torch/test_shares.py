"""Networks are handed over as one graph, which Tenon runs nearly whole."""

import pytest
import torch
from torch import nn

pytest.importorskip("transformers")

import plain_networks  # noqa: E402
from conftest import close  # noqa: E402
from models import MODELS, tensors  # noqa: E402
from shares import difference, measured, networks  # noqa: E402

NETWORKS = networks()
# One of each kind; with --all-models the others, too.
ALWAYS = {"transformers distilbert", "transformers mixtral", "recurrent", "unet", "recommender"}
# The size of these is fixed by what is in the network.
FIXED = {"mixer"}


def test_how_many_networks_there_are():
    assert len(MODELS) == 30 and len(plain_networks.PLAIN) == 10
    assert len(NETWORKS) in (40, 43)  # without diffusers, with it


@pytest.fixture(params=sorted(NETWORKS))
def name(request):
    if request.param not in ALWAYS and not request.config.getoption("--all-models"):
        pytest.skip("with --all-models")
    return request.param


def test_nearly_all_flops_are_in_one_graph_of_tenon(name):
    made = measured(name, NETWORKS[name])
    assert made.graphs == 1 and not made.breaks, made
    assert made.flops and made.share >= 0.99, made
    assert made.worst <= 1e-4, made


def test_what_stays_in_torch_is_counted(monkeypatch):
    """The measurement itself: a product that torch computes."""
    from tenon.torch.graph import walk

    known = walk.find
    monkeypatch.setattr(
        walk, "find", lambda target: None if "addmm" in str(target) else known(target)
    )
    made = measured(
        "one", lambda: (nn.Sequential(nn.Linear(8, 9), nn.ReLU()), (torch.randn(3, 8),))
    )
    assert (
        made.unsupported == ["aten.addmm.default"] and made.flops == made.in_torch == 2 * 3 * 8 * 9
    )


class Broken(nn.Module):
    """Dynamo makes two graphs of it, with a product between them."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 9), nn.Linear(9, 4)

    @torch._dynamo.disable
    def between(self, x):
        return x @ x.T @ x

    def forward(self, x):
        return self.last(self.between(self.first(x)))


def test_what_dynamo_leaves_out_is_counted():
    """It was not, so that a network in pieces had all its flops in Tenon."""
    made = measured("broken", lambda: (Broken(), (torch.randn(3, 8),)))
    assert made.graphs == 2 and made.breaks
    assert made.in_torch == 2 * (2 * 3 * 9 * 3) and made.flops == made.in_torch + 2 * 3 * 9 * (
        8 + 4
    )


def test_numbers_that_are_not_finite_differ():
    """The largest of 0.1 and NaN was 0.1."""
    nan, inf = float("nan"), float("inf")
    assert max(0.0, difference(torch.tensor([1.0, nan]), torch.ones(2))) == inf
    assert (
        difference(torch.ones(2), torch.tensor([1.0, inf]))
        == inf
        == difference(torch.tensor([-inf]), torch.tensor([inf]))
    )
    assert difference(torch.tensor([nan, inf, 1.0]), torch.tensor([nan, inf, 2.0])) == 0.5


@pytest.mark.parametrize("plain", sorted(set(plain_networks.PLAIN) - FIXED))
def test_other_batches_compile_at_most_twice(plain, request, graphs):
    if plain not in ALWAYS and not request.config.getoption("--all-models"):
        pytest.skip("with --all-models")
    net, inputs = plain_networks.PLAIN[plain]()
    net = net.eval()
    compiled = torch.compile(net, backend="tenon")
    with torch.no_grad():
        for batch in (2, 3, 6, 4):
            given = [t.repeat(4, *[1] * (t.dim() - 1))[:batch] for t in inputs]
            close(tensors([compiled(*given)]), tensors([net(*given)]))
    assert len(graphs) <= 2
