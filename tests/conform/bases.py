"""The good plugins that mutants.py mutates, and the mutants that are not in their sources: faults
of the link and of the manifest."""

import dataclasses
import json
import os
import pathlib

SOURCES = pathlib.Path(__file__).resolve().parent / "mutants"


def interfaces(*names):
    return [{"id": f"tenon.{name}/1", "minor": 0} for name in names]


def manifest(name, provides, offered=()):
    made = {"schema": 1, "name": name, "version": "0.1.0", "library": "./mutant.so"}
    made["provides"] = provides
    if offered:
        made["platform"] = {"os": "linux", "arch": os.uname().machine}
        made["abi"] = {"major": 0, "min_minor": 2, "interfaces": interfaces(*offered)}
    return made


@dataclasses.dataclass
class Base:
    """A good plugin. Its mutants are the lines of mutants/NAME.list."""

    name: str
    sources: list
    manifest: dict
    flags: list = dataclasses.field(default_factory=list)
    more: list = dataclasses.field(default_factory=list)  # arguments of `tenon conform`
    # The good plugin passes every check; otherwise only those that its list names.
    passes_all: bool = True
    # A device of few ops: the group that it holds and its level. Only F.core-set may fail.
    holds: tuple = ()
    # Memory that the runner may use.
    memory_kib: int = 1 << 40


DEVICE = ["mutant.c", "mutant_device.c", "mutant_copy.c"]
QUEUES = ["async.c", "async_fences.c", "async_memory.c", "async_exchange.c"]
ASYNC = [*QUEUES, "async_claims.c", "async_compile.c", "async_execute.c"]
COMPILES = ("device", "queue", "exchange", "compile")
ASYNC_MANIFEST = manifest("async", {"devices": ["async"]}, COMPILES)
QUEUED_MANIFEST = manifest(
    "async",
    {"devices": ["async"], "kernels": ["async"]},
    ("device", "queue", "exchange", "kernels"),
)
MUTANT_MANIFEST = manifest(
    "mutant", {"devices": ["mutant"], "kernels": ["mutant"]}, ("device", "kernels", "exchange")
)
KINDS = {
    "ops": ["mutant_sum"],
    "passes": ["mutant-double", "mutant-look"],
    "frontends": [{"name": "mutant-toy", "extensions": [".toy"]}],
    "toolchains": ["mutant-c"],
    "importers": ["onnx:org.mutant"],
}


def kernel_set(name):
    """Kernels for the cpu, with the models that they suit."""
    made = manifest(f"mutant_{name}", {"kernels": ["cpu"]})
    return Base(name, [f"{name}.c"], made, more=["--example", SOURCES / f"{name}.model"])


ALL = [
    Base("mutant", [*DEVICE, "mutant_kernels.c"], MUTANT_MANIFEST),
    Base("async", ASYNC, ASYNC_MANIFEST),
    # Refuses copies beyond a buffer at submission, so that its work fails only by a variable.
    Base(
        "careful",
        ASYNC,
        ASYNC_MANIFEST | {"environment": ["ASYNC_FAULTS"]},
        ["-DCHECKS_AT_SUBMISSION"],
        passes_all=False,
    ),
    # Compiles add and products of matrices alone: group E must judge what there is.
    Base("few", ASYNC, ASYNC_MANIFEST, ["-DFEW"], holds=("E", 2)),
    # Compiles only a product, a sum and a maximum together: a device of patterns alone.
    Base("graphs", ASYNC, ASYNC_MANIFEST, ["-DGRAPHS"], holds=("E", 4)),
    Base("queued", [*QUEUES, "async_kernels.c"], QUEUED_MANIFEST, ["-DKERNELS"]),
    Base("kinds", ["kinds.cpp"], manifest("mutant_kinds", KINDS)),
    Base("layer", ["layer.c"], manifest("counter", {"layers": ["counter"]})),
    # An engine whose ranks are all in one process.
    Base("engine", ["engine.cpp"], manifest("mutant_engine", {"collectives": ["mutant"]})),
    kernel_set("set"),
    kernel_set("fused"),
    # Other kernels, of ops whose values are easily wrong.
    Base("ops", [*DEVICE, "mutant_ops.c"], MUTANT_MANIFEST, passes_all=False),
    # Attacks the runner itself. A flood of two seconds exceeds the memory.
    Base("hostile", ["hostile.c"], manifest("hostile", {}), passes_all=False, memory_kib=500 << 10),
]

GOOD_LINK = ["-Wl,-z,now"]
# Faults of the link: flags of the compiler and of the linker, and the check that must catch them.
LINK = {
    "no_symbol": (["-Dtenon_plugin_query=another_query"], GOOD_LINK, "A.exports"),
    "second_symbol": (["-DEXTRA_EXPORT"], GOOD_LINK, "A.exports"),
    "private_door": (["-DPRIVATE_DOOR"], ["-Wl,-z,lazy"], "A.no-private-door"),
    "undefined_symbol": (["-DUNDEFINED_SYMBOL"], GOOD_LINK, "A.opens"),
    "lazy": ([], ["-Wl,-z,lazy"], "A.binds-now"),
    "executable_stack": ([], [*GOOD_LINK, "-Wl,-z,execstack"], "A.stack"),
    "text_relocation": (["-DTEXT_RELOCATION"], [*GOOD_LINK, "-Wl,-z,notext"], "A.segments"),
    "foreign_rpath": ([], [*GOOD_LINK, "-Wl,-rpath,/opt/elsewhere"], "A.search-paths"),
    "escaping_rpath": ([], [*GOOD_LINK, "-Wl,-rpath,$ORIGIN/../.."], "A.search-paths"),
    "needed_with_folder": ([], [*GOOD_LINK, "NEEDED_WITH_FOLDER"], "A.needed-names"),
    "sanitized": (
        ["-fsanitize=address"],
        [*GOOD_LINK, "-fsanitize=address", "-shared-libasan"],
        "A.sanitizer",
    ),
}


def changed(**keys):
    made = MUTANT_MANIFEST | keys
    return json.dumps({key: value for key, value in made.items() if value is not None})


def abi(**keys):
    return changed(abi=MUTANT_MANIFEST["abi"] | keys)


OTHER_ARCH = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
OTHER_MINOR = interfaces("exchange", "kernels") + [{"id": "tenon.device/1", "minor": 3}]
# Faults of the manifest: its text, and the check that must catch it.
MANIFESTS = {
    "cut": (changed()[:-1], "A.manifest-json"),
    "key_twice": (changed()[:-1] + ', "name": "mutant"}', "A.manifest-json"),
    "too_deep": (
        changed(vendor_data="DEEP").replace('"DEEP"', "[" * 20 + "]" * 20),
        "A.manifest-json",
    ),
    "no_version": (changed(version=None), "A.manifest-keys"),
    "schema_9": (changed(schema=9), "A.manifest-keys"),
    "provides_text": (changed(provides={"devices": "mutant"}), "A.manifest-keys"),
    "other_name": (changed(name="another"), "A.name"),
    "short_version": (changed(version="1.0"), "A.version"),
    "other_version": (changed(version="0.2.0"), "A.version"),
    "bare_library": (changed(library="mutant.so"), "A.library-path"),
    "escaping_library": (changed(library="../mutant.so"), "A.library-path"),
    "absolute_library": (changed(library="FOLDER/mutant.so"), "A.library-path"),
    "other_arch": (changed(platform={"arch": OTHER_ARCH}), "A.platform"),
    "other_os": (changed(platform={"os": "plan9"}), "A.platform"),
    "other_abi_minor": (abi(min_minor=7), "A.abi-version"),
    "interface_left_out": (abi(interfaces=interfaces("device")), "A.interfaces"),
    "interface_other_minor": (abi(interfaces=OTHER_MINOR), "A.interfaces"),
    "device_left_out": (changed(provides={"kernels": ["mutant"]}), "A.provides-all"),
    "op_too_many": (
        changed(provides=MUTANT_MANIFEST["provides"] | {"ops": ["flip"]}),
        "A.provides-no-more",
    ),
    "wrong_digest": (changed(sha256="0" * 64), "A.digest"),
}
# Files that others may write: the file, its mode, and the check that must catch it.
MODES = {
    "manifest_writable": ("mutant.plugin.json", 0o666, "A.trusted-files"),
    "library_writable": ("mutant.so", 0o777, "A.trusted-files"),
}
