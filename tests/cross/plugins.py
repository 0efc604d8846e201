"""Plugins built for other machines, with manifests made without running them: plugins.py BUILD_DIR.

Builds a device in C and one in C++ for AArch64 against an installed Tenon, as a vendor would, and
compares their manifests with those of the same plugins built for this machine. Reads libraries for
macOS and Windows. Compiles what the loader needs of these systems. Skipped (status 77) where the
cross compiler's libraries are missing.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLCHAIN = ROOT / "cmake" / "aarch64-linux-gnu.cmake"
PLATFORMS = ROOT / "core" / "host" / "platform"
MINGW = "x86_64-w64-mingw32-g++-posix"
NOTED = """
#include <tenon/abi/note.h>
#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
TENON_PLUGIN_NOTE("far", "1.2.3", TENON_NOTE_OFFERS("tenon.device/1", 0) TENON_NOTE_OFFERS("tenon.kernels/1", 0))
EXPORT unsigned tenon_plugin_query(unsigned abi, const void* host, const void** out) { return abi + !host + !out; }
"""
SYSTEMS = {  # os, arch: target, the linker's words
    ("macos", "aarch64"): (
        "arm64-apple-macos13",
        "ld64.lld-19 -dylib -arch arm64 -platform_version macos 13 13 {object} -o {library}",
    ),
    ("windows", "x86_64"): (
        "x86_64-pc-windows-msvc",
        "lld-link-19 /dll /noentry /nologo /out:{library} {object}",
    ),
}

build = pathlib.Path(sys.argv[1]).resolve()
environment = {k: v for k, v in os.environ.items() if not k.startswith("TENON_PLUGIN")}


def start(*command, **options):
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, env=environment, **options
    )


def run(*command, **options):
    """The standard output of a command that must succeed."""
    done = start(*command, **options)
    if done.returncode != 0:
        sys.exit(
            f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}status {done.returncode}"
        )
    return done.stdout


def expect(right, message):
    if not right:
        sys.exit(message)


def built(source, folder, prefix, *options):
    """The manifest that a build of this plugin writes."""
    run(
        "cmake",
        "-G",
        "Ninja",
        "-S",
        source,
        "-B",
        folder,
        f"-DCMAKE_PREFIX_PATH={prefix}",
        *options,
    )
    run("cmake", "--build", folder)
    return json.loads((folder / f"{source.name}.plugin.json").read_text())


def check_plugin(name, language, work, prefix):
    run(prefix / "bin/tenon", "new", "device", name, "--language", language, "--directory", work)
    source = work / name
    here = built(
        source,
        work / f"{name}-here",
        prefix,
        "-DCMAKE_C_COMPILER=clang-19",
        "-DCMAKE_CXX_COMPILER=clang++-19",
    )
    away = built(
        source,
        work / f"{name}-away",
        prefix,
        f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN}",
        "-DCMAKE_CROSSCOMPILING_EMULATOR=false",
    )
    expect(
        away["platform"]["arch"] == "aarch64",
        f"{name}: built for AArch64, its manifest says {away['platform']}",
    )
    away["platform"]["arch"] = here["platform"]["arch"]
    expect(away == here, f"{name}: the manifests differ: {json.dumps(here)}\n{json.dumps(away)}")
    # What is known of the library decides whether the host opens it.
    environment["TENON_PLUGIN_ADD"] = str(work / f"{name}-away")
    explained = start(prefix / "bin/tenon", "plugins", "explain", name)
    del environment["TENON_PLUGIN_ADD"]
    expect(
        "P0301" in explained.stdout + explained.stderr,
        f"{name}: a plugin for AArch64 is explained as {explained.stdout}",
    )
    emulated = build / "cross/aarch64/bin/tenon-manifest"
    if shutil.which("qemu-aarch64") and emulated.exists():  # cross_aarch64 builds it
        asked = work / f"{name}-asked.plugin.json"
        run(
            "qemu-aarch64",
            "-L",
            "/usr/aarch64-linux-gnu",
            emulated,
            "--library",
            work / f"{name}-away" / f"{name}.so",
            "--input",
            source / "manifest.json.in",
            "--output",
            asked,
        )
        away["platform"]["arch"] = "aarch64"
        expect(
            json.loads(asked.read_text()) == away,
            f"{name}: asked under qemu, it says {asked.read_text()}",
        )
        print(f"{name}: its manifest is the one that it gives under qemu")
    print(f"{name}: {language}, built for AArch64")


def check_other_systems(work):
    (work / "far.c").write_text(NOTED)
    manifest = work / "manifest.json.in"
    for (system, arch), (target, linker) in SYSTEMS.items():
        words = {"object": work / f"{system}.o", "library": work / f"{system}.lib"}
        run(
            "clang-19",
            "-target",
            target,
            "-ffreestanding",
            "-fvisibility=hidden",
            "-I",
            ROOT / "sdk",
            "-c",
            work / "far.c",
            "-o",
            words["object"],
        )
        run(*linker.format(**words).split())
        command = [
            build / "bin/tenon-manifest",
            "--library",
            words["library"],
            "--input",
            manifest,
            "--output",
            work / "far.plugin.json",
        ]
        manifest.write_text(
            '{"schema": 1, "name": "far", "summary": "s", "provides": {"devices": ["far"]}}'
        )
        run(*command)
        made = json.loads((work / "far.plugin.json").read_text())
        expect(made["platform"] == {"os": system, "arch": arch}, f"{system}: {made['platform']}")
        expect(made["version"] == "1.2.3" and made["abi"]["min_minor"] == 2, f"{system}: {made}")
        expect(
            made["provides"] == {"devices": ["far"], "kernels": ["far"]},
            f"{system}: {made['provides']}",
        )
        for text, code, words_of_it in (
            ('{"name": "far"}', "P0205", 'as "provides": {"devices": [...]}'),
            ('{"name": "near", "provides": {"devices": ["far"]}}', "P0803", "calls itself"),
        ):
            manifest.write_text(text)
            done = start(*command)
            expect(
                done.returncode == 3 and code in done.stderr and words_of_it in done.stderr,
                f"{system}: {text}: {done.stderr}",
            )
        cut = work / "cut.lib"
        cut.write_bytes(words["library"].read_bytes()[:700])
        done = start(*command[:2], cut, *command[3:])
        expect(
            done.returncode == 3 and "P07" in done.stderr, f"{system}: a cut library: {done.stderr}"
        )
        print(f"{system} on {arch}: read")


def check_platforms():
    """The loader's files for other systems compile where there is a compiler for them."""
    options = (
        "-std=c++20",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-I",
        ROOT,
        "-I",
        ROOT / "sdk",
        "-fsyntax-only",
    )
    run("clang++-19", *options, PLATFORMS / "platform_macos.cpp")
    print("platform_macos.cpp compiles")
    if shutil.which(MINGW) is None:
        print(
            f"skipped: platform_windows.cpp, because {MINGW} is missing (g++-mingw-w64-x86-64-posix)"
        )
        return
    run(MINGW, *options, "-D_WIN32_WINNT=0x0a00", PLATFORMS / "platform_windows.cpp")
    print("platform_windows.cpp compiles")


check_platforms()
with tempfile.TemporaryDirectory(prefix="tenon_cross_plugins_") as folder:
    work = pathlib.Path(folder)
    check_other_systems(work)
    if not pathlib.Path("/usr/aarch64-linux-gnu/lib/libstdc++.so.6").exists():
        print(
            "skipped: the libraries of AArch64 are missing (libc6-dev-arm64-cross, libstdc++-12-dev-arm64-cross)"
        )
        sys.exit(77)
    run("cmake", "--install", build, "--prefix", work / "prefix")
    check_plugin("far_c", "c", work, work / "prefix")
    check_plugin("far_cxx", "c++", work, work / "prefix")
print("plugins for other machines have manifests")
