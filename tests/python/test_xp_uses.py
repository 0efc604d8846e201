"""Libraries that are written for the array API standard, on tenon.xp."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from tenon import xp


def test_array_api_compat_finds_the_namespace() -> None:
    compat = pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert compat.is_array_api_obj(x) and compat.array_namespace(x, x + 1.0) is xp
    assert compat.size(x) == 4 and compat.device(x) == x.device
    assert compat.to_device(x, compat.device(x)) is x
    with pytest.raises(TypeError):
        compat.array_namespace(x, np.ones(2))


def test_array_api_extra_computes() -> None:
    extra = pytest.importorskip("array_api_extra", reason="array-api-extra is not installed")
    rng = np.random.default_rng(0)
    data = rng.normal(size=(3, 20))
    x = xp.asarray(data)
    np.testing.assert_allclose(np.asarray(extra.cov(x)), np.cov(data), rtol=1e-10)
    padded = extra.pad(x, 2)
    np.testing.assert_allclose(np.asarray(padded), np.pad(data, 2))
    np.testing.assert_allclose(np.asarray(extra.sinc(x)), np.sinc(data), rtol=1e-10)
    expected = np.kron(data[:, :2], data[:2, :3])
    np.testing.assert_allclose(np.asarray(extra.kron(x[:, :2], x[:2, :3])), expected, rtol=1e-12)
    assert int(extra.nunique(xp.asarray([1, 2, 2, 5]))) == 3
    changed = extra.at(x)[0, 1].set(7.0)
    assert float(changed[0, 1]) == 7.0


SKLEARN = """
import numpy as np, sklearn
from sklearn import metrics, preprocessing
from tenon import xp
rng = np.random.default_rng(0)
data = rng.normal(size=(30, 4)).astype(np.float32)
a, b = rng.integers(0, 3, 30), rng.integers(0, 3, 30)
with sklearn.config_context(array_api_dispatch=True):
    x = xp.asarray(data)
    for make in (preprocessing.MinMaxScaler, preprocessing.MaxAbsScaler, preprocessing.StandardScaler):
        scaled = make().fit_transform(x)
        assert type(scaled) is type(x), (make, type(scaled))
        np.testing.assert_allclose(np.asarray(scaled), make().fit_transform(data), rtol=1e-4, atol=1e-5)
    normal = preprocessing.Normalizer().fit_transform(x)
    np.testing.assert_allclose(np.asarray(normal), preprocessing.Normalizer().fit_transform(data), rtol=1e-5)
    accuracy = metrics.accuracy_score(xp.asarray(a), xp.asarray(b))
    assert abs(float(accuracy) - metrics.accuracy_score(a, b)) < 1e-6
    error = metrics.mean_squared_error(x[:, 0], x[:, 1])
    np.testing.assert_allclose(float(error), metrics.mean_squared_error(data[:, 0], data[:, 1]), rtol=1e-5)
    pairs = metrics.pairwise.euclidean_distances(x)
    np.testing.assert_allclose(np.asarray(pairs), metrics.pairwise.euclidean_distances(data), rtol=1e-3, atol=1e-3)
print("done")
"""


def test_scikit_learn_dispatches() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    # It asks for SciPy's own switch, which is read when SciPy is imported.
    done = subprocess.run(
        [sys.executable, "-c", SKLEARN], capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
    )  # fmt: skip
    assert done.returncode == 0 and "done" in done.stdout, done.stderr
