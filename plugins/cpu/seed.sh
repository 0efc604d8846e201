#!/bin/sh
# seed.sh TENON FOLDER DIGEST_HEADER: fills FOLDER with kernels of every operator for any sizes, for
# each instruction set of this machine. Existing entries are reused; another DIGEST_HEADER (the
# sources of code generation) starts again.
set -eu
tenon=$1 folder=$2 digest=$3
if ! cmp -s "$digest" "$folder/digest"; then rm -rf "$folder"; fi
mkdir -p -m 700 "$folder"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
run() {
  # One thread each, because the instruction sets run side by side. When a crash of the compiler
  # ends the process, the cache marks the text; the next attempt reuses what was done and compiles
  # that text in a separate process.
  export TENON_CPU_ISA=$1 TENON_CACHE_DIR=$folder TENON_SEED_DIR=/none TENON_NUM_THREADS=1
  status=0
  for attempt in 1 2 3 4 5 6 7 8; do
    status=0
    "$tenon" seed --device cpu >"$logs/$1" 2>&1 || status=$?
    if [ $status -lt 128 ]; then break; fi
    echo "seed.sh: $1 ended with status $status; attempt $attempt" >&2
  done
  return $status
}
run baseline & baseline=$!
run avx2 & avx2=$!
wait $baseline || { cat "$logs/baseline" >&2; exit 1; }
wait $avx2 || true  # a processor without it makes no code for it
run avx512 & avx512=$!
run avx512_bf16 & bf16=$!
wait $avx512 || true
wait $bf16 || true
run avx2_vnni & vnni=$!
run avx512_vnni || true
wait $vnni || true
# Keeps only what graphs of any form can use, not whole graphs.
rm -rf "$folder/v1/cpu-artifact" "$folder/v1/cpu-attempt"
cp "$digest" "$folder/digest"
