"""ONNX's own runner of node tests over tenon.onnx_backend.

    python3 tests/python/onnx_runner.py [--device reference] [--filter TEXT] [-v]

Prints counts as tests/models/onnx_nodes.py does for the command: passed, failed, refused as not
supported.
"""

import argparse
import collections
import pathlib
import sys
import unittest
import warnings

import tenon.onnx_backend as backend
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt


def cases(device):
    class OnDevice(backend.TenonBackend):
        @classmethod
        def device_name(cls, name):
            return device if name == "CPU" else name.lower()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test import BackendTest

        return BackendTest(OnDevice, __name__)


def outcome(function):
    """The runner hides refusals unless it is verbose, so the function beneath it is called."""
    try:
        function()
    except BackendIsNotSupposedToImplementIt as e:
        return "refused", str(e)
    except unittest.SkipTest as e:
        return "refused", str(e)
    except Exception as e:
        return "failed", f"{type(e).__name__}: {e}"
    return "passed", ""


def own():
    """The tree's own node cases: tests/models/onnx_nodes.py."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
    import onnx_nodes

    return onnx_nodes


def outcomes(device, text, verbose=False):
    """What became of each case whose name has this text: passed, failed or refused."""
    kinds = {}
    for test, item in cases(device)._test_items["NodeModel"].items():
        name = test.removesuffix("_cpu")
        if name == test or text not in test or name in own().OTHER_RULES:
            continue
        beneath = item.func.__wrapped__
        kinds[name], why = outcome(lambda beneath=beneath: beneath(None, "CPU"))
        if kinds[name] == "failed" or (verbose and kinds[name] == "refused"):
            print(f"{kinds[name]} {name}: {why[:300]}")
    return kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="reference")
    parser.add_argument("--filter", default="")
    parser.add_argument("-v", action="store_true", help="show refusals too")
    options = parser.parse_args()
    counts = collections.Counter(outcomes(options.device, options.filter, options.v).values())
    print(f"{counts['refused']} refused as not supported")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
