"""Packages for AArch64, compiled here and run under qemu: aarch64.py BUILD_DIR.

Builds libtenon, the cpu plugin and run_arrays for AArch64 in BUILD_DIR/cross/aarch64, compiles three
models with `--target aarch64`, runs them, and compares with the reference
device. The first build takes minutes, later ones what has changed. Skipped (status 77) where a tool
is missing; `./check` installs all of them.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLCHAIN = ROOT / "cmake" / "aarch64-linux-gnu.cmake"
LIBRARIES = pathlib.Path("/usr/aarch64-linux-gnu")
MODELS = {
    "tests/models/mlp.onnx": ("x", "tests/models/mlp.in.x.npy"),
    "tests/models/residual_cnn.onnx": ("image", "tests/models/residual_cnn.in.image.npy"),
    "samples/digits/digits.onnx": ("image", "samples/digits/example.npy"),
}
TOLERANCE = 2e-5  # relative to the largest value: sums are in another order

build = pathlib.Path(sys.argv[1]).resolve()
cross = build / "cross" / "aarch64"
tenon = build / "bin" / "tenon"


def run(*command, **options):
    """The standard output of a command that must succeed."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, **options
    )
    if done.returncode != 0:
        sys.exit(
            f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}status {done.returncode}"
        )
    return done.stdout


def refused(*command):
    """The message of a command that must fail with an error and not crash."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode not in (1, 2):
        sys.exit(
            f"{' '.join(map(str, command))}: status {done.returncode} instead of a refusal\n{done.stderr}"
        )
    return done.stderr


def missing():
    """What this test needs and is not here; None if all is."""
    for tool in ("qemu-aarch64", "cmake", "ninja", "clang-19", "clang++-19", "ld.lld"):
        if shutil.which(tool) is None:
            return tool
    for file in ("lib/libc.so.6", "lib/libstdc++.so.6", "include/stdio.h"):
        if not (LIBRARIES / file).exists():
            return f"{LIBRARIES / file} (libc6-dev-arm64-cross, libstdc++-12-dev-arm64-cross)"
    return None


def emulated(*command):
    return ("qemu-aarch64", "-L", LIBRARIES, *command)


def values(text):
    """{output: [values]} of what run_arrays prints."""
    return {
        line.split(":")[0]: [float(v) for v in line.split(":")[1].split()]
        for line in text.splitlines()
    }


def reference(model, name, file, folder):
    """{output: [values]} of the reference device."""
    import numpy

    run(
        tenon,
        "run",
        ROOT / model,
        "--device",
        "reference",
        "--input",
        f"{name}={ROOT / file}",
        "--output-dir",
        folder,
    )
    return {path.stem: numpy.load(path).ravel().tolist() for path in folder.glob("*.npy")}


def build_for_the_other():
    if not (cross / "build.ninja").exists():
        run(
            "cmake",
            "-G",
            "Ninja",
            "-S",
            ROOT,
            "-B",
            cross,
            f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN}",
            "-DTENON_ONLY_RUN=ON",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DCMAKE_CXX_FLAGS_RELEASE=-O1",
        )
    run("ninja", "-C", cross, "-j2", "run_arrays", "tenon_plugin_cpu", "tenon-manifest")


def compare(model, found, wanted):
    if found.keys() != wanted.keys():
        sys.exit(f"{model}: outputs {sorted(found)} instead of {sorted(wanted)}")
    for name, right in wanted.items():
        scale = max(map(abs, right))
        worst = max(abs(a - b) for a, b in zip(found[name], right, strict=True))
        if not worst <= TOLERANCE * scale:
            sys.exit(f"{model}: {name} differs from the reference by {worst} at a scale of {scale}")
        print(f"{model}: {name}: {len(right)} values, largest difference {worst:.2g}")


def check_models(work):
    runner = cross / "bin" / "run_arrays"
    for model, (name, file) in MODELS.items():
        package = work / (pathlib.Path(model).stem + ".tpk")
        run(tenon, "compile", ROOT / model, "-o", package, "--device", "cpu", "--target", "aarch64")
        folder = work / pathlib.Path(model).stem
        wanted = reference(model, name, file, folder)
        compare(model, values(run(*emulated(runner, package, f"{name}={ROOT / file}"))), wanted)


def check_refusals(work):
    """A package for another processor says so, on both sides."""
    runner = cross / "bin" / "run_arrays"
    here = refused(tenon, "run", work / "mlp.tpk", "--seed", "1")
    if "T0523" not in here or "compiled for neon" not in here:
        sys.exit(f"a package for AArch64 is refused here with: {here}")
    run(
        tenon,
        "compile",
        ROOT / "tests/models/mlp.onnx",
        "-o",
        work / "x86.tpk",
        "--device",
        "cpu",
        "--target",
        "cpu isa=baseline",
    )
    there = refused(*emulated(runner, work / "x86.tpk"))
    if "T0523" not in there or "compiled for baseline, the target has neon" not in there:
        sys.exit(f"a package for x86-64 is refused there with: {there}")
    (work / "cut.tpk").write_bytes((work / "mlp.tpk").read_bytes()[:5000])
    if "T0521" not in refused(*emulated(runner, work / "cut.tpk")):
        sys.exit("a package that is cut short is not reported there")


tool = missing()
if tool is not None:
    print(f"skipped: {tool} is missing")
    sys.exit(77)
build_for_the_other()
with tempfile.TemporaryDirectory(prefix="tenon_cross_") as folder:
    check_models(pathlib.Path(folder))
    check_refusals(pathlib.Path(folder))
print("packages for AArch64 run")
