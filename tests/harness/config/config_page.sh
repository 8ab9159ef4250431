#!/bin/sh
# usage: config_page.sh KVGOLD PAGE SCHEMA CAPABILITIES
# The tables of docs/reference/config-keys.md, behind the line "<!-- kvgold list axes -->", and the two
# schemas of configs/ are what kvgold prints.
set -eu
kvgold=$1
page=$2
schema=$3
capabilities=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
grep -q '^<!-- kvgold list axes -->$' "$page" || { echo "$page has no tables"; exit 1; }
sed '1,/^<!-- kvgold list axes -->$/d' "$page" >"$folder/page"
"$kvgold" list axes >"$folder/axes"
"$kvgold" list schema >"$folder/schema"
"$kvgold" list capabilities >"$folder/capabilities"
diff "$folder/page" "$folder/axes" || { echo "print the tables of $page again: kvgold list axes"; exit 1; }
diff "$schema" "$folder/schema" || { echo "print $schema again: kvgold list schema"; exit 1; }
diff "$capabilities" "$folder/capabilities" || { echo "print $capabilities again: kvgold list capabilities"; exit 1; }
