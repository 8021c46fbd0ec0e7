#!/bin/sh
# run.sh [--quick | --renew | --digests] [MODEL.pml ...] - has spin search the models, and says a line for each search
#
# A model names its searches in comment lines: "quick:" and "check:" with definitions search all states for a broken
# assertion or a thread that waits; "cycle:" and "cycle-check:" look for a run without end. --quick leaves out those of
# the two checks.
# A model also names the C functions that it stands for. digests.txt holds a checksum of each, without comments and
# spaces: when one has changed, the model has to be looked at again, and --renew says that it was. --digests stops
# after that comparison. Exit code 1 if a search fails or a function has changed, 2 for a wrong argument, 77 without spin.
#
# Example: run.sh --quick anchor.pml
set -eu

mode=full
case "${1:-}" in
  --quick | --renew | --digests) mode=${1#--}; shift ;;
  --help | -h) sed -n '2,/^set/{/^set/d; s/^# \{0,1\}//; p}' "$0"; exit 0 ;;
  -*) echo "run.sh: no option $1; --help lists them" >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
[ $# != 0 ] || set -- "$here"/*.pml
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 1' INT TERM HUP

# ---- the functions that the models stand for ----

# named MODEL: a line "FILE FUNCTION" for each.
named() {
  sed -n 's/^ \* \(Stands for,\|and\) in \([^:]*\): \(.*\)$/\2 \3/p' "$1" |
    while read -r file names; do
      for name in $names; do echo "$file $name"; done
    done
}

# text_of FILE FUNCTION: the function, without comments and white space.
text_of() {
  awk -v name="$2" '
    !inside && $0 ~ "^[a-z].*[ *]" name "\\(" && $0 !~ /;[ \t]*(\/\*.*)?$/ { inside = 1 }
    inside { print; if ($0 ~ /^}/ || $0 ~ /{.*}[^{}]*$/ && $0 ~ "^[a-z]") exit }' "$root/$1" |
    tr '\n' ' ' | sed 's,/\*\([^*]\|\*[^/]\)*\*/,,g; s,[ \t],,g'
}

digests() {
  for model in "$here"/*.pml; do named "$model"; done | sort -u | while read -r file name; do
    text=$(text_of "$file" "$name")
    if [ -z "$text" ]; then
      echo "run.sh: there is no function $name in $file" >&2
      echo "$file $name missing"
    else
      echo "$file $name $(printf '%s' "$text" | cksum | tr ' ' '-')"
    fi
  done
}

digests >"$place/now"
if [ "$mode" = renew ]; then
  if grep -q ' missing$' "$place/now"; then exit 1; fi
  cp "$place/now" "$here/digests.txt"
  exit 0
fi
code=0
if ! cmp -s "$place/now" "$here/digests.txt"; then
  echo "CHANGED since the models were last compared with them (see run.sh):"
  diff "$here/digests.txt" "$place/now" | sed -n 's/^[<>] \([^ ]* [^ ]*\) .*$/        \1/p' | sort -u
  code=1
fi
[ "$mode" != digests ] || exit $code

# ---- the searches ----

command -v spin >/dev/null || { echo "skipped: there is no spin"; exit 77; }

# search MODEL KIND DEFINITIONS
search() {
  name=$(basename "$1")
  folder=$(mktemp -d "$place/search.XXXXXX")
  build="-DSAFETY"
  options="-m2000000"
  case $2 in
    cycle*)
      build="-DNP"
      options="-m2000000 -l"
      ;;
  esac
  # shellcheck disable=SC2086 # definitions and options are words
  if (cd "$folder" && spin $3 -a "$1" && ${CC:-cc} $optimise $build -DCOLLAPSE -DMEMLIM=${MODEL_MEMORY:-6000} -o pan pan.c &&
      ./pan $options) >"$folder/log" 2>&1 && grep -q 'errors: 0' "$folder/log" &&
     ! grep -q -i 'search not completed\|depth too small\|out of memory' "$folder/log"; then
    states=$(awk '/states, stored/ { print $1 + 0; exit }' "$folder/log")
    echo "holds   $name $2 $3 ($states states)"
  else
    echo "FAILED  $name $2 $3"
    grep -i -E '^pan|error|not completed|depth' "$folder/log" | head -n 8 | sed 's/^/        /'
    touch "$place/failed"
  fi
  rm -rf "$folder"
}

kinds="quick cycle"
optimise=-O0                              # compiling would take longer than a short search
if [ "$mode" != quick ]; then
  kinds="quick cycle check cycle-check"
  optimise=-O2
fi
running=0
for model in "$@"; do
  case $model in /*) ;; *) model=$(pwd)/$model ;; esac
  [ -r "$model" ] || { echo "run.sh: cannot read $model" >&2; exit 2; }
  for kind in $kinds; do
    sed -n "s/^ \* $kind: //p" "$model" >"$place/cases"
    while IFS= read -r definitions; do
      search "$model" "$kind" "$definitions" &
      running=$((running + 1))
      [ $((running % 2)) != 0 ] || wait    # two at a time
    done <"$place/cases"
  done
done
wait
[ ! -e "$place/failed" ] || code=1
exit $code
