"""What is logged about compiled networks, and the page of `explain`."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import tenon
import tenon.torch
import torch
from torch import nn

HERE = pathlib.Path(__file__).name


@pytest.fixture
def logged(caplog):
    """Chooses components, and gives the lines of one of them."""

    def lines(component):
        return [r.getMessage() for r in caplog.records if r.name == f"tenon.{component}"]

    yield lines
    tenon.set_logs()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        return x + self.inner(x).tanh()  # the line of tanh


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def line_of(text):
    """ "test_logs.py:41", of the line of this file that has a text."""
    lines = pathlib.Path(__file__).read_text().splitlines()
    return f"{HERE}:{next(i for i, line in enumerate(lines, 1) if text in line)}"


def test_kernels_and_devices_with_the_lines_that_they_compute(logged):
    tenon.set_logs("fusion", "dispatch", "perf")
    torch.compile(Net(), backend="tenon")(torch.randn(4, 8)).sum().backward()
    place = line_of("# the line of tanh")
    for kind in ("forward", "backward"):
        kernels = [line for line in logged("fusion") if line.startswith(f"{kind} graph of ")]
        assert (
            any("cpu computes" in line and "tanh" in line and place in line for line in kernels)
            or kind == "backward"
        )
        assert kernels and all(HERE in line or "no line" in line for line in kernels), kernels
        (times,) = [line for line in logged("perf") if line.startswith(f"{kind} graph of ")]
        assert re.search(
            r"operators became graphs of Tenon in \d+ ms and programs in \d+ ms: \d+ kernels", times
        ), times
    assert (
        sum(
            bool(re.search(r"in 1 program: \d+ nodes on cpu$", line)) for line in logged("dispatch")
        )
        == 2
    ), logged("dispatch")
    assert not logged("guards") and not logged("recompiles")


def test_what_stays_in_torch_and_where(logged):
    def f(x):
        y = torch.linalg.matrix_exp(x)  # no mapping
        return y.relu()

    tenon.set_logs("dispatch,perf")
    torch.compile(f, backend="tenon")(torch.randn(4, 4))
    assert any(
        line_of("# no mapping") + ": aten.linalg_matrix_exp.default stays in torch: " in t
        for t in logged("dispatch")
    )
    assert any("1 operators stay in torch" in line for line in logged("perf"))


def test_guards_breaks_and_recompilations(logged):
    scale = 2

    def f(x):
        y = x * scale
        torch._dynamo.graph_break()  # here
        return y + 1

    tenon.set_logs("+guards", "recompiles", "graph_breaks")
    compiled = torch.compile(f, backend="tenon")
    compiled(torch.randn(3))
    assert any(
        line_of("# here") in line and "the graph ends here" in line
        for line in logged("graph_breaks")
    ), logged("graph_breaks")
    assert any("['x'] is a tensor" in line and HERE in line for line in logged("guards")), logged(
        "guards"
    )
    assert not logged("recompiles")
    breaks = len(logged("graph_breaks"))
    compiled(torch.randn(5))
    (first, *_) = logged("recompiles")
    assert HERE in first and "f is compiled again" in first and "expected 3, actual 5" in first, (
        first
    )
    assert breaks >= 1
    tenon.set_logs()
    compiled(torch.randn(3, 3))
    assert len(logged("recompiles")) == 1 + sum("resume" in line for line in logged("recompiles"))


def test_what_was_before_is_not_logged(logged):
    torch._dynamo.reset()
    fast = torch.compile(lambda x: x * 2 + 1, backend="tenon", dynamic=False)
    for size in (3, 4):
        fast(torch.ones(size))  # the second time it is compiled again
    tenon.set_logs("recompiles")
    fast(torch.ones(5))
    assert len(logged("recompiles")) == 2  # neither of the two programs fits


def test_guards_without_a_plus_leave_out_modules(logged):
    tenon.set_logs("guards")
    torch.compile(Net(), backend="tenon")(torch.randn(4, 8))
    assert logged("guards") and not any(
        "TYPE_MATCH" in line or "hooks" in line for line in logged("guards")
    )


def test_an_unknown_component(logged):
    tenon.set_logs("perf")
    with pytest.raises(
        tenon.UsageError,
        match="no component 'gaurds': did you mean 'guards'.*cache, dispatch, fusion",
    ) as e:
        tenon.set_logs("gaurds")
    assert e.value.code == "T0643"
    torch.compile(lambda x: x + 1, backend="tenon")(torch.randn(3))
    assert logged("perf")  # nothing changed


CHOSEN = """
import tenon
{first}
import torch
import tenon.torch
torch.compile(lambda x: x.sin() + 1, backend="tenon")(torch.ones(4))
"""


@pytest.mark.parametrize("how", ["set_logs", "environment"])
def test_chosen_before_the_import(how, tmp_path):
    first = "tenon.set_logs('dispatch', 'cache')" if how == "set_logs" else ""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    if how == "environment":
        environment["TENON_LOGS"] = "dispatch,cache,guards"
    program = tmp_path / "program.py"
    program.write_text(CHOSEN.format(first=first))
    runs = [
        subprocess.run(
            [sys.executable, program],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(2)
    ]
    for done in runs:
        assert (
            "tenon: [dispatch] inference graph of program.py:6: 2 operators in 1 program"
            in done.stderr
        ), done.stderr
        assert re.search(r"^tenon: \[cache\] \S+ \S+ is (not )?in the cache", done.stderr, re.M), (
            done.stderr
        )
        assert "not a component" not in done.stderr
    assert (
        "[cache] the inference graph of program.py:6 comes from torch's cache on disk"
        in runs[1].stderr
    )
    assert ("[guards] program.py" in runs[0].stderr) == (how == "environment")


def test_a_page_with_modules_and_lines(tmp_path):
    net = Net()
    explained = tenon.torch.explain(net, torch.randn(4, 8))
    page = tmp_path / "net.html"
    explained.report(page)
    text = page.read_text()
    data = json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.S).group(1))
    assert data["parts"] and [run["label"] for run in data["runs"]] == ["forward", "backward"]
    for run in data["runs"]:
        nodes = run["program"]["graph"]["nodes"]
        assert run["events"]["traceEvents"] and run["model"] == f"Net, {run['label']}"
        for block in "01":
            assert any(
                node["name"].startswith(f"/blocks/{block}/inner/0/")
                for node in nodes
                if node.get("name")
            ), nodes
        assert any(
            f"{pathlib.Path(n['source']).name}:{n['line']}" == line_of("# the line of tanh")
            for n in nodes
            if n.get("line")
        )
    with pytest.raises(tenon.UsageError, match="does not end in .html"):
        explained.report(tmp_path / "net.txt")


def data_of(page):
    return json.loads(
        re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page.read_text(), re.S).group(1)
    )


def test_a_page_names_parameters_and_what_stays_in_torch(tmp_path):
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.out = nn.BatchNorm1d(4), nn.Linear(4, 4)

        def forward(self, x):
            return torch.linalg.matrix_exp(self.out(self.norm(x))).sin()

    tenon.torch.explain(Normed(), torch.randn(4, 4)).report(tmp_path / "net.html")
    runs = data_of(tmp_path / "net.html")["runs"]
    named, stays = {}, {}
    for run in runs:
        graph = run["program"]["graph"]
        kind = run["label"].split()[0]
        named.setdefault(kind, set()).update(
            v["name"] for v in graph["values"] if v["value"] in graph["inputs"]
        )
        stays[kind] = {(row["op"], row["place"]) for row in run["torch"] if row["us"] > 0}
        assert run["peaks"]["gflops"] > 0 and len(run["peaks"]["streams"]) == 3
    assert {"x", "norm.weight", "norm.running_mean", "out.weight", "out.bias"} <= named["forward"]
    assert "out.weight" in named["backward"] and "gradient of result 0" in named["backward"]
    place = line_of("return torch.linalg.matrix_exp(self.out")
    found = {(op, pathlib.Path(where).name) for op, where in stays["forward"]}
    assert ("aten.linalg_matrix_exp.default", place) in found, stays
    assert ("aten.copy_.default", "update of norm.running_mean") in stays["forward"]


@pytest.mark.parametrize(
    "source, name",
    [
        ("L['self']._modules['fc']._parameters['weight']", "fc.weight"),
        ("L['net']._modules['0']._buffers['mean']", "0.mean"),
        ("G['net']._modules['0']._parameters['bias']", "net.0.bias"),
        ("L['x']", "x"),
        ("L['self']", "self"),
        ("L['batch']['image'][0]", "batch.image.0"),
        ("L['self'].param_groups[0]['params'][1]", "self.param_groups.0.params.1"),
    ],
)
def test_names_of_inputs(source, name):
    from tenon.torch.graph.input_names import plain_name

    assert plain_name(source) == name


def test_a_page_of_what_stays_in_torch(tmp_path):
    explained = tenon.torch.explain(lambda x: torch.linalg.matrix_exp(x), torch.randn(4, 4))
    with pytest.raises(tenon.UsageError) as e:
        explained.report(tmp_path / "none.html")
    assert e.value.code == "T0644" and not (tmp_path / "none.html").exists()
