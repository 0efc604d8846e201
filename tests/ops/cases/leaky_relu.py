import numpy as np
from expected import call, meaning, through_onnx


def cases(random):
    x = np.array([-30.0, -1.0, -0.0, 0.0, 0.25, 30.0, np.nan, *random.floats(4)], np.float32)
    y = through_onnx("LeakyRelu", [x.astype(np.float64)], alpha=0.1).astype(np.float32)
    yield call("leaky_relu", [x], y, alpha=0.1)


MEANINGS = {
    "leaky_relu": meaning(
        floats=lambda x, alpha: np.where(x >= 0, x, alpha * x),
        attributes=[{"alpha": 0.01}, {"alpha": -2.0}],
        cpp="x >= 0 ? x : x * 0.01f",
    )
}
