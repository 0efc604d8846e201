#!/usr/bin/env python3
"""Hostile plugins (group 6), caches (7), text IR (8) and surroundings (10) against the command
line.

    run.py --tenon build/bin/tenon --fakes build/tests/plugins/fakes [--filter 09] [-v]

Each case makes its own folder, runs one command, and checks: no signal, no hang, the exit status,
stderr, and that work which does not depend on the broken part still gives the right result. Ends
with `N passed, N failed`.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

SECONDS = 60
ADD = """tenon.tir 1
graph @g(%a: f32[4], %b: f32[4]) -> (y: f32[4]) {
  %0 = add(%a, %b) : f32[4]
  yield %0
}
"""
INTERNAL = (
    "terminate called",
    "AddressSanitizer",
    "runtime error:",
    "std::bad_alloc",
    "check failed",
    "LeakSanitizer",
)


class Case:
    """One hostile situation. `prepare(folder)` creates it and may return environment variables;
    `status` are the allowed exit statuses; `says` is a pattern on stderr, `prints` one on stdout,
    `silent` one that must not appear."""

    def __init__(
        self,
        number,
        name,
        prepare=None,
        args=None,
        status=(0,),
        says="",
        prints="",
        silent=None,
        stack=None,
        closed=False,
        umask=None,
    ):
        self.number, self.name, self.prepare, self.args = (
            number,
            name,
            prepare,
            args or ["opt", "g.tir", "--passes", "cse"],
        )
        self.status, self.says, self.prints, self.silent = status, says, prints, silent
        self.stack, self.closed = stack, closed
        if args is None and not prints:
            self.prints = r"add\(" if not closed else ""

    def __str__(self):
        return f"{self.number:03d} {self.name}"


FAKES = None


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def manifest(name, library, **more):
    return json.dumps(
        {
            "schema": 1,
            "name": name,
            "version": "1.0.0",
            "library": library,
            **{"provides": {"passes": ["fake-pass"]}, **more},
        }
    )


def added(folder, files):
    """Files in a folder of plugins that TENON_PLUGIN_ADD names."""
    for name, text in files.items():
        write(folder / "plugins" / name, text)
    return {"TENON_PLUGIN_ADD": str(folder / "plugins")}


def fake(kind, **more):
    def prepare(folder):
        (folder / "plugins").mkdir()
        shutil.copy(FAKES / f"fake_{kind}.so", folder / "plugins" / "x.so")
        return added(folder, {"x.plugin.json": manifest(kind, "./x.so", **more)})

    return prepare


def fake_case(number, kind, code, requirement="", **more):
    """A broken plugin: requesting its pass fails with the code and status 3 or 2."""
    return Case(
        number,
        f"plugin {kind} {requirement}".strip(),
        fake(kind, **more),
        ["opt", "g.tir", "--passes", "fake-pass"],
        (3,),
        code,
    )


def bad_manifest(number, name, text, code):
    return Case(
        number, name, lambda folder: added(folder, {"bad.plugin.json": text}), None, (0,), code
    )


def group_6():
    yield bad_manifest(90, "manifest is not JSON", "hello", "P0201")
    yield bad_manifest(90, "manifest is empty", "", "P0201")
    yield bad_manifest(90, "manifest is binary", b"\x7fELF\x00\xff\xfe\x1b[31m", "P0201")
    yield bad_manifest(91, "manifest nested 10,000 deep", "[" * 10000 + "]" * 10000, "P0203")
    yield bad_manifest(92, "manifest of 10 MB", " " * (10 << 20), "P0202")
    yield bad_manifest(93, "library outside", manifest("bad", "../../x.so"), "P020[78]")
    yield bad_manifest(93, "library is absolute", manifest("bad", "/etc/hostname"), "P0207")
    yield bad_manifest(94, "library is a bare name", manifest("bad", "libc.so.6"), "P0207")
    # The names contain the requirements of docs/spec/plugin.md that the host checks.
    yield Case(
        90,
        "keys of tomorrow (R-A27)",
        fake("good", key_of_tomorrow={"a": [1]}),
        ["opt", "g.tir", "--passes", "fake-pass"],
        (0,),
        prints=r"add\(",
    )
    yield bad_manifest(90, "schema of tomorrow (R-A27)", json.dumps({"schema": 99}), "P0204")
    yield bad_manifest(
        90, "keys of wrong types", manifest("bad", "./x.so", abi={"major": "one"}), "P0206"
    )
    yield bad_manifest(
        90, "name with control characters", manifest("a\x1b[31m\nb", "./x.so"), "P0206"
    )

    def bare_in_cwd(folder):
        shutil.copy(FAKES / "fake_aborts_when_opened.so", folder / "x.so")
        return added(folder, {"bad.plugin.json": manifest("bad", "x.so")})

    yield Case(94, "bare name, file in the current folder", bare_in_cwd, None, (0,), "P0207")

    def world_writable(folder):
        environment = fake("good")(folder)
        (folder / "plugins").chmod(0o777)
        return environment

    yield Case(95, "folder that everybody may write to", world_writable, None, (0,), "P0102")
    yield fake_case(96, "no_symbol", "P0702")
    yield fake_case(97, "data_symbol", "P0703")
    yield fake_case(98, "newer_major", "P0305")
    yield Case(
        98,
        "newer major in the manifest",
        fake("good", abi={"major": 9}),
        ["opt", "g.tir", "--passes", "fake-pass"],
        (2, 3),
        "P0305",
    )
    yield Case(
        99,
        "plugin of smaller tables",
        fake("short_tables"),
        ["opt", "g.tir", "--passes", "fake-pass"],
        (0,),
        prints=r"add\(",
    )
    yield Case(
        99,
        "plugin of larger tables",
        fake("long_tables"),
        ["opt", "g.tir", "--passes", "fake-pass"],
        (0,),
        prints=r"add\(",
    )
    yield fake_case(100, "aborts_when_opened", "P0601")
    yield fake_case(100, "crashes", "P0601", "(R-B22)")
    yield fake_case(100, "exits", "P0601")
    yield fake_case(100, "exits_in_run", "T0009")
    yield fake_case(101, "throws", "P0807", "(R-B21)")
    yield fake_case(102, "hangs", "P0602", "(R-B22)")
    for kind, code in (
        ("refuses", "there is no card"),
        ("null_slot", "P0805"),
        ("null_record", "P0802"),
        ("garbage_count", "P0806"),
        ("garbage_size", "P0806"),
        ("garbage_interfaces", "P0806"),
        ("wrong_name", "P0803"),
    ):
        yield fake_case(100, kind, code)
    yield fake_case(102, "asks_itself", "P0907.*`asks_itself` asks for `asks_itself`", "(R-B29)")

    def ask_each_other(folder):
        environment = fake("asks_other")(folder)
        shutil.copy(FAKES / "fake_asks_itself.so", folder / "plugins" / "y.so")
        write(
            folder / "plugins" / "y.plugin.json",
            manifest("asks_itself", "./y.so", provides={"passes": ["other-pass"]}),
        )
        return {**environment, "FAKE_OTHER_PASS": "other-pass"}

    yield Case(
        102,
        "two plugins that ask for each other (R-B29)",
        ask_each_other,
        ["opt", "g.tir", "--passes", "fake-pass"],
        (0,),
        "P0907.*`asks_other` asks for `asks_itself`, `asks_itself` asks for `asks_other`",
    )
    yield Case(
        100,
        "a detail of 2^64-1 bytes",
        fake("lies_in_fail"),
        ["opt", "g.tir", "--passes", "fake-pass"],
        (3,),
        "there is no room",
    )

    def required_library_aborts(folder):
        environment = fake("good", requires={"libraries": ["libvendor.so.9"]})(folder)
        shutil.copy(FAKES / "fake_aborts_when_opened.so", folder / "libvendor.so.9")
        return {**environment, "LD_LIBRARY_PATH": str(folder)}

    yield Case(
        100,
        "a required library that aborts when it is opened (R-B22)",
        required_library_aborts,
        ["opt", "g.tir", "--passes", "fake-pass"],
        (3,),
        "P0601.*a library that it requires",
    )

    # A manifest cannot escape the quoting of commands that `explain` suggests.
    for what, more, command in (
        (
            "path",
            {"probe": {"paths": ["/nope; touch PWNED #"]}},
            r"\$ ls -l -- '/nope; touch PWNED #'",
        ),
        (
            "path with quotes",
            {"probe": {"paths": ["/a'$(touch PWNED)\n"]}},
            r"\$ ls -l -- \$'/a\\'\$\(touch PWNED\)\\x0a'",
        ),
    ):
        yield Case(
            91,
            f"a command in a {what}",
            fake("good", **more),
            ["plugins", "explain", "good"],
            (0,),
            prints=command,
        )
    for what, more in (
        ("name of a library", {"libraries": ["x; touch PWNED #"]}),
        ("name of a plugin", {"plugins": ["$(touch PWNED)"]}),
    ):
        yield Case(91, f"a command in the {what}", fake("good", requires=more), None, (0,), "P0206")
    for what, more in (
        ("8,000 patterns", {"probe": {"pci": ["*:*"] * 4000}}),
        ("a plugin required 4,000 times", {"requires": {"plugins": ["ops"] * 4000}}),
        ("a priority of 2^64-1", {"priority": 2**64 - 1}),
        ("a libc that is not a version", {"platform": {"libc_min": "garbage"}}),
    ):
        yield bad_manifest(92, "manifest with " + what, manifest("bad", "./x.so", **more), "P0206")

    def split_line(folder):
        return added(folder, {"a\ntenon: error: all is lost.plugin.json": "hello"})

    yield Case(
        90,
        "a new line in the name of a manifest",
        split_line,
        None,
        (0,),
        r"a\\ntenon: error",
        silent="(?m)^tenon: error",
    )

    def locked(text):
        def prepare(folder):
            write(folder / "lock.json", text)
            return {"TENON_PLUGIN_LOCK": str(folder / "lock.json")}

        return prepare

    for what, text in (
        ("of tomorrow", '{"schema": 99, "plugins": []}'),
        (
            "with a misspelt key",
            '{"schema": 1, "plugins": [{"name": "passes", "version": "0.1.0", "sha265": "0"}]}',
        ),
        ("without digests", '{"schema": 1, "plugins": [{"name": "passes", "version": "0.1.0"}]}'),
    ):
        yield Case(
            98,
            f"lock file {what}",
            locked(text),
            ["plugins", "explain", "passes"],
            (0,),
            "P0407",
            prints="P0407",
        )

    def only_folder(folder):
        (folder / "source" / "build").mkdir(parents=True)
        write(folder / "source" / "build" / "x.plugin.json", manifest("good", "./x.so"))
        return {"TENON_PLUGIN_ADD": str(folder / "source")}

    yield Case(
        90, "folder without a manifest", only_folder, None, (0,), "P0105.*source/build. does"
    )
    yield Case(
        90,
        "a layer that no plugin has",
        lambda folder: {"TENON_LAYERS": "trase"},
        ["run", "g.tir", "--seed", "1"],
        (2, 3),
        r"did you mean `trace`",
        silent=r"(?s)is skipped.*is skipped",
    )
    yield Case(
        100,
        "crashing plugin does not stop the others",
        fake("crashes"),
        ["opt", "g.tir", "--passes", "cse"],
        (0,),
        prints=r"add\(",
    )
    yield Case(
        100,
        "strict makes a bad manifest fatal",
        lambda folder: {**added(folder, {"bad.plugin.json": "hello"}), "TENON_PLUGIN_STRICT": "1"},
        None,
        (2, 3),
        "P0905",
        prints="^$",
    )
    yield Case(
        100,
        "explain names gate and code",
        fake("newer_major", abi={"major": 9}),
        ["plugins", "explain", "newer_major"],
        (0,),
        prints=r"(?s)abi +failed.*P0305",
    )
    yield Case(
        90,
        "explain as JSON",
        fake("good"),
        ["plugins", "explain", "good", "--json"],
        (0,),
        prints=r'"gate": ?"found"',
    )
    yield Case(
        90,
        "every plugin disabled",
        lambda folder: {"TENON_PLUGINS_DISABLE": "*"},
        None,
        (2, 3),
        "TENON_PLUGINS_DISABLE",
        prints="^$",
    )

    def folder_as_manifest(folder):
        (folder / "plugins" / "x.plugin.json").mkdir(parents=True)
        return {"TENON_PLUGIN_ADD": str(folder / "plugins")}

    yield Case(90, "manifest is a folder", folder_as_manifest, None, (0,), "P0201")

    def pipe_as_manifest(folder):
        (folder / "plugins").mkdir()
        os.mkfifo(folder / "plugins" / "x.plugin.json")
        return {"TENON_PLUGIN_ADD": str(folder / "plugins")}

    yield Case(90, "manifest is a pipe without a writer", pipe_as_manifest, None, (0,), "P0201")

    def sparse_manifest(folder):
        (folder / "plugins").mkdir()
        with open(folder / "plugins" / "x.plugin.json", "wb") as file:
            file.truncate(1 << 30)
        return {"TENON_PLUGIN_ADD": str(folder / "plugins")}

    yield Case(92, "manifest of 1 GB", sparse_manifest, None, (0,), "P0202")

    def link_outside(folder):
        environment = added(folder, {"x.plugin.json": manifest("good", "./x.so")})
        shutil.copy(FAKES / "fake_good.so", folder / "outside.so")
        (folder / "plugins" / "x.so").symlink_to("../outside.so")
        return environment

    yield Case(93, "library is a link that leaves the folder", link_outside, None, (0,), "P0207")

    def other_machine(folder):
        environment = fake("good")(folder)
        library = folder / "plugins" / "x.so"
        content = bytearray(library.read_bytes())
        content[18] ^= 0xFF  # e_machine
        library.write_bytes(content)
        return environment

    yield Case(
        96,
        "library of another processor",
        other_machine,
        ["opt", "g.tir", "--passes", "fake-pass"],
        (3,),
        "P0701",
    )

    def cut_library(folder):
        environment = fake("good")(folder)
        library = folder / "plugins" / "x.so"
        library.write_bytes(library.read_bytes()[:1000])
        return environment

    yield Case(
        96,
        "library cut short",
        cut_library,
        ["opt", "g.tir", "--passes", "fake-pass"],
        (3,),
        "P0[67]01",
    )

    def circle(folder):
        environment = fake("good", requires={"plugins": ["other"]})(folder)
        shutil.copy(FAKES / "fake_good.so", folder / "plugins" / "y.so")
        (folder / "plugins" / "y.plugin.json").write_text(
            manifest("other", "./y.so", requires={"plugins": ["good"]})
        )
        return environment

    yield Case(
        98, "two plugins that require each other", circle, ["plugins", "list"], (0,), prints="good"
    )
    yield Case(
        98,
        "a plugin that requires one that is missing (R-A28)",
        fake("good", requires={"plugins": ["nonesuch"]}),
        ["plugins", "explain", "good"],
        (0,),
        prints="P0501",
    )

    def namesakes(folder):
        environment = fake("good")(folder)
        (folder / "plugins" / "y.plugin.json").write_text(manifest("good", "./x.so"))
        return environment

    yield Case(
        98,
        "two manifests of one name",
        namesakes,
        ["plugins", "explain", "good"],
        (0,),
        prints="P0406",
    )
    yield Case(
        98,
        "a digest that is not the library's",
        fake("good", sha256="0" * 64),
        ["opt", "g.tir", "--passes", "fake-pass"],
        (3,),
        "P0604",
    )
    yield Case(
        90,
        "pattern that matches nothing",
        lambda folder: {"TENON_PLUGINS_DISABLE": "nonesuch"},
        None,
        (0,),
        "P0404",
    )


def group_8():
    """Text cut at each token boundary, and inconsistent text."""

    def text(body):
        return lambda folder: write(folder / "g.tir", body)

    def bad(name, body, says=r"T0[23]\d\d"):
        return Case(113, name, text(body), None, (2,), says, prints="^$")

    tokens = [m.end() for m in re.finditer(r"\S+", ADD)]
    for end in tokens[:-1]:
        yield bad(f"cut after byte {end}", ADD[:end])
    yield bad("brackets 10,000 deep", ADD.replace("f32[4]", "f32" + "[" * 10000, 1))
    yield bad("use before definition", ADD.replace("add(%a, %b)", "add(%a, %z)"))
    yield bad("wrong operand count", ADD.replace("add(%a, %b)", "add(%a)"))
    yield bad("result type lies", ADD.replace(": f32[4]\n", ": f32[5]\n"))
    yield bad("number 10^400", ADD.replace("f32[4]", "f32[1" + "0" * 400 + "]", 1))
    yield bad("line of 10 MB", ADD.replace("add(", "add(" + " " * (10 << 20)), r"T0\d\d\d")
    yield bad("bad UTF-8", ADD.encode().replace(b"%0", b"%\xff\xfe"))
    yield bad("name with quotes and ESC", ADD.replace("add(", '"a\\"\x1b[31mdd"('))
    yield bad("region without yield", ADD.replace("  yield %0\n", ""))
    yield bad("empty", "")
    yield bad("NUL", ADD.encode().replace(b"%0", b"%\x00"))
    yield Case(120, "CRLF line ends", text(ADD.replace("\n", "\r\n")), None, (0, 2))
    yield Case(
        120, "byte order mark", text(b"\xef\xbb\xbf" + ADD.encode()), ["opt", "g.tir"], (0, 2)
    )


def group_10():
    yield Case(
        133,
        "unknown variable",
        lambda folder: {"TENON_PLUGINS_DISABEL": "cpu"},
        None,
        (0,),
        "TENON_PLUGINS_DISABLE",
    )
    yield Case(
        133,
        "unknown log name",
        lambda folder: {"TENON_LOGS": "+codgen"},
        None,
        (0,),
        "did you mean `codegen`",
    )

    def in_cwd(folder):
        shutil.copy(FAKES / "fake_aborts_when_opened.so", folder / "x.so")
        write(folder / "x.plugin.json", manifest("aborts_when_opened", "./x.so"))
        return {"TENON_PLUGIN_ADD": f":.:./:{folder.name}:"}

    yield Case(
        134,
        "path list with empty and relative parts",
        in_cwd,
        ["plugins", "list"],
        (0,),
        "P0104",
        prints="ops",
        silent="aborts_when_opened",
    )

    def library_path(folder):
        shutil.copy(FAKES / "fake_aborts_when_opened.so", folder / "ops.so")
        shutil.copy(FAKES / "fake_aborts_when_opened.so", folder / "passes.so")
        return {"LD_LIBRARY_PATH": str(folder)}

    yield Case(135, "LD_LIBRARY_PATH with fake plugins", library_path)
    yield Case(
        136,
        "HOME unset",
        lambda folder: {"HOME": None, "XDG_CACHE_HOME": None, "TENON_CACHE_DIR": None},
    )
    yield Case(
        137,
        "HOME not writable",
        lambda folder: {"HOME": "/proc", "XDG_CACHE_HOME": None, "TENON_CACHE_DIR": None},
    )
    yield Case(
        138,
        "no folder for temporary files",
        lambda folder: {"TMPDIR": "/dev/null/tmp", "TENON_CACHE_DIR": "/dev/null/cache"},
    )

    def trace_link(folder):
        write(folder / "precious", "precious")
        (folder / "trace.json").symlink_to("precious")

    yield Case(
        139,
        "trace target is a link",
        trace_link,
        ["run", "g.tir", "--seed", "1", "--device", "reference", "--profile", "trace.json"],
        (2, 3),
        "T0109",
    )

    def trace_pipe(folder):
        os.mkfifo(folder / "trace.json")
        return {"TENON_LAYERS": "trace:file=" + str(folder / "trace.json")}

    yield Case(
        139,
        "target of the trace layer is a pipe",
        trace_pipe,
        ["run", "g.tir", "--seed", "1", "--device", "sim"],
        (2, 3),
        "is not a regular file",
    )

    def trace_layer_link(folder):
        trace_link(folder)
        return {"TENON_LAYERS": "trace:file=" + str(folder / "trace.json")}

    yield Case(
        139,
        "target of the trace layer is a link",
        trace_layer_link,
        ["run", "g.tir", "--seed", "1", "--device", "sim"],
        (2, 3),
        "is a link",
    )
    yield Case(
        140,
        "locale with a decimal comma",
        lambda folder: {"LC_ALL": "de_DE.UTF-8", "LC_NUMERIC": "de_DE.UTF-8"},
    )
    yield Case(141, "closed stdout and stderr", closed=True, status=(0, 2, 3))
    yield Case(142, "stack of 256 KB", stack=256 << 10)
    yield Case(
        142,
        "stack of 256 KB, a run",
        None,
        ["run", "g.tir", "--seed", "1", "--device", "reference"],
        (0,),
        stack=256 << 10,
    )
    yield Case(
        137,
        "home folder is a file",
        lambda folder: (
            write(folder / "home", ""),
            {"HOME": str(folder / "home"), "XDG_CACHE_HOME": None, "TENON_CACHE_DIR": None},
        )[1],
    )


def group_7():
    """A prepared cache folder, used by a run on the cpu that compiles; only if that plugin was
    built."""
    run = ["run", "g.tir", "--seed", "1", "--device", "cpu"]

    def fake_dependency(folder):
        for library in ("libtenon-clang.so", "libtenon-clang.so.0", "cpu.so"):
            shutil.copy(FAKES / "fake_aborts_when_opened.so", folder / library)
        return {
            "LD_LIBRARY_PATH": str(folder)
        }  # and an empty cache, so that the compiler library is opened

    yield Case(
        135,
        "LD_LIBRARY_PATH with a fake compiler library",
        fake_dependency,
        run,
        (0,),
        prints="y: f32",
    )

    def link(folder):
        (folder / "real").mkdir(mode=0o700)
        (folder / "cache").symlink_to("real")
        return {"TENON_CACHE_DIR": str(folder / "cache")}

    yield Case(111, "cache folder is a link", link, run, (0,), "T0801")

    def open_to_all(folder):
        (folder / "cache").mkdir()
        (folder / "cache").chmod(0o777)
        return {"TENON_CACHE_DIR": str(folder / "cache")}

    yield Case(110, "cache folder open to everybody", open_to_all, run, (0,), "T0801")
    yield Case(
        108,
        "cache folder cannot be made",
        lambda folder: {"TENON_CACHE_DIR": "/proc/nowhere"},
        run,
        (0,),
        "T0801",
    )

    def damaged(change):
        def prepare(folder):
            cache = folder / "cache"
            environment = {"TENON_CACHE_DIR": str(cache)}
            subprocess.run(
                [TENON, *run],
                cwd=folder,
                env={**os.environ, **environment},
                capture_output=True,
                check=True,
            )
            entries = [p for p in cache.rglob("*") if p.is_file() and "/v1/cpu-" in str(p)]
            if not entries:
                raise RuntimeError("the run left no cached object")
            for entry in entries:
                change(entry)
            return environment

        return prepare

    def flip(entry):
        data = bytearray(entry.read_bytes())
        data[len(data) // 2] ^= 0x40
        entry.write_bytes(data)

    yield Case(
        103, "zero-length entries", damaged(lambda e: e.write_bytes(b"")), run, (0,), "T0802"
    )
    yield Case(105, "code changed", damaged(flip), run, (0,), "T0802")
    yield Case(
        104,
        "cut entries",
        damaged(lambda e: e.write_bytes(e.read_bytes()[:-9])),
        run,
        (0,),
        "T0802",
    )


def limits(case):
    def apply():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if case.stack:
            resource.setrlimit(resource.RLIMIT_STACK, (case.stack, case.stack))
        if case.closed:
            os.close(1)
            os.close(2)

    return apply


def problems(case, folder, tenon):
    write(folder / "g.tir", ADD)
    changes = (case.prepare(folder) if case.prepare else None) or {}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TENON_")}
    environment["TENON_CACHE_DIR"] = str(folder / ".cache")
    for name, value in changes.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    try:
        result = subprocess.run(
            [tenon, *case.args],
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=SECONDS,
            preexec_fn=limits(case),
        )
    except subprocess.TimeoutExpired:
        return [f"no answer within {SECONDS} s"], ""
    out, err = (data.decode("utf-8", "surrogateescape") for data in (result.stdout, result.stderr))
    found = []
    if result.returncode not in case.status:
        found.append(
            f"exit status {result.returncode}, not {case.status}"
            if result.returncode >= 0
            else f"killed by signal {-result.returncode}"
        )
    if not re.search(case.says, err):
        found.append(f"stderr does not say {case.says!r}")
    if not re.search(case.prints, out):
        found.append(f"stdout does not show {case.prints!r}")
    if case.silent and re.search(case.silent, out + err):
        found.append(f"shows {case.silent!r}")
    found += [f"internal talk: {word}" for word in INTERNAL if word in err]
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f\udc80-\udcff]", err):
        found.append("stderr holds control characters or broken UTF-8")
    if (
        case.number == 139
        and (folder / "precious").exists()
        and (folder / "precious").read_text() != "precious"
    ):
        found.append("wrote through a link")
    return found, err


def main():
    global FAKES, TENON
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--fakes", required=True)
    parser.add_argument("--filter", default="")
    parser.add_argument("-v", "--verbose", action="store_true")
    arguments = parser.parse_args()
    TENON = str(pathlib.Path(arguments.tenon).resolve())
    FAKES = pathlib.Path(arguments.fakes).resolve()
    has_cpu = (pathlib.Path(TENON).parent.parent / "lib/tenon/plugins.d/cpu.plugin.json").exists()
    cases = [*group_6(), *(group_7() if has_cpu else ()), *group_8(), *group_10()]
    passed = failed = 0
    for case in cases:
        if arguments.filter and arguments.filter not in str(case):
            continue
        with tempfile.TemporaryDirectory(prefix="tenon-hostile-") as name:
            folder = pathlib.Path(name)
            try:
                found, err = problems(case, folder, TENON)
            except (RuntimeError, OSError, subprocess.SubprocessError) as trouble:
                found, err = [f"the case could not be made: {trouble}"], ""
        passed, failed = passed + (not found), failed + bool(found)
        if found or arguments.verbose:
            print(
                f"{'FAILED' if found else 'ok':7} {case}"
                + "".join(f"\n          {p}" for p in found)
            )
            print("".join(f"          | {line[:300]}\n" for line in err.splitlines()[:6]), end="")
    if not has_cpu:
        print(
            "group 7 needs the cpu plugin, which this build is without; base_test has the cache's own cases"
        )
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
