#!/usr/bin/env bash
# run.sh TARGET RUNS FOLDER [SEEDS]: fuzzes with RUNS inputs, the same ones on every machine with
# the same packages, so that the result depends on the change and not on the machine's speed. With
# CHECK_FULL=1 it fuzzes for ten minutes, from a new seed; that search is meant to find defects.
# Finds are written to FOLDER/finds, the corpus of long searches to FOLDER/corpus.
set -euo pipefail
target=$1 runs=$2 folder=$3; shift 3
mkdir -p "$folder/corpus" "$folder/finds"
limits=(-timeout=20 -rss_limit_mb=2048 -artifact_prefix="$folder/finds/")
if [ "${CHECK_FULL:-0}" = 1 ]; then
  exec "$target" "${limits[@]}" -max_total_time=600 "$folder/corpus" "$@"
fi
rm -rf "$folder/short"; mkdir "$folder/short"  # a corpus left from an earlier run would change the start
# Inputs made of what comparisons saw would hold addresses, which differ from build to build, so such
# inputs are left out, and addresses are fixed where that is permitted. Only finds are printed: the
# log of coverage would hide them.
fixed=(); setarch -R true 2>/dev/null && fixed=(setarch -R)
exec "${fixed[@]}" "$target" "${limits[@]}" -runs="$runs" -seed=1 -use_cmp=0 -verbosity=0 -print_funcs=0 \
  "$folder/short" "$@"
