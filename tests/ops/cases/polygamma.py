import mpmath
import numpy as np
from expected import call


def cases(random):
    above = np.array([1e-3, 0.3, 0.5, 1.0, 2.5, 17.0, 1e6])
    below = np.array([-0.2, -0.5, -1.75, -6.3, -30.125])
    for order in (1, 2, 3, 4, 7):
        x = np.concatenate([above, below])
        yield call("polygamma", [x], exact(order, x), order=order)
    x = np.array([0.5, 1.0, 3.0, 30.0, -0.4])
    yield call("polygamma", [x], exact(30, x), order=30)
    x = above.astype(np.float32)
    yield call("polygamma", [x], exact(1, x).astype(np.float32), order=1)
    ends = np.array([0.0, -0.0, -1.0, -8.0, np.inf, -np.inf, np.nan])
    infinite = np.array([np.inf] * 4 + [0.0, np.nan, np.nan])
    yield call("polygamma", [ends], infinite, order=1)
    yield call("polygamma", [ends], -infinite, order=2)


def exact(order, x):
    with mpmath.workdps(60):
        return np.array([float(mpmath.polygamma(order, mpmath.mpf(float(v)))) for v in x])
