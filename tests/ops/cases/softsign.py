import numpy as np
from expected import call, meaning, through_onnx


def cases(random):
    x = np.array([-30.0, -4.0, -1.0, -0.5, -0.0, 0.0, 0.25, 1.0, 3.0, 30.0, np.nan], np.float32)
    yield call("softsign", [x], through_onnx("Softsign", [x.astype(np.float64)]).astype(np.float32))


MEANINGS = {"softsign": meaning(floats=lambda x: x / (1 + abs(x)), cpp="x / (1 + std::fabs(x))")}
