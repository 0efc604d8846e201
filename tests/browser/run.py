"""Opens pages of `tenon report` in headless Chromium, and looks at what they show.

    run.py --tenon TENON [--pictures FOLDER]

Skipped (status 77) where no chromium is installed. Each view is opened by its address, the page that
its script made is read back, and any message on the console fails the test. `--pictures` also writes
pictures, light and dark, for docs/pictures.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
parser = argparse.ArgumentParser()
parser.add_argument("--tenon", required=True)
parser.add_argument("--pictures", type=pathlib.Path)
options = parser.parse_args()

chromium = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
if chromium is None:
    print("skipped: no chromium is installed; ./check --full installs it")
    sys.exit(77)
work = pathlib.Path(tempfile.mkdtemp(prefix="tenon_browser_"))


def browse(page, view, *more):
    """What Chromium writes: the page after its script, or messages."""
    command = [
        chromium,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
        "--virtual-time-budget=5000",
        f"--user-data-dir={work / 'profile'}",
        *more,
        f"file://{page}#view={view}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert done.returncode == 0 and not said, (
        f"{page.name} {view}: {done.returncode}\n" + "\n".join(said)
    )
    return done.stdout


def shown(page, view):
    """The body of a view, without the data."""
    text = browse(page, view, "--dump-dom")
    assert f'data-view="{view}"' in text, f"{page.name} has no view {view}: {text[:300]}"
    return text[text.rindex("</script>") :]


def report(name, *arguments, status=0):
    page = work / f"{name}.html"
    done = subprocess.run(
        [options.tenon, "report", *arguments, "-o", str(page)], capture_output=True, text=True
    )
    assert done.returncode == status, f"{name}: {done.returncode} {done.stderr}"
    return page


def big(nodes, named):
    """A graph of very many nodes, in modules or without any."""
    lines = ["tenon.tir 1", "graph @big(%x: f32[8, 16]) -> (y: f32[8, 16]) {"]
    for i in range(nodes):
        place = (
            f' loc("net.py" "/encoder/layer.{i // 50}/{"abcde"[i // 10 % 5]}/op_{i}")'
            if named
            else ""
        )
        lines.append(f"  %{i} = tanh({f'%{i - 1}' if i else '%x'}) : f32[8, 16]{place}")
    path = work / f"big_{named}.tir"
    path.write_text("\n".join([*lines, f"  yield %{nodes - 1}", "}"]))
    return str(path)


def deep(levels):
    """A graph of one node that is this many modules deep."""
    path = work / "deep.tir"
    path.write_text(
        "tenon.tir 1\ngraph @deep(%x: f32[8, 16]) -> (y: f32[8, 16]) {\n"
        f'  %0 = tanh(%x) : f32[8, 16] loc("net.py" "/{"a/" * levels}op")\n  yield %0\n}}'
    )
    return str(path)


def expect(text, *wanted):
    for part in wanted:
        assert part in text, f"{part!r} is missing in {re.sub('<[^>]*>', ' ', text)[:2000]}"


encoder = str(MODELS / "encoder.onnx")
page = report("encoder", encoder, "--device", "cpu", "--peaks", "200,30")
expect(
    shown(page, "kernels"),
    "Time of each kernel",
    "dot_general+broadcast+add",
    "of bound",
    "feed_forward",
)
expect(shown(page, "modules"), 'class="flame"', ">feed_forward<")
graph = shown(page, "graph")
expect(graph, "<svg", ">reshape<", "71 nodes")
assert graph.count('class="box') > 20
expect(shown(page, "placement"), "Which device runs what", "71")
expect(shown(page, "memory"), "Live bytes at each of 11 steps", "temp")
expect(shown(page, "code"), "Generated for cpu", 'extern "C"')

compared = report(
    "compared", encoder, "--device", "cpu", "--peaks", "200,30", "--against-device", "reference"
)
expect(shown(compared, "compare"), "A against B", "nodes on reference")
again = report("again", encoder, "--device", "cpu", "--no-run", "--against", str(page))
expect(shown(again, "compare"), "A against B")

failed = report(
    "failed",
    str(HERE.parent / "cli/Inputs/wide.tir"),
    "--device",
    "null",
    "--no-fallback",
    status=2,
)
expect(shown(failed, "graph"), "This model failed: it cannot be compiled", 'class="box on"')

for named in (True, False):
    large = report(
        f"large_{named}", big(5000, named), "--device", "reference", "--passes", "none", "--no-run"
    )
    text = shown(large, "graph")
    expect(text, "5000 nodes")
    assert 0 < text.count('class="box') <= 130, text.count('class="box')

nested = report("deep", deep(3000), "--device", "reference", "--passes", "none", "--no-run")
expect(shown(nested, "graph"), "<svg", "1 nodes")

if options.pictures:
    options.pictures.mkdir(parents=True, exist_ok=True)
    for view, dark in (("kernels", False), ("graph", True)):
        more = ["--blink-settings=preferredColorScheme=0"] if dark else []
        browse(
            page,
            view,
            "--window-size=1240,760",
            f"--screenshot={options.pictures / f'report_{view}.png'}",
            *more,
        )
shutil.rmtree(work)
print("all pages show what they should")
