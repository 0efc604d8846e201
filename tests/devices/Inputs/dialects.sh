#!/usr/bin/env bash
# Runs the sample models on `sim` as text of each named dialect, DIALECT:WIDTH, with accesses watched.
#   dialects.sh ROOT DIALECT:WIDTH...
set -u
root=$1 runs=0
shift
for one in "$@"; do
  for model in samples/digits/digits tests/models/mlp tests/models/encoder tests/models/residual_cnn tests/models/decoder; do
    out=$(TENON_SIM_DIALECT=${one%:*} TENON_SIM_WARP=${one#*:} TENON_SIM_CHECK=1 \
      tenon run "$root/$model.onnx" --device sim --no-fallback --seed 1 --check reference 2>&1) && [[ $out == *"agrees with reference"* ]] ||
      { echo "$one ${model##*/}: $out"; exit 1; }
    echo "$one ${model##*/} agrees"
    runs=$((runs + 1))
  done
done
echo "$runs runs agree"
