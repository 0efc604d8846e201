#!/usr/bin/env python3
"""Brings the vendors' compilers that kernels.py asks into a folder, without installing them.

    tests/gpu/tools.py FOLDER

`ptxas` is out of a wheel of PyPI, `ocloc` out of Debian's packages: 54 MB in all. With CHECK_FULL=1
NVRTC comes too, a wheel of 90 MB. They are unpacked into FOLDER/bin and FOLDER/lib, and NVRTC into
FOLDER/nvrtc, once. What cannot be had is named in a line, and what needs it is skipped."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

WHEEL = "nvidia-cuda-nvcc-cu12==12.9.86"
NVRTC = "nvidia-cuda-nvrtc-cu12==12.9.86"
# With what `ocloc` loads. Installed, they would add an OpenCL platform, which changes other tests.
DEBIAN = ("intel-opencl-icd", "libigc1", "libigdfcl1", "libopencl-clang14", "libllvmspirvlib14")
# Drivers among them: Intel's own dies without a GPU where a loader finds it.
DRIVERS = ("libze_intel_gpu", "libigdrcl")


class Missing(Exception):
    """Something that cannot be downloaded."""


def run(folder, *command):
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise Missing(str(why)) from why
    if done.returncode != 0:
        raise Missing((done.stderr.strip() or done.stdout.strip()).splitlines()[-1][:200])


def download(work, name):
    run(
        work,
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--dest",
        ".",
        name,
    )
    return next(work.glob("*.whl"))


def place(source, target):
    """Puts a file or a link in its place at once, so that an end in the middle leaves no half of a tool."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copy2(source, temporary, follow_symlinks=False)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def nvrtc(work, out):
    with zipfile.ZipFile(download(work, NVRTC)) as wheel:
        for name in wheel.namelist():
            if "/lib/" in name and ".alt." not in name and not name.endswith("/"):
                (work / pathlib.Path(name).name).write_bytes(wheel.read(name))
    (out / "nvrtc").mkdir(exist_ok=True)
    # The library last: it is there when all is.
    for library in sorted(
        work.glob("*.so.*"), key=lambda path: path.name.startswith("libnvrtc.so")
    ):
        place(library, out / "nvrtc" / library.name)


def ptxas(work, out):
    with zipfile.ZipFile(download(work, WHEEL)) as wheel:
        (work / "ptxas").write_bytes(wheel.read("nvidia/cuda_nvcc/bin/ptxas"))
    os.chmod(work / "ptxas", 0o755)
    place(work / "ptxas", out / "bin/ptxas")


def ocloc(work, out):
    run(work, "apt-get", "download", *DEBIAN)
    for package in sorted(work.glob("*.deb")):
        run(work, "dpkg", "-x", package, "all")
    for library in (work / "all/usr/lib").rglob("lib*.so*"):
        if not library.name.startswith(DRIVERS):
            place(library, out / "lib" / library.name)
    place(work / "all/usr/bin/ocloc", out / "bin/ocloc")  # last: it is there when all is


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in ("bin", "lib"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    wanted = {ptxas: "bin/ptxas", ocloc: "bin/ocloc"}
    if os.environ.get("CHECK_FULL") == "1":
        wanted[nvrtc] = "nvrtc/libnvrtc.so.12"
    for tool, file in wanted.items():
        if (folder / file).exists():
            continue
        with tempfile.TemporaryDirectory() as work:
            try:
                tool(pathlib.Path(work), folder)
            except Missing as why:
                print(f"skipped: {tool.__name__} cannot be had: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
