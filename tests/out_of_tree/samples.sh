#!/usr/bin/env bash
# Builds every sample against an install prefix alone, in a folder of its own, with source and build
# tree out of reach. Runs its tests: conformance at the level that its README states, and its
# purpose.
#   samples.sh BUILD_DIR SOURCE_DIR
# Reaches: sdk/cmake
set -euo pipefail
build=$(realpath "$1") source=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kinds="acme fast_sort moving_average row_energy fuse_logsumexp rpn call_counter"

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
# A vendor has only the installed copies.
cp -r "$work/prefix/share/doc/Tenon/samples" "$work/samples"

echo "-- links of the installed pages"
python3 "$source/scripts/tree_rules.py" --links "$work/prefix/share/doc/Tenon"

echo "-- acme is what tenon new makes"
"$work/prefix/bin/tenon" new device acme --language c --directory "$work" >/dev/null 2>&1
diff -r "$source/samples/acme" "$work/acme" || { echo "samples/README.md says how to write it again"; exit 1; }

cat >"$work/inside.sh" <<'INSIDE'
set -euo pipefail
build=$1 source=$2 work=$3 hidden=$4 kinds=$5 programs=embed
cd "$work"
if [ "$hidden" = 1 ]; then
  mount -t tmpfs none "$build"
  mount -t tmpfs none "$source"
  if [ -e "$source/CMakeLists.txt" ] || [ -e "$build/bin" ]; then echo "the trees can still be seen"; exit 1; fi
fi
export CC=clang-19 CXX=clang++-19 CMAKE_PREFIX_PATH="$work/prefix" TENON_CACHE_DIR="$work/cache" PATH="$work/prefix/bin:$PATH"
unset TENON_PLUGIN_ADD TENON_PLUGIN_FILES TENON_LIBEXEC_DIR
for name in $kinds; do
  begin=$SECONDS
  cmake -G Ninja -S "samples/$name" -B "build/$name" >configure.log 2>&1 || { cat configure.log; exit 1; }
  cmake --build "build/$name" >build.log 2>&1 || { cat build.log; exit 1; }
  ctest --test-dir "build/$name" --output-on-failure --no-tests=error >test.log 2>&1 || { cat test.log; exit 1; }
  level=$(sed -n 's/.*\*\*level \([0-9]\)\*\*.*/\1/p' "samples/$name/README.md" | head -1)
  grep -q "LEVEL $level" "samples/$name/CMakeLists.txt" || { echo "$name: its README names level ${level:-none}, and that is not tested"; exit 1; }
  echo "   $name: level $level, $((SECONDS - begin)) s"
done
for name in $programs; do
  cmake -G Ninja -S "samples/$name" -B "build/$name" >configure.log 2>&1 || { cat configure.log; exit 1; }
  cmake --build "build/$name" >build.log 2>&1 || { cat build.log; exit 1; }
  ctest --test-dir "build/$name" --output-on-failure --no-tests=error >test.log 2>&1 || { cat test.log; exit 1; }
  echo "   $name"
done
# Without a namespace, check what the build used.
if grep -rlF -e "$source/" -e "$build/" build --include=*.ninja --include=CMakeCache.txt --include=*.cmake --include=*.plugin.json; then
  echo "these name the source or the build tree"
  exit 1
fi
INSIDE

if unshare --mount true 2>/dev/null; then
  echo "-- the samples, where neither sources nor build tree are"
  unshare --mount bash "$work/inside.sh" "$build" "$source" "$work" 1 "$kinds"
elif unshare --user --map-root-user --mount true 2>/dev/null; then
  echo "-- the samples, where neither sources nor build tree are, as another user"
  unshare --user --map-root-user --mount bash "$work/inside.sh" "$build" "$source" "$work" 1 "$kinds"
else
  echo "-- the samples; this system allows no mounts, so that what was used is looked at"
  bash "$work/inside.sh" "$build" "$source" "$work" 0 "$kinds"
fi
echo "samples: all checks passed"
