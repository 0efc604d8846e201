#!/usr/bin/env python3
"""Every check of the runner fails on some mutant: a device with one fault, a manifest with one
wrong entry, or a library with one fault of its link. The good device passes all checks.

    mutants.py TENON INCLUDE COMPILER [--filter PART_OF_A_NAME|CHECK] [-v]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

# ---- Faults in the code: CONFORM_MUTANT, and the check that must catch it.
CODE = """
crash_open A.opens
slow_open A.opens-fast
loud_open A.quiet
starts_thread A.no-threads
signal_handler A.process-state
rounding A.process-state
mask A.process-state
folder A.process-state
descriptor A.descriptors
null_record_ok B.query
odd_code B.query
refuses_silently B.query
hangs B.query
other_abi B.record-version
short_table B.sizes
long_record_size B.sizes
no_stride B.sizes
null_slot B.required-slots
id_without_major B.interface-ids
id_twice B.interface-ids
null_table B.interface-ids
bad_utf8 B.texts
control_text B.texts
reserved_field B.reserved
wants_exact_version B.newer-host
old_host_crash B.older-host
wants_exact_size B.longer-host
ignores_missing B.poorer-host
sleeps B.query-time
query_writes_on_failure B.query-output
alloc_changes_table B.static-tables
needs_memory_slot B.no-optional-slots
needs_memory_slot B.cut-tables
run_needs_save B.cut-tables
run_needs_save B.no-optional-slots
assumes_operand_size B.every-layout
breaks_under_later_host B.future-host
silent_errors B.error-text
other_code B.error-text
silent_ranges B.error-text
info_writes_on_failure B.error-outputs
alloc_writes_on_failure B.error-outputs
long_record B.record-ends
whole_record B.record-ends
silent_record B.record-ends
shutdown_fails B.shutdown
null_handle B.handles
count_grows C.count
odd_kind C.info
odd_alignment C.info-values
odd_threading C.info-values
odd_uuid C.info-values
one_uuid C.info-values
odd_flags C.info-values
changing_description C.info-stays
any_ordinal C.beyond-the-last
opens_once C.open-again
second_open_poisons C.open-twice
no_empty_buffers C.alloc-empty
shared_buffers C.alloc-apart
wrong_exhaustion C.alloc-too-much
wrapping_size C.alloc-too-much
leaks C.alloc-again
open_leaks C.close-gives-back
open_keeps_a_descriptor C.close-gives-back
free_leaks C.free-gives-back
loses_last_byte C.copy-round-trip
ignores_from_offset C.copy-between
rounds_up C.copy-range
rounds_up_reads C.copy-range
fill_overshoots C.copy-range
big_endian_fill C.fill
any_width C.fill-width
wrapping_ranges C.copy-outside
no_empty_copies C.copy-empty
late_copies C.copy-complete
any_direction C.copy-direction
misaligned C.map-address
moving_map C.map-address
shadow_map C.map-coherent
import_shifts C.import
import_touches C.import
import_to_write_copies C.import-to-write
no_empty_pinned C.pinned
pinned_twice C.pinned
pinned_misaligned C.pinned
pinned_is_kept C.pinned
pinned_too_much_is_internal C.pinned-too-much
kind_without_a_name C.kinds
kinds_need_a_device C.kinds
kinds_change C.kinds
exchange_ignores_offset C.exchange
exchange_copies C.exchange
handle_says_another_kind C.exchange
handle_has_no_length C.exchange
any_kind C.exchange-refuses
exchange_is_unbounded C.exchange-refuses
free_writes_imports C.import
forgets_use C.memory
peak_stays C.memory
second_device_drops C.two-devices
shared_stage C.threads
copies_at_most_16_mib C.copy-large
open_wants_library C.unavailable
reads_unlisted A.own-variables
reads_environment A.own-variables
opens_in_query A.lists-without-libraries
lists_with_library A.lists-without-libraries
library_by_path A.lists-without-libraries
frees_source B.frees-its-own
keeps_record B.keeps-no-pointers
keeps_source B.keeps-no-pointers
wrong_sum F.values
loses_nan F.special-floats
small_beside_large F.special-floats
saturates F.integer-ends
denormals_become_normal F.denormals
flushes_to_the_wrong_sum F.denormals
loses_zero_sign F.zero-signs
no_empty_kernels F.empty-and-one
loses_tail F.odd-sizes
a_predicate_for_each F.arguments
loses_nan F.special-arguments
conversion_wraps F.conversions
conversion_rounds F.conversions
one_buffer_wrong F.one-buffer-twice
shared_scratch F.threads
takes_everything F.core-set
nameless_kernel F.query
kernel_without_parts F.query
kernel_of_negative_cost F.query
takes_more_epilogue F.query
packs_too_much F.query
refuses_kernels_silently F.query
refuses_kernels_oddly F.query
creates_one_kernel F.create
creates_no_matrix F.create
run_writes_behind F.guards
run_writes_before F.guards
run_writes_input F.guards
first_part_clears F.parts
parts_in_order F.parts
restores_anything F.save-restore
restores_another F.save-restore
restores_nothing F.save-restore
info_shares_record I.safe-calls
shutdown_wants_all_freed I.shutdown-while-open
destructor_aborts I.ends-without-shutdown
destructor_needs_device I.ends-while-open
fork_aborts I.starts-program
loose_thread I.threads-block-signals
alloc_sets_rounding I.float-state
alloc_sets_mask I.process-state
"""

# ---- Faults in the link.
GOOD_LINK = ["-Wl,-z,now"]
LINK = {
    "no_symbol": (["-Dtenon_plugin_query=another_query"], GOOD_LINK, "A.exports"),
    "second_symbol": (["-DEXTRA_EXPORT"], GOOD_LINK, "A.exports"),
    "private_door": (["-DPRIVATE_DOOR"], ["-Wl,-z,lazy"], "A.no-private-door"),
    "undefined_symbol": (["-DUNDEFINED_SYMBOL"], GOOD_LINK, "A.opens"),
    "lazy": ([], ["-Wl,-z,lazy"], "A.binds-now"),
    "executable_stack": ([], GOOD_LINK + ["-Wl,-z,execstack"], "A.stack"),
    "text_relocation": (["-DTEXT_RELOCATION"], GOOD_LINK + ["-Wl,-z,notext"], "A.segments"),
    "foreign_rpath": ([], GOOD_LINK + ["-Wl,-rpath,/opt/elsewhere"], "A.search-paths"),
    "escaping_rpath": ([], GOOD_LINK + ["-Wl,-rpath,$ORIGIN/../.."], "A.search-paths"),
    "needed_with_folder": ([], GOOD_LINK + ["NEEDED_WITH_FOLDER"], "A.needed-names"),
    "sanitized": (["-fsanitize=address"], GOOD_LINK + ["-fsanitize=address", "-shared-libasan"], "A.sanitizer"),
}

# ---- Other good plugins, mutated by lists in mutants/BASE.list: lines of a word and the check that
# must catch it.

MANIFEST = {
    "schema": 1, "name": "mutant", "version": "0.1.0", "library": "./mutant.so",
    "platform": {"os": "linux", "arch": os.uname().machine},
    "abi": {"major": 0, "min_minor": 2, "interfaces": [{"id": "tenon.device/1", "minor": 0}, {"id": "tenon.kernels/1", "minor": 0},
                                                            {"id": "tenon.exchange/1", "minor": 0}]},
    "provides": {"devices": ["mutant"], "kernels": ["mutant"]},
}

ASYNC_MANIFEST = MANIFEST | {
    "name": "async",
    "abi": {"major": 0, "min_minor": 2, "interfaces": [{"id": "tenon.device/1", "minor": 0}, {"id": "tenon.queue/1", "minor": 0},
                                                       {"id": "tenon.exchange/1", "minor": 0}, {"id": "tenon.compile/1", "minor": 0}]},
    "provides": {"devices": ["async"]},
}
KINDS_MANIFEST = {
    "schema": 1, "name": "mutant_kinds", "version": "0.1.0", "library": "./mutant.so",
    "provides": {"ops": ["mutant_sum"], "passes": ["mutant-double", "mutant-look"],
                 "frontends": [{"name": "mutant-toy", "extensions": [".toy"]}], "toolchains": ["mutant-c"], "importers": ["onnx:org.mutant"]},
}
ASYNC = ["async.c", "async_memory.c", "async_exchange.c", "async_compile.c"]
# `careful` is `async` with copies beyond a buffer refused at submission; its work fails only by a
# variable.
# `few` compiles add and products of matrices alone, and `graphs` only a product, a sum and a maximum
# together: group E must judge what there is.
FLAGS = {"queued": ["-DKERNELS"], "careful": ["-DCHECKS_AT_SUBMISSION"], "few": ["-DFEW"], "graphs": ["-DGRAPHS"]}
SOURCES = {"mutant": ["mutant.c"], "async": ASYNC, "careful": ASYNC, "few": ASYNC, "graphs": ASYNC, "kinds": ["kinds.cpp"], "layer": ["layer.c"], "set": ["set.c"], "fused": ["fused.c"], "queued": ["async.c", "async_memory.c", "async_exchange.c", "async_kernels.c"]}
MANIFESTS = {"mutant": MANIFEST, "async": ASYNC_MANIFEST, "careful": ASYNC_MANIFEST | {"environment": ["ASYNC_FAULTS"]}, "few": ASYNC_MANIFEST, "graphs": ASYNC_MANIFEST,
             "queued": ASYNC_MANIFEST | {"abi": {"major": 0, "min_minor": 2, "interfaces": [{"id": f"tenon.{name}/1", "minor": 0} for name in ("device", "queue", "exchange", "kernels")]},
                                         "provides": {"devices": ["async"], "kernels": ["async"]}},
             "kinds": KINDS_MANIFEST,
             "layer": {"schema": 1, "name": "counter", "version": "0.1.0", "library": "./mutant.so", "provides": {"layers": ["counter"]}},
             "set": {"schema": 1, "name": "mutant_set", "version": "0.1.0", "library": "./mutant.so", "provides": {"kernels": ["cpu"]}},
             "fused": {"schema": 1, "name": "mutant_fused", "version": "0.1.0", "library": "./mutant.so", "provides": {"kernels": ["cpu"]}}}
# Examples for kernel sets.
EXAMPLES = {name: ["--example", HERE / f"mutants/{name}.model"] for name in ("set", "fused")}
# For a good plugin that is a variant of another one: the checks that it exists for, all of which
# pass.
PASSES = {"careful": ["D.failed-work", "D.waits-for-failed", "D.fence-query", "D.failing-submit"]}
# Devices of few ops hold group E beside the level that they reach.
HOLDS = {"few": ("E", 2), "graphs": ("E", 2)}
# Words that are no faults: what the declared properties of a device allow.
ALLOWED = {"graphs": [("one_long_call", "E.compile-polls"), ("one_long_call", "E.compile-cancelled")],
           "async": [("concrete_sizes", "E.concrete-sizes"), ("no_kind_of_fences", "C.kinds"), ("no_kind_of_fences", "D.native-refuses"), ("stream_zero", "D.native-queues")]}


def changed(**keys):
    made = json.loads(json.dumps(MANIFEST)) | keys
    return json.dumps({key: value for key, value in made.items() if value is not None})


# ---- Faults in the manifest: its text.
TEXTS = {
    "cut": (changed()[:-1], "A.manifest-json"),
    "key_twice": (changed()[:-1] + ', "name": "mutant"}', "A.manifest-json"),
    "too_deep": (changed(vendor_data="DEEP").replace('"DEEP"', "[" * 20 + "]" * 20), "A.manifest-json"),
    "no_version": (changed(version=None), "A.manifest-keys"),
    "schema_9": (changed(schema=9), "A.manifest-keys"),
    "provides_text": (changed(provides={"devices": "mutant"}), "A.manifest-keys"),
    "other_name": (changed(name="another"), "A.name"),
    "short_version": (changed(version="1.0"), "A.version"),
    "other_version": (changed(version="0.2.0"), "A.version"),
    "bare_library": (changed(library="mutant.so"), "A.library-path"),
    "escaping_library": (changed(library="../mutant.so"), "A.library-path"),
    "other_arch": (changed(platform={"arch": "aarch64" if os.uname().machine == "x86_64" else "x86_64"}), "A.platform"),
    "other_os": (changed(platform={"os": "plan9"}), "A.platform"),
    "other_abi_minor": (changed(abi=MANIFEST["abi"] | {"min_minor": 7}), "A.abi-version"),
    "interface_left_out": (changed(abi=MANIFEST["abi"] | {"interfaces": [{"id": "tenon.device/1", "minor": 0}]}), "A.interfaces"),
    "interface_other_minor": (changed(abi={"major": 0, "min_minor": 2, "interfaces": [{"id": "tenon.device/1", "minor": 3},
                                                                                      {"id": "tenon.exchange/1", "minor": 0},
                                                                                      {"id": "tenon.kernels/1", "minor": 0}]}), "A.interfaces"),
    "device_left_out": (changed(provides={"kernels": ["mutant"]}), "A.provides-all"),
    "op_too_many": (changed(provides=MANIFEST["provides"] | {"ops": ["flip"]}), "A.provides-no-more"),
    "wrong_digest": (changed(sha256="0" * 64), "A.digest"),
}


def build(compiler, include, folder, flags, link, base="mutant"):
    if "NEEDED_WITH_FOLDER" in link:
        helper = folder / "libhelper.so"
        subprocess.run([compiler, "-shared", "-x", "c", "/dev/null", "-o", helper], check=True)
        link = [word if word != "NEEDED_WITH_FOLDER" else str(helper) for word in link]
    language = ["-std=gnu11"]
    if SOURCES[base][0].endswith(".cpp"):
        language = ["-x", "c++", "-std=c++20"]
        link = [*link, "-lstdc++", f"-Wl,--version-script={HERE / 'mutants/exports.map'}"]
    command = [compiler, *language, "-O1", "-w", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{include}", *FLAGS.get(base, []), *flags,
               *(HERE / "mutants" / source for source in SOURCES[base]), "-o", folder / "mutant.so", "-pthread", "-lm", *link]
    subprocess.run([str(word) for word in command], check=True)


def results(tenon, manifest, folder, mutant="", check="", more=()):
    report = folder / "report.json"
    command = [tenon, "conform", manifest, "--json", report, "--jobs", "2", *(["--filter", check] if check else []), *more]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=os.environ | {"CONFORM_MUTANT": mutant})
    if not report.exists():
        return {}, run.stdout + run.stderr
    return {c["check"]: c["result"] for c in json.loads(report.read_text())["checks"]}, run.stdout + run.stderr


class Mutant:
    def __init__(self, name, check, text=None, flags=None, link=None, mutant="", prepare=None, base="mutant"):
        self.name, self.check, self.text, self.flags, self.link = name, check, text or changed(), flags, link
        self.mutant, self.prepare, self.base = mutant, prepare, base


def mutants():
    for line in CODE.split("\n"):
        if line.strip():
            name, check = line.split()
            yield Mutant(f"code {name}", check, mutant=name)
    for base in list(SOURCES)[1:]:
        for line in (HERE / f"mutants/{base}.list").read_text().split("\n"):
            if line.strip():
                name, check = line.split()
                text = json.dumps(MANIFESTS[base])
                if name == "op_taken_name":
                    text = text.replace("mutant_sum", "add")
                yield Mutant(f"{base} {name}", check, text=text, mutant=name, base=base)
    for name, (flags, link, check) in LINK.items():
        yield Mutant(f"link {name}", check, flags=flags, link=link)
    for name, (text, check) in TEXTS.items():
        yield Mutant(f"manifest {name}", check, text=text)
    yield Mutant("manifest absolute_library", "A.library-path", prepare=lambda folder: (folder / "mutant.plugin.json").write_text(
        changed(library=str(folder / "mutant.so"))))
    yield Mutant("manifest writable", "A.trusted-files", prepare=lambda folder: (folder / "mutant.plugin.json").chmod(0o666))
    yield Mutant("library writable", "A.trusted-files", prepare=lambda folder: (folder / "mutant.so").chmod(0o777))


def try_one(mutant, options, good, folder):
    folder.mkdir(mode=0o755)
    if mutant.flags is None:
        shutil.copy(good[mutant.base] / "mutant.so", folder / "mutant.so")
    else:
        build(options.compiler, options.include, folder, mutant.flags, mutant.link)
    (folder / "mutant.plugin.json").write_text(mutant.text)
    if mutant.prepare:
        mutant.prepare(folder)
    more = ["--limit", "6"] if "hangs" in mutant.name or mutant.base in ("async", "careful", "few", "graphs") else []  # many of them hang
    more += EXAMPLES.get(mutant.base, [])
    found, said = results(options.tenon, folder / "mutant.plugin.json", folder, mutant.mutant, mutant.check, more)
    return found.get(mutant.check), said


def holds_too_little(base, report, found):
    """A device of few ops: nothing fails but that it takes too few, its group holds, and hardly anything of it is left open."""
    report = json.loads(report.read_text())
    letter, level = HOLDS[base]
    group = next(g for g in report["groups"] if g["group"] == letter)
    failed = [check for check, result in found.items() if result == "fail" and check != "F.core-set"]
    if failed or not group["holds"] or report["level"] != level:
        print(f"{base}, in which nothing is wrong: level {report['level']}, {failed} failed, {group}")
        return 1
    return 0


def listed_checks(tenon):
    listed = subprocess.run([tenon, "conform", "--list", "--json", "-"], check=True, capture_output=True, text=True)
    return [check["check"] for check in json.loads(listed.stdout)["checks"]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tenon")
    parser.add_argument("include")
    parser.add_argument("compiler")
    parser.add_argument("--filter", default="")
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        good = {}
        chosen = [m for m in mutants() if options.filter in m.name or options.filter == m.check]
        for base, manifest in MANIFESTS.items():
            if base not in {m.base for m in chosen}:
                continue
            good[base] = work / f"good_{base}"
            good[base].mkdir()
            build(options.compiler, options.include, good[base], [], GOOD_LINK, base)
            (good[base] / "mutant.plugin.json").write_text(json.dumps(manifest))
            if options.filter:
                continue
            if base in PASSES:
                found, said = results(options.tenon, good[base] / "mutant.plugin.json", good[base], check="D.*")
                wrong = [check for check in PASSES[base] if found.get(check) != "pass"]
                failures += len(wrong)
                print("".join(f"{base}, in which nothing is wrong: {check} is {found.get(check)}\n" for check in wrong), end="")
                continue
            for word, check in ALLOWED.get(base, ()):
                found, said = results(options.tenon, good[base] / "mutant.plugin.json", good[base], word, check)
                if found.get(check) != "pass":
                    failures += 1
                    print(f"{base} {word}, which is allowed: {check} is {found.get(check)}\n{said}")
            found, said = results(options.tenon, good[base] / "mutant.plugin.json", good[base], more=EXAMPLES.get(base, ()))
            if base in HOLDS:
                failures += holds_too_little(base, good[base] / "report.json", found)
                continue
            if not found or "fail" in found.values():
                failures += 1
                print(f"{base}, in which nothing is wrong, fails:\n{said}")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            tried = [(m, pool.submit(try_one, m, options, good, work / str(i))) for i, m in enumerate(chosen)]
            for m, result in tried:
                verdict, said = result.result()
                if verdict != "fail":
                    failures += 1
                if verdict != "fail" or options.v:
                    print(f"{m.name}: {m.check}: {verdict}\n{said}")
        missing = {c for c in listed_checks(options.tenon) if c[0] != "L"} - {m.check for m in mutants()}  # speed is reported, never pass or fail
        if not options.filter:
            failures += len(missing)
            print("\n".join(f"no mutant for {check}" for check in sorted(missing)), end="\n" if missing else "")
        print(f"{len(chosen)} mutants, {failures} problems")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
