#!/usr/bin/env bash
# Installs the Python package into a fresh environment and uses it there, far from the tree: import
# without NumPy, the README's example on several devices, the notebooks, the command, plugins of other
# wheels, types. Then uninstalls, and nothing may be left.
#   wheel.sh BUILD_DIR SOURCE_DIR          two wheels of what the build folder has, installed by file;
#                                          they have at most 16 and 60 MB
#   wheel.sh --pip SOURCE_DIR [option...]  `pip install .` with these options, which builds everything;
#                                          only with CHECK_FULL=1
# Exits with 77 for what is left out, and where NumPy cannot be installed. CHECK_FULL=1 builds the
# OpenCL sample, too.
set -euo pipefail
source=$(realpath "$2")
build=$1
if [ "$build" != --pip ]; then
  build=$(realpath "$build")
elif [ "${CHECK_FULL:-0}" = 0 ]; then
  echo "skipped: this builds everything, which takes half an hour (CHECK_FULL=1)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tools=$(command -v python3)   # has scikit-build-core and mypy
python=$work/venv/bin/python
say() { echo "-- $* ($SECONDS s)"; }
die() { echo "$*" >&2; exit 1; }
pip() { "$python" -m pip "$1" -q --disable-pip-version-check "${@:2}"; }
files() { find "$work/venv" -path '*__pycache__*' -prune -o ! -type d -print | sort; }

python3 -m venv "$work/venv"
files >"$work/before"
if [ "$build" = --pip ]; then
  say "pip install ."
  pip install "$source" "${@:3}"
else
  say "two wheels, by file"
  "$source/scripts/wheels" --from "$build" "$work/wheels" >"$work/wheels.log"
  # The library under its three names counts once: links of the build folder, of which a wheel has none.
  "$python" - "$work"/wheels/tenon-0*.whl 16 "$work"/wheels/tenon_codegen-*.whl 60 <<'RUN'
import sys, zipfile
for path, limit in zip(sys.argv[1::2], sys.argv[2::2]):
    parts = {(part.CRC, part.file_size): part.compress_size for part in zipfile.ZipFile(path).infolist()}
    size = sum(parts.values()) / 1e6
    print(f"{path.rpartition('/')[2]}: {size:.1f} MB of at most {limit} MB")
    assert size <= float(limit), "too large"
RUN
  pip install --no-index "$work"/wheels/tenon-0*.whl
  pip install --no-index "$work"/wheels/tenon_codegen-*.whl
fi
export TENON_CACHE_DIR=$work/cache
unset TENON_PLUGIN_ADD TENON_PLUGIN_FILES TENON_LIBEXEC_DIR TENON_DEVICE VIRTUAL_ENV PYTHONPATH
cd "$work"
cp -r "$source/samples/digits" "$source/samples/notebooks" "$source/samples/opencl" .
cp digits/{digits.onnx,example.npy} .

say "without NumPy"
"$python" -c '
import sys, tenon
print(sorted(d["name"] for d in tenon.devices()))
text = b"tenon.tir 1\ngraph @g(%a: f32[2]) -> (b: f32[2]) {\n  %b = add(%a, %a) : f32[2]\n  yield %b\n}\n"
t = tenon.tensor(memoryview(bytes(8)).cast("f"))
assert tenon.load(text, "cpu")(t)[0].tolist() == [0.0, 0.0] and "numpy" not in sys.modules
'
numpy=$("$tools" -c 'import importlib.metadata as m; print("numpy==" + m.version("numpy"))')
pip install "$numpy" >numpy.log 2>&1 || { echo "skipped: $numpy cannot be installed: $(tail -1 numpy.log)"; exit 77; }

# The README's example, with the name of a device as the only change.
cat >readme.py <<'RUN'
import re, sys
page, device = sys.argv[1:]
blocks = re.findall(r"^```python\n(.*?)^```", open(page).read(), re.M | re.S)
text = "".join(blocks)
load = 'tenon.load("samples/digits/digits.onnx")'
assert blocks and load in text
exec(text.replace(load, load[:-1] + f', device="{device}", fallback=False)') if device else text)
RUN
readme() {
  say "the README's example ${1:+on $1}"
  mkdir -p samples/digits && cp digits.onnx example.npy samples/digits # the README stands in the tree
  local digit; digit=$("$python" readme.py "$source/README.md" "${1:-}")
  [ "$digit" = 4 ] || die "the README's example gives '$digit' ${1:+on $1}"
}
readme
readme sim

say "notebooks"
rm notebooks/pytorch.ipynb # needs PyTorch: tests/torch
"$python" "$source/tests/python/cells.py" notebooks/*.ipynb >notebooks.log 2>&1 || { cat notebooks.log; exit 1; }
grep cells notebooks.log

say "the command"
"$work/venv/bin/tenon" run digits.onnx --input image=example.npy --top 1

# Installs a folder as a wheel, without the environment being active.
site=$("$python" -c 'import site; print(site.getsitepackages()[0])')
plugin() {
  CC=clang-19 CXX=clang++-19 CMAKE_PREFIX_PATH="$site/tenon" "$tools" -m pip wheel -q --disable-pip-version-check \
    --no-build-isolation --no-deps --no-index -w plugins "./$1" >plugin.log 2>&1 || { cat plugin.log; exit 1; }
  pip install --no-index plugins/tenon_plugin_"$1"-*.whl
}
say "a plugin that tenon new makes, as a wheel"
"$work/venv/bin/tenon" new device acme >new.log 2>&1
plugin acme
"$python" -c '
import tenon
assert "acme" in {d["name"] for d in tenon.devices()}, tenon.devices()
'
"$work/venv/bin/tenon" plugins list | grep acme
if [ "${CHECK_FULL:-0}" = 0 ]; then
  say "left out: the OpenCL sample, which takes a minute to build (CHECK_FULL=1)"
elif ldconfig -p | grep -q libOpenCL.so.1; then
  say "the OpenCL sample as a wheel"
  plugin opencl
  readme opencl
else
  say "skipped: the OpenCL sample, since libOpenCL.so.1 is not installed"
fi

say "types of the installed package"
cat >typed.py <<'RUN'
import tenon
from tenon import nn, xp

model = tenon.load("digits.onnx", dims={"batch": 8})
names: list[str] = [port.name for port in model.inputs]
with model as again:
    results: tenon.Results = again(xp.ones((8, 64)))
nn.softmax(xp.asarray([1.0]), axis=-1)
counts: int = tenon.eager_counts().compilations
RUN
"$tools" -m mypy --strict --cache-dir mypy --python-executable "$python" typed.py

say "uninstall"
plugins=()
while read -r name; do plugins+=("$name"); done < <("$python" -m pip list --disable-pip-version-check 2>/dev/null | awk '/^tenon/ {print $1}')
pip uninstall -y numpy "${plugins[@]}"
files >after
diff before after || die "uninstalling ${plugins[*]} left this, or took it away"
echo "wheel: all checks passed ($SECONDS s)"
