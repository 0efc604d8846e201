#!/bin/sh
# seed.sh TENON FOLDER DIGEST_HEADER: fills FOLDER with the code of every operator by itself, for each instruction set that this
# machine can run. Kept entries are found again; another DIGEST_HEADER (the sources of code generation) starts anew.
set -eu
tenon=$1 folder=$2 digest=$3
if ! cmp -s "$digest" "$folder/digest"; then rm -rf "$folder"; fi
mkdir -p -m 700 "$folder"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
ops=$("$tenon" ops 2>/dev/null | cut -d' ' -f1)
run() {
  # One thread each: the sets run beside each other. A process for each operator: what ends one loses that one's entries only, and
  # the operator is compiled on first use as without a seed.
  export TENON_CPU_ISA=$1 TENON_CACHE_DIR=$folder TENON_SEED_DIR=/none TENON_NUM_THREADS=1
  "$tenon" seed --device cpu add >"$logs/$1" 2>&1 || return 1
  for op in $ops; do
    status=0
    "$tenon" seed --device cpu "$op" >"$logs/$1" 2>&1 || status=$?
    if [ $status -ge 128 ]; then echo "seed.sh: $op for $1 ended with status $status" >&2; fi
  done
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
