#!/bin/sh
# usage: matrix_page.sh KVGOLD PAGE
# The tables of docs/reference/matrix-tables.md are what `kvgold matrix` prints: those after the line "<!-- kvgold matrix ... -->", whose
# words are the command's arguments.
set -eu
kvgold=$1
page=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
arguments=$(sed -n 's/^<!-- kvgold matrix \(.*\) -->$/\1/p' "$page")
[ -n "$arguments" ] || { echo "$page has no tables"; exit 1; }
sed '1,/^<!-- kvgold matrix/d' "$page" >"$folder/page"
# shellcheck disable=SC2086 # the words are arguments
"$kvgold" matrix $arguments >"$folder/printed"
diff "$folder/page" "$folder/printed" || { echo "print the tables of $page again: kvgold matrix $arguments"; exit 1; }
