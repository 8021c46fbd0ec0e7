#!/bin/sh
# test.sh [NAME ...] - builds each package and tries it as its users do; all, or those that are named: ./dev packages
#
# Each ends with a sample that runs on freehold and writes its statistics. Everything happens in a temporary folder.
# Exit code 0: all passed.
set -eu
cd "$(dirname "$0")/.."
. packaging/source.sh
all="hand deb rpm musl meson conan bazel vcpkg file systemd languages windows"
[ $# != 0 ] || set -- $all
root=$PWD
room=$(mktemp -d "${TMPDIR:-/tmp}/freehold-packages-XXXXXX")
trap 'rm -rf "$room"' EXIT
trap 'exit 130' INT TERM
tree=$(source_tree "$room")
sample=$tree/packaging/sample

say() { echo "packages: $*" >&2; }
fail() { say "$*"; return 1; }
# shows FILE: the first lines that the sample wrote there; it has to run on freehold.
shows() {
  grep -q "^malloc is freehold's" "$1" && grep -q "live  " "$1" || { cat "$1"; fail "the sample does not run on freehold"; }
  grep -m 1 -A 4 "^malloc is freehold's" "$1"
}
# row NAME: the line of README.md for it.
row() { packaging/row.sh "$1"; }

# A Debian in which nothing is but these packages.
# clean_root FOLDER PACKAGES: what FOLDER has lies in /root there; try.sh of it runs, and writes to FOLDER.out.
clean_root() {
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null | awk '
    $1 == "deb" && $3 == "bookworm" { print $2; exit }
    $1 == "URIs:" { uri = $2 }
    $1 == "Suites:" && / bookworm( |$)/ { print uri; exit }')
  cat >"$1.hook" <<END
set -e
cp -r "$1"/. "\$1/root"
echo 'APT::Get::Assume-Yes "true";' >"\$1/etc/apt/apt.conf.d/yes"
chroot "\$1" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \\
  ${http_proxy:+http_proxy="$http_proxy"} sh -c 'cd /root && sh -eux try.sh' >"$1.out" 2>&1
END
  mmdebstrap --quiet --variant=apt --format=null --include="$2" --customize-hook="sh $1.hook \"\$1\"" \
    bookworm /dev/null "deb $mirror bookworm main" >"$1.log" 2>&1 ||
    { tail -n 40 "$1.log"; [ ! -e "$1.out" ] || tail -n 40 "$1.out"; return 1; }
}

# ---- by hand ------------------------------------------------------------------------------------------------------------

try_hand() {
  DESTDIR=$room/hand PREFIX=/usr/local sh -ec "$(row 'by hand')" >"$room/log" 2>&1 || { tail -n 30 "$room/log"; return 1; }
  into=$room/hand/usr/local
  library=$(dirname "$(find "$into" -name libfreehold.so)")
  cc "$sample/sample.c" -I"$into/include" -L"$library" -lfreehold -Wl,-rpath,"$library" -o "$room/by_hand"
  "$room/by_hand" >"$room/out" 2>&1 || { cat "$room/out"; return 1; }
  shows "$room/out"
}

# ---- Debian: clean by lintian, the same bytes from two folders, golden instructions, a clean root -----------------------

try_deb() {
  packaging/deb.sh "$room/deb"
  (mkdir -p "$room/somewhere/else" && cp -a "$tree" "$room/somewhere/else/copy" && cd "$room/somewhere/else/copy" &&
    TZ=Asia/Tokyo LC_ALL=C.UTF-8 packaging/deb.sh "$room/deb-again" >/dev/null)
  for package in "$room"/deb/*.deb; do
    cmp "$package" "$room/deb-again/$(basename "$package")" || return 1
  done
  say "deb: the same bytes from two folders"
  lintian --allow-root --info --display-info --pedantic --fail-on pedantic,info,warning,error "$room"/deb/*.changes
  dpkg-deb -x "$room"/deb/libfreehold1_*.deb "$room/unpacked"
  FREEHOLD_LIBRARY=$(echo "$room"/unpacked/usr/lib/*/libfreehold.so.1.*.*) FREEHOLD_SOURCE=$root \
    python3 -B test/gates/object_test.py Instructions
  for dir in libfreehold1 freehold; do
    dpkg-deb -x "$room"/deb/${dir}_*.deb "$room/hard"
  done
  for file in "$room"/hard/usr/lib/*/libfreehold.so.1.*.* "$room/hard/usr/bin/freehold"; do
    readelf -dW "$file" | grep -q 'BIND_NOW\|NOW' && readelf -lW "$file" | grep -q GNU_RELRO || fail "not hardened: $file"
  done
  in_clean_root
}

# The packages in a Debian where nothing else is; then an image as packaging/docker/Dockerfile makes it, line by line.
in_clean_root() {
  at=$room/deb-root
  mkdir -p "$at/build"
  cp -r "$tree/packaging" "$at"
  cp -r "$room/deb" "$at/build"
  sed -n 's/^COPY \(.*\) \(.*\)/mkdir -p \2 \&\& cp \1 \2/p; s/^RUN //p; s/^ENV /export /p' packaging/docker/Dockerfile >"$at/image.sh"
  cat >"$at/try.sh" <<END
$(row Debian | sed 's/.*&& //')
sh packaging/debian/tests/installed
apt-get purge freehold libfreehold1 libfreehold-dev
if ls -d /usr/lib/*/libfreehold* || ls /usr/bin/freehold; then exit 1; fi
. ./image.sh
FREEHOLD_OPTIONS=stats:exit python3 -c "print(sum(range(100000)))"
END
  clean_root "$at" gcc,libc6-dev,pkg-config,cmake,make,python3-minimal
  shows "$at.out"
  sed '1,/^+ \. \.\/image.sh/d' "$at.out" | grep "^freehold 1" || { tail -n 60 "$at.out"; return 1; }
  say "deb: installed, tried and removed in a clean root; the lines of the Dockerfile make an image that runs on it"
}

# ---- RPM: installed, tried and removed by dnf in a clean root ------------------------------------------------------------

# The root is a Debian with dnf: what the packages ask of Fedora's others, an empty one says it has.
try_rpm() {
  at=$room/rpm-root
  packaging/rpm.sh "$at/build/rpm"
  {
    printf 'Name: debian\nVersion: 12\nRelease: 1\nSummary: what the root has\nLicense: MIT\nBuildArch: noarch\n'
    rpm -qp --requires "$at"/build/rpm/*.rpm | grep -v '^rpmlib(\|^freehold\|^libfreehold' | sed 's/ >= / = /; s/^/Provides: /' | sort -u
    printf '%%description\nNothing.\n%%files\n'
  } >"$room/debian.spec"
  rpmbuild -bb --define "_topdir $room/debian" "$room/debian.spec" >"$room/log" 2>&1 || { tail -n 20 "$room/log"; return 1; }
  cp "$room"/debian/RPMS/noarch/*.rpm "$sample/sample.c" "$at"
  cat >"$at/try.sh" <<END
echo /usr/lib64 >/etc/ld.so.conf.d/lib64.conf # where Fedora's loader looks by itself
mkdir -p /etc/dnf
printf '[main]\nassumeyes=1\nreposdir=/nowhere\n' >/etc/dnf/dnf.conf
dnf --releasever=12 install ./debian-12-1.noarch.rpm
$(row Fedora | sed 's/.*&& //; s/dnf/dnf --releasever=12/')
rpm --verify freehold freehold-libs freehold-devel
cc sample.c -lfreehold -o sample
./sample
freehold run --stats exit -- true
dnf --releasever=12 remove freehold freehold-libs freehold-devel
if ls -d /usr/lib64/libfreehold* || ls /usr/bin/freehold; then exit 1; fi
END
  clean_root "$at" gcc,libc6-dev,dnf,rpm,libdw1,libncurses6
  shows "$at.out"
  grep -q "^freehold 1" "$at.out" || { cat "$at.out"; return 1; }
  say "rpm: installed by dnf, tried and removed in a clean root"
}

# ---- musl: a shared library, linked and preloaded; what Alpine's builder reads ------------------------------------------

try_musl() {
  cmake -S "$tree" -B "$room/musl" -DCMAKE_C_COMPILER=musl-gcc -DFH_TESTS=OFF -DFH_SPLIT_DEBUG=OFF -Dfh_libdw=OFF \
    -DCMAKE_DISABLE_FIND_PACKAGE_Curses=ON -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib >"$room/log"
  cmake --build "$room/musl" >>"$room/log" 2>&1 || { tail "$room/log"; return 1; }
  ! readelf -d "$room/musl/libfreehold.so" | grep 'NEEDED.*libc\.so\.6' || return 1
  musl-gcc "$sample/sample.c" -I"$tree/include" -L"$room/musl" -lfreehold -Wl,-rpath,"$room/musl" -o "$room/by_musl"
  "$room/by_musl" >"$room/out" 2>&1 || { cat "$room/out"; return 1; }
  shows "$room/out"
  printf '#include <stdlib.h>\nint main(void) { for (int i = 0; i < 9999; i++) *(volatile char *)malloc(99) = 1; return 0; }\n' \
    >"$room/plain.c"
  musl-gcc -fno-builtin "$room/plain.c" -o "$room/plain"
  FREEHOLD_OPTIONS=stats:exit LD_PRELOAD=$room/musl/libfreehold.so.1 "$room/plain" 2>"$room/out"
  grep -q "^freehold 1" "$room/out" || { cat "$room/out"; fail "not preloaded"; }
  "$room/musl/freehold" run --stats exit -- "$room/plain" 2>&1 | grep "^freehold 1"
  # APKBUILD is a shell script: its functions with a stand-in for abuild's folders
  (cd "$tree" && pkgdir=$room/apk builddir=$tree && . packaging/alpine/APKBUILD &&
    [ "$pkgver" = "$(source_version)" ] && ln -s "$room/musl" build && package >"$room/log")
  [ -e "$room/apk/usr/lib/libfreehold.so.1" ] && [ -x "$room/apk/usr/bin/freehold" ] || fail "APKBUILD: package() leaves no library"
  rm "$tree/build"
}

# ---- build systems ------------------------------------------------------------------------------------------------------

# A project with nothing but the wrap file, whose address is that of a repository here.
try_meson() {
  mkdir -p "$room/meson/subprojects"
  cp -r "$tree" "$room/repository"
  (cd "$room/repository" && git init -q . && git add -A && git -c user.name=x -c user.email=x commit -qm x && git tag "v$(source_version)")
  line=$(row Meson)
  (cd "$room/meson" && FREEHOLD=$tree && eval "$line")
  sed -i "s|^url = .*|url = file://$room/repository|" "$room/meson/subprojects/freehold.wrap"
  cat >"$room/meson/meson.build" <<END
project('sample', 'c')
executable('shared', 'sample.c', dependencies: dependency('freehold'))
executable('static', 'sample.c', dependencies: dependency('freehold-static'))
END
  cp "$sample/sample.c" "$room/meson"
  (cd "$room/meson" && meson setup build && ninja -C build) >"$room/log" 2>&1 || { tail -n 30 "$room/log"; return 1; }
  for way in shared static; do
    "$room/meson/build/$way" >"$room/out" 2>&1 || { cat "$room/out"; return 1; }
    shows "$room/out"
  done
}

# Conan from the package index, in an environment of its own; its cache is in the room.
try_conan() {
  python3 -m venv "$room/venv"
  "$room/venv/bin/pip" --quiet install --requirement packaging/conan/requirements.txt
  export CONAN_HOME=$room/conan
  "$room/venv/bin/conan" profile detect >"$room/log" 2>&1
  for options in "" "-o shared=False" "-o secure=True -o shared=False"; do
    (line=$(row Conan); cd "$tree"; PATH=$room/venv/bin:$PATH; eval "$line --no-remote $options") >"$room/out" 2>&1 ||
      { tail -n 30 "$room/out"; return 1; }
    grep -A4 "^malloc is freehold's" "$room/out" || fail "conan: the sample does not run on freehold"
  done
  unset CONAN_HOME
}

# Debian's bazel, 4.2, knows WORKSPACE and not MODULE.bazel; the targets are the same. Its own rules stand in for those
# of rules_cc, which would come from the network.
try_bazel() {
  mkdir -p "$room/bazel"
  cp "$sample/sample.c" "$room/bazel"
  printf 'load("@rules_cc//cc:defs.bzl", "cc_binary")\ncc_binary(name = "sample", srcs = ["sample.c"], deps = ["@freehold//:freehold"])\n' \
    >"$room/bazel/BUILD"
  touch "$tree/WORKSPACE"
  printf 'local_repository(name = "freehold", path = "%s")\n' "$tree" >"$room/bazel/WORKSPACE"
  rules_of cc cc_binary cc_import cc_library cc_test cc_toolchain cc_toolchain_suite fdo_prefetch_hints fdo_profile
  rules_of java java_binary java_import java_library java_package_configuration java_plugin java_runtime java_test java_toolchain
  (cd "$room/bazel" && bazel --output_user_root="$room/bazel-root" --batch build //:sample) >"$room/log" 2>&1 ||
    { tail -n 30 "$room/log"; return 1; }
  "$room/bazel/bazel-bin/sample" >"$room/out" 2>&1 || { cat "$room/out"; return 1; }
  shows "$room/out"
  chmod -R u+w "$room/bazel-root"
}

# rules_of LANGUAGE RULE...: what is Bazel's own, by the names that its rules_LANGUAGE has.
rules_of() {
  language=$1 folder=$room/rules_$1
  shift
  mkdir -p "$folder/$language"
  touch "$folder/WORKSPACE" "$folder/$language/BUILD"
  for rule in "$@"; do echo "$rule = native.$rule"; done >"$folder/$language/defs.bzl"
  printf 'local_repository(name = "rules_%s", path = "%s")\n' "$language" "$folder" >>"$room/bazel/WORKSPACE"
}

# vcpkg itself cannot be had from a package index: its helpers are stood in for by what they do with CMake.
try_vcpkg() {
  cat >"$room/vcpkg.cmake" <<END
set(CURRENT_PACKAGES_DIR $room/vcpkg)
function(vcpkg_cmake_configure)
  cmake_parse_arguments(a "" "SOURCE_PATH" "OPTIONS" \${ARGN})
  execute_process(COMMAND cmake -S \${a_SOURCE_PATH} -B $room/vcpkg-build \${a_OPTIONS} -DCMAKE_INSTALL_PREFIX=$room/vcpkg COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_install)
  execute_process(COMMAND cmake --build $room/vcpkg-build --target install COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(a "" "CONFIG_PATH" "" \${ARGN})
  file(MAKE_DIRECTORY $room/vcpkg/share)
  file(RENAME $room/vcpkg/\${a_CONFIG_PATH} $room/vcpkg/share/freehold)
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_copy_tools)
  cmake_parse_arguments(a "AUTO_CLEAN" "" "TOOL_NAMES" \${ARGN})
  foreach(tool \${a_TOOL_NAMES})
    file(COPY $room/vcpkg/bin/\${tool} DESTINATION $room/vcpkg/tools/freehold)
  endforeach()
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(a "" "" "FILE_LIST" \${ARGN})
  file(COPY \${a_FILE_LIST} DESTINATION $room/vcpkg/share/freehold)
endfunction()
include($tree/packaging/vcpkg/ports/freehold/portfile.cmake)
END
  cmake -P "$room/vcpkg.cmake" >"$room/log" 2>&1 || { tail -n 30 "$room/log"; return 1; }
  cc "$sample/sample.c" -I"$room/vcpkg/include" -L"$room/vcpkg/lib" -lfreehold -Wl,-rpath,"$room/vcpkg/lib" -o "$room/by_vcpkg"
  "$room/by_vcpkg" >"$room/out" 2>&1 || { cat "$room/out"; return 1; }
  shows "$room/out"
}

# ---- systemd: a service with the drop-in is one that systemd understands, and a mistake in it is one it sees --------------

try_systemd() {
  mkdir -p "$room/units"
  printf '[Unit]\nDescription=a service\n[Service]\nExecStart=/bin/sleep 1\n' >"$room/units/sample.service"
  drop_in=$room/units/sample.service.d/freehold.conf
  eval "$(row systemd | sed "s#/etc/systemd/system/NAME#$room/units/sample#")"
  verified() { systemd-analyze verify --recursive-errors=no "$room/units/sample.service" >"$room/log" 2>&1 && [ ! -s "$room/log" ]; }
  verified || { cat "$room/log"; return 1; }
  sed 's/^MemoryMax=.*/MemoryMax=2Gx/' packaging/systemd/freehold.conf >"$drop_in"
  ! verified || fail "systemd-analyze sees no mistake"
  # the environment that it sets is one the command understands
  options=$(sed -n 's/^Environment=FREEHOLD_OPTIONS=//p' packaging/systemd/freehold.conf)
  cmake --build build --target freehold_command >/dev/null
  FREEHOLD_OPTIONS=$options build/freehold options 2>&1 | grep -E "^(memory_limit +1800M|purge_delay_ms +100) +FREEHOLD_OPTIONS"
}

# ---- one file -----------------------------------------------------------------------------------------------------------

try_file() {
  (line=$(row 'one file'); cd "$tree"; eval "$line") >"$room/log" 2>&1 || { tail -n 30 "$room/log"; return 1; }
  cc "$sample/sample.c" -I"$tree/include" "$tree/freehold.o" -pthread -o "$room/by_file"
  rm -r "$tree/build" "$tree/freehold.o"
  "$room/by_file" >"$room/out" 2>&1 || { cat "$room/out"; return 1; }
  shows "$room/out"
}

# ---- languages: packages from their files, each by its language's own tool, in a clean root -----------------------------

try_languages() {
  at=$room/languages
  mkdir -p "$at/cgo"
  [ -e "$room/deb" ] || packaging/deb.sh "$room/deb"
  mkdir "$at/build"
  cp -r "$room/deb" "$at/build"
  bindings/wheel.sh "$at/build/wheel"
  bindings/crates.sh "$at/crates"
  cp "$sample"/* "$at"
  # without the flag in its source: that is what the line of README.md gives
  cp bindings/go/go.mod "$at/cgo"
  grep -v '^// #cgo' bindings/go/main.go >"$at/cgo/main.go"
  # a folder of crates in the place of crates.io: ours, and the one with which ours is built
  for crate in "$at"/crates/*.crate; do tar -C "$at/crates" -xzf "$crate"; done
  (cd "$at"/crates/freehold-sys-*/ && cargo vendor "$at/vendor" >"$room/log" 2>&1) || { tail -n 20 "$room/log"; return 1; }
  for crate in "$at"/crates/*/; do
    echo '{"files":{}}' >"$crate/.cargo-checksum.json"
    mv "$crate" "$at/vendor"
  done
  mkdir "$at/.cargo"
  printf '[source.crates-io]\nreplace-with = "files"\n[source.files]\ndirectory = "/root/vendor"\n[net]\noffline = true\n' \
    >"$at/.cargo/config.toml"
  cat >"$at/try.sh" <<END
$(row Debian | sed 's/.*&& //')
$(row pkg-config | sed 's/program/sample/') -o c
./c
$(row pkg-config | sed 's/cc program.c/g++ sample.cc/') -o c++
./c++
python3 -m venv python
PATH=/root/python/bin:\$PATH
$(row Python | sed 's/.*&& //')
python3 sample.py
cargo new --vcs none sample
cp sample.rs sample/src/main.rs
(cd sample; $(row Rust | sed 's/ --path .*//'); cargo run)
(cd cgo; $(row 'Go with C') -o sample; ./sample)
END
  clean_root "$at" gcc,g++,libc6-dev,pkg-config,binutils,python3,python3-venv,cargo-web,golang-go
  shows "$at.out"
  for language in C++ Python Rust Go; do
    grep -F "$language on freehold 1" "$at.out" || { tail -n 60 "$at.out"; fail "$language: no statistics"; }
  done
}

# ---- Windows: a program that is linked with what is installed, under wine ------------------------------------------------

try_windows() {
  at=$room/windows
  eval "$(row Windows | sed "s|FOLDER|$at|")"
  clang-19 --target=x86_64-w64-mingw32 "$sample/sample.c" -I"$at/include" -L"$at/lib" -lfreehold -o "$at/bin/sample.exe"
  (export WINEPREFIX="$room/wine" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
    mkdir -p "$WINEPREFIX"
    /usr/lib/wine/wineserver64 -p || true
    /usr/lib/wine/wine64 wineboot --init
    code=0
    /usr/lib/wine/wine64 "$at/bin/sample.exe" || code=$?
    /usr/lib/wine/wineserver64 -k || true
    exit $code) >"$room/out" 2>&1 || { cat "$room/out"; return 1; }
  shows "$room/out"
}

failed=
for name in "$@"; do
  case " $all " in *" $name "*) ;; *) say "there is no '$name', only: $all"; exit 2 ;; esac
  say "$name"
  set +e # else a shell passes over what fails inside
  (set -e; "try_$name")
  [ $? = 0 ] || failed="$failed $name"
  set -e
done
[ -z "$failed" ] || { say "FAILED:$failed"; exit 1; }
say "passed: $*"
