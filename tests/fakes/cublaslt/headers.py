#!/usr/bin/env python3
"""The plugin's declarations of cuBLASLt are those of the vendor's headers, of each release.

    CHECK_FULL=1 python3 tests/fakes/cublaslt/headers.py --compiler clang++ --folder build/tests/fakes/cublaslt/headers

The headers come with the libraries alone, in wheels of more than 400 MB, so this is part of `./check
--full`. They are kept in the folder, without the libraries. Skipped, with a reason and status 77, without
CHECK_FULL=1 and where the wheels cannot be downloaded.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PLUGIN = HERE.parents[2] / "plugins/cublaslt"
# The library's wheel, and those of the headers that its own include.
RELEASES = {
    "11": (
        "nvidia-cublas-cu11==11.11.3.6",
        "nvidia-cuda-runtime-cu11==11.8.89",
        "nvidia-cuda-nvcc-cu11==11.8.89",
    ),
    "12": (
        "nvidia-cublas-cu12==12.9.3.13",
        "nvidia-cuda-runtime-cu12==12.9.79",
        "nvidia-cuda-nvcc-cu12==12.9.86",
        "nvidia-cuda-cccl-cu12==12.9.27",
    ),
    "13": (
        "nvidia-cublas==13.10.0.20",
        "nvidia-cuda-runtime==13.5.37",
        "nvidia-cuda-crt==13.5.37",
        "nvidia-cuda-cccl==13.3.5.0.6",
    ),
}
SECONDS = 1200  # for one wheel


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def fetch(wheel, folder):
    """Unpacks the headers of a wheel. The library in it is not kept."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--no-cache-dir",
            "-d",
            temporary,
            wheel,
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            skip(f"{wheel} was not downloaded in {SECONDS} s")
        if done.returncode != 0:
            skip(
                f"{wheel} cannot be downloaded: {(done.stderr.strip() or 'pip says nothing').splitlines()[-1]}"
            )
        with zipfile.ZipFile(next(pathlib.Path(temporary).glob("*.whl"))) as archive:
            for name in archive.namelist():
                if "/include/" in name and not name.endswith("/"):
                    archive.extract(name, folder)


def headers_of(release, folder):
    """The folders to include."""
    wheels = RELEASES[release]
    name = re.sub(r"[^\w.]", "_", "_".join(wheels))
    whole = folder / name
    if not whole.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            part = pathlib.Path(temporary) / "headers"
            part.mkdir()
            for wheel in wheels:
                fetch(wheel, part)
            shutil.move(part, whole)  # complete, or not there
    return sorted(whole.glob("nvidia/*/include"))


def compiles(compiler, includes, text):
    command = [
        compiler,
        "-std=c++20",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        "-x",
        "c++",
        f"-I{PLUGIN}",
    ]
    for folder in includes:
        command += ["-isystem", str(folder)]
    done = subprocess.run(
        [*command, "-"], input=text, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode == 0, done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    args = parser.parse_args()
    if os.environ.get("CHECK_FULL") != "1":
        skip("the wheels with the headers have more than 400 MB each: CHECK_FULL=1")
    args.folder.mkdir(parents=True, exist_ok=True)
    text = (HERE / "headers.cpp").read_text()
    failed = False
    for release in RELEASES:
        includes = headers_of(release, args.folder.resolve())
        same, why = compiles(args.compiler, includes, text)
        print(f"release {release}: {'the same' if same else why}")
        # A number that differs is found.
        wrong, _ = compiles(args.compiler, includes, text.replace("SAME(kF16,", "SAME(kBf16,"))
        failed = failed or not same or wrong
        if wrong:
            print(f"release {release}: a wrong number is not found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
