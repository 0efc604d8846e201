#!/usr/bin/env bash
# Every kind of plugin that `tenon new` makes: built against an install prefix alone, tested by its
# own tests, at the level that its README states, within the line limits, and from nothing to a
# conforming device within a minute.
#   scaffold.sh BUILD_DIR SOURCE_DIR
# Reaches: sdk/templates, sdk/cmake
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"   # nothing of the tree is near
say() { echo "-- $*"; }
die() { echo "$*" >&2; exit 1; }
# Seconds of processor time used by this shell's commands, unaffected by other load on the machine.
worked() { awk -v ticks="$(getconf CLK_TCK)" '{sub(/.*\) /, ""); print int(($14 + $15) / ticks)}' "/proc/$$/stat"; }
at_most() { local lines; lines=$(wc -l <"$2"); [ "$lines" -le "$1" ] || die "$2 has $lines lines, and $1 are allowed"; }

say "install"
cmake --install "$build" --prefix "$work/prefix" >install.log
tenon="$work/prefix/bin/tenon"
export TENON_CACHE_DIR="$work/cache" CC=clang-19 CXX=clang++-19
unset TENON_PLUGIN_ADD TENON_PLUGIN_FILES

# KIND LANGUAGE LEVEL LINES: LINES is the limit of the source.
make_one() {
  local kind=$1 language=$2 level=$3 lines=$4
  local name="my_${kind}_${language//+/x}"
  local extension=c
  [ "$language" = c ] || extension=cpp
  local begin; begin=$(worked)
  say "$kind in $language"
  "$tenon" new "$kind" "$name" --language "$language" --directory "$work" >/dev/null 2>&1
  grep -q "level $level" "$name/README.md" || die "the README of $name does not name level $level"
  if grep -rq "@NAME@" "$name"; then die "a placeholder is left in $name"; fi
  for file in .github/workflows/test.yml pyproject.toml README.md .gitignore; do [ -s "$name/$file" ] || die "$name has no $file"; done
  at_most 15 "$name/manifest.json.in"
  at_most 12 "$name/CMakeLists.txt"
  at_most "$lines" "$name/$name.$extension"
  cmake -G Ninja -S "$name" -B "$name/build" -DCMAKE_PREFIX_PATH="$work/prefix" >configure.log 2>&1 || { cat configure.log; exit 1; }
  cmake --build "$name/build" >build.log 2>&1 || { cat build.log; exit 1; }
  local examples=()
  [ "$kind" != frontend ] || examples=(--example "$name/test.$name")
  [ "$kind" != kernels ] || examples=(--example "$name/test.tir")
  "$tenon" conform "$name/build/$name.plugin.json" --level "$level" "${examples[@]}" --json report.json >conform.log || { cat conform.log; exit 1; }
  grep -q "\"level\": $level" report.json || die "$name does not reach level $level"
  local seconds=$(($(worked) - begin))   # from nothing to a passing report
  echo "   $seconds s, $(wc -l <"$name/$name.$extension") lines"
  [ "$seconds" -lt 60 ] || die "$name took $seconds s"
  ctest --test-dir "$name/build" --output-on-failure --no-tests=error >test.log 2>&1 || { cat test.log; exit 1; }
  TENON_PLUGIN_ADD="$work/$name/build" "$tenon" plugins list | grep -q "$name" || die "$name is not found"
}
make_one device c 2 100
make_one device c++ 2 180
make_one kernels c 2 100
make_one kernels c++ 2 100
make_one op c++ 2 100
make_one pass c++ 2 100
make_one frontend c++ 2 100
make_one layer c 2 100
make_one layer c++ 2 100
make_one engine c++ 2 300

# The tests that a project gets find what is wrong with its plugin. Fails unless the test $3 of folder $2 fails and says $4.
must_fail() {
  local what=$1 folder=$2 test=$3 said=$4
  if ctest --test-dir "$folder/build" --output-on-failure --no-tests=error -R "^$test\$" >test.log 2>&1; then die "$what: $test passes"; fi
  grep -q -- "$said" test.log || { cat test.log; die "$what: $test does not say '$said'"; }
}
say "a wrong pass fails the tests of its project"
cp -r my_pass_cxx wrong
rm -rf wrong/build
sed -i 's/match_op("neg", match_op("neg", bind(&x)))/match_op("neg", bind(\&x))/' wrong/my_pass_cxx.cpp
# A command that fails, although it prints what is asked for, and one that does not fail, although that is asked for.
cat >>wrong/CMakeLists.txt <<'CMAKE'
tenon_test_plugin(my_pass_cxx RUN ops no_such_op PRINTS "no_such_op")
tenon_test_plugin(my_pass_cxx RUN plugins list STATUS 2)
CMAKE
cmake -G Ninja -S wrong -B wrong/build -DCMAKE_PREFIX_PATH="$work/prefix" >configure.log 2>&1 || { cat configure.log; exit 1; }
cmake --build wrong/build >build.log 2>&1 || { cat build.log; exit 1; }
must_fail "neg(x) becomes x" wrong my_pass_cxx_opt '^-  %0 = neg(%x) : f32\[2\]$'
must_fail "neg(x) becomes x" wrong my_pass_cxx_conforms "^FAIL .*G.pass-meaning"
must_fail "a failed command" wrong my_pass_cxx_ops "ended with 2 instead of 0"
must_fail "a command that succeeds" wrong my_pass_cxx_plugins "ended with 0 instead of 2"
TENON_BLESS=1 ctest --test-dir wrong/build -R my_pass_cxx_opt >test.log 2>&1 || { cat test.log; exit 1; }
if diff -q wrong/expected.tir my_pass_cxx/expected.tir >/dev/null; then die "TENON_BLESS wrote nothing"; fi
ctest --test-dir wrong/build -R my_pass_cxx_opt >test.log 2>&1 || { cat test.log; exit 1; }

# Shipping: what pip installs into a virtual environment is found there, and gone when pip takes it away. Nothing is downloaded.
say "wheels"
python3 -c 'import scikit_build_core' 2>error.log || die "the Python package scikit-build-core is missing; ./check installs it: $(cat error.log)"
python3 -m venv "$work/venv"
in_venv() { VIRTUAL_ENV="$work/venv" "$@"; }
ship_one() {
  local name=$1
  rm -rf "$name/build"
  python3 -m pip --disable-pip-version-check wheel --quiet --no-build-isolation --no-deps --no-index -w "$work/wheels" "$work/$name" >wheel.log 2>&1 ||
    { cat wheel.log; exit 1; }
  "$work/venv/bin/pip" --disable-pip-version-check install --quiet --no-index "$work/wheels/tenon_plugin_$name"-*.whl
  in_venv "$tenon" plugins list | grep -q "$name" || die "$name was installed and is not found: $(in_venv "$tenon" plugins list 2>&1)"
  in_venv "$tenon" conform "$work"/venv/lib/python3*/site-packages/tenon_plugins/"$name.plugin.json" --level 1 >conform.log || { cat conform.log; exit 1; }
  if [ -n "${2:-}" ]; then
    # shellcheck disable=SC2086
    (cd "$name" && in_venv "$tenon" $2 >../use.log 2>&1) || { cat use.log; die "$name does not work as a wheel"; }
  fi
  "$work/venv/bin/pip" --disable-pip-version-check uninstall --quiet --yes "tenon-plugin-$name"
  if in_venv "$tenon" plugins list | grep -q "$name"; then die "$name was uninstalled and is still found"; fi
  if find "$work/venv" -name "*$name*" | grep .; then die "uninstalling left files of $name"; fi
}
export CMAKE_PREFIX_PATH="$work/prefix"
ship_one my_device_c "run test.tir --device my_device_c --no-fallback --seed 1 --check reference"
ship_one my_kernels_c "run test.tir --device cpu --seed 1 --check reference"
ship_one my_op_cxx "run test.tir --seed 1 --check reference"
ship_one my_pass_cxx "opt test.tir --split-input --passes my_pass_cxx"
ship_one my_frontend_cxx "run test.my_frontend_cxx --seed 1"
ship_one my_layer_c

# Runs every ```sh block of a page, in order, in one shell.
follow() {
  say "the guide $1"
  awk '/^```sh$/ {on = 1; next} /^```$/ {on = 0} on' "$source/docs/guide/$1" >guide.sh
  [ -s guide.sh ] || die "$1 has no commands"
  rm -rf guide && mkdir guide
  (cd guide && PATH="$work/prefix/bin:$PATH" CMAKE_PREFIX_PATH="$work/prefix" bash -euo pipefail ../guide.sh >../guide.log 2>&1) ||
    { cat guide.log; exit 1; }
}
for page in device kernels op pass frontend layer engine embed packages; do follow $page.md; done

say "what cannot be made is reported"
for arguments in "kernel x" "device x --language rust" "device Upper" "device ../x" "device my_device_c" "layer $(printf 'a%.0s' {1..41})"; do
  # shellcheck disable=SC2086
  if "$tenon" new $arguments >/dev/null 2>error.log; then die "tenon new $arguments succeeded"; fi
  grep -q "error: T0" error.log || die "tenon new $arguments says: $(cat error.log)"
done
"$tenon" new kernel x >/dev/null 2>error.log || true
grep -q "device.*engine.*frontend.*kernels.*layer.*op.*pass" error.log || die "the kinds are not named: $(cat error.log)"
echo "scaffold: all checks passed"
