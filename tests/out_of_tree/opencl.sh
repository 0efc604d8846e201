#!/usr/bin/env bash
# Builds samples/opencl against an install prefix alone, in a folder of its own, and uses it in
# every public way: found, listed, explained, disabled by a glob, conforming, and right on real
# models without help from another device.
#   opencl.sh BUILD_DIR SOURCE_DIR
# Reaches: sdk/cmake
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { echo "-- $*"; }
expect() { grep -q -- "$2" <<<"$1" || { echo "expected '$2' in:"; echo "$1"; exit 1; }; }

say "install"
cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
cp -r "$source/samples/opencl" "$work/opencl"   # a vendor has only a folder
cp -r "$source/samples/digits" "$source/samples/embed" "$source/tests/models" "$work/"

say "build out of tree"
cmake -G Ninja -S "$work/opencl" -B "$work/plugin" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_BUILD_TYPE=Release >"$work/configure.log"
cmake --build "$work/plugin" >"$work/build.log" || { tail -40 "$work/build.log"; exit 1; }
exports=$(nm -D --defined-only "$work/plugin/opencl.so" | awk '{print $3}')
[ "$exports" = tenon_plugin_query ] || { echo "exports: $exports"; exit 1; }

export TENON_PLUGIN_ADD="$work/plugin" TENON_CACHE_DIR="$work/cache"
tenon="$work/prefix/bin/tenon"

say "listed, explained, disabled by a glob"
expect "$("$tenon" plugins list)" opencl
expect "$("$tenon" plugins explain opencl)" opencl
if disabled=$(TENON_PLUGINS_DISABLE='open*' "$tenon" run "$work/digits/digits.onnx" --device opencl --seed 1 2>&1); then
  echo "a disabled device was used"; exit 1
fi
expect "$disabled" opencl

say "conforms"
# Each check runs in a child that compiles the same kernels. PoCL's own cache shares them, one child
# at a time, because PoCL 3.1 sometimes aborts when several fill it at once (README of the sample).
# Kernels with fixed groups need no copy per group size.
export POCL_CACHE_DIR="$work/pocl" POCL_WORK_GROUP_SPECIALIZATION=0
conform() { ${runtime:-env} env -u TENON_PLUGIN_ADD "$tenon" conform "$work/plugin" --jobs 1 "$@" >"$work/conform.log" || { head -1 "$work/conform.log"; grep FAIL "$work/conform.log"; exit 1; }; }
# All of it takes minutes, most of them in group F.
if [ "${CHECK_FULL:-0}" = 1 ]; then
  conform --level 4
  expect "$(head -1 "$work/conform.log")" "level 4"
else
  say "left out: most of group F, and so the level (CHECK_FULL=1)"
fi
groups=$("$tenon" conform --list | grep -oE '^[A-Z] ' | sort -u | grep -v '[FGL]' | sed 's/ /.*/' | paste -sd,)
conform --filter "$groups,F.core-set,F.special-floats,F.integer-ends,F.one-buffer-twice"

# Other runtimes, each alone in a folder of vendors: Oclgrind, which interprets kernels and reports
# races and accesses outside, and Intel's for processors, which has sub-groups.
oclgrind=/usr/lib/oclgrind/liboclgrind-rt-icd.so intel=$build/tests/out_of_tree/intel-opencl
on_oclgrind() { env OCL_ICD_VENDORS="$work/vendors/" TENON_CACHE_DIR="$work/oclgrind" "$@"; }
on_intel() {
  env OCL_ICD_VENDORS="$intel/vendors/" LD_LIBRARY_PATH="$intel/lib" TENON_CACHE_DIR="$work/intel" "$@"
}
if [ "${CHECK_FULL:-0}" != 1 ]; then
  say "left out: Oclgrind and Intel's runtime (CHECK_FULL=1)"
  unset oclgrind intel
else
  if [ -e "$oclgrind" ]; then
    mkdir -p "$work/vendors" && echo "$oclgrind" >"$work/vendors/oclgrind.icd"
  else
    say "skipped: Oclgrind is not installed (oclgrind)"
    unset oclgrind
  fi
  python3 "$source/tests/out_of_tree/intel_opencl.py" "$intel" || unset intel
fi
if [ -n "${intel:-}" ]; then
  say "conforms on Intel's runtime for processors"
  runtime=on_intel conform --level 4
  expect "$(head -1 "$work/conform.log")" "level 4"
fi
if [ -n "${oclgrind:-}" ]; then
  # Oclgrind 21.10 does not know what its clang makes of some kernels (llvm.abs, llvm.fshl, integers of
  # 128 bits), and is not safe from several threads. What needs that is left out.
  say "conforms on Oclgrind, but for what it does not have"
  left_out='each-alone|threads|compile-threads|queue-per-thread|reentrant'
  checks=$("$tenon" conform --list | grep -oE '\b[CDE]\.[a-z-]+' | grep -vxE "..($left_out)" | sort -u | paste -sd,)
  runtime=on_oclgrind conform --filter "A.*,B.*,I.*,J.*,$checks"
  say "no race and nothing outside in the small models, on Oclgrind"
  for model in "$work/digits/digits.onnx" "$work"/models/{mlp,residual_cnn,encoder,decoder}.onnx; do
    for width in "" 16; do
      # What the decoder's sines become in f64 is llvm.fshl.
      if [ -z "$width" ] && [[ $model = *decoder* ]]; then continue; fi
      watched=$(TENON_OPENCL_SUB_GROUPS=$width OCLGRIND_DATA_RACES=1 on_oclgrind "$tenon" run "$model" --device opencl \
        --no-fallback --seed 1 --check reference 2>&1) || true
      expect "$watched" "agrees with reference"
      if grep -E "data race|Invalid (read|write)" <<<"$watched"; then echo "$model"; exit 1; fi
    done
  done
fi

say "the text for Intel's GPUs"
sub_groups() {  # RUNS WIDTH: the small models on a runtime, by sub-groups of that width
  local model ran
  for model in "$work/digits/digits.onnx" "$work"/models/{mlp,residual_cnn,encoder,decoder}.onnx; do
    ran=$(TENON_OPENCL_SUB_GROUPS=$2 "$1" "$tenon" run "$model" --device opencl --no-fallback --seed 1 --check reference 2>&1) || true
    expect "$ran" "agrees with reference"
  done
}
sub_groups env 16
text=$(TENON_OPENCL_SUB_GROUPS=16 "$tenon" run "$work/models/encoder.onnx" --device opencl --seed 1 --dump opencl/source 2>/dev/null)
expect "$text" 'warp_word('
if grep "double f64" <<<"$text"; then exit 1; fi
expect "$(TENON_OPENCL_SUB_GROUPS=12 "$tenon" run "$work/models/mlp.onnx" --device opencl --no-fallback --seed 1 2>&1 || true)" \
  "TENON_OPENCL_SUB_GROUPS is 8, 16 or 32, not '12'"
if [ -n "${intel:-}" ]; then
  # Its own sub-groups and shuffles, of each width.
  expect "$(TENON_OPENCL_SUB_GROUPS=16 on_intel "$tenon" doctor)" "sub_groups=16"
  for width in 8 16 32; do sub_groups on_intel $width; done
fi

say "work waits for other work in the driver, and no thread of the host"
clang++-19 -std=c++20 -I"$work/prefix/include" -I"$work/opencl" "$source/tests/out_of_tree/native_waits.cpp" \
  "$work"/opencl/{device,queue,exchange,opencl_symbols}.cpp -ldl -pthread -o "$work/native_waits"
expect "$("$work/native_waits")" "waits in the driver"

say "real models, all nodes, as the cpu has it: digits, residual network, encoder layers"
for model in "$work/digits/digits.onnx" "$work"/models/*.onnx; do
  expect "$("$tenon" run "$model" --device opencl --no-fallback --seed 1 --check cpu 2>&1)" "agrees with cpu"
done

say "a decoder's cache stays on the device: the tokens and bytes moved of sim"
cmake -G Ninja -S "$work/embed" -B "$work/programs" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 >"$work/configure.log"
cmake --build "$work/programs" --target decoder >"$work/build.log" || { tail -40 "$work/build.log"; exit 1; }
on_sim=$("$work/programs/decoder" "$work/embed/decoder.tir" sim)
expect "$on_sim" "moved by a step: 32 bytes"
on_opencl=$("$work/programs/decoder" "$work/embed/decoder.tir" opencl)
[ "$on_opencl" = "$on_sim" ] || { echo "sim: $on_sim"; echo "opencl: $on_opencl"; exit 1; }

say "random graphs of the kind that fusion goes wrong on, with NaN where nothing is written"
TENON_LAYERS=poison "$build/tests/random_graphs" --mode fusion --device opencl --seed 9001 --count 20

say "graphs that were wrong once"
python3 "$work/models/once_wrong.py" --tenon "$tenon" --runs opencl

say "every element-wise op means on it what NumPy and mpmath say"
python3 "$source/tests/ops/meanings/meanings.py" "$tenon" opencl --type f32 --type i8 --type bf16

say "every fault is survived"
TENON_CACHE_DIR="$work/faults" python3 "$source/tests/layers/faults.py" "$tenon" opencl

say "the text is CUDA C++ after the sample's header"
if clang++-19 --print-targets | grep -q nvptx64; then
  for model in encoder residual_cnn; do
    "$tenon" run "$work/models/$model.onnx" --device opencl --dump opencl/source 2>/dev/null | cat "$work/opencl/cuda_dialect.h" - >"$work/$model.cu"
    clang++-19 -x cuda --cuda-gpu-arch=sm_80 -nocudainc -nocudalib --cuda-device-only -S -O1 -Wno-unknown-pragmas -Wno-unknown-cuda-version "$work/$model.cu" -o "$work/$model.ptx"
    grep -q 'bar.sync' "$work/$model.ptx"
  done
fi

say "a second start compiles nothing"
again=$("$tenon" bench "$work/models/encoder.onnx" --device opencl --runs 1 --json 2>/dev/null)
expect "$again" '"kernels_compiled": 0'

say "an index outside is reported, with the user's node"
outside=$("$tenon" run "$source/tests/devices/index_outside.tir" --input i="$source/tests/control/Inputs/outside.npy" --seed 1 \
  --device opencl --no-fallback 2>&1) && { echo "an index outside gave a result"; exit 1; }
expect "$outside" "T0325: gather at model:8: .rows.: index 5 is outside of \[0, 5)"

say "one graph on three devices"
cat >"$work/mixed.tir" <<'TIR'
tenon.tir 1
graph @main(%x: f32[6, 40], %w: f32[40, 24], %b: f32[6, 24]) -> (y: f32[6, 24]) {
  %0 = dot_general(%x, %w) {a_contract = [1], b_contract = [0]} : f32[6, 24]
  %1 = add(%0, %b) : f32[6, 24]
  %2 = tanh(%1) : f32[6, 24]
  %3 = softmax(%2) {dim = 1} : f32[6, 24]
  %4 = mul(%3, %b) : f32[6, 24]
  yield %4
}
TIR
mixed=$("$tenon" run "$work/mixed.tir" --seed 1 --check reference --device sim,opencl,cpu \
  --option sim.ops=dot_general,exp --option opencl.ops=tanh,reduce_* 2>&1)
expect "$mixed" "agrees with reference"
for device in "on sim" "on opencl" "on cpu"; do expect "$mixed" "$device"; done
echo "out of tree: all checks passed"
