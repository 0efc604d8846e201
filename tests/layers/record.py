#!/usr/bin/env python3
"""Recorded graphs run again, `replay` detects differences, and damaged files do not crash it.
Usage: record.py TENON"""

import glob
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

TENON = sys.argv[1]
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs/softmax.tir")
os.environ["TENON_CACHE_DIR"] = tempfile.mkdtemp(prefix="tenon_record_")
FOLDER = tempfile.mkdtemp(prefix="tenon_record_")


def run(layers, *arguments):
    env = dict(os.environ, TENON_LAYERS=layers)
    return subprocess.run(
        [TENON, "run", *arguments], env=env, capture_output=True, text=True, timeout=60
    )


def one(pattern):
    found = glob.glob(f"{FOLDER}/{pattern}")
    assert len(found) == 1, (pattern, found)
    return found[0]


def replay(device, options="", status=0):
    x, y = one("*.run0.in0.npy"), one("*.run0.in1.npy")
    result = run(
        f"replay:dir={FOLDER}{options}",
        one("*.tirb"),
        "--passes",
        "none",
        "--no-fallback",
        "--device",
        device,
        "--input",
        f"x={x}",
        "--input",
        f"y={y}",
    )
    assert result.returncode == status, (result.returncode, result.stderr)
    return result.stderr


def main():
    assert run(f"record:dir={FOLDER}", MODEL, "--device", "sim", "--seed", "1").returncode == 0
    text = pathlib.Path(one("*.run0.txt")).read_text()
    assert "--device sim --input x=" in text, text
    assert "1 runs as recorded, 0 different, 0 not recorded" in replay("sim")
    assert "1 runs as recorded" in replay("cpu", ",tolerance=1e-4")
    # The recorded command itself, run in the folder.
    path = os.pathsep.join([os.path.dirname(os.path.abspath(TENON)), os.environ["PATH"]])
    again = subprocess.run(
        ["sh", one("*.run0.txt")],
        cwd=FOLDER,
        env=dict(os.environ, PATH=path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert again.returncode == 0 and "1 runs as recorded" in again.stderr, again.stderr

    out = pathlib.Path(one("*.out0.npy"))
    good = out.read_bytes()
    out.write_bytes(good[:-4] + bytes([0, 0, 0, 66]))
    said = replay("sim", status=1)  # a difference, and nothing compared, used to be a success
    assert "output 0 differs from byte 50" in said and "0 runs as recorded, 1 different" in said, (
        said
    )
    # Damaged in many ways: an error, never a crash. Files that cannot be read are not compared.
    for bad in (
        b"",
        good[:7],
        good[:-1],
        b"\x93NUMPY\x01\x00\xff\xff" + good[10:],
        good.replace(b"(8, 16)", b"(8,-16)"),
        good.replace(b"(8, 16)", b"(9e9, )"),
        os.urandom(4096),
    ):
        out.write_bytes(bad)
        assert "0 runs as recorded" in replay("sim", status=1), bad[:64]
    out.write_bytes(good)
    recorded = pathlib.Path(one("*.in0.npy"))
    kept = recorded.read_bytes()
    x = FOLDER + "/x.npy"
    pathlib.Path(x).write_bytes(kept)
    recorded.write_bytes(b"nothing")
    said = run(
        f"replay:dir={FOLDER}",
        one("*.tirb"),
        "--device",
        "sim",
        "--passes",
        "none",
        "--input",
        f"x={x}",
        "--input",
        "y=" + one("*.in1.npy"),
    ).stderr
    assert "0 runs as recorded, 0 different, 1 not recorded" in said, said
    # A run that fails is recorded with its inputs; the graph is recorded even if compiling it
    # fails.
    other = tempfile.mkdtemp(prefix="tenon_record_")
    run(f"record:dir={other},faults:execute=1", MODEL, "--device", "sim", "--seed", "1")
    assert "# failed with code 10" in pathlib.Path(glob.glob(f"{other}/*.run0.txt")[0]).read_text()
    third = tempfile.mkdtemp(prefix="tenon_record_")
    run(f"record:dir={third},faults:compile=1", MODEL, "--device", "sim", "--seed", "1")
    assert glob.glob(f"{third}/*.tirb")
    assert (
        "P1002" in run(f"record:dir={__file__}/a", MODEL, "--device", "sim", "--seed", "1").stderr
    )

    # A full disk: here files are limited to 150 bytes. What cannot be saved is reported with the
    # reason.
    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (150, 150))

    fourth = tempfile.mkdtemp(prefix="tenon_record_")
    said = subprocess.run(
        [TENON, "run", MODEL, "--device", "reference", "--seed", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ, TENON_LAYERS=f"record:dir={fourth}"),
        preexec_fn=small_files,
        restore_signals=False,
    ).stderr
    assert (
        ".tirb is not kept: T0107: " in said
        and ".in0.npy is not kept: T0107: " in said
        and "File too large" in said
    ), said
    print("recorded and replayed")


main()
