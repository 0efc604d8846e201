#!/usr/bin/env bash
# Every kind that `tenon new` makes: built against an install prefix alone, tested by its own tests, at the level that its README names, within
# the line limits, and from nothing to a conforming device within a minute.
#   scaffold.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"   # nothing of the tree is near
say() { echo "-- $*"; }
die() { echo "$*" >&2; exit 1; }
at_most() { local lines; lines=$(wc -l <"$2"); [ "$lines" -le "$1" ] || die "$2 has $lines lines, and $1 are allowed"; }

say "install"
cmake --install "$build" --prefix "$work/prefix" >install.log
tenon="$work/prefix/bin/tenon"
export TENON_CACHE_DIR="$work/cache" CC=clang-19 CXX=clang++-19
unset TENON_PLUGIN_ADD TENON_PLUGIN_FILES

# KIND LANGUAGE LEVEL
make_one() {
  local kind=$1 language=$2 level=$3
  local name="my_${kind}_${language//+/x}"
  local begin=$SECONDS
  say "$kind in $language"
  "$tenon" new "$kind" "$name" --language "$language" --directory "$work" >/dev/null 2>&1
  grep -q "level $level" "$name/README.md" || die "the README of $name does not name level $level"
  if grep -rq "@NAME@" "$name"; then die "a placeholder is left in $name"; fi
  at_most 15 "$name/manifest.json.in"
  at_most 12 "$name/CMakeLists.txt"
  cmake -G Ninja -S "$name" -B "$name/build" -DCMAKE_PREFIX_PATH="$work/prefix" >configure.log 2>&1 || { cat configure.log; exit 1; }
  cmake --build "$name/build" >build.log 2>&1 || { cat build.log; exit 1; }
  ctest --test-dir "$name/build" --output-on-failure --no-tests=error >test.log 2>&1 || { cat test.log; exit 1; }
  "$tenon" conform "$name/build/$name.plugin.json" --level "$level" --json report.json >/dev/null
  grep -q "\"level\": $level" report.json || die "$name does not reach level $level"
  TENON_PLUGIN_ADD="$work/$name/build" "$tenon" plugins list | grep -q "$name" || die "$name is not found"
  local seconds=$((SECONDS - begin))
  echo "   $seconds s"
  [ "$seconds" -lt 60 ] || die "$name took $seconds s"
}
make_one device c 2
at_most 100 my_device_c/my_device_c.c
make_one device c++ 2
make_one op c++ 1
make_one pass c++ 1
make_one frontend c++ 1

# Every ```sh block of a page, in order, in one shell.
follow() {
  say "the guide $1"
  awk '/^```sh$/ {on = 1; next} /^```$/ {on = 0} on' "$source/docs/guide/$1" >guide.sh
  [ -s guide.sh ] || die "$1 has no commands"
  mkdir guide
  (cd guide && PATH="$work/prefix/bin:$PATH" CMAKE_PREFIX_PATH="$work/prefix" bash -euo pipefail ../guide.sh >../guide.log 2>&1) ||
    { cat guide.log; exit 1; }
}
follow device.md

say "what cannot be made is told"
for arguments in "layer x" "kernels x" "device x --language rust" "device Upper" "device my_device_c"; do
  # shellcheck disable=SC2086
  if "$tenon" new $arguments >/dev/null 2>error.log; then die "tenon new $arguments succeeded"; fi
  grep -q "error: T0" error.log || die "tenon new $arguments says: $(cat error.log)"
done
"$tenon" new layer x >/dev/null 2>error.log || true
grep -q "device.*frontend.*op.*pass" error.log || die "the kinds are not named: $(cat error.log)"
echo "scaffold: all checks passed"
