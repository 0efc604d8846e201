#!/usr/bin/env bash
# Compares the operators' pages with what the registry would generate now.
#   generated_docs.sh TENON FOLDER            --bless as a third argument writes them
set -euo pipefail
tenon=$1 folder=$2
if [ "${3:-}" = --bless ]; then
  rm -rf "$folder" && mkdir -p "$folder"
  exec "$tenon" ops --markdown --output-dir "$folder"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$tenon" ops --markdown --output-dir "$work/ops"
if ! diff -ru "$folder" "$work/ops"; then
  echo "the pages differ from the declarations: run tests/generated_docs.sh build/bin/tenon docs/generated/ops --bless" >&2
  exit 1
fi
