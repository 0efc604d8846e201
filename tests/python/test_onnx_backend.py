"""tenon.onnx_backend, with ONNX's own runner."""

import collections
import os
import pathlib

import numpy as np
import onnx
import onnx_runner
import pytest
import tenon
import tenon.onnx_backend as backend
from conftest import MODELS

TENON = pathlib.Path(tenon.__file__).parents[2] / "bin" / "tenon"
FULL = os.environ.get("CHECK_FULL", "0") not in ("", "0")


def test_onnx_runner(capsys):
    """ONNX's runner gives for each case what the tree's own run of it gives: every twelfth case, and
    all with CHECK_FULL=1."""
    kinds = onnx_runner.outcomes("reference", "")
    nodes = onnx_runner.own()
    cases = [c for c in nodes.cases() if c.name not in nodes.OTHER_RULES]
    counts = collections.Counter(kinds.values())
    assert counts["failed"] == 0 and counts["passed"] > 1000, capsys.readouterr().out
    assert set(kinds) == {c.name for c in cases}
    own = {c.name: nodes.run(c, str(TENON), "reference")[0] for c in cases[:: 1 if FULL else 12]}
    differ = {n: (k, kinds[n]) for n, k in own.items() if kinds[n] != {"ok": "passed"}.get(k, k)}
    assert not differ
    if FULL:
        print(f"both: {dict(counts)}")


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
    with pytest.raises(tenon.UsageError, match="T0004.*no option 'optimize'"):
        backend.run_node(node, [a, a], optimize=True)
    with pytest.raises(onnx_runner.BackendIsNotSupposedToImplementIt, match="texts"):
        backend.run_node(node, [np.array(["x"]), np.array(["y"])])
