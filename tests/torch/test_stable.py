"""Parameters that stay packed between calls, and are packed again when they change."""

import pytest
import torch
from conftest import close
from torch import nn

import tenon.torch  # noqa: F401


def net():
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32)).eval()


def compiled(f, **options):
    return torch.compile(f, backend="tenon", options=options)


def packed(graphs):
    """Bytes that the last call packed anew."""
    return graphs[-1].parts[0].program.last_counts()[1]


def test_packed_once(graphs):
    model, x = net(), torch.randn(8, 64)
    f = compiled(model)
    with torch.no_grad():
        close(f(x), model(x))
        assert packed(graphs) == (64 * 128 + 128 * 32) * 4
        close(f(x), model(x))
        assert packed(graphs) == 0


def change_by_optimizer(model):
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    torch.optim.SGD(model.parameters(), 0.1).step()


@pytest.mark.parametrize(
    "change",
    [
        change_by_optimizer,
        lambda model: model[0].weight.mul_(2),
        lambda model: model[0].weight.data.mul_(2),
        lambda model: setattr(model[0].weight, "data", torch.randn(128, 64)),
        lambda model: model.load_state_dict(net().state_dict()),
        lambda model: model[0].weight.set_(torch.randn(128, 64)),
    ],
)
def test_packed_again_after_a_change(change, graphs):
    model, x = net(), torch.randn(8, 64)
    f = compiled(model)
    with torch.no_grad():
        f(x)
        change(model)
        close(f(x), model(x))
        assert packed(graphs) > 0
        close(f(x), model(x))
        assert packed(graphs) == 0


def one_row(weight):
    weight.data[700] = 7.0


def one_column(weight):
    weight.data[:, 21] = 7.0


def a_part_of_all(weight):
    bound = weight.abs().max().item() * 0.99
    weight.data.clamp_(-bound, bound)


def a_range_of_rows(weight):
    weight.data[10:60] = 1.0


def signs(weight):
    weight.data[:, ::2].neg_()


@pytest.mark.parametrize("change", [one_row, one_column, a_part_of_all, a_range_of_rows, signs])
@pytest.mark.parametrize("features", [32, 1024, 1000])
def test_a_part_written_through_data(change, features, graphs):
    model, x = nn.Linear(features, 1024).eval(), torch.randn(8, features)
    f = compiled(model)
    with torch.no_grad():
        f(x)
        count = model.weight._version
        change(model.weight)
        assert model.weight._version == count
        close(f(x), model(x))
        assert packed(graphs) > 0


def test_parameters_in_one_buffer(graphs):
    model, x = net(), torch.randn(8, 64)
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    places = flat.split([p.numel() for p in model.parameters()])
    for p, place in zip(model.parameters(), places):
        p.data = place.view(p.shape)
    f = compiled(model)
    with torch.no_grad():
        f(x)
        for change in (lambda: flat.mul_(2), lambda: places[0][:9].fill_(5.0), lambda: places[2][100].fill_(9.0)):
            change()
            close(f(x), model(x))
            assert packed(graphs) > 0


def test_memory_that_comes_back(graphs):
    """New parameters at an address that an old one had."""
    model, x = net(), torch.randn(8, 64)
    f = compiled(model)
    with torch.no_grad():
        for _ in range(4):
            model[0].weight.data = model[0].weight.data.clone().neg_()
            close(f(x), model(x))


def test_parameters_that_keep_changing(graphs):
    model, x = net(), torch.randn(8, 64)
    f = compiled(model)
    with torch.no_grad():
        for _ in range(8):
            model[0].weight.add_(0.01)
            close(f(x), model(x))
    assert packed(graphs) == 0  # it became a program that packs nothing


def test_training_and_evaluation_in_turn():
    model, x = net(), torch.randn(8, 64)
    f = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        f(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            close(f(x), model(x))
            close(f(x), model(x))


def test_turned_off(graphs):
    model, x = net(), torch.randn(8, 64)
    f = compiled(model, stable=False)
    with torch.no_grad():
        close(f(x), model(x))
    assert packed(graphs) == 0


def test_threads():
    import threading

    model, x = net(), torch.randn(8, 64)
    f = compiled(model)
    with torch.no_grad():
        f(x)
        wanted = model(x)
    wrong = []

    def work():
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(f(x), wanted, atol=1e-5):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("inference_mode", [False, True])
def test_parameters_of_inference_mode(inference_mode):
    with torch.inference_mode(inference_mode):
        model, x = net(), torch.randn(8, 64)
        f = compiled(model)
        with torch.no_grad():
            close(f(x), model(x))
            model[0].weight.mul_(2)
            close(f(x), model(x))
