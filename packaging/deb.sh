#!/bin/sh
# deb.sh FOLDER - builds the Debian packages into FOLDER: ./dev deb
set -eu
cd "$(dirname "$0")/.."
. packaging/source.sh
mkdir -p "$1"
out=$(cd "$1" && pwd)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT INT TERM
tree=$(source_tree "$room")
cp -r "$tree/packaging/debian" "$tree/debian"
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign >"$room/log" 2>&1) || { tail -n 40 "$room/log" >&2; exit 1; }
rm -f "$out"/*.deb "$out"/*.changes "$out"/*.buildinfo
cp "$room"/*.deb "$room"/*.changes "$room"/*.buildinfo "$out"
ls "$out"
