"""tenon.onnx_backend, with ONNX's own runner."""

import numpy as np
import onnx
import onnx_runner
import pytest
from conftest import MODELS

import tenon.onnx_backend as backend


def test_onnx_runner(capsys):
    counts = onnx_runner.count("reference", "")
    assert counts["failed"] == 0 and counts["passed"] > 1000, capsys.readouterr().out


def test_a_model():
    x, want = np.load(MODELS / "mlp.in.x.npy"), np.load(MODELS / "mlp.out.y.npy")
    model = onnx.load(MODELS / "mlp.onnx")
    for given in ([x], {"x": x}):
        np.testing.assert_allclose(backend.prepare(model).run(given)[0], want, 1e-4, 1e-4)
    np.testing.assert_allclose(backend.run_model(model, [x], "reference")[0], want, 1e-4, 1e-4)
    assert backend.supports_device("CPU") and not backend.supports_device("TPU")


def test_a_node():
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    a = np.arange(4, dtype=np.float32)
    assert backend.run_node(node, [a, a])[0].tolist() == [0, 2, 4, 6]
    with pytest.raises(onnx_runner.BackendIsNotSupposedToImplementIt, match="texts"):
        backend.run_node(node, [np.array(["x"]), np.array(["y"])])
