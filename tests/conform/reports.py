#!/usr/bin/env python3
"""What `tenon conform` writes: JSON, JUnit, HTML, badge and text agree, and known failures are
handled.

    reports.py TENON PLUGINS_FOLDER
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml


def main():
    tenon, plugins = sys.argv[1:]
    manifest = pathlib.Path(plugins) / "null.plugin.json"
    problems = []

    def want(condition, what):
        if not condition:
            problems.append(what)

    def run_of(path, *more):
        done = subprocess.run(
            [tenon, "conform", str(path), *map(str, more)], capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr

    def run(*more):
        return run_of(manifest, *more)

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        names = {kind: folder / f"report.{kind}" for kind in ("json", "xml", "html", "svg")}
        code, text = run(
            "--level",
            "2",
            "--jobs",
            "2",
            "--json",
            names["json"],
            "--junit",
            names["xml"],
            "--html",
            names["html"],
            "--badge",
            names["svg"],
        )
        report = json.loads(names["json"].read_text())
        want(code == 0 and "level 2 was reached" in text, f"null does not reach level 2:\n{text}")
        want(report["level"] == 2 and report["level_asked"] == 2, "the level of the JSON report")
        results = [c["result"] for c in report["checks"]]
        want(set(results) <= {"pass", "fail", "skip", "not offered"}, f"results {set(results)}")
        want(
            report["counts"]["passed"] == results.count("pass")
            and report["counts"]["skipped"] == results.count("skip"),
            "the counts of the JSON report",
        )
        want(
            all(
                c.get("text")
                for c in report["checks"]
                if c["result"] in ("skip", "not offered", "fail")
            ),
            "a skip without a reason",
        )
        want(
            all(
                re.fullmatch(r"[0-9a-f]{64}", digest)
                for digest in (
                    report["plugin"]["sha256"],
                    report["plugin"]["manifest_sha256"],
                    report["checks_sha256"],
                )
            ),
            "digests",
        )
        want({c["requirement"][2] for c in report["checks"]} == set("ABCGI"), "groups of level 2")
        suite = xml.parse(names["xml"]).getroot()
        want(
            int(suite.get("tests")) == len(results) == len(suite.findall("testcase")),
            "the number of JUnit's cases",
        )
        want(suite.get("failures") == "0", "failures of JUnit")
        page = names["html"].read_text()
        want(
            not re.search(r"(src|href)=|@import|url\(", page),
            "the page needs something from elsewhere",
        )
        want(
            "level 2" in page
            and report["plugin"]["sha256"] in page
            and page.count("<tr") > len(results),
            "what stands in the page",
        )
        want(
            "is the digest of the library." in page and "<code>sha256</code>" in page,
            "the page says what the requirements demand",
        )
        want(
            all(c["sentence"].endswith((".", ".)")) for c in report["checks"]),
            "a requirement without its sentence",
        )
        badge = xml.parse(names["svg"]).getroot()
        want(badge.tag.endswith("svg") and "level 2" in "".join(badge.itertext()), "the badge")

        want(
            report["level_needs"] == []
            and "R-C26" in report["unchecked"]
            and "not checked here" in text,
            "what could not be checked",
        )
        want(
            "R-C26" in "".join(badge.itertext())
            and f"{len(report['unchecked'])} unchecked" in "".join(badge.itertext()),
            "the badge says what was not checked",
        )
        want(
            text.startswith("null ")
            and text.split("\n")[0] == report["verdict"]
            and "; C except R-C26" in report["verdict"],
            f"the report begins with its verdict:\n{text}",
        )
        held = {g["group"]: g["holds"] for g in report["groups"]}
        want(held["A"] and held["C"] and not held["G"], f"groups {report['groups']}")
        want(
            report["devices"]
            and all(said in page for said in ("What the words mean", report["date"], "null")),
            "date, devices and legend of the page",
        )

        # A level that is not reached, with its reason.
        broken = folder / "null.plugin.json"
        library = manifest.parent / json.loads(manifest.read_text())["library"]
        (folder / library.name).write_bytes(library.read_bytes())
        broken.write_text(json.dumps(json.loads(manifest.read_text()) | {"sha256": "0" * 64}))
        code, text = run_of(broken, "--level", "1", "--json", names["json"])
        want(
            code == 1
            and "no level was reached; these groups hold: B\n  level 1 needs A.digest (R-A12), which fails"
            in text,
            f"a level that is not reached:\n{text}",
        )
        want(
            json.loads(names["json"].read_text())["level_needs"] == ["A.digest"],
            "what a level needs in the JSON report",
        )

        # Checks selected by requirement, beyond a level, and none.
        code, text = run("--filter", "R-C1[89]", "-v")
        want(code == 0 and "2 passed" in text, f"checks chosen by requirement:\n{text}")
        code, text = run("--list", "--filter", "C.copy*", "--level", "2")
        want(
            code == 0 and text.count("R-C") > 3 and "C.open" not in text and "D " not in text,
            f"a list of some checks:\n{text}",
        )
        code, text = run("--filter", "C.copy*", "--level", "1")
        want(code == 2 and "of level 2 and higher" in text, f"checks beyond the level:\n{text}")
        code, text = run("--filter", "R-C19,R-C20", "--filter", "C.count", "-v")
        want(code == 0 and "3 passed" in text, f"checks chosen by several patterns:\n{text}")
        code, text = run("--filter", "C.count,C.cuont")
        want(
            code == 2 and "matches `C.cuont`" in text,
            f"one pattern of two that chooses nothing:\n{text}",
        )

        # An invalid number, a missing file, a file that cannot be written.
        for wrong in (
            ["--limit", "nan"],
            ["--limit", "inf"],
            ["--limit", "0"],
            ["--example", folder / "absent"],
            ["--example", manifest],  # which no check chosen here reads
            ["--json", "-", "--html", "-"],
        ):
            code, text = run("--filter", "C.count", *wrong)
            want(code == 2 and "error: T0" in text, f"{wrong}:\n{text}")
        # A device without a compiler reads no example, and says so.
        code, text = run("--filter", "E.atomic-claims", "--example", manifest)
        want("no example is read" in text, f"an example for a device without a compiler:\n{text}")
        for more in (["--filter", "C.count"], ["--list"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run(
                    [tenon, "conform", str(manifest), *more],
                    stdout=full,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            want(
                done.returncode == 2 and "T0107" in done.stderr,
                f"a full disk: {done.returncode} {done.stderr}",
            )
        done = subprocess.run(
            [tenon, "conform", str(manifest), "--filter", "C.count", "--json", "-"],
            capture_output=True,
            text=True,
        )
        want(
            json.loads(done.stdout)["counts"]["passed"] == 1 and "1 passed" in done.stderr,
            "JSON on standard output",
        )

        # One kernel and element type, as a table.
        run("--filter", "F.values", "--json", names["json"], "--html", names["html"])
        kernels = json.loads(names["json"].read_text())["kernels"]
        want(
            [(k["op"], k["dtype"]) for k in kernels] == [("add", "f32")]
            and kernels[0]["cases"] > 0,
            f"kernels {kernels}",
        )
        want('<td>add</td><td class="yes">' in names["html"].read_text(), "the table of kernels")

        # A known failure that passes is a finding, and so is one that matches no check.
        known = folder / "known"
        known.write_text("# comment\nC.count it counts by feel\n")
        code, text = run("--filter", "C.count", "--known", known, "--junit", names["xml"])
        want(
            code == 1 and "stale" in text and "it counts by feel" in text,
            f"a known failure that passes:\n{text}",
        )
        want(
            xml.parse(names["xml"]).getroot().get("failures") == "1",
            "a known failure that passes in JUnit",
        )
        known.write_text("Z.nothing of the past\n")
        code, text = run("--filter", "C.count", "--known", known)
        want(code == 1 and "matches no check" in text, f"a known failure of no check:\n{text}")
        known.write_text("C.count\n")
        code, text = run("--known", known)
        want(code == 2 and "gives no reason" in text, f"a known failure without a reason:\n{text}")

        listed = json.loads(
            subprocess.run(
                [tenon, "conform", "--list", "--json", "-"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        code, text = run("--filter", "L.*", "--json", names["json"])
        want(code == 0 and "reported" in text, f"speed is reported, and not judged:\n{text}")
        want(
            len([c for c in listed["checks"] if c["check"].startswith("L.")])
            == len(json.loads(names["json"].read_text())["checks"]),
            "checks of speed",
        )
    print("\n".join(problems) or "reports agree")
    return 1 if problems else 0


sys.exit(main())
