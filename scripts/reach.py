#!/usr/bin/env python3
"""Prints which tests a change can reach, for `./check --changed`.

    reach.py [BASE]    files that differ from BASE (main), committed or not

The output is a regular expression of ctest names, empty if the change reaches no test. The first
row of REACH whose prefix matches a file gives its tests. A file without a row reaches every test,
except pages and settings at the root, which reach none.
"""
import re
import subprocess
import sys

EVERYTHING = "."
UNITS = {
    "core/base": "base_test",
    "core/ir": "ir_.*test",
    "core/op": "op_test",
    "core/pass": "pass_test",
    "core/dispatch": "dispatch_test",
    "core/runtime": "runtime_test",
    "core/host": "host_test",
    "core/session": "session_test",
}
QUICK = ("^python$|lit|hostile|models|model_.*|devices_test|plugins_test|cpu_process_test|session_test|"
         "onnx_.*")
CODE = ("kernelgen|cpu|sim|interpreter|random_graphs|ops_device|ops_meanings|models_once_wrong|"
        "samples")
PLUGINS = "conform|scaffold|out_of_tree|samples|hostile_plugins|plugins_test|layer|abi|devices|null"
# (prefix, tests); several tests are joined by |
REACH = [
    ("docs/spec", "conform_spec|scaffold"),
    ("docs/guide", "scaffold|^python(_arrays)?$|^torch$"),
    ("docs/generated", "generated_docs|ops_coverage"),
    ("docs", ""),
    ("bench", ""),
    ("sdk/tenon/abi", EVERYTHING),
    ("sdk/tenon/cpp", EVERYTHING),
    ("sdk/tenon/kernelgen", f"{CODE}|{QUICK}"),
    ("sdk/tenon/plan", f"plan_test|device_program|cpu|sim|{QUICK}"),
    ("sdk/tenon/stream", "fake_cuda|fake_hip|fake_metal|fake_faults|lit"),
    ("sdk/tools/conform", "conform|abi_history"),
    ("sdk/tools", f"conform_reports|{QUICK}"),
    ("sdk/templates", "scaffold"),
    ("sdk/cmake", "scaffold|out_of_tree|samples"),
    ("core/host", f"host_test|{PLUGINS}|lit|hostile"),
    ("core", f"{'|'.join(UNITS.values())}|{QUICK}|layer|ops_derived|validation_test|"
             "random_graphs_(fusion_)?(cpu|reference)$"),
    ("frontends/python", "^python(_arrays|_wheels)?$|^torch(_tensors)?$"),
    ("frontends/torch", "^torch$|^python$"),
    ("frontends/onnx", f"frontend|hostile|{QUICK}"),
    ("frontends", "frontend|lit"),
    ("passes", f"{QUICK}|random_graphs"),
    ("plugins/ops", f"ops_.*|generated_docs|^torch$|{QUICK}|{CODE}"),
    ("plugins/cpu", f"cpu|{QUICK}|random_graphs.*(cpu|avx2|baseline)|out_of_tree"),
    ("plugins/sim", f"sim|{QUICK}|conform_plugins"),
    ("plugins/cuda", "fake_cuda|lit|conform_plugins"),
    ("plugins/intel", "fake_ze|lit|conform_plugins"),
    ("plugins/mps", "fake_metal|lit|conform_plugins"),
    ("plugins/rocm", "fake_hip|lit|conform_plugins"),
    ("plugins/layers", "layer|poison_test|validation_test|conform_plugins|lit"),
    ("plugins", PLUGINS),
    ("samples/notebooks", "^(python(_wheels)?|torch)$"),
    ("samples", "samples|out_of_tree|scaffold"),
    ("tests/models", "model"),
    ("tests/python", "^python(_arrays|_wheels)?$|^torch_tensors$"),
    ("tests/torch", "^torch(_tensors)?$"),
    ("pyproject.toml", "^python(_wheels)?$"),
    ("scripts/wheels", "^python_wheels$"),
    ("tests/random", "random_graphs"),
    ("tests/interpreter", "interpreter|random_graphs"),
    ("tests/conform", "conform"),
    ("tests/hostile", "hostile"),
    ("tests/ops", "ops_.*"),
    ("tests/abi", "abi"),
    ("tests/layers", "layer|poison_test|validation_test"),
    ("tests/out_of_tree", "scaffold|out_of_tree|samples"),
    ("tests", "lit|tree_rules"),
    ("scripts/tree_rules.py", "tree_rules"),
    ("scripts/format", ""),
]


def changed(base):
    def git(*words):
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    since = git("merge-base", base, "HEAD")[0]
    untracked = git("ls-files", "--others", "--exclude-standard")
    return sorted(set(git("diff", "--name-only", since) + untracked))


def tests_of(path):
    for prefix, tests in REACH:
        if path == prefix or path.startswith(prefix + "/"):
            return tests
    no_tests = re.fullmatch(r"[A-Z]+\.md|\.editorconfig|\.git-blame-ignore-revs", path)
    return "" if no_tests else EVERYTHING


def main():
    base = sys.argv[1] if len(sys.argv) > 1 else "main"
    reached = {tests_of(path) for path in changed(base)} - {""}
    print(EVERYTHING if EVERYTHING in reached else "|".join(sorted(reached)))


if __name__ == "__main__":
    main()
