#!/usr/bin/env python3
"""Compiles every kernel of models for every architecture, and prints registers, spills and stack.

    tests/gpu/kernels.py [--tenon PATH] [--tools FOLDER] [--full] [--only TEXT] [MODEL.onnx...]

A package is made for each model and architecture. What is in it then goes to the tools that know the
architecture: PTX to ptxas (sm_100 and sm_120 get the PTX for sm_90, as their driver would, and that of
NVRTC where tools.py brought it), code
objects of AMD to llvm-readelf, Metal's text to clang with the shim. Intel's `ocloc` compiles inside
of the plugin; it is asked again for its remarks. A tool that is not here is named in a line, and what
needs it is counted as skipped. Tools are looked for in --tools (bin and lib), then on the PATH.

Without models: the blocks of ResNet-50, BERT and GPT-2 in tests/models/forms, and the small models;
with --full (or CHECK_FULL=1) the networks themselves, which bench/models.py exports."""

import argparse
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a machine calls itself, the device, and the target whose code it runs. NVRTC makes that for what
# clang does not know.
MACHINES = (
    ("sm_80", "cuda", "sm_80"),
    ("sm_90a", "cuda", "sm_90a"),
    ("sm_100", "cuda", "sm_90"),
    ("sm_120", "cuda", "sm_90"),
    ("sm_100", "cuda", "sm_100"),
    ("sm_103", "cuda", "sm_103"),
    ("sm_120", "cuda", "sm_120"),
    ("gfx90a", "rocm", "gfx90a"),
    ("gfx942", "rocm", "gfx942"),
    ("gfx1100", "rocm", "gfx1100"),
    ("gfx1201", "rocm", "gfx1201"),
    ("dg2", "intel", "dg2"),
    ("pvc", "intel", "pvc"),
    ("metal3.0", "mps", "metal3.0"),
)
SMALL = (
    "samples/digits/digits",
    "tests/models/mlp",
    "tests/models/encoder",
    "tests/models/residual_cnn",
    "tests/models/decoder",
    "tests/models/forms/resnet_dynamo20",
    "tests/models/forms/bert_dynamo20",
    "tests/models/forms/gpt2_dynamo20",
)
BY_CLANG = ("sm_80", "sm_90", "sm_90a")
NETWORKS = "resnet50,bert,gpt2"
SECONDS = 600


class Missing(Exception):
    """A tool that is not on this machine."""


class Wrong(Exception):
    """A kernel that does not compile."""


class Tools:
    def __init__(self, folder):
        self.folder = folder

    def find(self, *names):
        for name in names:
            path = shutil.which(name, path=f"{self.folder}/bin") if self.folder else None
            if path := path or shutil.which(name):
                return path
        raise Missing(f"{names[0]} is not installed")

    def environment(self):
        libraries = (f"{self.folder}/lib", f"{self.folder}/nvrtc") if self.folder else ()
        return {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(
                p for p in (*libraries, os.environ.get("LD_LIBRARY_PATH", "")) if p
            ),
        }

    def find_nvrtc(self):
        if not self.folder or not pathlib.Path(self.folder, "nvrtc/libnvrtc.so.12").exists():
            raise Missing("NVRTC is not here (tools.py brings it with CHECK_FULL=1)")

    def run(self, *command):
        done = subprocess.run(
            [str(c) for c in command],
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise Wrong((done.stderr + done.stdout).strip()[:1500])
        return done.stdout + done.stderr


def codes(package, target):
    """(binary, text) of each binary of a package: the size of the target, the number of binaries, their sizes, then
    the target, the binaries and the text of all. cuda and rocm have a binary for each kernel."""
    name, at = target.encode(), -1
    found = []
    while (at := package.find(struct.pack("<Q", len(name)), at + 1)) >= 0:
        count = struct.unpack_from("<Q", package, at + 8)[0] if at + 16 <= len(package) else 0
        begin = at + 16 + 8 * count
        if count == 0 or package[begin : begin + len(name)] != name:
            continue
        begin += len(name)
        sizes = struct.unpack_from(f"<{count}Q", package, at + 16)
        end = begin + sum(sizes)
        if 0 in sizes or end > len(package):
            continue
        text = re.match(rb"[^\0]*\n}\n", package[end:], re.S)
        for size in sizes:
            found.append((package[begin : begin + size], text.group() if text else b""))
            begin += size
    return found


def by_ptxas(tools, machine, code, folder):
    (folder / "k.ptx").write_bytes(code[0])
    said = tools.run(
        tools.find("ptxas"),
        "-v",
        f"--gpu-name={machine}",
        folder / "k.ptx",
        "-o",
        folder / "k.cubin",
    )
    for part in re.split(r"Compiling entry function ", said)[1:]:
        stack, stores, loads = re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part
        ).groups()
        yield (
            part.split("'")[1],
            int(re.search(r"Used (\d+) registers", part).group(1)),
            int(stores) + int(loads),
            int(stack),
        )


def by_readelf(tools, machine, code, folder):
    (folder / "k.o").write_bytes(code[0])
    notes = tools.run(tools.find("llvm-readelf", "llvm-readelf-19"), "--notes", folder / "k.o")
    if machine not in notes:
        raise Wrong(f"the code object is not for {machine}")
    for part in re.split(r"\n  - ", notes)[1:]:
        field = dict(re.findall(r"\.(\w+): +(\d+)$", part, re.M))
        name = re.search(r"\.symbol: +(\S+)\.kd", part)
        if name:
            spills = int(field["vgpr_spill_count"]) + int(field["sgpr_spill_count"])
            yield (
                name.group(1),
                int(field["vgpr_count"]),
                spills,
                int(field["private_segment_fixed_size"]),
            )


def by_ocloc(tools, machine, code, folder):
    """Intel's threads have 128 registers, unless a remark says more; none is about the stack."""
    text = code[1].decode()
    kernels = re.findall(r"^__kernel .*? void (k_\w+)\(", text, re.M)
    words = (
        "#define __kernel __attribute__((intel_reqd_sub_group_size(16))) kernel\n"
        "static inline ulong warp_word(ulong x, uint by, uint warp) {\n"
        "  return by == 0 ? intel_sub_group_shuffle(x, 0) : intel_sub_group_shuffle_down(x, x, by);\n}\n"
    )
    (folder / "k.cl").write_text(words + text)
    said = tools.run(
        tools.find("ocloc"),
        "compile",
        "-file",
        folder / "k.cl",
        "-device",
        machine,
        "-out_dir",
        folder,
        "-options",
        "-cl-std=CL2.0 -cl-fp32-correctly-rounded-divide-sqrt",
    )
    spilled = dict(
        re.findall(r"kernel (\w+) +compiled \w+ allocated \d+ regs and spilled around (\d+)", said)
    )
    for name in kernels:
        yield name, 128, int(spilled.get(name, 0)), None


def by_shim(tools, machine, code, folder):
    (folder / "k.cpp").write_bytes(code[0].rstrip(b"\0"))
    tools.run(
        tools.find("clang++-19", "clang++"),
        "-std=c++17",
        "-fsyntax-only",
        "-Wno-unknown-attributes",
        "-Wno-undefined-inline",
        "-Wno-undefined-internal",
        "-isystem",
        ROOT / "tests/mps/Inputs",
        "-x",
        "c++",
        folder / "k.cpp",
    )
    for name in re.findall(rb"^\[\[kernel.*?\]\] void (k_\w+)\(", code[0], re.M):
        yield name.decode(), None, None, None


READERS = {"cuda": by_ptxas, "rocm": by_readelf, "intel": by_ocloc, "mps": by_shim}


def check(tools, tenon, model, machine, device, target, folder, verbose):
    """(kernels, most registers, kernels that spill, most stack)."""
    package = folder / "m.tpk"
    if device == "intel":
        tools.find("ocloc")
    if device == "cuda" and target not in BY_CLANG:
        tools.find_nvrtc()
    tools.run(
        tenon,
        "compile",
        model,
        "--device",
        device,
        "--no-fallback",
        "--target",
        target,
        "-o",
        package,
    )
    parts = codes(package.read_bytes(), target)
    if not parts:
        raise Wrong("the package has no code")
    kernels = [k for part in parts for k in READERS[device](tools, machine, part, folder)]
    if not kernels:
        raise Wrong("the code has no kernel")
    if verbose:
        for name, registers, spills, stack in kernels:
            print(f"    {name}: registers {registers}, spills {spills}, stack {stack}")

    def most(values):
        known = [v for v in values if v is not None]
        return max(known) if known else None

    return (
        len(kernels),
        most(k[1] for k in kernels),
        sum(bool(k[2]) for k in kernels),
        most(k[3] for k in kernels),
    )


def models_of(arguments):
    if arguments.models:
        return arguments.models
    small = [ROOT / f"{name}.onnx" for name in SMALL]
    if not arguments.full:
        return small
    python = ROOT / ".venv-torch/bin/python"
    done = (
        subprocess.run(
            [str(python), str(ROOT / "bench/models.py"), "--only", NETWORKS],
            capture_output=True,
            text=True,
            check=False,
        )
        if python.exists()
        else None
    )
    if done is None or done.returncode != 0:
        print(
            f"skipped: {NETWORKS}: {'PyTorch is not installed' if done is None else done.stderr.strip()[-300:]}"
        )
        return small
    return small + [pathlib.Path(line) for line in done.stdout.split()]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tenon", default=str(ROOT / "build/bin/tenon"))
    parser.add_argument(
        "--tools",
        default=os.environ.get("GPU_TOOLS"),
        help="a folder with bin and lib; default $GPU_TOOLS",
    )
    parser.add_argument("--full", action="store_true", default=os.environ.get("CHECK_FULL") == "1")
    parser.add_argument("--only", default="", help="machines, separated by commas")
    parser.add_argument("--verbose", action="store_true", help="a line for each kernel")
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    tools, failed, skipped, compiled = Tools(arguments.tools), [], {}, 0
    wanted = [m for m in MACHINES if not arguments.only or m[0] in arguments.only.split(",")]
    print(f"{'model':20} {'machine':9} kernels  most registers  that spill  most stack (bytes)")
    for model in models_of(arguments):
        for machine, device, target in wanted:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    row = check(
                        tools,
                        arguments.tenon,
                        model,
                        machine,
                        device,
                        target,
                        pathlib.Path(folder),
                        arguments.verbose,
                    )
                except Missing as why:
                    skipped.setdefault(str(why), set()).add(machine)
                    continue
                except Wrong as why:
                    failed.append(f"{model.stem} for {machine}: {why}")
                    print(f"{model.stem:20} {machine:9} FAILED", flush=True)
                    continue
            shown = ["-" if v is None else v for v in row]
            compiled += row[0]
            name = f"{machine}*" if target not in BY_CLANG and device == "cuda" else machine
            print(
                f"{model.stem:20} {name:9} {shown[0]:7}  {shown[1]:>14}  {shown[2]:10}  {shown[3]:>10}",
                flush=True,
            )
    print("*: by NVRTC")
    for why, machines in skipped.items():
        print(f"skipped: {why}: {', '.join(sorted(machines))}")
    print("\n".join(failed))
    print(f"{compiled} kernels compiled, {len(failed)} failures")
    return 1 if failed or compiled == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
