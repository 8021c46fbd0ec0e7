#!/bin/sh
# rpm.sh FOLDER - builds the RPM packages into FOLDER, with rpm's own tools
set -eu
cd "$(dirname "$0")/.."
. packaging/source.sh
mkdir -p "$1"
out=$(cd "$1" && pwd)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT INT TERM
tree=$(source_tree "$room")
mkdir "$room/SOURCES"
tar -C "$room" -czf "$room/SOURCES/$(basename "$tree").tar.gz" "$(basename "$tree")"
# Debian's rpm knows nothing of Fedora's packages (--nodeps), and has no folder for libraries of 64 bits.
rpmbuild -bb --nodeps --define "_topdir $room" --define "_libdir /usr/lib64" "$tree/packaging/rpm/freehold.spec" \
  >"$room/log" 2>&1 || { tail -n 40 "$room/log" >&2; exit 1; }
rm -f "$out"/*.rpm
cp "$room"/RPMS/*/*.rpm "$out"
ls "$out"
