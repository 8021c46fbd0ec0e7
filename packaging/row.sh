#!/bin/sh
# row.sh NAME - the command that README.md has for NAME in its table of packages, so that what tries a package runs that line
set -eu
line=$(grep "^| $1 | \`" "$(dirname "$0")/../README.md") || { echo "row: README.md has no row for '$1'" >&2; exit 1; }
echo "$line" | cut -d'`' -f2
