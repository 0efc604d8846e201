#!/usr/bin/env bash
# Carries Tenon to a machine with a GPU, and runs it there (README.md, "On a machine with a GPU").
#   gpu.sh pack BUILD_DIR ARCHIVE    here: an archive of tools, plugins, models and this script
#   gpu.sh run [--quick] [DEVICE]    there: writes results/ beside the script; DEVICE is cuda
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

fail() { echo "gpu.sh: $*" >&2; exit 2; }

pack() {
  local build=$1 archive=$2 source limit=$((64 << 20))
  source=$(cd "$here/.." && pwd)
  [ -x "$build/bin/tenon" ] || fail "$build has no bin/tenon: build it first (ninja -C $build)"
  [ -e "$build/lib/tenon/plugins.d/cuda.so" ] || fail "$build has no plugin cuda: build it first"
  command -v zstd >/dev/null || fail "zstd is not installed"
  work=$(mktemp -d)  # not local: the trap uses it
  trap 'rm -rf "$work"' EXIT
  cmake --install "$build" --prefix "$work/gpu/tenon" >"$work/install.log" || fail "$(tail -5 "$work/install.log")"
  # Headers and documents are not needed there.
  rm -rf "$work/gpu/tenon/include" "$work/gpu/tenon/share/doc"
  mkdir -p "$work/gpu/models"
  cp "$source"/samples/digits/digits.onnx "$source"/tests/models/{mlp,encoder,residual_cnn,decoder}.onnx "$work/gpu/models/"
  cp "$here/gpu.sh" "$work/gpu/"
  # Level 15 takes a minute more for 2 MiB less.
  tar -C "$work" -I 'zstd -6 -T0 -q' -cf "$archive" gpu || fail "the archive cannot be written"
  [ "$(stat -c %s "$archive")" -le "$limit" ] || fail "$archive has more than $limit bytes"
  echo "$archive: $(stat -c %s "$archive") bytes"
}

# step NAME COMMAND...: its output goes to results/NAME.txt, a line to the summary.
worst=0
step() {
  local name=$1 status
  shift
  "$@" >"$results/$name.txt" 2>&1
  status=$?
  [ $status -le $worst ] || worst=$status
  printf '%-12s exit status %d\n' "$name" $status | tee -a "$results/summary.txt"
}

models() {
  local model status=0
  for model in "$here"/models/*.onnx; do
    echo "== $(basename "$model")"
    TENON_VERIFY=strict "$tenon" run "$model" --device "$device" --no-fallback --seed 1 --check reference || status=1
  done
  return $status
}

sanitizer() {
  local tool model status=0
  for tool in memcheck racecheck; do
    for model in "$here"/models/*.onnx; do
      echo "== $tool $(basename "$model")"
      compute-sanitizer --tool "$tool" --error-exitcode 9 "$tenon" run "$model" --device "$device" --no-fallback --seed 1 || status=1
    done
  done
  return $status
}

bench() {
  local model status=0
  for model in "$here"/models/*.onnx; do
    "$tenon" bench "$model" --device "$device" --json "$@" || status=1
  done
  return $status
}

run() {
  local quick=0
  [ "${1:-}" = --quick ] && { quick=1; shift; }
  device=${1:-cuda}
  tenon=$here/tenon/bin/tenon
  results=$here/results
  [ -x "$tenon" ] || fail "$tenon is missing: run this script from the unpacked archive"
  rm -rf "$results" && mkdir -p "$results" || fail "$results cannot be written"
  export TENON_CACHE_DIR=$here/cache
  step doctor "$tenon" doctor --verbose
  step models models
  if [ $quick = 1 ]; then
    step bench bench --runs 3
  else
    step bench bench
    step conform "$tenon" conform "$here/tenon/lib/tenon/plugins.d/$device.plugin.json" --level 4 --html "$results/conform.html"
    if command -v compute-sanitizer >/dev/null; then
      step sanitizer sanitizer
    else
      echo "sanitizer    not run: compute-sanitizer is not on the PATH" | tee -a "$results/summary.txt"
    fi
  fi
  exit $worst
}

case "${1:-}" in
  pack) [ $# -eq 3 ] || fail "usage: gpu.sh pack BUILD_DIR ARCHIVE"; pack "$2" "$3" ;;
  run) shift; run "$@" ;;
  *) fail "usage: gpu.sh pack BUILD_DIR ARCHIVE, or gpu.sh run [--quick] [DEVICE]" ;;
esac
