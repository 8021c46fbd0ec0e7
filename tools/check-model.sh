#!/bin/sh
# check-model.sh MODEL.pml... - has spin search each model to the end; exit code 1 if one has an error or was cut short
#
# A model names the cases to search in comment lines of its own: "check: -DT=1 -DN=4" means one search with these
# definitions; several lines, several searches; no such line, one search without definitions.
set -eu

here=$(pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 1' INT TERM HUP

# search MODEL DEFINITIONS: the verdict must say both that there is no error and that nothing was left out.
search() {
  cd "$place"
  # shellcheck disable=SC2086 # definitions are words
  spin $2 -a "$1" >log 2>&1 && cc -O2 -DSAFETY -DCOLLAPSE -DMEMLIM=6000 -o pan pan.c >>log 2>&1 &&
    ./pan -m2000000 >log 2>&1 || true
  cd "$here"
  states=$(awk '/states, stored/ { print $1 + 0; exit }' "$place/log")
  if grep -q 'errors: 0' "$place/log" && ! grep -q -i 'search not completed\|depth too small\|out of memory' "$place/log"; then
    echo "holds   $1 $2 ($states states)"
  else
    echo "FAILED  $1 $2"
    grep -i -E '^pan|error|not completed|depth' "$place/log" | head -n 8 | sed 's/^/        /'
    return 1
  fi
}

code=0
for model in "$@"; do
  case $model in /*) ;; *) model=$here/$model ;; esac
  [ -r "$model" ] || { echo "check-model: cannot read $model" >&2; exit 2; }
  cases=$(sed -n 's/^.*check: *\(-D.*[^ */]\) *\(\*\/\)*$/\1/p' "$model")
  [ -n "$cases" ] || cases=" "
  while IFS= read -r definitions; do
    search "$model" "$definitions" || code=1
  done <<END
$cases
END
done
exit $code
