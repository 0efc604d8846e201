"""What the tests of tenon.torch share. The package is the one of the build tree (PYTHONPATH)."""

from __future__ import annotations

import copy
import importlib.util
import os

import pytest

FULL = os.environ.get("CHECK_FULL", "0") not in ("", "0")
# ./check sets CHECK_FULL=0 and runs a part. Without the variable everything but --all-models runs.
PART = os.environ.get("CHECK_FULL") == "0"

# What that part leaves to ./check --full. Tests that take long for what they find:
ONLY_IN_FULL = {
    "test_diffusers.py::test_forward",
    "test_docs.py::test_training_with_other_libraries",
    "test_flex.py::test_rows_of_any_number",
    "test_aot_cache.py::test_options_are_part_of_the_key",
    "test_aot_cache.py::test_sizes_that_change_are_traced_again",
    "test_logs.py::test_chosen_before_the_import[set_logs]",
    "test_long_training.py::test_losses_of_many_steps",
    "test_models.py::test_decoding_with_a_cache",
    "test_models.py::test_forward[mixtral]",
    "test_models.py::test_forward[swin]",
    "test_models.py::test_training[llama]",
    "test_models.py::test_training[t5]",
    "test_threads.py::test_a_stated_number_has_threads_of_its_own",
}
# Modules whose parametrised tests run one of so many cases.
ONE_OF = {
    "test_aliases.py": 2,
    "test_backend.py": 2,
    "test_bags.py": 2,
    "test_complex.py": 2,
    "test_control.py": 2,
    "test_data_sizes.py": 2,
    "test_day.py": 2,
    "test_linalg.py": 3,
    "test_mixed_types.py": 2,
    "test_graph_networks.py": 3,
    "test_quantised.py": 3,
    "test_resize.py": 3,
}

collect_ignore_glob = []
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_addoption(parser):
    parser.addoption(
        "--all-models", action="store_true", default=FULL, help="all configurations of models.py"
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "all_models: run only with --all-models")


def in_part(item, seen):
    """Whether ./check runs this test. `seen` counts the cases of each parametrised test."""
    module, name = item.path.name, f"{item.path.name}::{item.name}"
    if name in ONLY_IN_FULL or name.partition("[")[0] in ONLY_IN_FULL:
        return False
    if "[" not in item.name:
        return True
    test = name.partition("[")[0]
    seen[test] = seen.get(test, -1) + 1
    return seen[test] % ONE_OF.get(module, 1) == 0


def pytest_collection_modifyitems(config, items):
    seen = {}
    rest = [
        item
        for item in items
        if item.get_closest_marker("all_models") and not config.getoption("--all-models")
    ]
    if PART:
        rest += [item for item in items if item not in rest and not in_part(item, seen)]
    gone = set(rest)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=rest)


def pytest_sessionfinish(session, exitstatus):
    if collect_ignore_glob and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = 0


def pytest_terminal_summary(terminalreporter):
    if collect_ignore_glob:
        terminalreporter.write_line(
            "skipped: PyTorch is not installed (scripts/packages.sh: torch_environment)"
        )


@pytest.fixture(autouse=True)
def fresh():
    """Every test compiles afresh, with the same random numbers."""
    import torch

    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def graphs():
    """The graphs that were compiled in this test, as they are compiled."""
    from tenon.torch.capture.watch import watch

    listed = []
    watch.lists.append(listed)
    yield listed
    watch.lists.remove(listed)


def close(a, b, tolerance=1e-4):
    """Asserts that results agree to a part of the largest, in type, shape, and strides too."""
    import torch
    from torch.utils import _pytree as pytree

    mine, theirs = pytree.tree_leaves(a), pytree.tree_leaves(b)
    assert len(mine) == len(theirs)
    for x, y in zip(mine, theirs):
        if not isinstance(y, torch.Tensor):
            assert x == y
            continue
        assert x.dtype == y.dtype and x.shape == y.shape and x.stride() == y.stride()
        if y.numel():
            largest = y.detach().double().abs().max().item()
            assert (x.double() - y.double()).abs().max().item() <= tolerance * largest + 1e-7


def train(net, data, steps=5, optimizer=None, tolerance=1e-4):
    """Trains a network and its compiled copy; the losses agree at every step."""
    import torch

    other = copy.deepcopy(net)
    compiled = torch.compile(other, backend="tenon")
    make = optimizer or (lambda p: torch.optim.AdamW(p, 1e-3))
    both = [(net, make(net.parameters())), (compiled, make(other.parameters()))]
    losses = []
    for _ in range(steps):
        pair = []
        for model, steps_of in both:
            steps_of.zero_grad()
            loss = data(model)
            loss.backward()
            steps_of.step()
            pair.append(loss.item())
        losses.append(pair)
    for a, b in losses:
        assert abs(a - b) <= tolerance * abs(a) + 1e-12, losses
    return losses
