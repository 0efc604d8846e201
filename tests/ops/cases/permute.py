"""permute: over a mesh of one process, what it sends to itself, or zeros. tests/mesh has meshes of several."""

import numpy as np
from expected import call

MESHES = [{"mesh": "data=1", "axes": "data"}, {"mesh": "data=1,model=1", "axes": "model,data"}]


def cases(random):
    for mesh in MESHES:
        x = random.floats(2, 3)
        yield call("permute", [x], x, **mesh, pairs=[0, 0])
        yield call("permute", [x], np.zeros_like(x), **mesh)
    x = random.ints(4, dtype=np.int64)
    yield call("permute", [x], x, **MESHES[0], pairs=[0, 0])
    x = random.floats(0, 3)
    yield call("permute", [x], x, **MESHES[0], pairs=[0, 0])
