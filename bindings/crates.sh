#!/bin/sh
# crates.sh FOLDER - the Rust crates as they are published, freehold-sys and freehold, into FOLDER; each is built from its
# own files: ./dev crates
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/build/bindings/rust}
export CARGO_TARGET_DIR
# The library in one file is part of the crate and not of the repository.
vendor=$PWD/bindings/rust/freehold-sys/vendor
rm -rf "$vendor"
trap 'rm -rf "$vendor"' EXIT INT TERM
python3 -B tools/amalgamate.py "$vendor"
cd bindings/rust
cargo package --locked --allow-dirty -p freehold-sys -p freehold
rm -f "$out"/freehold*.crate
cp "$CARGO_TARGET_DIR"/package/freehold*.crate "$out"
ls "$out"
