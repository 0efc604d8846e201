"""all_to_all: over a mesh of one process, what this process has. tests/mesh has meshes of several."""

import numpy as np
from expected import call

MESHES = [{"mesh": "data=1", "axes": "data"}, {"mesh": "data=1,model=1", "axes": "model,data"}]


def cases(random):
    for mesh in MESHES:
        x = random.floats(2, 3)
        for split, concat in ((0, 0), (0, 1), (1, 0), (1, 1)):
            yield call("all_to_all", [x], x, **mesh, split_dim=split, concat_dim=concat)
    x = random.ints(4, dtype=np.int64)
    yield call("all_to_all", [x], x, **MESHES[0])
    x = random.floats(0, 3)
    yield call("all_to_all", [x], x, **MESHES[0])
