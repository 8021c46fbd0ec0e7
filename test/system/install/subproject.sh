#!/bin/sh
# subproject.sh SOURCE - freehold as part of another CMake project: only what that links is built, nothing of it is installed.
set -eu
source=$1
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT INT TERM
mkdir "$room/freehold-1"
for part in CMakeLists.txt LICENSE cmake include src tools; do cp -r "$source/$part" "$room/freehold-1"; done
tar -C "$room" -czf "$room/freehold.tar.gz" freehold-1
failed=0
check() {
  name=$1; shift
  "$@" >"$room/log" 2>&1 || { cat "$room/log"; failed=$((failed + 1)); echo "FAILED $name"; }
}
for way in add_subdirectory FetchContent; do
  from=$room/freehold-1
  [ $way = add_subdirectory ] || from=$room/freehold.tar.gz
  check "$way: configure" cmake -S "$source/test/system/install/subproject" -B "$room/$way" -DWAY=$way -DSOURCE="$from"
  check "$way: build" cmake --build "$room/$way"
  for kind in freehold static object; do check "$way, freehold::$kind" "$room/$way/by_$kind"; done
  check "$way: install" cmake --install "$room/$way" --prefix "$room/$way/prefix"
  check "$way: no test, command, debug library or secure grade is built, and only programs are installed" \
    sh -c "! find '$room/$way' -name '*_test*' -o -name tables -type f -o -name 'libfreehold-*' -o -path '*/prefix/*' -type f ! -name 'by_*' | grep ."
  check "$way: a program that is installed needs no library that is not" "$room/$way/prefix/bin/by_static"
done
[ "$failed" -eq 0 ]
