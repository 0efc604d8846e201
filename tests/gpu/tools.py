#!/usr/bin/env python3
"""Brings the vendors' compilers that kernels.py asks into a folder, without installing them.

    tests/gpu/tools.py FOLDER

`ptxas` is out of a wheel of PyPI, `ocloc` out of Debian's packages: 54 MB in all. They are unpacked
into FOLDER/bin and FOLDER/lib, once. What cannot be had is named in a line, and kernels.py skips what
needs it."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

WHEEL = "nvidia-cuda-nvcc-cu12==12.9.86"
# With what `ocloc` loads. Installed, they would add an OpenCL platform, which changes other tests.
DEBIAN = ("intel-opencl-icd", "libigc1", "libigdfcl1", "libopencl-clang14", "libllvmspirvlib14")
# Drivers among them: Intel's own dies without a GPU where a loader finds it.
DRIVERS = ("libze_intel_gpu", "libigdrcl")


class Missing(Exception):
    """Something that cannot be downloaded."""


def run(folder, *command):
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as why:
        raise Missing(str(why)) from why
    if done.returncode != 0:
        raise Missing((done.stderr.strip() or done.stdout.strip()).splitlines()[-1][:200])


def ptxas(work, out):
    run(work, sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", ".", WHEEL)
    with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel, open(out / "bin/ptxas", "wb") as file:
        file.write(wheel.read("nvidia/cuda_nvcc/bin/ptxas"))
    os.chmod(out / "bin/ptxas", 0o755)


def ocloc(work, out):
    run(work, "apt-get", "download", *DEBIAN)
    for package in sorted(work.glob("*.deb")):
        run(work, "dpkg", "-x", package, "all")
    for library in (work / "all/usr/lib").rglob("lib*.so*"):
        if not library.name.startswith(DRIVERS):
            shutil.copy2(library, out / "lib", follow_symlinks=False)
    shutil.copy2(work / "all/usr/bin/ocloc", out / "bin")


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in ("bin", "lib"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for tool in (ptxas, ocloc):
        if (folder / "bin" / tool.__name__).exists():
            continue
        with tempfile.TemporaryDirectory() as work:
            try:
                tool(pathlib.Path(work), folder)
            except Missing as why:
                print(f"skipped: {tool.__name__} cannot be had: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
