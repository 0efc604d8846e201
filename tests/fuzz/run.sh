#!/usr/bin/env bash
# run.sh TARGET RUNS FOLDER [SEEDS]: fuzzes with RUNS inputs, with the same packages the same on every machine, so that a change is judged
# by itself and not by what the machine had time for. With CHECK_FULL=1 for ten minutes and from a seed of its own: that search is meant to
# find. What is found lies in FOLDER/finds, the inputs that the long searches keep in FOLDER/corpus.
set -euo pipefail
target=$1 runs=$2 folder=$3; shift 3
mkdir -p "$folder/corpus" "$folder/finds"
limits=(-timeout=5 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$folder/finds/")
if [ "${CHECK_FULL:-0}" = 1 ]; then
  exec "$target" "${limits[@]}" -max_total_time=600 "$folder/corpus" "$@"
fi
rm -rf "$folder/short"; mkdir "$folder/short"  # what an earlier run kept would be another beginning
# Addresses find their way into inputs, through what comparisons saw: the same ones each time, where that is permitted.
fixed=(); setarch -R true 2>/dev/null && fixed=(setarch -R)
exec "${fixed[@]}" "$target" "${limits[@]}" -runs="$runs" -seed=1 "$folder/short" "$@"
