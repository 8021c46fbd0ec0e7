#!/bin/sh
# clean-room.sh - what the README promises, on a machine that has nothing: ./dev clean-room [TASK ...]
#
# Puts a fresh Debian 12 into a temporary folder, from where this machine's apt gets its packages, clones the last commit
# into it and runs there each TASK of ./dev: test and demo, unless others are named ("demo --rounds 1" is one TASK). Needs
# root. Exit code: 0 all tasks ended well, else 1. KEEP=1 keeps the folder.
set -eu
cd "$(dirname "$0")/.."

say() { echo "clean-room: $*" >&2; }
[ "$(id -u)" = 0 ] || { say "needs root, for chroot and mount"; exit 1; }
[ $# != 0 ] || set -- test demo

room=$(mktemp -d "${TMPDIR:-/tmp}/freehold-room-XXXXXX")
chmod 755 "$room" # it becomes the root folder, through which every user must go
checkout=root/freehold

# On every way out: whatever still runs inside ends, nothing stays mounted. If a mount stays all the same, the folder
# stays too: what is behind the mount is this machine's.
leave() {
  code=$?
  trap '' INT TERM HUP
  for process in /proc/[0-9]*; do
    case $(readlink "$process/root" 2>/dev/null || true) in
      "$room" | "$room"/*) kill -9 "${process#/proc/}" 2>/dev/null || true ;;
    esac
  done
  for mounted in dev/shm dev/pts dev sys proc; do
    ! is_mounted "$mounted" || umount "$room/$mounted" 2>/dev/null || umount -l "$room/$mounted" || true
  done
  if grep -q " $room/" /proc/mounts; then
    say "still mounted under $room; remove the folder by hand after unmounting"
  elif [ -n "${KEEP:-}" ]; then
    say "kept $room"
  else
    rm -rf --one-file-system "$room"
  fi
  exit "$code"
}
is_mounted() { grep -q " $room/$1 " /proc/mounts; }
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# The first source of packages for Debian 12 that apt knows here, in either of its two notations.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null | awk '
  $1 == "deb" { for (i = 2; i < NF; i++) if ($i ~ "://") { uri = $i; suite = $(i + 1) } if (suite == "bookworm") { print uri; exit } }
  $1 == "URIs:" { uri = $2 }
  $1 == "Suites:" && / bookworm( |$)/ { print uri; exit }')
[ -n "$mirror" ] || { say "no source for bookworm in /etc/apt"; exit 1; }

say "a fresh Debian 12 in $room"
log=$room.log
if ! debootstrap --variant=minbase bookworm "$room" "$mirror" >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  say "debootstrap failed; all of its output is in $log"
  exit 1
fi
rm -f "$log"

# The same way to the packages as here: sources, keys, proxies and their settings, and names of hosts.
for part in sources.list sources.list.d apt.conf apt.conf.d auth.conf.d trusted.gpg.d keyrings preferences.d; do
  [ ! -e "/etc/apt/$part" ] || { rm -rf "$room/etc/apt/$part"; cp -a "/etc/apt/$part" "$room/etc/apt/$part"; }
done
for part in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs /usr/local/share/ca-certificates; do
  [ ! -e "$part" ] || { mkdir -p "$room${part%/*}"; cp -aL "$part" "$room${part%/*}/"; }
done
rm -f "$room"/etc/apt/apt.conf.d/*docker*  # would delete what is fetched, time and again

mount -t proc proc "$room/proc"
mount -t sysfs sys "$room/sys" 2>/dev/null || mount --rbind /sys "$room/sys"
mount --bind /dev "$room/dev"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$room/dev/pts" 2>/dev/null || mount --bind /dev/pts "$room/dev/pts"
mkdir -p "$room/dev/shm"
is_mounted dev/shm || mount --bind /dev/shm "$room/dev/shm"

git clone --quiet --no-hardlinks . "$room/$checkout"

# Nothing of this shell's environment but the way out, where there is a proxy.
inside() {
  env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} chroot "$room" "$@" </dev/null
}

for task in "$@"; do
  say "./dev $task, with nothing installed"
  start=$(date +%s)
  if ! inside sh -c "cd /$checkout && ./dev $task"; then
    say "FAILED: ./dev $task, after $(($(date +%s) - start)) s"
    exit 1
  fi
  say "ended well: ./dev $task, after $(($(date +%s) - start)) s"
done
