#!/usr/bin/env python3
"""Checks the rules of the tree.

- Files include only what their room may include.
- Modules of Python import only what their room may import, in no circle; a room has at most 30.
- Files include only what their room may include, and rooms of one folder have an order.
- A folder has at most 30 sources.
- core/ names no op, device, vendor, file format or third-party library.
- The targets of links, the headings in them and the files that pages name exist.
- Decisions have unique numbers and a row in their index.
- Each top folder has a README, and each source file is named in the README of its room or, in a
  room with one file per op, in the generated list of ops.
- The prose of the guides has 100 columns.
- Scripts of bench/ and scripts/ that begin with #! are executable.
- Words that plain English avoids (scripts/words.txt) do not become more.

Prints one line per violation and exits with 1.

    tree_rules.py                  all rules
    tree_rules.py --links FOLDER   only the links of the pages below FOLDER, which may be installed
"""

import ast
import collections
import fnmatch
import os
import pathlib
import re
import sys

import words

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = {".h", ".hpp", ".c", ".cpp"}

# Headers of tenon/cpp that need nothing but the ABI: facts that all rooms share.
SHARED = [
    "tenon/cpp/arithmetic.hpp",
    "tenon/cpp/elements.hpp",
    "tenon/cpp/instructions.hpp",
    "tenon/cpp/likely_size.hpp",
    "tenon/cpp/record.hpp",
]
# room -> prefixes that its files may include from this tree (its own folder is always allowed)
MAY_INCLUDE = {
    "sdk/tenon": ["tenon/abi/"],
    "sdk/tenon/abi": ["tenon/abi/"],
    "sdk/tenon/cpp": ["tenon/abi/", "tenon/cpp/"],
    "sdk/tenon/kernelgen": ["tenon/abi/", "tenon/cpp/", "tenon/kernelgen/", "tenon/plan/"],
    "sdk/tenon/plan": ["tenon/abi/", "tenon/cpp/", "tenon/plan/"],
    "sdk/tenon/stream": ["tenon/abi/", "tenon/cpp/", "tenon/kernelgen/", "tenon/stream/"],
    "sdk/templates": ["tenon/"],
    "sdk/tools": ["tenon/", "sdk/tools/"],
    "plugins": ["tenon/"],
    "passes": ["tenon/"],
    "frontends": ["tenon/"],
    "samples": ["tenon/"],
    "core": [
        "tenon/tenon.h",
        "tenon/abi/",
        "tenon/cpp/interfaces.hpp",
        "tenon/cpp/sha256.hpp",
        "tenon/cpp/size_rule.hpp",
        "tenon/cpp/text.hpp",
        *SHARED,
        "core/",
    ],
}
# Includes of core that remain until the host offers a call instead: (file, header): why. This table
# may only shrink.
WAITING = {
    (
        "sdk/tools/conform/checks/manifest/manifest.cpp",
        "core/host/discovery/places.h",
    ): "whether the place of a file may be trusted",
    (
        "sdk/tools/conform/checks/manifest/manifest.cpp",
        "core/host/loading/tables.h",
    ): "adopting a record: what its tables offer",
    (
        "sdk/tools/conform/checks/ops/meaning.cpp",
        "core/op/evaluate.h",
    ): "running an op's scalar program: the registry evaluates by the reference where there is one",
    (
        "sdk/tools/conform/subject/subject.cpp",
        "core/host/discovery/places.h",
    ): "where the library of a manifest lies",
    (
        "sdk/tools/conform/subject/subject.h",
        "core/host/discovery/manifest.h",
    ): "reading a manifest as the host does, with its errors",
}
# The folders of kernelgen and what each may include. Includes have no cycles, so that a reader of
# one stage needs none of the later ones. Folders that are not listed (device, testing) and tests
# next to the sources may include all of kernelgen.
KERNELGEN = {
    "ir": ["ir"],
    "lower": ["ir", "lower"],
    "schedule": ["ir", "schedule"],
    "verify": ["ir", "schedule", "verify"],
    "fuse": ["ir", "lower", "schedule", "verify", "fuse"],
    "loops": ["ir", "schedule", "loops"],
    "print": ["ir", "loops", "print"],
}
for folder, seen in KERNELGEN.items():
    MAY_INCLUDE[f"sdk/tenon/kernelgen/{folder}"] = ["tenon/abi/", *SHARED] + [
        f"tenon/kernelgen/{other}/" for other in seen
    ]
# The packages of Python: the folder of each.
PACKAGES = {"tenon.torch": "frontends/torch", "tenon": "frontends/python/tenon"}
# The rooms of these packages, and what each may import of them besides itself. PUBLIC means all
# modules of tenon whose names have no underscore. Modules that are in no room may import all.
PUBLIC = "public"
PYTHON_ROOMS = {
    "tenon.builder": [
        "tenon._devices",
        "tenon._errors",
        "tenon._host",
        "tenon._model",
        "tenon._native",
        "tenon._progress",
    ],  # fmt: skip
    "tenon._eager": ["tenon._errors", "tenon._native", "tenon.builder"],
    "tenon.xp": ["tenon._errors", "tenon._host", "tenon._native", "tenon.builder", "tenon._eager"],
    "tenon.torch.graph": [PUBLIC],
    "tenon.torch.lowerings": [PUBLIC, "tenon.torch.graph"],
    "tenon.torch.decompositions": [PUBLIC, "tenon.torch.lowerings"],
    "tenon.torch.program": [PUBLIC, "tenon.torch.graph", "tenon.torch.lowerings"],
    "tenon.torch.capture": [
        PUBLIC,
        "tenon.torch.graph",
        "tenon.torch.lowerings",
        "tenon.torch.decompositions",
        "tenon.torch.program",
    ],
}
MOST_MODULES = 30  # in a folder of a package (ADR 0027)
# Folders that are divided into rooms, and what each room may include of the others. Includes have no
# cycles, so that a reader of one room needs none of the later ones. Files outside of the rooms and tests
# may include all of them.
ROOMS = {
    "core/session": {
        "compile": [],
        "call": ["compile"],
        "package": ["compile"],
        "report": ["compile"],
        "api": ["compile", "call", "package", "report"],
    },
    "core/runtime": {
        "device": [],
        "values": ["device"],
        "run": ["device", "values"],
    },
    "core/dispatch": {
        "placement": [],
        "kernels": ["placement"],
    },
    "frontends/onnx": {
        "reader": [],
        "graph": ["reader"],
        "ops": ["reader", "graph"],
    },
    "frontends/python/native": {
        "host": [],
        "arrays": ["host"],
        "program": ["host", "arrays"],
        "ops": ["host", "arrays", "program"],
        "eager": ["host", "arrays", "program"],
    },
    "sdk/tools/tenon": {
        "console": [],
        "host": ["console"],
        "cli": ["console"],
        "execution": ["console", "host", "cli"],
        "commands": ["console", "host", "cli", "execution"],
    },
    "sdk/tools/conform/fixtures": {
        "device": [],
        "graphs": ["device"],
        "engine": ["device"],
        "compile": ["device", "graphs", "engine"],
    },
    "plugins/sim": {
        "collective": [],
        "device": [],
        "kernels": [],
        "compile": ["device", "kernels"],
    },
}
MOST_SOURCES = 30
# Folders that may have more, and why. So may the folders of tests/, which have one file per case.
MAY_HAVE_MORE = {
    "plugins/ops": "one file per op",
    "sdk/tenon/abi": "public headers keep their paths",
    "sdk/tenon/cpp": "public headers keep their paths",
}
# A third-party header may be seen only by these rooms.
ONLY_IN = {
    "nlohmann/": ["core/host", "sdk/tools"],
    "protozero/": ["frontends/onnx"],
    "CLI/": ["sdk/tools"],
    "clang/": ["plugins/cpu/compiler"],
    "llvm/": ["plugins/cpu/compiler"],
    "lld/": ["plugins/cpu/compiler"],
    "CL/": ["samples/opencl"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
OURS = ("tenon/", "core/", "sdk/", "plugins/", "passes/", "frontends/")
# Words that the code of core/ must not contain; comments may. Names of ops and devices come from
# the tree.
FORBIDDEN_IN_CORE = {
    "format": "coreml gguf hdf5 npy npz onnx pickle protobuf protozero safetensors tflite",
    "vendor": "amd apple intel nvidia qualcomm",
    "library": "amdhip blas clang cublas cuda cudart cudnn dnnl hip level_zero llvm metal miopen "
    "mkl mpi nccl nvrtc onednn openblas opencl pocl rccl rocblas rocm spirv sycl tbb "
    "vulkan ze_loader",
    "framework": "jax numpy pytorch tensorflow torch",
}
# Words in core's string literals that are also the name of an op or a device: where they are
# allowed, and why. "" is all of core/.
ALLOWED_IN_CORE = {
    "add": ("core/base/errors/error_codes.def", "English: what to do about an error"),
    "and": ("", "English"),
    "call": ("core/base", "English: a call of a function"),
    "convert": ("core/base/errors/error_codes.def", "English: what to do about an error"),
    "cpu": (
        "core/base/process/cpu_count.cpp",
        "the kernel's name for the controller of processor time",
    ),
    "max": ("core", "an operation of dims in the text form, and a file of the kernel"),
    "mean": ("core/base/str.cpp", "English: did you mean"),
    "min": ("core", "an operation of dims in the text form"),
    "not": ("", "English"),
    "null": ("", "English: a null pointer"),
    "or": ("", "English"),
    "reference": ("", "one of the three ways in which an op may say what it means"),
    "reshape": ("core/base/errors/error_codes.def", "English: what to do about an error"),
    "select": ("core/op/scalar_check.cpp", "an instruction of scalar programs"),
    "take": ("", "English: take something out"),
    "token": ("core", "a kind of value in the text form, and a piece of a text"),
    "while": ("", "English"),
}
# Matches whole words in any case, also after `lib`, and parts of NamesLikeThis.
FORBIDDEN = {
    what: re.compile(
        rf"(?i:(?<![a-z])(?:lib)?({words.replace(' ', '|')})(?![a-z]))|"
        rf"({words.title().replace(' ', '|')})(?![a-z])"
    )
    for what, words in FORBIDDEN_IN_CORE.items()
}
FEWEST_OPS = 100  # with fewer pages than this, the search for names of ops would find nothing
# A comment, a character, a raw string or a string. Strings match too, so that "//" within one does
# not begin a comment.
TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|'(?:[^'\\\n]|\\[^\n][0-9a-fA-F]*)'|"
    r'R"(\w*)\((.*?)\)\1"|"((?:[^"\\\n]|\\.)*)"',
    re.S,
)


def sources():
    for room in ("sdk", "core", "plugins", "passes", "frontends", "samples"):
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in SOURCE and "template" not in path.parts:
                yield path


def room_of(relative):
    if relative.startswith("sdk/tenon/kernelgen/") and relative.endswith("_test.cpp"):
        return "sdk/tenon/kernelgen"  # a test of one stage goes the way to it
    return max((r for r in MAY_INCLUDE if relative.startswith(r + "/")), key=len)


def check_waiting():
    """Reports the rows of WAITING that are no longer needed."""
    for name, header in WAITING:
        if not (ROOT / name).exists() or header not in INCLUDE.findall((ROOT / name).read_text()):
            yield f"scripts/tree_rules.py: {name} waits for nothing of <{header}>: remove the row"


def check_includes(relative, text):
    room = room_of(relative)
    folder = relative.rsplit("/", 1)[0] + "/"
    name = relative.rsplit("/", 1)[1]
    is_test = name.endswith("_test.cpp") or name.startswith("test_")
    for header in INCLUDE.findall(text):
        if header.startswith(OURS):
            own = header.startswith("/".join(relative.split("/")[:2]) + "/")
            waits = (relative, header) in WAITING
            if not own and not waits and not any(header.startswith(p) for p in MAY_INCLUDE[room]):
                yield f"{relative}: {room} may not include <{header}>"
        for prefix, rooms in ONLY_IN.items():
            allowed = is_test or any(folder.startswith(r + "/") for r in rooms)
            if header.startswith(prefix) and not allowed:
                yield f"{relative}: <{header}> belongs to {', '.join(rooms)} alone"


def module_name(file):
    """The name of a module of PACKAGES; None for another file."""
    for package, folder in PACKAGES.items():
        if file.startswith(folder + "/") and file.endswith(".py"):
            inner = (
                file[len(folder) + 1 : -len(".py")]
                .replace("/", ".")
                .removesuffix("__init__")
                .rstrip(".")
            )
            return f"{package}.{inner}" if inner else package
    return None


def statements(body, typed=False):
    """All statements of a body and those inside them, and whether they are under TYPE_CHECKING."""
    for statement in body:
        yield statement, typed
        only_types = (
            isinstance(statement, ast.If) and getattr(statement.test, "id", "") == "TYPE_CHECKING"
        )
        yield from statements(getattr(statement, "body", ()), typed or only_types)
        for part in ("orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(statement, part, ()), typed)


def imports_of(file, text):
    """What a file of Python imports, also in functions: (module, name or None, line, only for types)."""
    around = (module_name(file) or "").split(".")
    if not file.endswith("/__init__.py"):
        around = around[:-1]
    for node, typed in statements(ast.parse(text).body):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None, node.lineno, typed) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            outer = around[: len(around) - node.level + 1] if node.level else []
            module = ".".join([*outer, *([node.module] if node.module else [])])
            yield from ((module, alias.name, node.lineno, typed) for alias in node.names)


def python_arrows(files):
    """For each file of Python, the files that it imports: modules of PACKAGES, and those in its folder.

    An import in a function counts. One under TYPE_CHECKING runs nothing, so it does not. Neither does
    the `__init__.py` of a package around a module that is imported: each would be in a circle with
    all that it imports. A module that is imported later by its name in a string, as `tenon.xp` is by
    `tenon.__getattr__` and PyTorch's part by `tenon.load`, does not count.
    """
    modules = {name: file for file in files if (name := module_name(file))}
    arrows = {}
    for file in files:
        if not file.endswith(".py") or not file.startswith(
            ("scripts/", *(room + "/" for room in SOURCE_ROOMS))
        ):
            continue
        folder = file.rpartition("/")[0]
        arrows[file] = {}
        text = (ROOT / file).read_text(errors="replace")
        siblings = (
            f"{folder}/{name}.py" in files
            for name in re.findall(r"^\s*(?:from|import) (\w+)", text, re.M)
        )
        if module_name(file) is None and not any(siblings):
            continue  # most tests: there is nothing to parse
        for module, name, line, typed in imports_of(file, text):
            inner = f"{module}.{name}"
            there = modules.get(inner) or modules.get(module)
            if inner in NATIVE_MODULES or module in NATIVE_MODULES:
                continue
            if there is None and f"{folder}/{module}.py" in files:
                there = f"{folder}/{module}.py"
            if there and there != file and not typed:
                arrows[file].setdefault(there, line)
    return arrows


NATIVE_MODULES = {"tenon._native"}  # built from C++


def check_circles(arrows):
    """Reports each group of files that import one another, once."""
    order, low, stack, groups = {}, {}, [], []

    def visit(file):
        order[file] = low[file] = len(order)
        stack.append(file)
        for other in arrows[file]:
            if other not in order:
                visit(other)
            if other in stack:
                low[file] = min(low[file], low[other])
        if low[file] == order[file]:
            group = stack[stack.index(file) :]
            del stack[stack.index(file) :]
            groups.append(group)

    for file in arrows:
        if file not in order:
            visit(file)
    for group in groups:
        if len(group) > 1:
            yield f"{min(group)}: imports in a circle: {', '.join(sorted(group))}"


def may_import(room, module):
    if any(part.startswith("_") for part in module.split(".")):
        is_public = False
    else:
        is_public = not module.startswith("tenon.torch")
    return any(
        is_public if allowed == PUBLIC else module == allowed or module.startswith(allowed + ".")
        for allowed in (room, *PYTHON_ROOMS[room])
    )


def check_python(files):
    modules = {name for file in files if (name := module_name(file))} | NATIVE_MODULES
    for file in files:
        module = module_name(file)
        room = next((room for room in PYTHON_ROOMS if f"{module}.".startswith(room + ".")), None)
        if room is None:
            continue
        for target, name, line, _ in imports_of(file, (ROOT / file).read_text()):
            target = f"{target}.{name}" if f"{target}.{name}" in modules else target
            if target.split(".")[0] == "tenon" and not may_import(room, target):
                yield f"{file}:{line}: {room} may not import {target}"
    counts = {}
    for file in files:
        if module_name(file):
            folder = file.rpartition("/")[0]
            counts[folder] = counts.get(folder, 0) + 1
    for folder, count in counts.items():
        if count > MOST_MODULES:
            yield f"{folder}: {count} modules, more than {MOST_MODULES}"
    yield from check_circles(python_arrows(files))


def check_rooms(relative, text):
    """Reports what a file includes against the order of the rooms around it."""
    for parent, rooms in ROOMS.items():
        room, _, name = relative.removeprefix(parent + "/").partition("/")
        if not relative.startswith(parent + "/") or not name or name.endswith("_test.cpp"):
            continue
        if room not in rooms:
            yield f"{relative}: the order of the rooms of {parent} lacks {room}"
            continue
        for header in INCLUDE.findall(text):
            seen = header.removeprefix(parent + "/").split("/")[0]
            if header.startswith(parent + "/") and seen not in (room, *rooms[room]):
                yield f"{relative}: {parent}/{room} may not include <{header}>"


def check_sizes_of_folders(files):
    counts = collections.Counter(
        file.rpartition("/")[0]
        for file in files
        if file.startswith(tuple(room + "/" for room in SOURCE_ROOMS if room != "tests"))
        and pathlib.PurePath(file).suffix in SOURCE
    )
    for folder, count in sorted(counts.items()):
        if count > MOST_SOURCES and folder not in MAY_HAVE_MORE:
            yield f"{folder}: {count} sources, more than {MOST_SOURCES}: divide it into rooms"
    for folder in sorted(MAY_HAVE_MORE):
        if counts[folder] <= MOST_SOURCES:
            yield f"scripts/tree_rules.py: {folder} needs no exception from {MOST_SOURCES} sources: remove the row"


def op_names():
    """The names of all ops: each has a page. A test compares the pages with the registered ops."""
    return {path.stem for path in (ROOT / "docs/generated/ops").glob("*.md")} - {"README"}


def device_names():
    """The names of devices: each is the folder of the plugin or sample that offers the device."""
    return {
        folder.name
        for room in ("plugins", "samples")
        for folder in (ROOT / room).iterdir()
        if folder.is_dir()
        for path in (*folder.iterdir(), *folder.glob("device/*"))
        if path.suffix in SOURCE and "TENON_DEVICE_ID" in path.read_text(errors="replace")
    }


def code_and_literals(text):
    """The text without comments and includes, and its string literals."""
    text = INCLUDE.sub("", text)
    code = TOKEN.sub(lambda token: " " if token[0].startswith(("//", "/*")) else token[0], text)
    return code, [token[2] or token[3] for token in TOKEN.finditer(text) if token[2] or token[3]]


def check_core_knows_nothing(relative, text, ops, devices):
    name = relative.rsplit("/", 1)[1]
    if name.endswith(("_test.cpp", "_test.h")) or name.startswith("test_"):
        return
    code, literals = code_and_literals(text)
    for what, pattern in FORBIDDEN.items():
        for word in sorted({(m[1] or m[2]).lower() for m in pattern.finditer(code)}):
            yield f"{relative}: core names the {what} '{word}'"
    for literal in literals:
        for library in re.findall(r"\blib(?!tenon\b)[\w+-]+\.so\b", literal):
            yield f"{relative}: core names the library '{library}'"
        for device in re.findall(r"\b(\w+):\d", literal):
            if device in devices:
                yield f"{relative}: core names the device '{device}'"
        for word in re.findall(r"\w+", literal):
            place = ALLOWED_IN_CORE.get(word, (None,))[0]
            if word in ops | devices and (place is None or not relative.startswith(place)):
                yield f"{relative}: core names the {'op' if word in ops else 'device'} '{word}'"


def check_core():
    ops, devices = op_names(), device_names()
    if len(ops) < FEWEST_OPS:
        yield (
            f"docs/generated/ops: {len(ops)} ops are known, fewer than {FEWEST_OPS}: "
            "what core/ names cannot be checked"
        )
    for path in sorted((ROOT / "core").rglob("*")):
        if path.suffix in SOURCE | {".def", ".inc"}:
            relative, text = path.relative_to(ROOT).as_posix(), path.read_text(errors="replace")
            yield from check_core_knows_nothing(relative, text, ops, devices)


def pages(root):
    """The Markdown pages of a tree, without templates: `tenon new` fills in the names in these."""
    for path in sorted(root.rglob("*.md")):
        first = path.relative_to(root).parts[0]
        if not first.startswith((".", "build")) and "templates" not in path.parts:
            yield path


def prose(text):
    """A page without code blocks and inline code, in which nothing is a link."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchors(text):
    """The anchors that the usual hosts make of headings."""
    heads = re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def check_links(root, path):
    relative = path.relative_to(root).as_posix()
    for target in re.findall(r"\[[^\]\n]*\]\(([^)\s]+)\)", prose(path.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = path if name == "" else path.parent / name
        if not there.exists():
            yield f"{relative}: the target of the link {target} does not exist"
        elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
            yield f"{relative}: {name or 'this page'} has no heading #{anchor}"


def check_decisions():
    folder = ROOT / "docs/adr"
    index = (folder / "README.md").read_text()
    numbers = {}
    for path in sorted(folder.glob("[0-9]*.md")):
        number = path.name[:4]
        if number in numbers:
            yield f"docs/adr: {path.name} and {numbers[number]} have the same number"
        numbers[number] = path.name
        if not path.read_text().startswith(f"# {number}: "):
            yield f"docs/adr/{path.name}: the first line is not '# {number}: TITLE'"
        if f"]({path.name})" not in index:
            yield f"docs/adr/README.md: there is no row for {path.name}"


def check_readmes():
    rooms = ("bench", "core", "docs", "frontends", "passes", "plugins", "samples", "sdk", "tests")
    for room in rooms:
        if not (ROOT / room / "README.md").exists():
            yield f"{room}: there is no README.md"


# Names of files in pages that are not files of the tree: (page, name): why. A page that ends in "/"
# means all pages below that folder.
NAMED_ELSEWHERE = {
    ("docs/", "manifest.json.in"): "each plugin has one of its own",
    ("sdk/cmake/README.md", "manifest.json.in"): "each plugin has one of its own",
    ("docs/guide/device.md", "acme.c"): "`tenon new` makes it",
    ("docs/guide/frontend.md", "expected.tir"): "`tenon new` makes it",
    ("docs/guide/kernels.md", "lightning.c"): "`tenon new` makes it",
    ("docs/guide/pass.md", "expected.tir"): "`tenon new` makes it",
    ("docs/guide/pass.md", "test.tir"): "`tenon new` makes it",
    ("docs/guide/engine.md", "shuttle.cpp"): "`tenon new` makes it",
    ("docs/guide/pass.md", "unpair.cpp"): "`tenon new` makes it",
    (
        "docs/spec/plugin.md",
        "base.h",
    ): "a header of sdk/tenon/abi; requirements name them without their folder",
    ("passes/README.md", "passes/tidy_up.cpp"): "what a new pass would be called",
    ("passes/README.md", "tests/passes/tidy_up.tir"): "what a new pass would be called",
}
NAMED = re.compile(r"[\w@*.+/-]+\.(?:h|hpp|c|cpp|py|sh|def|inc|cmake|tir|md|json|in)")
# `.plugin.json`, `NAME_test.cpp`
FORM_OF_NAMES = re.compile(r"\..*|(?!README|CHANGELOG|CONTRIBUTING|SECURITY)[A-Z]{2,}.*")
SOURCE_ROOMS = ("bench", "core", "frontends", "passes", "plugins", "samples", "sdk", "tests")
# Rooms with one file per op, and the generated page that names these files. A test compares the page
# with the sources. The README of the room names the other files.
LISTED_BY = {"plugins/ops": "docs/generated/ops/README.md"}


def back_ticked(text):
    """The names in back-ticks, outside code blocks."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.findall(r"`((?:[^`\n]|\n(?!\n))+)`", outside)


def tree_files():
    """All files of the tree, as paths from its root."""
    for folder, folders, names in os.walk(ROOT):
        here = pathlib.Path(folder).relative_to(ROOT).as_posix()
        folders[:] = [
            name
            for name in folders
            if not name.startswith((".", "__")) and not (here == "." and name.startswith("build"))
        ]
        yield from (name if here == "." else f"{here}/{name}" for name in names)


def too_wide(text):
    """The numbers of lines of prose with more than 100 columns. A link alone on its line may have them."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        is_code ^= line.startswith("```")
        words = line.split()
        if (
            len(line) > 100
            and len(words) > 1
            and not is_code
            and not words[0].startswith(("|", "```"))
        ):
            if not re.fullmatch(r"\s*(?:[-*] )?\[[^\]]*\]\([^)]*\)\S*", line):
                yield number


def check_width():
    for path in (ROOT / "README.md", *sorted((ROOT / "docs/guide").glob("*.md"))):
        for number in too_wide(path.read_text()):
            yield f"{path.relative_to(ROOT).as_posix()}:{number}: prose has more than 100 columns"


def check_executable(files):
    for file in files:
        if not file.startswith(("bench/", "scripts/")):
            continue
        with (ROOT / file).open("rb") as script:
            is_script = script.read(2) == b"#!"
        if is_script and not os.access(ROOT / file, os.X_OK):
            yield f"{file}: it begins with #!, and is not executable"


def check_named_files(files):
    """Each back-ticked name of a file matches a file: in the page's folder or below it, from the
    root of the tree, or from the root of includes."""
    used = set()
    for path in pages(ROOT):
        page = path.relative_to(ROOT).as_posix()
        if path.name == "CHANGELOG.md":
            continue  # it names what was there
        folder = page.rpartition("/")[0]
        below = [file for file in files if file.startswith(folder + "/") or not folder]
        for name in sorted(set(back_ticked(path.read_text()))):
            if not NAMED.fullmatch(name) or FORM_OF_NAMES.fullmatch(name.rsplit("/", 1)[-1]):
                continue
            if any(is_named(file, name) for file in below) or (path.parent / name).exists():
                continue
            patterns = (name, f"sdk/{name}")
            if any(fnmatch.fnmatchcase(file, pattern) for file in files for pattern in patterns):
                continue
            rows = (
                (place, other)
                for place, other in NAMED_ELSEWHERE
                if other == name
                and (page == place or place.endswith("/") and page.startswith(place))
            )
            row = next(rows, None)
            used.add(row)
            if row is None:
                yield f"{page}: there is no file `{name}`"
    for place, name in sorted(NAMED_ELSEWHERE.keys() - used):
        yield f"scripts/tree_rules.py: {place} needs no exception for `{name}`: remove the row"


def is_named(file, name):
    """Whether a name, path or pattern matches the end of this file's path."""
    return fnmatch.fnmatchcase("/".join(file.split("/")[-1 - name.count("/") :]), name)


def room_page(room, file):
    """The page that should name a file."""
    return LISTED_BY[room] if room in LISTED_BY and file.endswith(".cpp") else f"{room}/README.md"


def check_sources_are_named(files):
    """The nearest README up the tree names every source file, by its name or by a pattern; in rooms
    with one file per op, the generated page names those that declare ops."""
    names = {}
    for file in files:
        if not file.startswith(tuple(room + "/" for room in SOURCE_ROOMS)) or "/templates/" in file:
            continue
        if pathlib.PurePath(file).suffix not in SOURCE | {".py", ".sh"}:
            continue
        folder = file.rpartition("/")[0]
        room = folder
        while f"{room}/README.md" not in files:
            room = room.rpartition("/")[0]
        if room not in names:
            room_pages = [
                ROOT / page for page in (f"{room}/README.md", LISTED_BY.get(room)) if page
            ]
            ticked = [
                name
                for page in room_pages
                if page.exists()
                for name in back_ticked(page.read_text())
            ]
            names[room] = [name for name in ticked if "." in name and " " not in name]
        stem = file.rpartition(".")[0]
        same = [file] + [
            stem + ending
            for ending in (".h", ".hpp")
            if file.endswith((".c", ".cpp")) and stem + ending in files
        ]
        tested = stem.removesuffix("_test")
        endings = (".cpp", ".c", ".h", ".hpp")
        if tested != stem and any(tested + ending in files for ending in endings):
            continue
        if not any(
            is_named(path, name)
            for path in same
            for name in names[room]
            if not name.startswith("*.")
        ):
            yield f"{room_page(room, file)}: {file[len(room) + 1 :]} is not named"


def check_words(files):
    """The words of scripts/words.txt. Where fewer are left than their line says, a note asks for a lower line."""
    for problem, is_failure in words.check(ROOT, files):
        if is_failure:
            yield problem
        else:
            print(f"note: {problem}")


def links_below(root):
    return [problem for path in pages(root) for problem in check_links(root, path)]


def report(problems):
    for line in problems:
        print(line)
    print(f"tree rules: {len(problems)} violations")
    return 1 if problems else 0


def main():
    if sys.argv[1:2] == ["--links"]:
        return report(links_below(pathlib.Path(sys.argv[2]).resolve()))
    problems = list(check_decisions()) + list(check_readmes()) + list(check_waiting())
    problems += links_below(ROOT)
    files = dict.fromkeys(sorted(tree_files()))
    problems += list(check_named_files(files)) + list(check_sources_are_named(files))
    problems += list(check_width()) + list(check_executable(files)) + list(check_words(files))
    problems += list(check_python(files))
    problems += list(check_sizes_of_folders(files))
    problems += check_core()
    for path in sources():
        relative, text = path.relative_to(ROOT).as_posix(), path.read_text(errors="replace")
        problems += list(check_includes(relative, text)) + list(check_rooms(relative, text))
    return report(problems)


if __name__ == "__main__":
    sys.exit(main())
