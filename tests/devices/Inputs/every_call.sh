#!/usr/bin/env bash
# Runs a command with the n-th call of the tests' driver failing, for every eleventh n up to $CALLS, so that most
# kinds of calls are hit. The command must agree with the reference, or fail with an error; a crash, or
# an end without either, is neither.   CALLS=130 every_call.sh COMMAND...
set -u
for ((n = 1; n <= ${CALLS:?}; n += 11)); do
  out=$(FAKE_CUDA_FAIL=$n:2 timeout 100 "$@" 2>&1)
  code=$?
  if [ $code -eq 0 ] && [[ $out == *"agrees with reference"* ]]; then continue; fi
  if [ $code -gt 0 ] && [ $code -lt 124 ] && [[ $out == *"error: T"* ]]; then continue; fi
  echo "call $n: exit code $code: $out"
  exit 1
done
