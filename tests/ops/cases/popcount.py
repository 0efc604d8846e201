import numpy as np
from expected import call, meaning


def cases(random):
    for dtype in (np.int8, np.int32, np.int64, np.uint8):
        x = random.ints(5, low=0, high=128, dtype=dtype)
        yield call("popcount", [x], np.bitwise_count(x).astype(dtype))


MEANINGS = {
    "popcount": meaning(
        integers=lambda dtype, x: (
            int(x).bit_count() if x >= 0 else int(dtype[1:]) - int(~x).bit_count()
        )
    )
}
