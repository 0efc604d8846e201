"""Parameters that stay packed between calls, and are packed again when they change."""

import pytest
import tenon.torch  # noqa: F401
import torch
from conftest import close
from torch import nn


def net():
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32)).eval()


def compiled(f, **options):
    return torch.compile(f, backend="tenon", options=options)


def packed(graphs):
    """Bytes that the last call packed again."""
    return graphs[-1].partitions[0].program.last_counts()[1]


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


def through_numpy(weight):
    weight.detach().numpy()[777, 333] = 50.0


def through_data(weight):
    weight.data[1023, 511] = 50.0


@pytest.mark.parametrize("change", [through_numpy, through_data])
@pytest.mark.parametrize("compare, calls", [("part", 16), ("all", 1), ("none", None)])
def test_one_element(change, compare, calls):
    """By default a write is seen after at most 16 calls, with "all" at once, with "none" never."""
    model, x = nn.Linear(512, 1024).eval(), torch.randn(8, 512)
    f = compiled(model, compare=compare)
    with torch.no_grad():
        for _ in range(5):
            before = f(x)
        change(model.weight)
        made = [f(x) for _ in range(calls or 40)]
        close(made[-1], model(x) if calls else before)


def test_an_element_of_a_small_parameter():
    model, x = net(), torch.randn(8, 64)
    f = compiled(model)
    with torch.no_grad():
        f(x)
        model[0].weight.data[3, 5] = 50.0
        close(f(x), model(x))


@pytest.mark.parametrize("length", [9, 4096, 300_000, 300_001, 300_007])
def test_each_byte_is_in_one_part(length):
    from tenon import _native

    memory = torch.zeros(length, dtype=torch.uint8)
    place, parts = memory.data_ptr(), 16 if length > 256 << 10 else 1
    hashes = [_native.hash_part([place], [length], part, parts) for part in range(parts)]
    for at in (0, 7, 8, length // 2, length - 9, length - 1):
        memory[at] = 1
        changed = [_native.hash_part([place], [length], part, parts) for part in range(parts)]
        assert sum(a != b for a, b in zip(hashes, changed)) == 1
        memory[at] = 0
    with pytest.raises(ValueError):
        _native.hash_part([place], [length], 16, 16)


def test_parameters_in_one_buffer(graphs):
    model, x = net(), torch.randn(8, 64)
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    places = flat.split([p.numel() for p in model.parameters()])
    for p, place in zip(model.parameters(), places):
        p.data = place.view(p.shape)
    f = compiled(model)
    with torch.no_grad():
        f(x)
        for change in (
            lambda: flat.mul_(2),
            lambda: places[0][:9].fill_(5.0),
            lambda: places[2][100].fill_(9.0),
        ):
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
