#!/bin/sh
# windows.sh FOLDER - the library for Windows, 64 bits, into FOLDER: bin/freehold.dll, its import library and the archive in
# lib, the header in include. Needs clang-19 and Debian's mingw-w64.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT INT TERM
{
  cmake -S . -B "$room" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/windows.cmake" -DFH_TESTS=OFF &&
    cmake --build "$room" --parallel "$(nproc)" && cmake --install "$room" --prefix "$out"
} >"$room/log" 2>&1 || { tail -n 40 "$room/log" >&2; exit 1; }
(cd "$out" && find bin lib include -type f | sort)
