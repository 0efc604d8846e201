#!/usr/bin/env bash
# bench/gpu.sh packs an archive of under 64 MiB, which is unpacked elsewhere and run: what a person with a
# GPU does, on the tests' driver, which LD_LIBRARY_PATH leads to.
#   archive.sh BUILD_DIR
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "archive.sh: $*" >&2; exit 1; }

"$root/bench/gpu.sh" pack "$1" "$work/gpu.tar.zst"
[ "$(stat -c %s "$work/gpu.tar.zst")" -le $((64 << 20)) ] || fail "the archive has more than 64 MiB"
mkdir "$work/there"
tar -C "$work/there" --zstd -xf "$work/gpu.tar.zst"
status=0
"$work/there/gpu/gpu.sh" run --quick || status=$?
results=$work/there/gpu/results
[ $status = 0 ] || { cat "$results"/*.txt; fail "gpu.sh run ended with $status"; }
for step in doctor models bench; do
  grep -Eq "^$step +exit status 0$" "$results/summary.txt" || fail "summary.txt does not report $step"
done
for model in digits mlp encoder residual_cnn decoder; do
  grep -A20 "^== $model.onnx" "$results/models.txt" | grep -q "agrees with reference" || fail "$model was not checked"
done
[ "$(grep -c '"device": "cuda"' "$results/bench.txt")" = 5 ] || fail "bench.txt has not five models"
