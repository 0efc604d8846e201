#!/usr/bin/env bash
# Installs the Python package with pip into a fresh environment and uses it there: import, the
# README's example, the command, the plugin of a second wheel, and that uninstalling leaves nothing.
# Builds the whole tree, so it is run by hand.
#   wheel.sh SOURCE_DIR [WHEEL]      with WHEEL, installs that file and builds nothing
set -euo pipefail
source=$(realpath "$1")
wheel=${2:+$(realpath "$2")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
python=$work/venv/bin/python
"$python" -m pip install -q --disable-pip-version-check "${wheel:-$source}"
export TENON_CACHE_DIR=$work/cache
unset TENON_PLUGIN_ADD TENON_PLUGIN_FILES TENON_LIBEXEC_DIR VIRTUAL_ENV PYTHONPATH
cd "$work"

echo "-- without NumPy"
"$python" -c '
import sys, tenon
print(sorted(d["name"] for d in tenon.devices()))
text = b"tenon.tir 1\ngraph @g(%a: f32[2]) -> (b: f32[2]) {\n  %b = add(%a, %a) : f32[2]\n  yield %b\n}\n"
t = tenon.tensor(memoryview(bytes(8)).cast("f"))
assert tenon.load(text, "cpu")(t)[0].tolist() == [0.0, 0.0] and "numpy" not in sys.modules
'
echo "-- the examples of the README"
"$python" -m pip install -q --disable-pip-version-check numpy
cp "$source"/samples/digits/{digits.onnx,example.npy} .
"$python" - "$source/README.md" <<'RUN'
import re, sys
for block in re.findall(r"^```python\n(.*?)^```", open(sys.argv[1]).read(), re.M | re.S):
    exec(block)
RUN
echo "-- the command"
"$work/venv/bin/tenon" run digits.onnx --input image=example.npy --top 1
echo "-- a plugin of another wheel, without activation"
"$work/venv/bin/tenon" new device acme >new.log 2>&1
site=$("$python" -c 'import site; print(site.getsitepackages()[0])')
(cd acme && CC=clang-19 CXX=clang++-19 CMAKE_PREFIX_PATH="$site/tenon" \
  "$python" -m pip install -q --disable-pip-version-check .)
"$python" -c '
import tenon
assert "acme" in {d["name"] for d in tenon.devices()}, tenon.devices()
'
"$work/venv/bin/tenon" plugins list | grep acme
echo "-- uninstall"
"$python" -m pip uninstall -q -y tenon tenon-plugin-acme
left=$(find "$site" -path '*tenon*' ! -type d)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo "wheel: all checks passed"
