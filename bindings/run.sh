#!/bin/sh
# bindings/run.sh [cpp|rust|python|use-with ...] - builds the bindings, and tests them as their users have them.
#
# ./dev bindings runs it, after it has built the library and installed what is needed. All that it makes goes to
# build/bindings; no more is fetched than crates, and Python's own tools for building and checking a wheel.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
made=$root/build/bindings
mkdir -p "$made"

say() { echo "bindings: $*" >&2; }

part_cpp() {
  say "the headers for C++, by clang with both C++ libraries"
  python3 -B test/system/headers_test.py Clang
}

part_rust() {
  cd "$root/bindings/rust"
  CARGO_TARGET_DIR=$made/rust
  export CARGO_TARGET_DIR
  cargo fmt --check
  say "rust: clippy and tests, each grade"
  cargo clippy --locked --workspace --all-targets --features freehold/allocator-api2 -- -D warnings
  cargo test --locked -p freehold-sys -p freehold --features freehold/allocator-api2
  cargo test --locked -p freehold --features secure,allocator-api2
  cargo test --locked -p freehold --features override
  if cargo +nightly --version >/dev/null 2>&1; then
    cargo +nightly test --locked -p freehold --features allocator_api --test nightly
  else
    say "no nightly compiler: the standard library's trait is not tried"
  fi
  if cargo +nightly miri --version >/dev/null 2>&1; then
    say "rust: the crate's unsafe code under Miri"
    export MIRIFLAGS=-Zmiri-strict-provenance
    cargo +nightly miri test --locked -p freehold --features allocator-api2 --test allocator
    cargo +nightly miri test --locked -p freehold --features allocator_api --test nightly
  else
    say "no Miri (rustup toolchain install nightly --component miri,rust-src): the crate's unsafe code is not tried under it"
  fi
  say "rust: a program of real crates says the same with each allocator"
  cargo build --locked --release -p sample
  "$CARGO_TARGET_DIR/release/sample" >"$made/sample.libc"
  for features in freehold secure override; do
    cargo build --locked --release -p sample --features $features
    "$CARGO_TARGET_DIR/release/sample" >"$made/sample.$features"
    cmp "$made/sample.libc" "$made/sample.$features"
  done
  cd "$root"
  say "rust: a new project gets it by the line of README.md"
  rm -rf "$made/new"
  cargo new --quiet --vcs none "$made/new"
  cp packaging/sample/sample.rs "$made/new/src/main.rs"
  (cd "$made/new" && FREEHOLD=$root && eval "$(sh "$root/packaging/row.sh" Rust)" && cargo run --quiet) | grep "^Rust on freehold 1"
  say "rust: the crates as they are published build from their own files"
  bindings/crates.sh "$made/crates"
}

part_python() {
  rm -rf "$made/wheel" "$made/clean"
  say "python: the wheels"
  bindings/wheel.sh "$made/wheel"
  say "python: installed from its file into a clean environment, and tested there"
  python3 -m venv "$made/clean"
  "$made/clean/bin/pip" --quiet install --no-index "$made"/wheel/*-manylinux*.whl
  (cd "$made/clean" && bin/python -B "$root/bindings/python/tests/test_freehold.py" -v)
  say "python: what the wheel for musl brings serves a program there"
  "$made/clean/bin/pip" --quiet install --no-index --platform "musllinux_1_2_$(uname -m)" --only-binary :all: \
    --target "$made/clean/musl" freehold --find-links "$made/wheel"
  printf '#include <stdlib.h>\nint main(void) { return malloc(99) == NULL; }\n' >"$made/clean/plain.c"
  musl-gcc -fno-builtin "$made/clean/plain.c" -o "$made/clean/plain"
  "$made/clean/musl/freehold/freehold" run --stats exit -- "$made/clean/plain" 2>&1 | grep "^freehold 1"
}

# Lets apt-get read sources too, of the places that it has packages from.
know_sources() {
  mkdir -p "$1/parts" "$1/lists/partial"
  for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    [ ! -f "$list" ] || sed 's/^deb /deb-src /; s/^Types: deb$/Types: deb-src/' "$list" >"$1/parts/${list##*/}"
  done
  printf 'Dir::Etc::sourcelist "%s/none";\nDir::Etc::sourceparts "%s/parts";\nDir::State::lists "%s/lists";\n' \
    "$1" "$1" "$1" >"$1/apt.conf"
  echo 'APT::Sandbox::User "root";' >>"$1/apt.conf"
  export APT_CONFIG="$1/apt.conf"
  apt-get -qq update
}

part_use_with() {
  say "every line of docs/use-with.md"
  cmake --install build --prefix "$made/installed" >/dev/null
  know_sources "$made/apt"
  FREEHOLD_INSTALLED=$made/installed python3 -B bindings/use_with_test.py
}

[ $# != 0 ] || set -- cpp rust python use-with
for part in "$@"; do
  case $part in
    cpp) part_cpp ;;
    rust) part_rust ;;
    python) part_python ;;
    use-with) part_use_with ;;
    *) echo "bindings: no part '$part'; expected cpp, rust, python or use-with" >&2; exit 2 ;;
  esac
done
say "all is well"
