"""axis_index: over a mesh of one process, 0. tests/mesh has meshes of several."""

import numpy as np
from expected import call


def cases(random):
    for mesh, axes in (("data=1", "data"), ("data=1,model=1", "model,data")):
        yield call("axis_index", [], np.int64(0), mesh=mesh, axes=axes)
