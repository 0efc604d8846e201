#!/bin/sh
# seed.sh TENON FOLDER DIGEST_HEADER: fills FOLDER with the code of every operator by itself, for each instruction set that this
# machine can run. Kept entries are found again; another DIGEST_HEADER (the sources of code generation) starts anew.
set -eu
tenon=$1 folder=$2 digest=$3
if ! cmp -s "$digest" "$folder/digest"; then rm -rf "$folder"; fi
mkdir -p -m 700 "$folder"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
run() {
  # One thread each: the sets run beside each other. Text that ends the compiler's process is compiled in a helper the next time,
  # and what is done already is found: so another attempt goes on behind it.
  for attempt in 1 2 3 4 5 6 7 8; do
    status=0
    TENON_CPU_ISA=$1 TENON_CACHE_DIR=$folder TENON_SEED_DIR=/none TENON_NUM_THREADS=1 "$tenon" seed --device cpu \
      >"$logs/$1" 2>&1 || status=$?
    if [ $status -lt 128 ]; then return $status; fi
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
# Whole artifacts are what is asked for; what they were linked from is not.
rm -rf "$folder/v1/cpu-object" "$folder/v1/cpu-kernel" "$folder/v1/cpu-attempt"
cp "$digest" "$folder/digest"
