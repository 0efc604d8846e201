#!/usr/bin/env python3
"""scripts/budgets.py names the stages and tests that grew, and fails only when it is asked to and a stage
took more than one and a half times its budget."""

import contextlib
import io
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import budgets  # noqa: E402

BUDGETS = "# a comment\n\nbuild: release 100\ntests: release 50\n  grown 10.5\n  steady 20\n"
RESULTS = '<testsuite><testcase name="grown" time="60"/><testcase name="steady" time="40"/><testcase name="new" time="9"/></testsuite>'


def report(folder, build_s, tests_s, *more):
    """The printed lines and the exit status for a run of two stages whose unit took 2 s."""
    (folder / "tests.xml").write_text(RESULTS)
    (folder / "budgets.txt").write_text(BUDGETS)
    (folder / "records").write_text(
        f"unit 2.0\n{build_s}\tbuild: release\t\n{tests_s}\ttests: release\t{folder}/tests.xml\n"
    )
    sys.argv = [
        "budgets.py",
        "report",
        str(folder / "records"),
        "--budgets",
        str(folder / "budgets.txt"),
        *more,
    ]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = budgets.main()
    return out.getvalue().splitlines()[1:], status


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # Within the budgets, nothing is printed.
        assert report(folder, 200, 100, "--fail") == ([], 0)
        # Above a budget: the stage and the tests that grew, largest growth first; `steady` did not grow.
        lines, status = report(folder, 200, 120)
        assert status == 0 and lines == [
            "budget: stage 'tests: release' took 60 units, its budget is 50",
            "budget:   grown took 30.0 units, 19.5 more than its line says",
            "budget:   new took 4.5 units, 2.5 more than its line says",
        ], lines
        # Only --fail fails, and only above one and a half times.
        assert report(folder, 200, 150, "--fail")[1] == 0
        assert report(folder, 200, 152)[1] == 0
        lines, status = report(folder, 200, 152, "--fail")
        assert status == 1 and lines[0].endswith("its budget is 50: more than 1.5 times, FAILED"), (
            lines
        )
        # A stage without a budget fails a full run.
        (folder / "budgets.txt").write_text("build: release 100\n")
        assert budgets.report(
            {"tests: new": (3.0, {})}, budgets.read_budgets(folder / "budgets.txt"), True
        )
        # What `record` writes holds for the run that it was written from.
        stages = budgets.read_records(folder / "records")[1]
        (folder / "budgets.txt").write_text(budgets.record(stages))
        written = budgets.read_budgets(folder / "budgets.txt")
        assert (
            not budgets.report(stages, written, True)
            and written["tests: release"][1]["grown"] == 36.0
        ), written
    # The tree's own file is readable.
    assert budgets.read_budgets(ROOT / "scripts/budgets.txt")
    print("budgets: 1 passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
