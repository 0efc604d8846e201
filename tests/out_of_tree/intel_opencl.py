#!/usr/bin/env python3
"""Brings Intel's OpenCL runtime for processors into a folder, without installing it.

    tests/out_of_tree/intel_opencl.py FOLDER

It has sub-groups with shuffles, which neither PoCL nor Oclgrind has. The wheels of PyPI have 270 MB,
so this is for `./check --full`. They are unpacked once: libraries into FOLDER/lib, and
FOLDER/vendors/intel.icd names the runtime. Exits with 1 and a line where they cannot be had. An
installed one would be a platform of every program, which changes other tests."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

WHEELS = ("intel-opencl-rt==2026.2.0", "intel-cmplr-lib-rt==2026.2.0", "tbb==2023.2.0")
# The loader of this machine is tested.
NOT_WANTED = ("libOpenCL.so",)


def unpack(wheel, out):
    """The libraries of a wheel, those that are there twice once."""
    with zipfile.ZipFile(wheel) as archive:
        known = {}
        for member in sorted(archive.infolist(), key=lambda m: -len(m.filename)):
            path = pathlib.PurePosixPath(member.filename)
            if path.parent.name != "lib" or member.is_dir() or path.name.startswith(NOT_WANTED):
                continue
            if (first := known.get((member.CRC, member.file_size))) is not None:
                os.symlink(first, out / path.name)
                continue
            known[member.CRC, member.file_size] = path.name
            with archive.open(member) as source, open(out / path.name, "wb") as file:
                shutil.copyfileobj(source, file)


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    icd = folder / "vendors/intel.icd"
    if icd.exists():
        return 0
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("lib", "vendors"):
        (folder / name).mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        got = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--dest",
                work,
                *WHEELS,
            ],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if got.returncode != 0:
            print(
                f"skipped: Intel's OpenCL runtime cannot be had: {(got.stderr.strip() or got.stdout.strip()).splitlines()[-1][:200]}"
            )
            return 1
        for wheel in pathlib.Path(work).glob("*.whl"):
            unpack(wheel, folder / "lib")
    icd.write_text(f"{folder}/lib/libintelocl.so\n")  # last: what is there is whole
    return 0


if __name__ == "__main__":
    sys.exit(main())
