#!/bin/sh
# run.sh BUILD SOURCE - installs BUILD under DESTDIR and PREFIX, and links a program with what lies there in every way:
# each target of find_package(freehold 1.0), pkg-config, and the command.
set -eu
build=$1 source=$2
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT INT TERM
cmake --install "$build" --prefix "$room/usr" > "$room/log" || { cat "$room/log"; exit 1; }
cmake -S "$source/test/system/install" -B "$room/consumer" -DCMAKE_PREFIX_PATH="$room/usr" > "$room/log" 2>&1 &&
  cmake --build "$room/consumer" >> "$room/log" 2>&1 || { cat "$room/log"; exit 1; }
passed=0 failed=0
check() {
  name=$1; shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $name"; fi
}
for way in freehold static object secure secure_static secure_object bounds; do check "find_package, freehold::$way" "$room/consumer/by_$way"; done
library=$(dirname "$(find "$room/usr" -name libfreehold.so)")
flags=$(PKG_CONFIG_PATH=$library/pkgconfig PKG_CONFIG_SYSROOT_DIR= pkg-config --define-variable=prefix="$room/usr" \
  --define-variable=libdir="$library" --define-variable=includedir="$room/usr/include" --cflags --libs freehold)
# shellcheck disable=SC2086
cc "$source/test/system/install/consumer.c" -o "$room/by_pkg_config" $flags -Wl,-rpath,"$library"
check "pkg-config" "$room/by_pkg_config"
check "the command finds the library" "$room/usr/bin/freehold" run -- true
multiarch=$room/multiarch/lib/$(cc -print-multiarch)   # where Debian has the libraries of the prefix /usr
mkdir -p "$room/multiarch/bin" "$multiarch"
cp "$room/usr/bin/freehold" "$room/multiarch/bin"
cp "$library/libfreehold.so.1" "$multiarch"
check "the command finds the library of a multiarch system" "$room/multiarch/bin/freehold" run -- true
for grade in secure bounds debug; do
  check "the command finds the library that --$grade names" sh -c \
    "'$room/usr/bin/freehold' run --$grade -- env | grep -q '^LD_PRELOAD=.*/libfreehold-$grade.so.1$'"
done
cc -O0 -fno-builtin "$source/test/system/install/beyond.c" -o "$room/beyond"
check "a program that copies beyond a block runs through" "$room/usr/bin/freehold" run -- "$room/beyond"
check "with --bounds it ends where it copies" sh -c \
  "! '$room/usr/bin/freehold' run --bounds -- '$room/beyond' 2>&1 | grep -q ends && '$room/usr/bin/freehold' run --bounds -- '$room/beyond' 2>&1 | grep -q 'write of 17 bytes'"
check "the command carries the exit code" sh -c "! '$room/usr/bin/freehold' run -- false"
# linked by its soname alone; preloaded by any of its names, and by two at once it is there once
cc -D_GNU_SOURCE "$source/test/system/install/preloaded.c" -o "$room/preloaded"
for names in libfreehold.so libfreehold.so.1 "$(readlink "$library/libfreehold.so.1")" "libfreehold.so:libfreehold.so.1"; do
  paths=$(echo "$names" | sed "s,libfreehold,$library/&,g")
  check "preloaded as $names" env LD_PRELOAD="$paths" "$room/preloaded" 1
done
check "not preloaded" "$room/preloaded" 0
check "a program needs the soname" sh -c "readelf -d '$room/by_pkg_config' | grep -q 'NEEDED.*\[libfreehold.so.1\]'"
# the debug information lies apart, and is found by its name and by the build id
for grade in "" -secure -bounds -debug; do
  file=$library/$(readlink "$library/libfreehold$grade.so.1")
  check "no debug information in $file" sh -c "! readelf -SW '$file' | grep -q debug_info"
  check "addr2line finds it for $file" sh -c "addr2line -e '$file' \$(nm -D '$file' | sed -n 's/ T fh_version@.*//p') | grep -q ext.c"
  same="readelf -nW '$file' '$library/.debug/$(basename "$file").debug' | grep 'Build ID' | sort -u | wc -l"
  check "one build id for $file" sh -c "[ \$($same) = 1 ]"
done
share=$room/usr/share
for page in man/man1/freehold.1 man/man3/freehold.3 man/man5/freehold.conf.5 bash-completion/completions/freehold zsh/site-functions/_freehold; do
  check "$page is installed" test -s "$share/$page"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
