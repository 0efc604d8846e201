"""What a notebook or a script asks of the package itself: names, texts, devices, threads, versions."""

import logging
import pickle
import re
import sys
import types

import numpy as np
import onnx
import pytest
import tenon
from conftest import MODELS, ROOT, TEXT_ADD


def test_dir_has_every_public_name_and_no_other():
    listed = [name for name in dir(tenon) if not name.startswith("__")]
    assert set(tenon.__all__) <= set(listed)
    assert not [
        name for name in listed if name.startswith("_") or name in ("TYPE_CHECKING", "when_opened")
    ]
    for name in set(listed) - {"torch", "from_exported"}:
        assert getattr(tenon, name) is not None


def test_texts_of_ops_models_and_devices(mlp, add):
    @tenon.op("script.scaled")
    def scaled(x, a: float, axes: tuple = (0,), b: int = 2):
        return x * a

    assert repr(scaled) == "<tenon.Op script.scaled(x, a: float, axes: tuple = (0,), b: int = 2)>"
    assert repr(mlp).startswith("<tenon.Model mlp.onnx on cpu: (")
    assert repr(add) == "<tenon.Model cpu: (a: f32[n], b: f32[n]) -> (c: f32[n])>"
    assert mlp.source.endswith("mlp.onnx") and mlp.device == "cpu" and add.source == ""
    with tenon.load(TEXT_ADD, "reference") as closed:
        assert closed.device == "reference"
    assert "(closed)" in repr(closed)
    cpu = next(d for d in tenon.devices() if d["name"] == "cpu")
    assert repr(cpu).startswith("<tenon device cpu: ") and "\n" not in repr(cpu)
    assert isinstance(cpu, dict) and dict(cpu)["plugin"] == "cpu"


def test_a_result_that_is_not_there(add):
    x = np.ones(2, np.float32)
    with pytest.raises(
        tenon.Error, match="no result 'cc': did you mean 'c'\\? \\(results: c\\)"
    ) as e:
        add(x, x)["cc"]
    assert e.value.code == "T0602" and isinstance(e.value, (KeyError, tenon.NotFoundError))
    assert "model.inputs" in e.value.remedy or e.value.remedy


@pytest.fixture
def fresh_choice():
    tenon._devices._found.clear()
    yield
    tenon._devices._found.clear()


def test_the_first_device_that_is_present(caplog, fresh_choice):
    with caplog.at_level(logging.WARNING, "tenon"):
        model = tenon.load(TEXT_ADD, device=["cuda:9", "reference", "cpu"])
        tenon.load(TEXT_ADD, device=["cuda:9", "reference", "cpu"])
    assert model.device == "reference"
    (line,) = [r.getMessage() for r in caplog.records if r.name == "tenon.dispatch"]
    assert line.startswith("device reference is used: ") and "cuda" in line


@pytest.mark.parametrize(
    "given, kind, message",
    [
        (["cdua", "cpu"], tenon.NotFoundError, "no device `cdua`"),
        ([], tenon.UsageError, "empty list"),
        (["sim,cpu"], tenon.UsageError, "one name in each place"),
        ([None, "cpu"], tenon.UsageError, "one name in each place"),
        (7, tenon.UsageError, "int was given"),
    ],
)
def test_devices_that_cannot_be(given, kind, message, fresh_choice):
    with pytest.raises(kind, match=message):
        tenon.load(TEXT_ADD, device=given)


def test_no_device_is_present(fresh_choice):
    if any(d["name"].startswith("cuda") for d in tenon.devices()):
        pytest.skip("this machine has the device")
    with pytest.raises(tenon.DeviceError, match="none of the devices is present: .*cuda") as e:
        tenon.load(TEXT_ADD, device=["cuda"])
    assert e.value.code == "T0503"


def test_threads():
    before = tenon.get_num_threads()
    try:
        tenon.set_num_threads(3)
        assert tenon.get_num_threads() == 3
        tenon.set_num_threads(np.int64(2))
        assert tenon.get_num_threads() == 2
    finally:
        tenon.set_num_threads(None)
    assert tenon.get_num_threads() == before
    for wrong in (0, -1, True, 1.5, 1025, "2"):
        with pytest.raises(tenon.UsageError, match="T0004: count=.* is not a number of threads"):
            tenon.set_num_threads(wrong)


def test_threads_of_a_model():
    model = tenon.load(TEXT_ADD, threads=1)
    assert model.threads == 1 and pickle.loads(pickle.dumps(model)).threads == 1
    assert tenon.load(TEXT_ADD).threads is None
    x = np.ones(1 << 18, np.float32)
    assert (model(x, x)[0] == 2).all() and (model.start(x, x).result()[0] == 2).all()
    with pytest.raises(tenon.UsageError, match="threads=0"):
        tenon.load(TEXT_ADD, threads=0)


def test_metadata(tmp_path):
    proto = onnx.load(MODELS / "mlp.onnx")
    proto.producer_name, proto.doc_string, proto.model_version = "here", "says what", 300
    proto.metadata_props.add(key="author", value="the author")
    onnx.save(proto, tmp_path / "m.onnx")
    model = tenon.load(tmp_path / "m.onnx", "cpu")
    data = model.metadata
    assert (data["format"], data["producer"], data["description"]) == ("onnx", "here", "says what")
    assert data["version"] == 300 and data["properties"] == {"author": "the author"}
    assert data["opsets"][""] == proto.opset_import[0].version
    assert data["ir_version"] == proto.ir_version
    assert pickle.loads(pickle.dumps(model)).metadata == data
    model.save(tmp_path / "m.tpk")
    assert tenon.load(tmp_path / "m.tpk").metadata["devices"][0]["device"] == "cpu"
    assert tenon.load(TEXT_ADD).metadata == {}


def test_show_versions(capsys, monkeypatch):
    monkeypatch.setenv("TENON_LOGS", "recompiles")
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    tenon.show_versions()
    text = capsys.readouterr().out
    for part in (
        f"tenon: {tenon.__version__}",
        "python: 3",
        f"numpy: {np.__version__}",
        "device: cpu: ",
    ):
        assert part in text
    assert "TENON_LOGS=recompiles" in text and "hidden" not in text and "onednn" in text


def test_models_of_other_libraries(tmp_path):
    module = types.ModuleType("torch.nn.modules.module")
    module.Module = type("Module", (), {"__module__": module.__name__})
    net = type("Net", (module.Module,), {})()
    with pytest.raises(tenon.UsageError, match='Net is a network.*backend="tenon".*from_exported'):
        tenon.load(net)
    with pytest.raises(tenon.UsageError, match=r"as its bytes: model.SerializeToString\(\)"):
        tenon.load(onnx.load(MODELS / "mlp.onnx"))
    with pytest.raises(tenon.UsageError, match="and not dict"):
        tenon.load({})
    assert "torch" not in sys.modules


def test_a_line_after_two_seconds(monkeypatch, caplog):
    """A compilation said nothing for as long as it took."""
    import time

    from tenon import _progress

    monkeypatch.setattr(_progress, "AFTER_S", 0.05)
    tenon.set_logs()
    with _progress.watched("net.onnx") as progress:
        progress.stage = progress.kernels
        time.sleep(0.5)
    with _progress.watched("quick.onnx"):
        pass
    tenon.set_logs("-progress")
    with _progress.watched("silent.onnx"):
        time.sleep(0.3)
    tenon.set_logs()
    lines = [r.getMessage() for r in caplog.records if r.name == "tenon.progress"]
    assert len(lines) == 1
    assert re.match(r"net.onnx has been compiled for \d+ s: .*kernels", lines[0])


def test_extras_have_the_bounds_that_are_tested():
    text = (ROOT / "pyproject.toml").read_text()
    tested = re.search(
        r'^TESTED = "([\d.]+)"', (ROOT / "frontends/torch/capture/backend.py").read_text(), re.M
    )
    pinned = re.search(r"torch==([\d.]+)", (ROOT / "scripts/packages.sh").read_text())
    assert tested and pinned and pinned.group(1).startswith(tested.group(1) + ".")
    major, minor = map(int, tested.group(1).split("."))
    assert f'torch = ["torch>={major}.{minor},<{major}.{minor + 1}"' in text


def test_the_progress_of_a_build_in_a_log():
    """quickstart printed nothing for minutes where its output was a log."""
    import subprocess

    steps = [f"[{i}/40 {i / 2}] Building CXX object {i}" for i in range(1, 41)]
    text = "\n".join([*steps[:9], "FAILED: x.o", "x.cpp:1:1: error: no", *steps[9:]])
    done = subprocess.run(
        [ROOT / "scripts" / "progress"], input=text, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "built 4 of 40 steps in 2 s" and lines[-1] == "built 40 of 40 steps in 20 s"
    assert len(lines) == 12 and lines[2:4] == ["FAILED: x.o", "x.cpp:1:1: error: no"]
    assert "| scripts/progress" in (ROOT / "quickstart").read_text()
