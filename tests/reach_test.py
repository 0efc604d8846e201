#!/usr/bin/env python3
"""scripts/reach.py chooses the tests that a change needs, for changes of each kind.

    reach_test.py BUILD/build.ninja

Nothing is built: a case names changed files, and the tests that must and must not be chosen. A test
is the name of an entry of ctest, or `ENTRY:FILE` for a file of lit or pytest. Tests that BUILD
lacks, as those of PyTorch where it is not installed, are left out and counted.
"""

# Reaches only: reach.py, reach_choice.py, reach_graph.py, reach_names.py, reach_tests.py
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import reach  # noqa: E402

HEAVY = ["random_graphs_fusion_cpu", "conform_mutants", "ops_meanings"]
# (changed files, chosen, not chosen)
CASES = [
    # Sources of tests.
    ("core/base/file_test.cpp", ["base_test"], ["ir_test", "lit", "session_test"]),
    ("tests/runtime/call_test.cpp", ["call_test"], ["session_test", "lit"]),
    ("tests/passes/dce.tir", ["lit:tests/passes/dce.tir"], ["lit:tests/passes/cse.tir", "models"]),
    ("tests/cli/Inputs/add.tir", ["lit:tests/cli/usage.test"], ["lit:tests/passes/dce.tir"]),
    (
        "tests/python/test_op.py",
        ["python_arrays:tests/python/test_op.py"],
        ["python_arrays:tests/python/test_xp.py", "python", "torch"],
    ),
    (
        "tests/torch/test_linalg.py",
        ["torch:tests/torch/test_linalg.py"],
        ["torch:tests/torch/test_backend.py", "python"],
    ),
    ("tests/torch/conftest.py", ["torch:tests/torch/test_backend.py"], ["python", "lit"]),
    ("tests/models/forms.py", ["model_forms"], ["models", "onnx_nodes", "lit"]),
    ("tests/models/shapes.py", ["model_forms", "model_ocr"], ["onnx_fused"]),
    ("tests/models/mlp.onnx", ["models", "lit:tests/cli/no_gpus.test"], ["conform_mutants"]),
    (
        "tests/ops/values.cases",
        ["ops_derived_test", "ops_device_test"],
        ["ops_every_f32_test", "lit"],
    ),
    (
        "tests/ops/cases/softsign.py",
        ["ops_cases", "ops_every_f32_test", "ops_meanings"],
        ["lit", "models"],
    ),
    (
        "tests/fakes/cuda/driver.cpp",
        ["fake_cuda_plugin_test", "lit:tests/cuda/models.test"],
        ["runtime_test", "lit:tests/passes/dce.tir"],
    ),
    ("tests/lit.cfg.py", ["lit"], ["models"]),
    ("tests/README.md", [], ["lit", "models", "tree_rules"]),
    # The SDK.
    (
        "sdk/tenon/stream/queue.cpp",
        [
            "stream_test",
            "fake_cuda_plugin_test",
            "fake_hip_graph_test",
            "fake_metal_dlpack",
            "lit:tests/rocm/models.test",
        ],
        ["runtime_test", "torch", *HEAVY],
    ),
    (
        "sdk/tenon/cpp/op.hpp",
        ["sdk_cpp_test", "ops_derived_test", "own_op"],
        ["fake_cuda_plugin_test", "torch"],
    ),
    ("sdk/tenon/cpp/dlpack.hpp", ["dlpack_test", "fake_cuda_dlpack_test"], ["base_test", "torch"]),
    ("sdk/templates/op-c++/CMakeLists.txt", ["scaffold"], ["lit", "models"]),
    # Plugins.
    (
        "plugins/lapack/routines.cpp",
        ["lit:tests/lapack/values.test", "python_arrays:tests/python/test_xp_linalg.py"],
        ["lit:tests/passes/dce.tir", "python", "torch", "runtime_test", *HEAVY],
    ),
    ("plugins/lapack/manifest.json.in", ["lit:tests/lapack/values.test"], ["lit", *HEAVY]),
    (
        "plugins/cuda/device.cpp",
        ["fake_cuda_plugin_test", "fake_cuda_conform", "lit:tests/cuda/models.test"],
        ["fake_hip_graph_test", "lit:tests/lapack/values.test", "torch", "runtime_test", *HEAVY],
    ),
    (
        "plugins/cpu/device.cpp",
        ["cpu_test", "cpu_process_test", "models", "lit:tests/cpu/softmax.tir"],
        ["fake_cuda_plugin_test", "runtime_test", "torch", "random_graphs_fusion_cpu"],
    ),
    (
        "plugins/ops/softmax.cpp",
        ["ops_derived_test", "generated_docs", "models", "session_test"],
        ["runtime_test", "fake_cuda_plugin_test", "torch", "random_graphs_fusion_cpu"],
    ),
    ("plugins/layers/poison/poison.cpp", ["poison_test"], ["models", "lit", *HEAVY]),
    # Frontends.
    (
        "frontends/torch/lowerings/linalg.py",
        ["torch:tests/torch/test_linalg.py", "torch:tests/torch/test_control.py", "torch_opdb"],
        ["torch", "python", "lit", "models", *HEAVY],
    ),
    (
        "frontends/python/tenon/xp/linalg.py",
        ["python_arrays:tests/python/test_xp_linalg.py"],
        ["python_arrays", "lit", "models", *HEAVY],
    ),
    (
        "frontends/python/native/eager/eager.cpp",
        ["python_arrays:tests/python/test_eager.py"],
        ["torch", "lit", "models"],
    ),
    (
        "frontends/onnx/ops/nn.cpp",
        ["onnx_fused", "models", "lit:tests/cli/no_gpus.test"],
        ["fake_cuda_plugin_test", "runtime_test", "torch", *HEAVY],
    ),
    ("frontends/npy/format.cpp", ["frontend_npy_test"], ["models", "runtime_test", *HEAVY]),
    # Passes and core.
    (
        "passes/dce.cpp",
        ["lit:tests/passes/dce.tir", "models", "session_test"],
        ["runtime_test", "fake_cuda_plugin_test", "torch", *HEAVY],
    ),
    (
        "core/runtime/device/queue.cpp",
        ["runtime_test", "session_test", "models", "lit:tests/passes/dce.tir"],
        ["ir_test", "torch", "out_of_tree", "fake_cuda_plugin_test", *HEAVY],
    ),
    ("core/base/file.h", ["base_test", "host_test", "models"], ["torch", *HEAVY]),
    # Pages, scripts, settings.
    ("docs/guide/torch.md", ["torch:tests/torch/test_docs.py"], ["lit", "models", *HEAVY]),
    ("docs/generated/ops/softmax.md", ["generated_docs"], ["lit", "models", *HEAVY]),
    ("docs/adr/README.md", [], ["lit", "models", "scaffold"]),
    ("scripts/tree_rules.py", ["tree_rules"], ["lit", "models", *HEAVY]),
    ("scripts/reach_choice.py", ["reach"], ["lit", "models", "tree_rules"]),
    ("scripts/tidy", [], ["lit", "models", "tree_rules"]),
    ("samples/opencl/device.cpp", ["out_of_tree"], ["lit", "models", *HEAVY]),
    ("tests/runtime/CMakeLists.txt", ["session_test", "call_test"], ["lit", "models", "ir_test"]),
    ("cmake/TenonBuild.cmake", ["session_test", "models"], ["torch", *HEAVY]),
]


def names(choice):
    """The chosen tests, whole ones by their entry and all of their files."""
    found = set()
    for name in choice.chosen:
        entry = choice.tests.entries[name]
        parts = choice.parts_of(entry)
        found |= {name} if parts is None else set()
        found |= {f"{name}:{part[len(choice.root) + 1 :]}" for part in parts or entry.parts}
    return found


def known(name, tests):
    entry, _, part = name.partition(":")
    return entry in tests.entries and (not part or str(ROOT / part) in tests.entries[entry].parts)


def wrong_choices(tests):
    missing = set()
    for changed, wanted, unwanted in CASES:
        if not (ROOT / changed).exists():
            yield f"{changed} does not exist"
            continue
        choice = reach.choose([changed], tests)
        found = names(choice)
        for name in wanted:
            if not known(name, tests):
                missing.add(name)
            elif name not in found:
                yield f"{changed} does not choose {name}; it chooses {sorted(choice.chosen)}"
        yield from (f"{changed} chooses {name}" for name in unwanted if name in found)
        # All that links libtenon would take minutes to link.
        built = reach.targets(choice)
        if "runtime_test" in unwanted and "tests/runtime_test" in built:
            yield f"{changed} builds tests/runtime_test"
    print(f"left out, not in this build: {', '.join(sorted(missing)) or 'none'}")
    for name in missing:
        if ":" in name and name.partition(":")[0] in tests.entries:
            yield f"there is no test {name}"


def wrong_files(tests):
    """ctest reads what is written, and a changed file that is in no commit is seen."""
    choice = reach.choose(["plugins/lapack/routines.cpp"], tests)
    with tempfile.TemporaryDirectory() as folder:
        reach.write(choice, pathlib.Path(folder))
        listed = subprocess.run(
            ["ctest", "--test-dir", folder, "--show-only"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in choice.chosen:
            if f": {name}\n" not in listed:
                yield f"ctest does not list {name}:\n{listed}"
        text = (pathlib.Path(folder) / "CTestTestfile.cmake").read_text()
        if "tests/lapack/values.test" not in text or f'"{ROOT}/tests"' in text:
            yield f"lit runs more than two files:\n{text}"
        targets = (pathlib.Path(folder) / "targets").read_text().splitlines()
        wanted = {"lib/tenon/plugins.d/lapack.so", "bin/tenon", "lib/libtenon.so.0"}
        if not wanted <= set(targets) or {"all", "tests/runtime_test"} & set(targets):
            yield f"ninja builds {targets}"


def main():
    tests = reach.read_tests(pathlib.Path(sys.argv[1]).resolve().parent)
    wrong = [*wrong_choices(tests), *wrong_files(tests)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(CASES)} changes, {len(wrong)} mistakes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
