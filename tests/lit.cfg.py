"""lit over the text tests: graphs and the command line. Usage: lit -sv tests -Dbuild=BUILD_DIR
[--filter RE]"""

import os
import pathlib
import re
import subprocess

import lit.formats

root = pathlib.Path(__file__).resolve().parent.parent
build = pathlib.Path(lit_config.params.get("build", root / "build")).resolve()

config.name = "tenon"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".tir", ".test"]
config.excludes = [
    "fuzz",
    "seeds",
    "hostile",
    "models",
    "out_of_tree",
    "plugin",
    "plugins",
    "abi",
    "random",
    "Inputs",
]
config.test_source_root = str(root / "tests")
config.test_exec_root = str(build / "tests" / "lit")

llvm = os.environ.get("TENON_LLVM_BIN", "/usr/lib/llvm-19/bin")
config.environment["PATH"] = os.pathsep.join([str(build / "bin"), llvm, os.environ["PATH"]])
config.environment["TENON_CACHE_DIR"] = str(build / "tests" / "cache")
config.environment["TENON_SEED_DIR"] = "/none"  # several tests check what is compiled
config.environment["NO_COLOR"] = "1"
for name in (
    "TENON_VERIFY",
    "ASAN_OPTIONS",
    "LSAN_OPTIONS",
    "UBSAN_OPTIONS",
    "TSAN_OPTIONS",
    "LANG",
    "LC_ALL",
    "TMPDIR",
):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions.append(("%root", str(root)))
config.substitutions.append(("%build", str(build)))
config.substitutions.append(("%status", f"python3 {root}/tests/status.py"))

config.available_features.add("tenon")
# Sanitizers handle crashes themselves, and need memory of their own.
if not re.search(r"^TENON_SANITIZE:\w+=.+$", (build / "CMakeCache.txt").read_text(), re.M):
    config.available_features.add("unsanitized")
if (build / "lib/tenon/plugins.d/cpu.plugin.json").exists():
    config.available_features.add("cpu")
    # A RUN line for an instruction set that only some machines have: %if avx512 %{ ... %}
    if "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text():
        config.available_features.add("avx512")
if (build / "lib/tenon/plugins.d/onednn.plugin.json").exists() and "libdnnl.so.2" in subprocess.run(
    ["/sbin/ldconfig", "-p"], capture_output=True, text=True
).stdout:
    config.available_features.add("onednn")
if (
    "libopenblas.so.0"
    in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
):
    config.available_features.add("lapack")
if (build / "lib/tenon/plugins.d/cuda.plugin.json").exists() and (
    build / "tests/fakes/cuda/libcuda.so.1"
).exists():
    config.available_features.add("fake_cuda")
config.substitutions.append(("%fake_cuda", f"env LD_LIBRARY_PATH={build}/tests/fakes/cuda"))
# Libraries of the vendor on that driver.
if (build / "lib/tenon/plugins.d/cublaslt.plugin.json").exists() and (
    build / "tests/fakes/cublaslt/libcublasLt.so.12"
).exists():
    config.available_features.add("fake_cublaslt")
config.substitutions.append(
    ("%fake_cublaslt", f"env LD_LIBRARY_PATH={build}/tests/fakes/cuda:{build}/tests/fakes/cublaslt")
)
if (build / "tests/fakes/nvrtc/libnvrtc.so.12").exists():
    config.available_features.add("fake_nvrtc")
config.substitutions.append(
    (
        "%fake_nvrtcs",
        f"env LD_LIBRARY_PATH={build}/tests/fakes/cuda:{build}/tests/fakes/nvrtc:{build}/tests/fakes/nvrtc13",
    )
)
config.substitutions.append(
    ("%fake_nvrtc", f"env LD_LIBRARY_PATH={build}/tests/fakes/cuda:{build}/tests/fakes/nvrtc")
)
# The runtimes of other vendors on that driver.
if (build / "lib/tenon/plugins.d/rocm.plugin.json").exists() and (
    build / "tests/fakes/hip/libamdhip64.so.6"
).exists():
    config.available_features.add("fake_hip")
config.substitutions.append(("%fake_hip", f"env LD_LIBRARY_PATH={build}/tests/fakes/hip"))
if (build / "lib/tenon/plugins.d/intel.plugin.json").exists() and (
    build / "tests/fakes/ze/libze_fake.so.1"
).exists():
    if (
        "libze_loader.so.1"
        in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    ):
        config.available_features.add("fake_ze")
config.substitutions.append(
    (
        "%fake_ze",
        f"env LD_LIBRARY_PATH={build}/tests/fakes/ze ZE_ENABLE_ALT_DRIVERS=libze_fake.so.1",
    )
)
if (build / "tests/fakes/metal/libmetal.so").exists():
    config.available_features.add("fake_metal")
# The tests' HIP executes what the toolchain in this folder makes.
config.substitutions.append(("%hip_as_ptx", f"XDG_DATA_HOME={build}/tests/plugins/hip"))
config.substitutions.append(
    ("%fake_metal", f"env TENON_METAL=libmetal.so LD_LIBRARY_PATH={build}/tests/fakes/metal")
)
if "libocloc.so" in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout:
    config.available_features.add("ocloc")
if (build / "lib/tenon/plugins.d/mps.plugin.json").exists():
    config.available_features.add("mps")
if (build / "lib/tenon/plugins.d/sim.plugin.json").exists():
    config.available_features.add("sim")
