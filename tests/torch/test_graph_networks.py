"""Graph networks of PyG: forward and backward against eager mode, and edges that name no node."""

import copy

import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close
from torch import nn

G = pytest.importorskip("torch_geometric.nn", reason="torch-geometric is not installed")

NODES, EDGES = 30, 120


def perceptron(inner, out):
    return nn.Sequential(nn.Linear(inner, 16), nn.ReLU(), nn.Linear(16, out))


LAYERS = {
    "gcn": lambda i, o: G.GCNConv(i, o),
    "sage": lambda i, o: G.SAGEConv(i, o),
    "sage_max": lambda i, o: G.SAGEConv(i, o, aggr="max"),
    "gat": lambda i, o: G.GATConv(i, o // 4, heads=4),
    "gatv2": lambda i, o: G.GATv2Conv(i, o // 4, heads=4),
    "gin": lambda i, o: G.GINConv(perceptron(i, o)),
    "edge": lambda i, o: G.EdgeConv(perceptron(2 * i, o)),
    "pna": lambda i, o: G.PNAConv(
        i, o, ["mean", "max", "min", "std"], ["identity"], torch.tensor([0, 3, 9, 4])
    ),
}


class Network(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.first, self.second = make(12, 16), make(16, 8)

    def forward(self, x, edges):
        return self.second(self.first(x, edges).relu(), edges)


def data(nodes=NODES, edges=EDGES):
    """Some nodes have no edge, and node 0 has many."""
    ends = torch.randint(0, nodes - 5, (2, edges))
    ends[1, ::3] = 0
    return torch.randn(nodes, 12), ends


def gradients(net, run, x, edges):
    x = x.clone().requires_grad_()
    out = run(x, edges)
    (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
    return [out.detach(), x.grad, *(p.grad for p in net.parameters())]


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name, graphs):
    torch.manual_seed(0)
    net, given = Network(LAYERS[name]), data()
    other = copy.deepcopy(net)
    theirs = gradients(net, net, *given)
    torch._dynamo.utils.counters.clear()
    ours = gradients(other, torch.compile(other, backend="tenon"), *given)
    close(ours, theirs)
    # Edges are chosen by a mask where loops are added, at which Dynamo breaks unless it is configured.
    breaks = torch._dynamo.utils.counters["graph_break"]
    assert all("Dynamic shape operator" in reason for reason in breaks), breaks
    assert graphs and not any(g.unsupported for g in graphs), [g.unsupported for g in graphs]


@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_one_graph_where_dynamo_takes_masks(name, graphs):
    torch.manual_seed(0)
    net, given = Network(LAYERS[name]), data()
    other = copy.deepcopy(net)
    theirs = gradients(net, net, *given)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(other, backend="tenon", fullgraph=True)
        close(gradients(other, compiled, *given), theirs)
    assert len(graphs) == 2


def test_graphs_of_other_sizes():
    torch.manual_seed(0)
    net = Network(LAYERS["gcn"])
    compiled = torch.compile(net, backend="tenon")
    for nodes, edges in ((30, 120), (41, 77), (25, 200), (60, 61)):
        given = data(nodes, edges)
        close(compiled(*given), net(*given))


def test_a_batch_of_graphs_is_pooled():
    torch.manual_seed(0)
    net = G.GraphConv(12, 8)
    batch = torch.arange(NODES) // 8

    def f(x, edges):
        h = net(x, edges)
        return torch.cat([G.global_add_pool(h, batch, 4), G.global_mean_pool(h, batch, 4),
                          G.global_max_pool(h, batch, 4)], 1)  # fmt: skip

    given = data()
    close(torch.compile(f, backend="tenon")(*given), f(*given))


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("name", ["sage", "edge"])
def test_an_edge_to_no_node_is_an_error(name, row):
    torch.manual_seed(0)
    net, (x, edges) = Network(LAYERS[name]), data()
    compiled = torch.compile(net, backend="tenon")
    compiled(x, edges)
    edges[row, 7] = NODES
    with pytest.raises((IndexError, RuntimeError), match="out of|outside|index"):
        compiled(x, edges)


SCATTERS = {
    "index_add": lambda x, i, e: x.index_add(0, i, e),
    "index_copy": lambda x, i, e: x.index_copy(0, i, e),
    "index_reduce": lambda x, i, e: x.index_reduce(0, i, e, "amax"),
    "index_put": lambda x, i, e: x.index_put((i,), e, accumulate=True),
    "scatter": lambda x, i, e: x.scatter(0, i[:, None].expand_as(e), e),
    "scatter_add": lambda x, i, e: x.scatter_add(0, i[:, None].expand_as(e), e),
    "gather": lambda x, i, e: x.gather(0, i[:, None].expand_as(e)),
    **{
        f"scatter_reduce_{kind}_{own}": lambda x, i, e, kind=kind, own=own: x.scatter_reduce(
            0, i[:, None].expand_as(e), e, kind, include_self=own
        )
        for kind in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    },
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("width", [1, 3, 8, 40])
@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_of_rows(name, width, graphs):
    x, e = torch.randn(9, width), torch.randn(7, width)
    i = torch.tensor(
        [3, 0, 8, 5, 1, 7, 2] if "copy" in name or name == "scatter" else [3, 0, 3, 3, 8, 0, 5]
    )
    compiled = torch.compile(SCATTERS[name], backend="tenon")
    close(compiled(x, i, e), SCATTERS[name](x, i, e))
    assert graphs and not any(g.unsupported for g in graphs), [g.unsupported for g in graphs]


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("bad", [9, -10])
@pytest.mark.parametrize("name", SCATTERS)
def test_places_out_of_range(name, bad):
    x, e = torch.randn(9, 8), torch.randn(3, 8)
    compiled = torch.compile(SCATTERS[name], backend="tenon")
    compiled(x, torch.tensor([1, 2, 3]), e)
    with pytest.raises((IndexError, RuntimeError), match="out of|outside|index"):
        compiled(x, torch.tensor([1, bad, 3]), e)
