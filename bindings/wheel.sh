#!/bin/sh
# wheel.sh FOLDER - builds the Python wheels into FOLDER, one for systems with glibc and one for those with musl: ./dev wheel
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
root=$PWD
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT INT TERM
tools=$root/build/bindings/python-tools
if ! cmp -s bindings/python/tools.txt "$tools/done"; then
  python3 -m venv "$tools"
  "$tools/bin/pip" --quiet install --requirement bindings/python/tools.txt
  cp bindings/python/tools.txt "$tools/done"
fi
PATH=$tools/bin:$PATH
made() { pip --quiet wheel --no-build-isolation --no-deps --wheel-dir "$1" bindings/python; }

# The oldest systems on which it runs: which versions of libc's functions it was linked with decides.
made "$room/glibc"
plat=$(auditwheel show "$room"/glibc/*.whl | grep -o 'manylinux_[0-9a-z_]*' | head -n 1)
auditwheel repair --plat "$plat" --wheel-dir "$room/wheels" "$room"/glibc/*.whl

# auditwheel judges by the libc of this machine. What may be needed on a system with musl is simple: musl's libc alone,
# whose loader knows the name libc.so wherever the file lies.
cmake -S . -B "$room/build" -DCMAKE_C_COMPILER=musl-gcc -DFH_TESTS=OFF -Dfh_libdw= -Dfh_libdw_include= \
  -DCMAKE_DISABLE_FIND_PACKAGE_Curses=ON >/dev/null
cmake --build "$room/build" --parallel "$(nproc)" --target freehold_shared freehold_secure_shared freehold_command >/dev/null
(CC=musl-gcc FREEHOLD_BUILD=$room/build && export CC FREEHOLD_BUILD && made "$room/musl")
mkdir "$room/files"
(cd "$room/files" && python3 -m zipfile -e "$room"/musl/*.whl .)
for file in "$room"/files/freehold/*.so "$room"/files/freehold/*.so.1 "$room/files/freehold/freehold"; do
  others=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vx 'libc\.so' || true)
  [ -z "$others" ] || { echo "wheel: $(basename "$file") needs $others; expected musl's libc.so alone" >&2; exit 1; }
done
wheel tags --remove --platform-tag "musllinux_1_2_$(uname -m)" "$room"/musl/*.whl >/dev/null

rm -f "$out"/freehold-*.whl
cp "$room"/wheels/*.whl "$room"/musl/*.whl "$out"
ls "$out"
