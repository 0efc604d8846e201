"""All scenarios, by the name of their module and function."""

import data_parallel  # noqa: F401
import dtensor  # noqa: F401
import fully_shard  # noqa: F401
import functional  # noqa: F401
import guide  # noqa: F401
import mismatches  # noqa: F401
import one_program  # noqa: F401
import schedules  # noqa: F401
import tensor_parallel  # noqa: F401
import two_dims  # noqa: F401
from common import ALL

__all__ = ["ALL"]
